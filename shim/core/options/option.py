"""One option of a Slurm command, as its getopt_long table has it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

FLAG = 0  # takes no value
REQUIRED = 1  # ``--opt=value``, ``--opt value``, ``-ovalue``, ``-o value``
OPTIONAL = 2  # a value only as ``--opt=value`` or ``-ovalue``


class Option:
    """An option of one command.

    ``long`` and ``short`` are its spellings (short: one letter or empty), ``arity`` says whether it takes a value, ``env`` names
    the variables that set it, the last one winning. ``field`` is the name its value is stored under: two spellings of the
    same option share it (and are no ambiguity for an abbreviation). ``kind`` says how the value reads: see ``values``.
    """

    __slots__ = ("arity", "env", "field", "kind", "long", "short")

    def __init__(
        self,
        long: str,
        short: str = "",
        arity: int = FLAG,
        kind: str = "text",
        env: Sequence[str] = (),
        field: str = "",
    ) -> None:
        self.long = long
        self.short = short
        self.arity = arity
        self.kind = kind
        self.env = tuple(env)
        self.field = field or long

    def __repr__(self) -> str:
        return f"Option(--{self.long})"
