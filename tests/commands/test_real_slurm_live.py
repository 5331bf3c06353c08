"""A local cluster and a real Slurm in one queue."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.cluster import slurm
from tests.control.backends.slurm.fake import OURS
from tests.control.controller import processes
from tests.support import wait_until

pytestmark = pytest.mark.real_slurm
NAME = f"one-queue-{os.getpid()}"
CONFIG = f"""
default = "local"
[clusters.local]
[clusters.hpc]
backend = "slurm"
bin = "/usr/bin"
conf = "{slurm.CONF}"
timeout = 60
"""


@pytest.fixture(autouse=True)
def both(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both clusters; where there must be a real Slurm, a test that is not run is no test passed."""
    if os.geteuid() != 0 or not slurm.is_up():
        refuse = pytest.fail if os.environ.get("SHIM_TEST_SLURM") else pytest.skip
        refuse("no real Slurm: compat/cluster/slurm.py up (as root)")
    path = tmp_path / "shim.toml"
    path.write_text(CONFIG)
    monkeypatch.setenv("SHIM_CONFIG", str(path))
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{OURS}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    with processes.ended_afterwards():
        yield
    environ = {**os.environ, "SLURM_CONF": str(slurm.CONF)}
    subprocess.run(["/usr/bin/scancel", "-n", NAME], check=True, timeout=60, env=environ)


def said(*words: str, code: int = 0) -> list[str]:
    """The lines on stdout of one of our commands."""
    done = subprocess.run([OURS / words[0], *words[1:]], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done
    return done.stdout.splitlines()


def held(*options: str) -> str:
    return said("sbatch", "--parsable", "-H", "-J", NAME, "-o", "/dev/null", *options, "--wrap", "true")[0]


def listed(form: str = "%i") -> list[str]:
    return said("squeue", "-h", "-n", NAME, "-o", form)


def test_one_queue_and_a_move_between_them() -> None:
    ours, theirs = held(), held("-M", "hpc").partition(";")[0]
    assert listed() == [ours, theirs]
    assert said("squeue", "-M", "hpc", "-n", NAME, "-o", "%i") == ["CLUSTER: hpc", "JOBID", theirs]
    assert f"JobId={theirs} JobName={NAME}" in said("scontrol", "show", "job", theirs)
    assert {line.split()[0] for line in said("sinfo", "-h", "-o", "%R")} >= {"debug", "gpu"}

    moved = said("shim", "move", ours, "hpc")[0]
    there = moved.rpartition(" ")[2]
    assert moved == f"job {ours} is on cluster hpc as job {there}"
    assert sorted(listed("%i %r")) == sorted([f"{theirs} JobHeldUser", f"{there} JobHeldUser"])
    assert said("sacct", "-nPX", "-j", ours, "-o", "state,comment") == [
        f"CANCELLED by 0|moved to hpc as job {there}",
    ]

    again = held()
    said("scancel", theirs)
    wait_until(lambda: sorted(listed()) == sorted([there, again]), "only that one was cancelled")
    said("scancel", "-n", NAME)
    wait_until(lambda: not listed(), "all were cancelled")


def test_a_real_slurm_that_is_gone_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = held()
    monkeypatch.setenv("SHIM_HPC_CONF", "/nonexistent/slurm.conf")
    monkeypatch.setenv("SHIM_HPC_TIMEOUT", "1")
    assert said("squeue", "-h", "-n", NAME, "-o", "%i", code=1) == [ours]
    assert said("squeue", "-h", "-j", ours, "-o", "%i") == [ours]
    said("scancel", ours)
