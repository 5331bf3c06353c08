"""Inside a pod no cluster is asked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Outlook:
    """Nothing is missing."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names: list[str] = []

    def known(self) -> bool:
        """Always."""
        return True
