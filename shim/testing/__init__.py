"""For those who keep Slurm scripts: throw-away clusters for their tests (docs/testing.md). `shim.pytest_plugin` gives them to pytest."""

from __future__ import annotations

from shim.testing.cluster import Cluster, Finished
from shim.testing.job import Job, NotInTime
from shim.testing.submission import SubmitError, Submitted

__all__ = ["Cluster", "Finished", "Job", "NotInTime", "SubmitError", "Submitted"]
