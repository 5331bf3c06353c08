"""The configuration that this process has read, and whether it is still the one that counts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from shim.control import site, sources
from shim.control.controller.world import log
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster


class Configured:
    """``clusters``: those whose jobs are run from here, the default one first. ``retention``: days that ended jobs are kept. ``files``: stamps of what they were read from.

    Raises ConfigError as ``site.clusters`` does.
    """

    def __init__(self) -> None:
        self.files = site.file_stamps()
        self.clusters = _ours()
        self.retention = max(cluster.retention for cluster in site.clusters())
        self._look_beside()
        self._refused: list[tuple[Any, ...]] = []

    def _look_beside(self) -> None:
        """Notes what commands go by besides: the options that there are, and whether a real Slurm is among the clusters."""
        grammar = site.grammar()
        self.grammar = grammar.to_dict() if grammar is not None else {}
        self.real = any(backend == "slurm" for backend in site.backends().values())

    @property
    def sources(self) -> dict[str, str]:
        """The variables that say where it is read from."""
        return sources.stated(os.environ)

    def changed(self, stated: Mapping[str, str] | None) -> bool:
        """Whether there are other clusters now, in the files or where a command that stated ``stated`` has its configuration.

        That is where it is read from now on. Raises ConfigError for one that cannot be used; then the one of before stays.
        """
        before = self.sources
        moved = stated is not None and stated != before
        if not moved and not self.touched():
            return False
        if moved:
            assert stated is not None
            sources.adopt(os.environ, stated)
        try:
            files = site.file_stamps()
            if _ours() != self.clusters:
                return True
        except ShimError:
            sources.adopt(os.environ, before)
            raise
        self.files = files
        self._look_beside()
        return False

    def outdated(self) -> bool:
        """Whether the files give other clusters now. A configuration that cannot be used is logged, once."""
        if not self.touched():
            return False
        now = [sources.file_stamp(one[0]) for one in self.files]
        if now == self._refused:
            return False
        try:
            return self.changed(None)
        except ShimError as error:
            log.error("the configuration stays as it was: %s", error)
            self._refused = now
            return False

    def touched(self) -> bool:
        """Whether one of the files is another one now: quickly found out."""
        return any(_differs(one) for one in self.files)


def _differs(stamp: tuple[Any, ...]) -> bool:
    return sources.file_stamp(stamp[0]) != stamp


def _ours() -> tuple[Cluster, ...]:
    return tuple(cluster for cluster in site.clusters() if cluster.backend != "slurm")
