"""Jobs and steps in containers on this machine, of an image's file that is made of busybox and of an OCI bundle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.job.agent import processes as table
from tests.commands.test_whole_road import OURS, said
from tests.control.controller import processes
from tests.support import wait_until

BUSYBOX = shutil.which("busybox")
RUNC = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin")
pytestmark = pytest.mark.skipif(
    BUSYBOX is None or shutil.which("mksquashfs") is None, reason="busybox-static and squashfs-tools are not installed"
)


@pytest.fixture(autouse=True)
def road(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of two virtual nodes with pyxis, and a directory with a root's files and an image."""
    config = tmp_path / "shim.toml"
    config.write_text("[clusters.local]\nnodes = 2\ncpus = 4\noutput_wait = 0\n[plugins]\npyxis = true\n")
    work = tmp_path / "work"
    root = work / "b/rootfs"
    for folder in ("bin", "etc", "opt/w", "tmp", "proc", "dev", "sys"):
        (root / folder).mkdir(parents=True)
    assert BUSYBOX is not None
    shutil.copy(BUSYBOX, root / "bin/busybox")
    for name in ("sh", "ls", "cat", "id", "sleep", "touch", "stat", "env", "pwd"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc/environment").write_text("PATH=/bin\nWHOSE=image\n")
    (root / "etc/rc").write_text('cd "/opt/w" && unset OLDPWD || exit 1\n')
    (root / "etc/hosts").symlink_to("/../../run/hosts")  # which must lead nowhere outside
    subprocess.run(
        ["mksquashfs", str(root), str(work / "a.sqsh"), "-quiet", "-no-progress"], check=True, capture_output=True
    )
    monkeypatch.setenv("SHIM_CONFIG", str(config))
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{OURS}:/usr/bin:/bin")
    monkeypatch.setenv("WHOSE", "job")
    monkeypatch.chdir(work)
    with processes.ended_afterwards():
        yield work


def in_image(*words: str, code: int = 0, **given: object) -> str:
    """What ``srun --container-image`` of the fixture's file prints."""
    return said("srun", "--container-image=./a.sqsh", *words, code=code, **given)


def left(state_dir: Path) -> list[Path]:
    """What runs have left of containers."""
    return [path for path in state_dir.glob("*/run/*") if "containers" in os.listdir(path)]


def test_a_batch_script_runs_inside(road: Path, state_dir: Path) -> None:
    (road / "data").mkdir()
    Path("job.sh").write_text(
        "#!/bin/sh\n#SBATCH -W -o out --container-image=./a.sqsh --container-mounts=./data:/data:ro\n"
        + 'echo "$0 $(pwd) $WHOSE $PATH $SLURM_JOB_ID $1"\nls -d /opt/w\ntouch /data/x || touch /new\nexit 7\n'
    )
    said("sbatch", "job.sh", "word", code=7)
    lines = Path("out").read_text().splitlines()
    assert lines[0].startswith("pyxis: unpacking ")
    assert lines[1:3] == ["/run/slurm/slurm_script /opt/w image /bin 1 word", "/opt/w"]
    assert "Read-only file system" in lines[3]
    assert not (road / "data/x").exists()
    assert not left(state_dir)
    assert said("sacct", "-nXo", "state,exitcode").split() == ["FAILED", "7:0"]


def test_a_steps_tasks_share_a_container_on_each_node(state_dir: Path) -> None:
    out = in_image(
        *("-N2", "--ntasks-per-node=2", "sh", "-c"),
        # Each waits for the other's file: a task that comes when no other is left finds the files, in namespaces of its own.
        "touch /$SLURM_PROCID; until [ $(ls / | grep -c '^[0-9]') = 2 ]; do sleep 0.01; done;"
        " echo $SLURMD_NODENAME $(stat -Lc %i /proc/self/ns/mnt)",
    )
    assert len(set(out.splitlines())) == 2
    assert not left(state_dir)


def test_streams_codes_and_variables() -> None:
    assert in_image("cat", input=b"hello\n") == "hello\n"
    assert in_image("sh", "-c", "exit 3", code=3) == ""
    assert in_image("--container-env=WHOSE", "sh", "-c", "echo $WHOSE") == "job\n"
    assert in_image("--container-workdir=/etc", "pwd") == "/etc\n"
    assert in_image("--container-mount-home", "sh", "-c", "ls ~/shim.toml") == f"{os.environ['HOME']}/shim.toml\n"
    in_image("--container-readonly", "touch", "/x", code=1)
    assert in_image("--container-remap-root", "sh", "-c", "id -u; echo ~") == "0\n/root\n"
    in_image("nosuch", code=2)


def test_what_cannot_be_had_is_told() -> None:
    def refused(*words: str) -> str:
        done = subprocess.run(["srun", *words, "true"], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1
        return next(line for line in done.stderr.splitlines() if "error" in line)

    assert refused("--container-image=./no.sqsh").endswith("no.sqsh: No such file or directory")
    assert refused("--container-image=./a.sqsh", "--container-mounts=/nosuch").endswith(
        "/nosuch: No such file or directory"
    )
    assert refused("--container-image=./a.sqsh", "--container-workdir=/no").endswith("=/no: No such file or directory")
    assert "there is no such container here" in refused("--container-name=no")


def test_a_named_container_is_kept_for_the_next_job() -> None:
    in_image("--container-name=mine", "touch", "/kept")
    assert said("srun", "--container-name=mine", "ls", "/kept") == "/kept\n"
    in_image("--container-name=mine:create", "true", code=1)


def test_steps_of_salloc_are_in_its_container() -> None:
    assert (
        said("salloc", "-N1", "--container-image=./a.sqsh", "sh", "-c", "srun ls -d /opt/w; ls -d /usr")
        == "/opt/w\n/usr\n"
    )


def test_signals_reach_the_program_inside() -> None:
    Path("job.sh").write_text("#!/bin/sh\ntrap 'echo got; exit 9' USR1\necho up\nwhile :; do sleep 0.1; done\n")
    said("sbatch", "-o", "out", "--container-image=./a.sqsh", "job.sh")
    wait_until(lambda: Path("out").exists() and "up" in Path("out").read_text(), "the script runs")
    said("scancel", "--signal=USR1", "--batch", "1")
    wait_until(lambda: "FAILED" in said("sacct", "-nXo", "state"), "the job ends")
    assert said("sacct", "-nXo", "exitcode").split() == ["9:0"]
    assert Path("out").read_text().splitlines()[-1] == "got"


def agent_of(pid: int) -> int:
    """The agent above a task."""
    return table.table()[pid].parent


@pytest.mark.parametrize("option", ["--container-image=./a.sqsh", "--container=b"])
def test_a_killed_agent_leaves_nothing(road: Path, state_dir: Path, option: str) -> None:
    if option == "--container=b":
        _bundle(road / "b")
    said("sbatch", "--no-requeue", "-o", "out", option, "--wrap", "echo up; exec sleep 1000")
    wait_until(lambda: Path("out").exists() and "up" in Path("out").read_text(), "the script runs")
    run_dir = os.fsencode(next(state_dir.glob("*/run/1.0")))

    def of_the_job() -> list[int]:
        found = []
        for pid in table.table():
            if table.value_of(table.environment(pid), b"SHIM_RUN_DIR") == run_dir:
                found.append(pid)
        return found

    first = of_the_job()
    tasks = [pid for pid in first if agent_of(pid) not in first]
    assert tasks
    os.kill(agent_of(tasks[0]), signal.SIGKILL)
    wait_until(lambda: "NODE_FAIL" in said("sacct", "-nXo", "state"), "the loss is seen")
    wait_until(lambda: not of_the_job(), "its processes end")
    wait_until(lambda: not left(state_dir), "its folders go")


def _bundle(folder: Path) -> None:
    """Makes the folder an OCI bundle. Skips where runc cannot run one."""
    if RUNC is None:
        pytest.skip("runc is not installed")
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    subprocess.run([RUNC, "spec", *rootless], cwd=folder, check=True)
    config = json.loads((folder / "config.json").read_text())
    config["process"]["env"] = ["PATH=/bin", "WHOSE=bundle"]
    (folder / "config.json").write_text(json.dumps(config))


def test_a_bundle_without_its_configuration_says_which_file_is_missing(road: Path) -> None:
    _bundle(road / "b")
    (road / "b" / "config.json").unlink()
    said("sbatch", "-W", "-o", "out", "--container=b", "--wrap", "true", code=1)
    assert Path("out").read_text().endswith(f"--container=b: {road}/b/config.json: No such file or directory\n")


def test_an_oci_bundle_is_run_with_the_tasks_words(road: Path, state_dir: Path) -> None:
    _bundle(road / "b")
    out = said("srun", "-n2", "--container=b", "sh", "-c", "echo $SLURM_PROCID $WHOSE $(pwd); exit 4", code=4)
    assert sorted(out.splitlines()) == ["0 bundle /", "1 bundle /"]
    said("sbatch", "-W", "-o", "out", "--container=b", "--wrap", "echo $0 $SLURM_JOB_ID", code=0)
    assert Path("out").read_text() == "/run/slurm/slurm_script 2\n"
    assert not left(state_dir)
