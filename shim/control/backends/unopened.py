"""Stands for the backend of a cluster that could not be opened: no job starts there, no job is lost, and other clusters go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shim.control.backends.base import BackendError, Observer, Order, Run
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from shim.job.spec import RunSpec


class Unopened:
    """``why``: what its backend said. See ``backends.base.Backend`` for what each method promises."""

    def __init__(self, cluster: Cluster, why: str) -> None:
        self.cluster = cluster
        self.why = why

    async def open(self, observer: Observer) -> Cluster:
        return self.cluster

    async def recover(self, runs: Sequence[tuple[Run, int]]) -> None:
        """Nothing is known of them."""

    async def start(self, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, spool: str = "") -> None:
        raise BackendError(self.why, transient=True)

    async def order(self, run: Run, order: Order) -> None:
        """It is kept in the index until the run is over."""

    async def forget(self, run: Run) -> None:
        """Nothing to do: no end was seen."""

    def reach(self, run: Run) -> str:
        return ""

    def hosts(self, shares: Sequence[NodeShare], job: Job) -> tuple[NodeShare, ...]:
        return tuple(shares)

    def commands(self) -> str:
        return ""

    async def close(self) -> None:
        """Nothing to do."""
