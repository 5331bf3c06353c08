"""A command inside a pod has no real Slurm to ask: ``site.cluster_refs`` names none."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.routing import ClusterRef


class Question:
    """A question to a real Slurm; never asked here."""

    problem = "there is no real Slurm inside a pod"

    def __init__(self, ref: ClusterRef, program: str, argv: Sequence[str]) -> None:
        self.ref = ref
        self.out = self.err = b""
        self.code: int | None = None


def answered(questions: Sequence[Question]) -> None:
    """None is answered."""
