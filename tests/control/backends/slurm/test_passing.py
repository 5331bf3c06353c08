"""The pass-through by its launchers: what arrives at the real command, and that nothing runs in circles."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.control.backends.slurm.fake import OURS, ROOT, Site


def test_a_working_real_slurm_is_the_default_without_configuration(there: Site) -> None:
    done = there.run("squeue", "-o", "%i  %j", "--me", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"real squeue [-o] [%i  %j] [--me] []\n", b"")


@pytest.mark.parametrize("sign", ["nothing", "local by name"])
def test_clients_alone_are_no_cluster_and_local_can_be_asked_for(there: Site, sign: str) -> None:
    more = {"SLURM_CONF": ""} if sign == "nothing" else {"SHIM_DEFAULT": "local"}
    done = there.run("sinfo", "-h", "-o", "%P %D", environ=more)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"debug* 4\n", b"")


def test_input_output_bytes_and_status_are_the_real_ones(there: Site) -> None:
    there.script(there.real / "srun", "#!/bin/sh\ncat\nprintf '\\377\\000x' >&2\nexit 77\n")
    data = bytes(range(256)) * 4000
    done = there.run("srun", "cat", stdin=data)
    assert (done.returncode, done.stdout, done.stderr) == (77, data, b"\xff\0x")


def test_the_environment_of_a_binary_is_the_callers(there: Site) -> None:
    (there.real / "squeue").unlink()
    (there.real / "squeue").symlink_to("/usr/bin/env")
    there.environ = {name: value for name, value in there.environ.items() if not name.startswith(("LC_", "LANG"))}
    there.environ["PWD"] = str(there.folder)
    direct = there.run(str(there.real / "squeue"))
    assert sorted(there.run("squeue").stdout.splitlines()) == sorted(direct.stdout.splitlines())


def test_a_signal_that_ends_the_real_command_ends_ours(there: Site) -> None:
    there.script(there.real / "scancel", "#!/bin/sh\nkill -TERM $$\n")
    assert there.run("scancel").returncode == -signal.SIGTERM
    there.script(there.real / "scancel", "#!/bin/sh\nyes\n")
    done = subprocess.run(
        ["bash", "-c", "scancel | head -n 1; echo ${PIPESTATUS[0]}"], env=there.environ, capture_output=True, timeout=60
    )
    assert done.stdout == b"y\n141\n"


def test_the_folder_in_the_configuration_wins_over_path(there: Site) -> None:
    other = there.folder / "other"
    other.mkdir()
    there.script(other / "squeue", "#!/bin/sh\necho other $SLURM_CONF\n")
    there.configure(f'[clusters.hpc]\nbackend = "slurm"\nbin = "{other}"\nconf = "/the/other.conf"\n')
    assert there.run("squeue").stdout == b"other /the/other.conf\n"
    done = there.run("sinfo")
    assert done.returncode == 1
    assert done.stderr == (
        f"sinfo: error: no real sinfo: {other}/sinfo is not there or cannot be run (bin in the configuration)\n".encode()
    )


def test_a_folder_of_ours_in_the_configuration_is_named(there: Site) -> None:
    there.configure(f'[clusters.hpc]\nbackend = "slurm"\nbin = "{OURS}"\n')
    done = there.run("squeue")
    assert done.returncode == 1
    assert b"leads back to this one" in done.stderr


def test_no_real_command_at_all(there: Site) -> None:
    there.configure('[clusters.hpc]\nbackend = "slurm"\n')
    lonely = {**there.environ, "PATH": str(OURS)}
    ran = subprocess.run([str(OURS / "squeue")], env=lonely, capture_output=True, timeout=60)
    assert ran.returncode == 1
    assert b"squeue: error: no real squeue: PATH has no other than this one" in ran.stderr


def ways(there: Site) -> dict[str, str]:
    """PATHs on which our command may come first, last, by symlink, by copy."""
    linked, copied = there.folder / "linked", there.folder / "copied"
    linked.mkdir()
    (linked / "squeue").symlink_to(OURS / "squeue")
    copied.mkdir()
    there.script(copied / "squeue", f'#!/bin/sh\nexec {OURS}/squeue "$@"\n')
    return {
        "ours first": f"{OURS}:{there.real}",
        "ours last": f"{there.real}:{OURS}",
        "ours twice": f"{OURS}:{OURS}:{there.real}",
        "linked": f"{linked}:{there.real}:{OURS}",
        "linked after": f"{OURS}:{linked}:{there.real}",
        "wrapper first": f"{copied}:{there.real}",
        "wrapper between": f"{OURS}:{copied}:{there.real}",
    }


@pytest.mark.parametrize(
    "way", ["ours first", "ours last", "ours twice", "linked", "linked after", "wrapper first", "wrapper between"]
)
def test_every_order_on_path_ends_at_the_real_command_once(there: Site, way: str) -> None:
    done = there.run("squeue", "-l", environ={"PATH": f"{ways(there)[way]}:/usr/bin:/bin"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"real squeue [-l]\n", b"")


def test_a_wrapper_that_calls_back_by_path_gets_the_next_program(there: Site) -> None:
    wrapper = there.folder / "wrapper"
    wrapper.mkdir()
    there.script(wrapper / "sinfo", '#!/bin/sh\necho wrapped\nsinfo --more "$@"; exit $?\n')
    path = f"{OURS}:{wrapper}:{there.real}:/usr/bin:/bin"
    assert there.run("sinfo", "-N", environ={"PATH": path}).stdout == b"wrapped\nreal sinfo [--more] [-N]\n"


def test_wrappers_only_are_an_error_and_no_loop(there: Site) -> None:
    there.script(there.real / "sinfo", f'#!/bin/sh\n{OURS}/sinfo "$@"\n')
    path = f"{OURS}:{there.real}"
    done = there.run(str(OURS / "sinfo"), environ={"PATH": path, "SHIM_PYTHON": there.environ["SHIM_PYTHON"]})
    assert done.returncode == 1
    assert f"{there.real}/sinfo leads back to this one".encode() in done.stderr


def test_a_wrapper_that_clears_the_environment_is_no_loop(there: Site) -> None:
    wrapper = there.folder / "wrapper"
    wrapper.mkdir()
    path = f"{OURS}:{wrapper}:{there.real}:/usr/bin:/bin"
    kept = f"PATH={path} SLURM_CONF={there.conf} SHIM_PYTHON={there.environ['SHIM_PYTHON']}"
    there.script(wrapper / "sinfo", f'#!/bin/sh\nexec env -i {kept} "{OURS}/sinfo" "$@"\n')
    assert there.run("sinfo", "-N", environ={"PATH": path}).stdout == b"real sinfo [-N]\n"


def test_what_a_wrapper_leaves_in_the_environment_means_nothing_elsewhere(there: Site) -> None:
    there.script(there.real / "sinfo", f"#!/bin/sh\nunset SHIM_PASSED\nSHIM_PASSED=1.1/:{there.real}/squeue squeue\n")
    assert there.run("sinfo").stdout == b"real squeue\n"


def test_in_a_shell_of_a_real_salloc_the_wrapper_is_used_again(there: Site) -> None:
    """The shell descends from the wrapper, but the call does not come from it."""
    there.script(there.real / "salloc", '#!/bin/sh\nexport SLURM_JOB_ID=9 SLURM_JOB_NODELIST=n1\n"$@"\n')
    assert there.run("salloc", "srun", "hostname").stdout == b"real srun [hostname]\n"


def test_in_a_job_of_a_real_slurm_the_real_commands_answer(there: Site) -> None:
    there.configure('[clusters.local]\nbackend = "local"\n')
    in_job = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n1"}
    assert there.run("squeue", environ=in_job).stdout == b"real squeue\n"
    assert there.run("srun", "true", environ=in_job).stdout == b"real srun [true]\n"


def test_a_mistake_in_the_configuration_stops_every_command(there: Site) -> None:
    there.configure('[clusters.hpc]\nbackend = "slurm"\nnodes = 4\n')
    done = there.run("srun", "true")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b'"nodes" is not for the slurm backend' in done.stderr


def test_partitions_choose_the_cluster_of_a_submission(there: Site) -> None:
    there.configure(
        'default = "local"\n[clusters.local]\nbackend = "local"\n[clusters.hpc]\nbackend = "slurm"\n'
        "[clusters.hpc.partitions.big]\n"
    )
    assert there.run("srun", "-pbig", "true").stdout == b"real srun [-pbig] [true]\n"
    assert (
        there.run("srun", "--new-option", "-p", "big", "true").stdout == b"real srun [--new-option] [-p] [big] [true]\n"
    )
    assert there.run("srun", "-M", "hpc", "true").stdout == b"real srun [true]\n"


def test_a_read_only_home_is_no_hindrance(there: Site, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    assert there.run("squeue", environ={"SHIM_STATE_DIR": str(blocked)}).stdout == b"real squeue\n"


def test_closed_descriptors_stay_closed(there: Site) -> None:
    there.script(there.real / "squeue", "#!/bin/sh\nls -l /proc/$$/fd | grep -c -- '-> .*null' >&2\n")
    done = subprocess.run(["sh", "-c", "squeue <&-"], env=there.environ, capture_output=True, timeout=60)
    assert done.stderr == b"0\n"


_MODULES = """
import os, sys
root, *words = sys.argv[1:]
sys.path.insert(0, root)
def execve(path, argv, environment):
    sys.stdout.write(" ".join(sorted(sys.modules)))
    sys.stdout.flush()
    os._exit(0)
os.execve = execve
sys.argv = ["launcher", *words]
import shim.main
shim.main.launch()
"""


@pytest.mark.parametrize("configured", [False, True])
def test_passing_on_imports_next_to_nothing(there: Site, configured: bool) -> None:
    if configured:
        there.configure('[clusters.hpc]\nbackend = "slurm"\n')
        there.run("squeue")  # it is read once and kept
    done = there.run(sys.executable, "-I", "-S", "-c", _MODULES, str(ROOT), "squeue", "--me")
    loaded = set(done.stdout.decode().split())
    assert "shim.control.backends.slurm.passing" in loaded
    dear = [
        "dataclasses",
        "typing",
        "re",
        "json",
        "pathlib",
        "subprocess",
        "tomllib",
        "asyncio",
        "argparse",
        "enum",
        "collections",
        "functools",
        "socket",
    ]
    assert not loaded.intersection(dear)
    assert not [name for name in loaded if name.startswith(("shim.commands.", "shim.core.model", "shim.control.index"))]
