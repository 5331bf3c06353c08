"""What can be wrong with an index, each with what to do about it. None of these loses a job: the file is left alone."""

from __future__ import annotations

from shim.core.errors import ShimError


class IndexFault(ShimError):
    """The index cannot be used."""


class IdsUsedUp(ShimError):
    """There is no job id left to give out."""


class IndexCorrupt(IndexFault):
    """The file is not a database, or is damaged."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(
            f"error: the job index {path} is damaged ({detail})",
            f"error: move it away to start an empty one: mv {path} {path}.damaged",
        )


class IndexNewer(IndexFault):
    """The index was written by a newer version of this program."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"error: the job index {path} has format {found}, this version knows formats up to {known}",
            "error: use the newer version that wrote it, or another state folder (SHIM_STATE_DIR)",
        )


class IndexUnavailable(IndexFault):
    """The file cannot be opened, read or written now: permissions, a full disk, a lock that is not given up."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"error: cannot use the job index {path}: {detail}")


# How SQLite words its errors, in one place. Everything else it says is about access, space or locks.
_DAMAGED = ("malformed", "not a database", "no such table", "no such column", "encrypted")


def fault(path: str, error: Exception) -> IndexFault:
    """The fault that an error of SQLite stands for."""
    text = str(error)
    if any(word in text for word in _DAMAGED):
        return IndexCorrupt(path, text)
    return IndexUnavailable(path, text)
