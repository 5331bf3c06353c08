"""The file of ``srun --multi-prog``: which task runs which program. Pure.

A line is ``RANKS PROGRAM ARGUMENTS``; RANKS is a list (``0-2,5``) or ``*`` for those that no line names. Lines that begin with
``#`` are comments, a backslash joins a line to the next. In the arguments ``%t`` is the task's rank and ``%o`` its place in the
line's ranks. Words end at blanks; quotes mean nothing (``sh -c "exit 3"`` gives sh the word ``"exit``), as measured.
"""

from __future__ import annotations

from shim.core.errors import ShimError
from shim.core.formats.lists import expand_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Program = tuple[str, tuple[str, ...]]


def parse(text: str, file: str, extra: Sequence[str] = ()) -> tuple[Program, ...]:
    """The records of the file: (ranks text or ``*``, argv), in order; ``extra`` words are put behind each argv.

    Raises ShimError with Slurm's text for a record that cannot be read or names a task twice.
    """
    programs: list[Program] = []
    seen: set[int] = set()
    for number, line in _lines(text):
        words = line.split()
        if len(words) < 2:
            raise _invalid(number, file)
        if words[0] != "*":
            try:
                ranks = expand_ranks(words[0])
            except ValueError:
                raise _invalid(number, file) from None
            for rank in ranks:
                if rank in seen:
                    raise ShimError(f"error: Duplicate record for task {rank}", *_invalid(number, file).lines)
                seen.add(rank)
        programs.append((words[0], (*words[1:], *extra)))
    return tuple(programs)


def programs_of(programs: Sequence[Program], ntasks: int, file: str) -> list[tuple[str, ...]]:
    """The argv of each rank from 0. Raises ShimError when a task has none."""
    found: dict[int, tuple[str, ...]] = {}
    rest: tuple[str, ...] | None = None
    for ranks, argv in programs:
        if ranks == "*":
            rest = argv
            continue
        for offset, rank in enumerate(expand_ranks(ranks)):
            found[rank] = _filled(argv, rank, offset)
    result = []
    offset = 0
    for rank in range(ntasks):
        own = found.get(rank)
        if own is None:
            if rest is None:
                raise ShimError(f"error: Configuration file {file} invalid, no record for task id {rank}")
            own = _filled(rest, rank, rank)
        result.append(own)
    return result


def _filled(argv: Sequence[str], rank: int, offset: int) -> tuple[str, ...]:
    return tuple(word.replace("%t", str(rank)).replace("%o", str(offset)) for word in argv)


def _lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    joined = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        line = joined + line
        joined = ""
        if line.strip() and not line.lstrip().startswith("#"):
            lines.append((number, line))
    return lines


def _invalid(number: int, file: str) -> ShimError:
    return ShimError(f"error: Line {number} of configuration file {file} invalid")
