"""The configuration that this process has read, and whether it is still the one that counts."""

from __future__ import annotations

import os
from collections.abc import Mapping

from shim.control import site, sources
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster


class Configured:
    """``clusters``: those whose jobs are run from here, the default one first. Raises ConfigError as ``site.clusters`` does."""

    def __init__(self) -> None:
        self._stamp = site.stamp()
        self.clusters = _ours()

    @property
    def sources(self) -> dict[str, str]:
        """The variables that say where it is read from."""
        return sources.stated(os.environ)

    def changed(self, stated: Mapping[str, str] | None) -> bool:
        """Whether there are other clusters now, in the files or where a command that stated ``stated`` has its configuration.

        That is where it is read from now on. Raises ConfigError for one that cannot be used; then the one of before stays.
        """
        before = self.sources
        if stated is not None and stated != before:
            sources.adopt(os.environ, stated)
        try:
            stamp = site.stamp()
            if stamp == self._stamp:
                return False
            if _ours() != self.clusters:
                return True
            self._stamp = stamp
            return False
        except ShimError:
            sources.adopt(os.environ, before)
            raise


def _ours() -> tuple[Cluster, ...]:
    return tuple(cluster for cluster in site.clusters() if cluster.backend != "slurm")
