"""One option of a Slurm command, as its getopt_long table has it, and the table of a command."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, Iterator, Optional, Sequence, Tuple

FLAG = 0  # takes no value
REQUIRED = 1  # ``--opt=value``, ``--opt value``, ``-ovalue``, ``-o value``
OPTIONAL = 2  # a value only as ``--opt=value`` or ``-ovalue``

IGNORED = "ignored"  # the kind of a plugin's option that has no effect here


class Option:
    """An option of one command.

    ``long`` and ``short`` are its spellings (short: one letter or empty), ``arity`` says whether it takes a value, ``env`` names
    the variables that set it, the last one winning. ``field`` is the name its value is stored under: two spellings of the
    same option share it (and are no ambiguity for an abbreviation). ``kind`` says how the value reads: see ``values``.
    ``stands_for``: the value that a site's own flag means (see ``Grammar``); None for all others.
    """

    __slots__ = ("arity", "env", "field", "kind", "long", "short", "stands_for")

    def __init__(
        self,
        long: str,
        short: str = "",
        arity: int = FLAG,
        kind: str = "text",
        env: Sequence[str] = (),
        field: str = "",
        stands_for: Optional[str] = None,
    ) -> None:
        self.long = long
        self.short = short
        self.arity = arity
        self.kind = kind
        self.env = env
        self.field = field or long
        self.stands_for = stands_for

    def __repr__(self) -> str:
        return f"Option(--{self.long})"


class Table:
    """The options of a command in Slurm's order, found by their whole name or their letter."""

    __slots__ = ("by_letter", "by_name", "options")

    def __init__(self, options: Iterable[Option]) -> None:
        self.options: Tuple[Option, ...] = tuple(options)
        self.by_name: Dict[str, Option] = {option.long: option for option in self.options}
        self.by_letter: Dict[str, Option] = {option.short: option for option in self.options if option.short}

    def __iter__(self) -> Iterator[Option]:
        return iter(self.options)

    def __len__(self) -> int:
        return len(self.options)
