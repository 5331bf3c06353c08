"""What a command has found out about its surroundings: looked at once, and the same for all of its work.

Only where ``hold`` was called, by programs that do one thing and end. Whoever lives on (the controller, an agent) looks each time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

_found: dict[str, Any] | None = None


def hold() -> None:
    """From now on ``once`` keeps what it finds in this process; what it has kept so far is forgotten."""
    global _found
    _found = {}


def let_go() -> None:
    """From now on ``once`` finds out anew each time, as before ``hold``."""
    global _found
    _found = None


def renew() -> None:
    """Forgets what was kept, before a listing that is shown repeatedly is made again."""
    if _found:
        _found.clear()


def once(name: str, find: Callable[[], T]) -> T:
    """What ``find`` returns; from the second time on, where this process holds, what it returned then. None is not kept: it may come to be."""
    if _found is None:
        return find()
    kept: T | None = _found.get(name)
    if kept is None:
        kept = _found[name] = find()
    return kept
