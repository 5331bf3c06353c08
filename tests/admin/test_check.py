"""`shim check` and the end of `shim explain`: what would become of a script, through the program's own entry."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shim import SLURM_VERSION, __version__
from shim.admin import check
from shim.commands import entrypoint
from shim.control import site
from shim.core.model.cluster import Cluster, Node, Partition
from shim.core.options.grammar import Grammar
from shim.job.container import tools
from tests.control.backends.slurm.fake import Site
from tests.control.controller import processes

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
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """Writes a script with these directives in the working directory; its name. The site has one cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(site, "clusters", lambda: (CLUSTER,))

    def script(name: str, *directives: str) -> str:
        text = "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in directives)
        (tmp_path / name).write_text(text)
        return name

    with processes.ended_afterwards():  # one is started to look at a cluster of pods
        yield script


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str]]:
    code = entrypoint.run("shim", list(argv))
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
        ("-N 3", 1, ["job.sh: accepted, and would wait for ever (PartitionNodeLimit)"]),
        ("-p short -t 11", 1, ["job.sh: accepted, and would wait for ever (PartitionTimeLimit)"]),
        (
            "--container=/images/a",
            1,
            [
                "job.sh: Slurm would accept it, it is refused here",
                "    sbatch: error: --container=BUNDLE needs a program to run OCI bundles: none of runc and crun is on PATH",
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
    write: Script,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    directive: str,
    code: int,
    lines: list[str],
) -> None:
    monkeypatch.setattr(tools, "which", lambda name: None)
    assert run(capsys, "check", write("job.sh", directive)) == (code, lines)


def test_a_missing_folder_of_the_output_is_told_as_sbatch_tells_it(
    write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write("job.sh", "-o logs/%x-%j.out -e %j/err")
    warning = f'warning: "{tmp_path}/logs", for the output of the job, is no folder: without it the job fails'
    assert run(capsys, "check", script) == (0, ["job.sh: accepted", f"    sbatch: {warning}"])
    assert warning in run(capsys, "explain", script)[1]
    assert run(capsys, "check", "--chdir=/", script)[1][1] == f"    sbatch: {warning}".replace(str(tmp_path), "")
    (tmp_path / "logs").mkdir()
    assert run(capsys, "check", script) == (0, ["job.sh: accepted"])


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
        1,
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
    assert entrypoint.run("shim", ["check", "-M", "nosuch", write("a.sh")]) == 1
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


@pytest.mark.parametrize(
    ("fail_on", "codes"),
    [
        ("refused,waiting,failing", [0, 1, 1, 0, 0]),
        ("refused", [0, 0, 0, 0, 0]),
        ("failing,unread", [0, 0, 1, 1, 0]),
        ("approximated", [0, 0, 0, 0, 1]),
        ("never", [0, 0, 0, 0, 0]),
    ],
)
def test_what_fails_is_chosen(
    write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], fail_on: str, codes: list[int]
) -> None:
    names = [
        write("good.sh", "-n1"),
        write("waits.sh", "-N 3"),
        write("runs.sh"),
        write("late.sh"),
        write("less.sh", "--gpu-bind=none"),
    ]
    (tmp_path / "runs.sh").write_text("#!/bin/bash\nsrun --nosuch true\n")
    (tmp_path / "late.sh").write_text("#!/bin/bash\ntrue\n#SBATCH -N 9\n")
    assert [run(capsys, "check", "--fail-on", fail_on, name)[0] for name in names] == codes


def test_an_unknown_ground_is_refused(write: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert entrypoint.run("shim", ["check", "--fail-on=bad", write("a.sh")]) == 1
    assert '--fail-on: "bad" is unknown; known are refused,' in capsys.readouterr().err


def test_options_of_sbatch_stand_before_the_scripts(write: Script, capsys: pytest.CaptureFixture[str]) -> None:
    names = [write("a.sh", "-n1"), write("b.sh", "-p short")]
    assert run(capsys, "check", "-t", "20", "-N1", *names)[1] == [
        "a.sh: accepted",
        "b.sh: accepted, and would wait for ever (PartitionTimeLimit)",
        "2 scripts: 0 would be refused, 1 would wait for ever",
    ]
    assert run(capsys, "check", "-M", "nosuch", names[0])[0] == 1


def test_lines_of_the_body_are_read(
    write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "which", lambda name: None)
    write("body.sh")
    (tmp_path / "body.sh").write_text(
        """#!/bin/bash
# SBATCH --time=5
#SBATCH -n1
for i in 1 2; do OMP=1 srun --mpi=pmix -n $i ./a & done
srun \\
  --gpu-bind=closest --nosuch ./b | tee log
cat <<EOF
srun --nosuch in a text
EOF
echo "srun --nosuch in a string"
srun --container-image="$IMAGE" ./c 2>&1 > out.txt
srun -n2 $OPTIONS ./d
#SBATCH --mem=1
"""
    )
    code, lines = run(capsys, "check", "body.sh")
    assert (code, lines[0]) == (1, "body.sh: accepted")
    assert [line.strip() for line in lines[1:]] == [
        "line 2 is no directive, a directive begins with #SBATCH at the start of the line: # SBATCH --time=5",
        "line 13 is no directive, it stands below the first command: #SBATCH --mem=1",
        *[line.strip() for line in lines[3:]],
    ]
    failing = [line.strip() for line in lines if line.endswith("(refused when it runs)")]
    assert [line.split(": ")[0] for line in failing] == ["line 5", "line 11"]
    assert (
        failing[0]
        == "line 5: srun: unrecognized option '--nosuch'; Try \"srun --help\" for more information (refused when it runs)"
    )


@pytest.mark.parametrize("command", ["check", "explain"])
def test_nothing_that_a_terminal_obeys_is_printed(
    write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write("evil.sh")
    (tmp_path / "evil.sh").write_bytes(
        b"#!/bin/bash\n#SBATCH -J \x1b]0;owned\x07\xff -p \x1b[31mred\n# SBATCH -J \x9b\x1b[2J\n"
    )
    out = "\n".join(run(capsys, command, "evil.sh")[1])
    assert all(letter.isprintable() or letter == "\n" for letter in out)
    assert "\\x1b[31mred" in out


@pytest.mark.parametrize(
    ("settings", "directive", "text"),
    [
        ({}, "-n1", 'no image: "image" in the configuration'),
        (
            {},
            "--container-image=/images/pytorch.sqsh",
            "--container-image=/images/pytorch.sqsh: pods are made from images",
        ),
        (
            {"image": '"python:3.12"'},
            "--container-mounts=/data:/data",
            "--container-mounts=/data:/data: pods mount what",
        ),
    ],
)
def test_what_pods_cannot_be_made_for(
    write: Script,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    directive: str,
    text: str,
) -> None:
    pods = CLUSTER.replace(backend="kubernetes", settings=settings)
    monkeypatch.setattr(site, "clusters", lambda: (pods,))
    monkeypatch.setattr(site, "grammar", lambda: Grammar(pyxis=True))
    code, lines = run(capsys, "check", write("job.sh", directive))
    assert (code, lines[0]) == (1, "job.sh: Slurm would accept it, it is refused here")
    assert f"Batch job submission failed: {text}" in lines[1]


def test_what_pods_would_lose_is_said(
    write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = CLUSTER.replace(backend="kubernetes", settings={"image": '"python:3.12"'})
    monkeypatch.setattr(site, "clusters", lambda: (pods,))
    name = write("job.sh", "-n1")
    (tmp_path / name).write_text("#!/bin/bash\nsbatch next.sh\nsrun -o out.txt true\n")
    for command, code in (("check", 1), ("explain", 0)):
        found, lines = run(capsys, command, name)
        told = [line.strip() for line in lines]
        assert found == code
        assert any(
            f"the pods get a copy of {tmp_path}; files that the job makes or changes there" in line for line in told
        )
        assert "line 2: sbatch: nothing is submitted from inside a pod (refused when it runs)" in told


def test_gpus_that_the_machine_lacks_are_no_fault_of_the_script(
    write: Script, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "clusters", lambda: (CLUSTER.replace(elastic=True),))
    code, lines = run(capsys, "check", write("job.sh", "--gpus=1"))
    assert (code, lines[0]) == (1, "job.sh: Slurm would accept it, it is refused here")
    assert "this machine has no GPUs" in lines[1]


@pytest.mark.parametrize(
    ("directives", "line", "told"),
    [
        ("-n2", "srun -n 64 ./a", "More processors requested than permitted"),
        ("-n64 -O", "srun -n 64 -O ./a", ""),
        ("-n8", "srun -n 8 ./a", ""),
        ("-n2", "srun -n $SLURM_NTASKS ./a $X", ""),
        ("-n2", "srun -n $((SLURM_NTASKS * 2)) ./a", ""),
        ("-n2", "srun -n $N ./a", ""),
        ("-n2", "srun -n 64 $OPTIONS ./a", ""),
        ("-n2", "export SLURM_NTASKS=1; srun -n 64 ./a", ""),  # who sets these knows more
        ("-n2", "srun -c 2 -n2 ./a", "More processors requested than permitted"),
        ("-n2 -N1", "srun -N 2 ./a", "Only allocated 1 nodes asked for 2"),
        ("-N2", "srun -N 2 -w n1,n2 ./a", ""),
        ("-N1", "srun -w n7 ./a", "Requested node configuration is not available"),
        ("-n1 --mem=500", "srun --mem=1G ./a", "Memory required by task is not available"),
        (
            "-n1",
            "srun --gpus=1 ./a",
            "Step requested GRES but job doesn't have GRES; Invalid generic resource (gres) specification",
        ),
        ("-n2", "srun --jobid=7 -n 64 ./a", ""),
        ("-n2 -a 1-3", "if true; then srun -n3 ./a; fi", "More processors requested than permitted"),
        ("-c 9", "srun -n 64 ./a", ""),  # the job itself is refused
    ],
)
def test_steps_are_judged_by_what_their_job_has(
    directives: str, line: str, told: str, write: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write("job.sh", directives)
    with (tmp_path / name).open("a") as file:
        file.write(f"echo begun\n{line}\n")
    code, said = run(capsys, "check", name)
    steps = [one.strip() for one in said if "srun:" in one]
    assert steps == ([f"line 4: srun: {told} (refused when it runs)"] if told else [])
    assert code == (1 if told or directives == "-c 9" else 0)
    assert run(capsys, "check", "--fail-on=never", name)[0] == 0
