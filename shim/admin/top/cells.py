"""How many columns of a terminal a text takes: letters of some scripts take two, marks above letters none."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def wide(text: str) -> int:
    """The columns that the text takes."""
    return len(text) if text.isascii() else cell_len(text)


def fitted(text: str, width: int) -> str:
    """The text in exactly that many columns: cut, or filled up with blanks."""
    if width <= 0:
        return ""
    return text[:width].ljust(width) if text.isascii() else set_cell_size(text, width)
