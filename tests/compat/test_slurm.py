"""The records are true: a real Slurm, when there is one, still does what they say."""

from __future__ import annotations

import os

import pytest

from compat import headers
from compat.case import load
from compat.cluster import slurm
from compat.run import judge
from compat.targets import RealSlurm

# Few, because all of them take minutes; ``compat/run.py verify`` asks for every case.
SAMPLE = ("directive-errors", "hostlists", "mpi-layout", "option-errors", "refusals", "script-errors")


@pytest.fixture(scope="module", autouse=True)
def real_slurm() -> None:
    """A real Slurm; where there must be one, a test that is not run is no test passed."""
    if os.geteuid() != 0 or not slurm.is_up():
        refuse = pytest.fail if os.environ.get("SHIM_TEST_SLURM") else pytest.skip
        refuse("no real Slurm: compat/cluster/slurm.py up (as root)")


@pytest.mark.real_slurm
@pytest.mark.parametrize("name", SAMPLE)
def test_as_recorded(name: str) -> None:
    result = judge(load([name])[0], RealSlurm())
    assert result.verdict == "same", result.difference


@pytest.mark.real_slurm
def test_headers_as_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert headers.main(["verify"]) == 0, capsys.readouterr().out
