"""Tables as ``-o`` and ``-O`` describe them: reading the format, padding and cutting the values.

``-o``: ``%[.][width]letter`` and literal text; a dot means right-justified, no width the value's own; what is too long is
cut without a mark. ``-O``: ``field[:[.]width]``, 20 columns wide without a width, nothing in between.
"""

from __future__ import annotations

from shim.core.formats.integers import leading_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from shim.core.render.view import View

    Item = TypeVar("Item")
    Field = tuple[str, str, str, Callable[[Item, View], str]]  # its letter of -o, its names of -O, header, text
    Known = dict[str, tuple[str, Callable[[Item, View], str]]]

DEFAULT_WIDTH = 20  # of a -O field
MOST_WIDTH = 1024


def by_letter(fields: Sequence[Field[Item]]) -> Known[Item]:
    """The header and the text of each letter of ``-o``."""
    return {letter: (heading, show) for letter, _, heading, show in fields if letter}


def by_name(fields: Sequence[Field[Item]]) -> Known[Item]:
    """The header and the text of each name of ``-O``."""
    return {name: (heading, show) for _, names, heading, show in fields for name in names.split()}


class Column:
    """One column: literal text around a field. ``show`` is None for a column of literal text only.

    ``width`` 0 is the value's own width. ``cut``: values (headers always) never get wider than it.
    """

    __slots__ = ("cut", "header", "key", "prefix", "right", "show", "suffix", "width")

    def __init__(
        self,
        key: str,
        header: str = "",
        show: Callable[[Any, Any], str] | None = None,
        width: int = 0,
        right: bool = False,
        prefix: str = "",
        suffix: str = "",
        cut: bool = True,
    ) -> None:
        self.key = key
        self.header = header
        self.show = show
        self.width = width
        self.right = right
        self.prefix = prefix
        self.suffix = suffix
        self.cut = cut

    def text(self, value: str, cut: bool = True) -> str:
        """``value`` in this column."""
        width = self.width
        if width:
            if cut:
                value = value[:width]
            value = value.rjust(width) if self.right else value.ljust(width)
        return f"{self.prefix}{value}{self.suffix}"


def parse_letters(format_text: str, fields: Any, uncut: str = "") -> tuple[list[Column], list[str]]:
    """The columns of a ``-o`` format, and the letters that are not a field (they are printed as they stand).

    ``fields``: letter -> (header, show); ``uncut``: letters whose values may exceed their width. Slurm takes several ``%`` in a row for one, and ignores one at the end.
    """
    if format_text in ("%all", "all"):
        return [Column(key, header, show, suffix="|") for key, (header, show) in sorted_letters(fields)], []
    first, *tokens = format_text.split("%")
    columns: list[Column] = [Column("", prefix=first)] if first else []
    unknown: list[str] = []
    for token in tokens:
        if not token:
            continue
        right = token.startswith(".")
        width, rest = leading_digits(token[1:] if right else token)
        letter = rest[:1]
        if letter not in fields:
            columns.append(Column("", prefix="%" + token))
            unknown.append(letter)
            continue
        header, show = fields[letter]
        columns.append(Column(letter, header, show, min(width, MOST_WIDTH), right, "", rest[1:], letter not in uncut))
    return columns, unknown


def sorted_letters(fields: Any) -> list[tuple[str, Any]]:
    """The fields in the order of ``%all``: small letters, then capitals."""
    return sorted(fields.items(), key=lambda item: item[0].swapcase())


def parse_names(format_text: str, fields: Any) -> tuple[list[Column], list[str]]:
    """The columns of a ``-O`` format, and the names that are not a field (of these the text behind the width is printed).

    ``fields``: name in lower case -> (header, show).
    """
    columns: list[Column] = []
    unknown: list[str] = []
    for word in format_text.split(","):
        if not word:
            continue
        name, colon, rest = word.partition(":")
        found = fields.get(name.lower())
        right = rest.startswith(".")
        width, suffix = leading_digits(rest[1:] if right else rest)
        if found is None:
            unknown.append(name)
            columns.append(Column("", prefix=suffix))
            continue
        width = min(width, MOST_WIDTH) if colon else DEFAULT_WIDTH
        columns.append(Column(name.lower(), found[0], found[1], width, right, suffix=suffix))
    return columns, unknown


def header(columns: Sequence[Column]) -> str:
    """The line of headers."""
    return "".join(column.text(column.header) if column.show else column.prefix for column in columns)


def rows(columns: Sequence[Column], items: Iterable[Any], view: Any) -> list[str]:
    """One line for each item."""
    return rows_by(columns, items, lambda item: view)


def rows_by(columns: Sequence[Column], items: Iterable[Any], view_of: Callable[[Any], Any]) -> list[str]:
    """One line for each item, each seen by the view that ``view_of`` gives for it."""
    lines = []
    for item in items:
        view = view_of(item)
        lines.append(
            "".join(
                [
                    column.text(column.show(item, view), column.cut) if column.show else column.prefix
                    for column in columns
                ]
            )
        )
    return lines
