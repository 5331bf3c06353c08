"""`shim check` and the end of `shim explain`: what would become of a script, through the program's own entry."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shim import SLURM_VERSION, __version__
from shim.admin import check
from shim.commands import funnel
from shim.control import site
from shim.core.model.cluster import Cluster, Node, Partition
from tests.control.backends.slurm.fake import Site

CLUSTER = Cluster(
    name="site",
    nodes=tuple(Node(name=f"n{number}", cpus=8, memory=16000, features=("fast",)) for number in (1, 2)),
    partitions=(
        Partition(name="all", nodes=("n1", "n2"), default=True),
        Partition(name="short", nodes=("n1", "n2"), max_time=10),
    ),
)

Script = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Writes a script with these directives in the working directory; its name. The site has one cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(site, "clusters", lambda: (CLUSTER,))

    def script(name: str, *directives: str) -> str:
        text = "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in directives)
        (tmp_path / name).write_text(text)
        return name

    return script


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str]]:
    code = funnel.run("shim", list(argv))
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("directive", "code", "lines"),
    [
        ("-n2 -t 5", 0, ["job.sh: accepted"]),
        (
            "-c 9",
            1,
            [
                "job.sh: Slurm would refuse it (exit code 1)",
                "    sbatch: error: CPU count per node can not be satisfied",
                "    sbatch: error: Batch job submission failed: Requested node configuration is not available",
            ],
        ),
        (
            "--nosuch",
            1,
            [
                "job.sh: Slurm would refuse it (exit code 255)",
                "    sbatch: unrecognized option '--nosuch'",
                '    Try "sbatch --help" for more information',
            ],
        ),
        ("-N 3", 0, ["job.sh: accepted, and would wait for ever (PartitionNodeLimit)"]),
        ("-p short -t 11", 0, ["job.sh: accepted, and would wait for ever (PartitionTimeLimit)"]),
        (
            "--container=/images/a",
            1,
            [
                "job.sh: Slurm would accept it, it is refused here",
                "    sbatch: error: --container is not supported here: OCI bundles are not run",
            ],
        ),
        (
            "-N2 -n1",
            0,
            [
                "job.sh: accepted",
                "    sbatch: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
            ],
        ),
    ],
)
def test_a_script(
    write: Script, capsys: pytest.CaptureFixture[str], directive: str, code: int, lines: list[str]
) -> None:
    assert run(capsys, "check", write("job.sh", directive)) == (code, lines)


def test_options_that_do_less_here_are_named(write: Script, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, "check", write("job.sh", "--gpu-bind=closest"))
    assert (code, lines[0]) == (0, "job.sh: accepted")
    assert lines[1].startswith("    --gpu-bind is approximated here: ")


def test_components_are_judged_each_and_together(
    write: Script, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = write("good.sh", "-n1", "hetjob", "-n2 -p short")
    assert run(capsys, "check", good) == (0, ["good.sh: accepted"])
    assert run(capsys, "check", write("bad.sh", "-n1", "hetjob", "-c 9"))[1][1:] == [
        "    sbatch: error: CPU count per node can not be satisfied",
        "    sbatch: error: Batch job submission failed: Requested node configuration is not available",
    ]
    assert run(capsys, "check", write("same.sh", "-w n1", "hetjob", "-w n1"))[0] == 1
    assert run(capsys, "check", write("wide.sh", "-n1", "hetjob", "-N 9")) == (
        0,
        ["wide.sh: accepted, and would wait for ever (PartitionNodeLimit)"],
    )
    explained = run(capsys, "explain", "--nice", ":", "-n3", good)[1]
    assert "line 3: #SBATCH hetjob" in explained
    assert [line for line in explained if line.startswith("command line")] == [
        "command line: --nice",
        "command line: --ntasks",
    ]
    monkeypatch.setattr(site, "clusters", lambda: (CLUSTER.replace(backend="kubernetes"),))
    code, lines = run(capsys, "check", good)
    assert (code, lines[0]) == (1, "good.sh: Slurm would accept it, it is refused here")
    assert lines[1] == "    sbatch: error: heterogeneous jobs are not supported on the kubernetes backend"


def test_many_scripts(write: Script, capsys: pytest.CaptureFixture[str]) -> None:
    names = [write("a.sh", "-n1"), write("b.sh", "-p nosuch"), write("c.sh", "-N 9"), "missing.sh"]
    code, lines = run(capsys, "check", "-M", "site", *names)
    assert code == 1
    assert [line for line in lines if not line.startswith(" ")] == [
        "a.sh: accepted",
        "b.sh: Slurm would refuse it (exit code 1)",
        "c.sh: accepted, and would wait for ever (PartitionNodeLimit)",
        "missing.sh: Slurm would refuse it (exit code 1)",
        "4 scripts: 2 would be refused, 1 would wait for ever",
    ]


def test_a_cluster_that_is_none(write: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert funnel.run("shim", ["check", "-M", "nosuch", write("a.sh")]) == 1
    assert "No cluster 'nosuch' known by database." in capsys.readouterr().err


def test_explain_ends_with_the_same_verdict(write: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "explain", write("a.sh", "-n1"))[1][-1] == "It would be accepted."
    assert run(capsys, "explain", write("b.sh", "-N 3"))[1][-1] == (
        "It would be accepted, and wait for ever: PartitionNodeLimit."
    )
    code, lines = run(capsys, "explain", "-n1", write("c.sh", "-p nosuch"))
    assert (code, lines[-1]) == (1, "    error: Batch job submission failed: Invalid partition name specified")


def test_a_real_slurm_is_asked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Site(tmp_path)
    real.configure('[clusters.hpc]\nbackend = "slurm"\n')
    monkeypatch.setenv("PATH", real.environ["PATH"])
    tells = 'printf "sbatch: Job 7 to start"; for word; do printf " [%s]" "$word"; done; echo'
    real.script(real.real / "sbatch", f"#!/bin/sh\n{{ {tells}; }} >&2\n")
    out = io.StringIO()
    assert check.report(["a.sh"], out)
    assert out.getvalue() == "a.sh: accepted\n    sbatch: Job 7 to start [--test-only] [a.sh]\n"
    real.script(real.real / "sbatch", "#!/bin/sh\necho sbatch: error: no >&2\necho more >&2\nexit 3\n")
    out = io.StringIO()
    assert not check.report(["a.sh"], out)
    assert out.getvalue() == "a.sh: Slurm would refuse it (exit code 3)\n    sbatch: error: no\n    more\n"


def test_a_script_in_a_pipe_is_read_once(write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read, told = os.pipe()
    os.write(told, (tmp_path / write("job.sh", "-N2 -t 5")).read_bytes())
    os.close(told)
    code, lines = run(capsys, "explain", f"/dev/fd/{read}")
    os.close(read)
    assert (code, lines[-1]) == (0, "It would be accepted.")


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert run(capsys, option) == (0, [f"shim {__version__} (slurm {SLURM_VERSION})"])


def test_mistaken_directives_are_told(write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SLURM -N2\n")
    assert run(capsys, "check", "job.sh") == (
        0,
        [
            "job.sh: accepted",
            "    sbatch: error: Change from #SLURM to #SBATCH in your script and verify the options are valid in sbatch",
        ],
    )
