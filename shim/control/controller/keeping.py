"""The settings of an earlier configuration that stay in force for active jobs: reported once to the next submitter, dropped when these jobs end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from shim.control.controller.world import World, log
from shim.control.index.errors import IndexFault
from shim.control.index.reader import FILES, KEPT
from shim.control.index.store import Store
from shim.core import jsonlite
from shim.core.model import reconfigure
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job

PAUSE = 1.0  # seconds from a change of a job to a look at what is kept
_IN_FORCE = "configuration"  # the index's word for the clusters in force and where they were read from


class Keeping:
    """``kept``: what stays as it was, by name. ``sources``: where the configuration is read from. ``again`` is called when less of it must stay."""

    def __init__(self, store: Store, world: World, sources: Mapping[str, str], again: Callable[[], None]) -> None:
        self.kept: tuple[str, ...] = ()
        self._store = store
        self._world = world
        self._sources = dict(sources)
        self._again = again
        self._wanted: Sequence[Cluster] = ()
        self._before: tuple[Cluster, ...] = ()
        self._in_force: tuple[Cluster, ...] = ()
        self._looking = False
        world.book.followers.append(self._changed)

    def settle(self, wanted: Sequence[Cluster]) -> tuple[Cluster, ...]:
        """The clusters in force. The book is loaded."""
        before = jsonlite.loads(self._store.meta(_IN_FORCE) or "{}")
        known = tuple(self._as_it_was(Cluster.from_dict(record)) for record in before.get("clusters", ()))
        active = self._world.book.active()
        found = reconfigure.reconfigure(known, wanted, active)
        self._wanted, self._before, self._in_force, self.kept = wanted, known, found.clusters, found.kept
        self._world.offered, self._world.blocked = dict(found.offered), dict(found.blocked)
        sources = before.get("sources", self._sources)
        untold = self._world.untold
        if active and sources != self._sources:
            untold.append(f"warning: another configuration than until now: {_said(self._sources, sources)}")
        untold += [f"warning: {line}" for line in found.kept]
        for line in untold:
            log.warning("%s", line.removeprefix("warning: "))
        record = jsonlite.dumps({"clusters": [one.to_dict() for one in found.clusters], "sources": self._sources})
        if record != self._store.meta(_IN_FORCE):
            self._store.set_meta(_IN_FORCE, record)
        self._tell()
        return found.clusters

    def _as_it_was(self, cluster: Cluster) -> Cluster:
        """With what its jobs made of it, where nobody had configured it."""
        grown = self._store.cluster(cluster.name) if cluster.elastic else None
        return grown if grown is not None and grown.elastic else cluster

    def read(self, files: Sequence[Sequence[object]]) -> None:
        """Leaves word for listings of what the configuration was read from."""
        record = jsonlite.dumps([list(one) for one in files])
        try:
            if record != self._store.meta(FILES):
                self._store.set_meta(FILES, record)
        except IndexFault as fault:
            log.error("%s", fault)

    def _changed(self, old: Job | None, job: Job) -> None:
        if self.kept and not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(PAUSE, self._look)

    def _look(self) -> None:
        """Whether all that is kept must still be; with thousands of jobs this takes a while."""
        self._looking = False
        found = reconfigure.reconfigure(self._before, self._wanted, self._world.book.active())
        if found.clusters != self._in_force:
            self._again()
        elif found.kept != self.kept:
            self.kept = found.kept
            self._tell()

    def _tell(self) -> None:
        try:
            self._store.set_meta(KEPT, jsonlite.dumps(list(self.kept)))
        except IndexFault as fault:
            log.error("%s", fault)


def _said(now: Mapping[str, str], before: Mapping[str, str]) -> str:
    """In which variables two sources of a configuration differ."""
    names = sorted(name for name in {**now, **before} if now.get(name) != before.get(name))
    return ", ".join(f"{name}={now[name]}" if name in now else f"without {name}={before[name]}" for name in names)
