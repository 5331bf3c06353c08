"""Inside a pod nobody keeps anything fresh: what is asked is read at once."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .index.reader import Reader


def alive() -> bool:
    """Always: there is none to be started."""
    return True


def freshen(reader: Reader | None, program: str = "") -> None:
    """Nothing to do."""


def refresh(reader: Reader, program: str = "") -> None:
    """Nothing to do."""


def look(reader: Reader | None, program: str = "") -> bool:
    """Nothing to do: the job's leader knows all that there is."""
    return False
