"""What rendering needs beside the values themselves."""

from __future__ import annotations

from shim.core.formats.times import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.core.model.cluster import Cluster


class View:
    """The reader's side: the time, SLURM_TIME_FORMAT, and the cluster's shape, which is loaded when a field needs it."""

    __slots__ = ("_cluster", "_load", "form", "noconvert", "now", "units")

    def __init__(
        self, now: float, load: Callable[[], Cluster] | None = None, form: str | None = None, noconvert: bool = False
    ) -> None:
        self.now = now
        self.form = form
        self.noconvert = noconvert
        self.units = ""  # sizes are shown in these: one of KMGTP, "" = in the largest that fits
        self._load = load
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster | None:
        """The cluster, if there is one to ask."""
        if self._cluster is None and self._load is not None:
            self._cluster = self._load()
        return self._cluster

    def stamp(self, epoch: float, missing: str = "N/A") -> str:
        """An instant as the user wants it; ``missing`` for none."""
        return stamp(epoch, self.form, self.now) if epoch else missing
