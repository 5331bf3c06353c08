"""The examples, run as their comments say, on the local backend."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.targets import ROOT, local_session

Shell = Callable[[str], str]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell in a folder with the examples and a cluster of its own: the output of a command that succeeds."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "examples", work)
    with local_session(tmp_path) as environ:

        def run(command: str) -> str:
            done = subprocess.run(
                ["/bin/bash", "-c", command],
                cwd=work,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=150,
            )
            assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
            return done.stdout

        yield run


def test_hello(shell: Shell) -> None:
    shell("sbatch --wait hello.sh")
    lines = shell("cat hello-*.out").splitlines()
    assert len(lines) == 3
    assert " has 2 nodes: " in lines[0]
    assert [line.partition(" on ")[0] for line in sorted(lines[1:])] == ["0: task 0 of 2", "1: task 1 of 2"]


def test_array(shell: Shell) -> None:
    shell("printf '%s\\n' apple pear plum >inputs.txt; sbatch --wait array.sh inputs.txt")
    assert shell("sort lines-*.out").splitlines() == [
        "task 1 of 3: apple has 5 letters",
        "task 2 of 3: pear has 4 letters",
        "task 3 of 3: plum has 4 letters",
    ]


def test_gpu(shell: Shell) -> None:
    shell("sbatch --wait gpu.sh")
    lines = shell("cat gpu-*.out").splitlines()
    assert lines[0].startswith("the job has GPUs 0,1 on ")
    assert sorted(lines[1:]) == ["0: GPU 0 is mine", "1: GPU 1 is mine"]


def test_distributed(shell: Shell) -> None:
    shell("sbatch --wait distributed.sh")
    lines = sorted(shell("cat allreduce-*.out").splitlines())
    assert [line.partition(" on ")[0] for line in lines] == [f"rank {rank} of 4" for rank in range(4)]
    assert all(line.endswith(": the sum of all ranks is 6") for line in lines)
    assert len({line.split()[5] for line in lines}) == 2


def test_checkpoint(shell: Shell) -> None:
    # The warning comes four seconds after the start of each life; the first one is far from done by then.
    job = shell("sbatch --parsable --time=1 --signal=B:USR1@56 checkpoint.sh 60").strip()
    shell(f"until [[ -z $(squeue -h -j {job} 2>&1) ]]; do sleep 0.2; done")
    text = shell(f"cat checkpoint-{job}.out")
    assert "life 0: from 0\n" in text
    assert "life 0: saved, once more\n" in text
    assert text.endswith(": done at 60\n")
    assert text.count("from 0\n") == 1


def test_chain(shell: Shell) -> None:
    said = shell("bash chain.sh")
    assert said.startswith("submitted: the last of the chain is job ")
    shell("until [[ -z $(squeue -h -u $USER) ]]; do sleep 0.2; done")
    assert shell("cat summary.txt").split() == ["5", "odd.txt", "5", "even.txt", "10", "total"]
    assert shell("ls").count("report.txt") == 0
