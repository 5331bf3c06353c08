"""SQLite for short-lived commands: the C module alone.

The ``sqlite3`` package imports datetime and collections.abc for adapters that nobody here uses, and the C module asks
``functools`` for one decorator: together that costs a command as much as all of its own work.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection, Error
    from typing import Any


def _load() -> Any:
    """The module ``_sqlite3``, imported without the Python part of functools where that is not loaded yet."""
    if "functools" in sys.modules or "_sqlite3" in sys.modules:
        import _sqlite3

        return _sqlite3
    import _functools  # type: ignore[import-not-found]

    wrapper = getattr(_functools, "_lru_cache_wrapper", None)
    if wrapper is not None:
        # All that _sqlite3 takes from functools is lru_cache(maxsize), for its prepared statements.
        stand_in = type(sys)("functools")
        stand_in.lru_cache = lambda maxsize: lambda function: wrapper(function, maxsize, False, tuple)  # type: ignore[attr-defined]
        sys.modules["functools"] = stand_in
    try:
        import _sqlite3
    finally:
        if wrapper is not None:
            del sys.modules["functools"]
    return _sqlite3


_module = _load()
SqliteError: type[Error] = _module.Error


def connect_read_only(path: str, *, immutable: bool = False, timeout: float = 2.0) -> Connection:
    """A connection that cannot write. ``immutable``: do not even look for locks or a write-ahead log."""
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    options = "mode=ro&immutable=1" if immutable else "mode=ro"
    connection: Connection = _module.connect(
        f"file:{name}?{options}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,  # an error's traceback may be what lets go of it, in another thread
    )
    return connection
