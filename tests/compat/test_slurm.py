"""The records are true: a real Slurm, when there is one, still does what they say."""

from __future__ import annotations

import os

import pytest

from compat.case import load
from compat.cluster import slurm
from compat.run import judge
from compat.targets import RealSlurm

# Few, because all of them take minutes; ``compat/run.py verify`` asks for every case.
SAMPLE = ("directive-errors", "hostlists", "mpi-layout", "option-errors", "refusals", "script-errors")


@pytest.mark.slurm
@pytest.mark.parametrize("name", SAMPLE)
def test_as_recorded(name: str) -> None:
    if os.geteuid() != 0 or not slurm.is_up():
        # Where there must be one, a test that is not run is no test passed.
        refuse = pytest.fail if os.environ.get("SHIM_TEST_SLURM") else pytest.skip
        refuse("no real Slurm: compat/cluster/slurm.py up (as root)")
    result = judge(load([name])[0], RealSlurm())
    assert result.verdict == "same", result.difference
