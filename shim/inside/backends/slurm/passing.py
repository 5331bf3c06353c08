"""Commands inside a pod are never passed on: there is no other Slurm."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def attempt(program: str, argv: Sequence[str]) -> None:
    """Returns: the command is ours."""
