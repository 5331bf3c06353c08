"""One field of ``scontrol update``: what its handler is given, and the refusals."""

from __future__ import annotations

from collections.abc import Callable

from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.value import Value

NOT_PENDING = "Job is no longer pending execution"
NO_PRIORITY = "Changes to job priority are not persistent, change nice instead"


class UpdateRefused(Exception):
    """Refuses a change with Slurm's text; no other field of the update is changed either."""


class Asked(Value):
    """One change: the text, and who asks when."""

    text: str
    cluster: Cluster
    admin: bool
    now: float
    own: bool = True

    @property
    def holder(self) -> str:
        """Who holds a job that this update holds: its user, or an operator, whose hold the user cannot release."""
        return "user" if self.own else "admin"


Handler = Callable[[Job, Asked], Job]


def number(text: str) -> int:
    """A number as scontrol takes it; ValueError for none, or for one that does not fit 32 bits."""
    found = int(text)
    if abs(found) >= 1 << 31:
        raise ValueError(text)
    return found
