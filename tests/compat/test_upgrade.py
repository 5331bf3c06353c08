"""An upgrade while jobs run: the code of the last release (before there is one: of an earlier commit) is replaced in its place by this checkout's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.controller import processes
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[2]
EARLIER = "e40f114"  # as long as there is no tag
TREES = ("bin", "shim")
RUNS = """#!/bin/bash
srun -l echo before
touch ready
while [ ! -e go ]; do sleep 0.1; done
srun -l echo after
squeue -h -o %j -j $SLURM_JOB_ID
exit 3
"""


def git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no git, or not the history: {done.stderr.decode().strip()}")
    return done.stdout


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation of the earlier code, whose commands come first on PATH."""
    tags = git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").decode().split()
    app = tmp_path / "app"
    app.mkdir()
    code = git("archive", tags[0] if tags else EARLIER, *TREES)
    subprocess.run(["tar", "-x", "-C", str(app)], input=code, check=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "config.toml").write_text('[clusters.local]\nbackend = "local"\nnodes = 2\ncpus = 2\nmemory = "4G"\n')
    monkeypatch.setenv("SHIM_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{app / 'bin'}:/usr/bin:/bin")
    with processes.ended_afterwards():
        yield app


def said(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and "Traceback" not in done.stderr, (words, done)
    return done.stdout


def upgrade(app: Path) -> None:
    """As pip does it: the old files go, the new ones come."""
    for name in TREES:
        shutil.rmtree(app / name)
        shutil.copytree(ROOT / name, app / name, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize("stopped", [True, False], ids=["the controller stopped", "the controller going on"])
def test_jobs_go_on(before: Path, stopped: bool) -> None:
    Path("runs.sh").write_text(RUNS)
    assert said("sbatch", "-N2", "-n2", "-J", "waltz", "-o", "runs.out", "runs.sh") == "Submitted batch job 1\n"
    said("sbatch", "-N2", "-n2", "-d", "afterany:1", "-o", "then.out", "--wrap", "srun -l echo then")
    said("sbatch", "--array=1-2", "--hold", "-o", "array-%a.out", "--wrap", "echo $SLURM_ARRAY_TASK_ID")
    wait_until(lambda: Path("ready").exists(), "the first job runs")
    shown = said("squeue", "-h", "-o", "%i %T %j %r")

    upgrade(before)
    if stopped:
        assert "controller stopped" in said("shim", "controller", "stop")
    assert said("squeue", "-h", "-o", "%i %T %j %r") == shown
    said("sbatch", "-o", "new.out", "--wrap", "echo new")
    said("scontrol", "release", "3")
    Path("go").touch()
    wait_until(lambda: not said("squeue", "-h"), "all jobs have ended", 60, 0.2)
    assert sorted(Path("runs.out").read_text().splitlines()) == [
        "0: after",
        "0: before",
        "1: after",
        "1: before",
        "waltz",
    ]
    assert sorted(Path("then.out").read_text().splitlines()) == ["0: then", "1: then"]
    assert [Path(f"{name}.out").read_text() for name in ("new", "array-1", "array-2")] == ["new\n", "1\n", "2\n"]
    states = said("sacct", "-n", "-X", "-P", "-o", "JobID,State,ExitCode").split()
    assert sorted(states) == [
        "1|FAILED|3:0",
        "2|COMPLETED|0:0",
        "3_1|COMPLETED|0:0",
        "3_2|COMPLETED|0:0",
        "4|COMPLETED|0:0",
    ]
    assert "Traceback" not in processes.log()


def test_jobs_of_before_are_in_the_index_afterwards(before: Path) -> None:
    said("sbatch", "--wait", "-o", "out", "--wrap", "true")
    said("shim", "controller", "stop")
    upgrade(before)
    assert said("sacct", "-n", "-X", "-P", "-o", "JobID,State") == "1|COMPLETED\n"
    said("sbatch", "--wait", "-o", "out", "--wrap", "true")
    assert said("sacct", "-n", "-X", "-P", "-o", "JobID,State") == "1|COMPLETED\n2|COMPLETED\n"
