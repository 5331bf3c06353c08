"""A command line with one of its options changed or taken out, every other word as it was."""

from __future__ import annotations

from shim.core.errors import UsageError
from shim.core.options import table_query, table_submit
from shim.core.options.getopt import parse
from shim.core.options.grammar import VERSIONS, Grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, List, Optional, Sequence

    from shim.core.options.getopt import Found
    from shim.core.options.option import Table

    Edit = Callable[[List[Found], Sequence[str]], Sequence[str]]  # of the words of one option

_CLUSTERS = ("clusters", "cluster")
_SUBMITTING = ("sbatch", "srun", "salloc")


def without_cluster(program: str, argv: Sequence[str], name: str) -> List[str]:
    """``argv`` without each ``-M``/``--clusters`` whose value is exactly ``name``. A command line that cannot be read stays."""

    def edit(found: List[Found], words: Sequence[str]) -> Sequence[str]:
        if found[-1][0].field not in _CLUSTERS or found[-1][1] != name:
            return words
        # Of letters such as -hMname the flags before the M stay.
        return [] if len(found) == 1 else [words[0][: len(found)]]

    return _edited(program, argv, edit)


def with_value(program: str, argv: Sequence[str], long: str, value: str) -> List[str]:
    """``argv`` with ``value`` wherever it has the option ``long``. A command line that cannot be read stays."""

    def edit(found: List[Found], words: Sequence[str]) -> Sequence[str]:
        return [f"--{long}={value}"] if found[-1][0].field == long else words

    return _edited(program, argv, edit)


def _edited(program: str, argv: Sequence[str], edit: Edit) -> List[str]:
    for options in _tables(program):
        left = _left(program, argv, options, edit)
        if left is not None:
            return left
    return list(argv)


def _tables(program: str) -> Iterator[Table]:
    """The options that the real command may have: of older Slurms, of newer ones; none for a grammar that is not known."""
    if program in _SUBMITTING:
        for level in VERSIONS:
            yield table_submit.options_of(program, Grammar(level=level))
    else:
        try:
            yield table_query.options_of(program)
        except KeyError:
            return


def _left(program: str, argv: Sequence[str], options: Table, edit: Edit) -> Optional[List[str]]:
    """The words that are left; None if one of them is not in the table."""
    left: List[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--" or (program in _SUBMITTING and (word == "-" or not word.startswith("-"))):
            break  # the rest belongs to the script or the command
        used = _length(program, argv, at, options)
        if used == 0:
            return None
        words = argv[at : at + used]
        found = parse(program, words, options, permute=True)[0]
        left.extend(edit(found, words) if found else words)
        at += used
    return [*left, *argv[at:]]


def _length(program: str, argv: Sequence[str], at: int, options: Table) -> int:
    """How many words the option (or the single word) at ``at`` takes; 0 if it cannot be read."""
    for used in (1, 2):
        if at + used > len(argv):
            break
        try:
            parse(program, argv[at : at + used], options, permute=True)
        except UsageError:
            continue  # it wants a value
        return used
    return 0
