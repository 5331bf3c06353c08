"""A command line without one of its options, every other word as it was."""

from __future__ import annotations

from shim.core.errors import UsageError
from shim.core.options import table_query, table_submit
from shim.core.options.getopt import parse
from shim.core.options.grammar import VERSIONS, Grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Sequence

    from shim.core.options.option import Table

_CLUSTERS = ("clusters", "cluster")
_SUBMITTING = ("sbatch", "srun", "salloc")


def without_cluster(program: str, argv: Sequence[str], name: str) -> List[str]:
    """``argv`` without each ``-M``/``--clusters`` whose value is exactly ``name``. A command line that cannot be read stays."""
    for options in _tables(program):
        left = _left(program, argv, options, name)
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


def _left(program: str, argv: Sequence[str], options: Table, name: str) -> Optional[List[str]]:
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
        left.extend(_kept(program, argv[at : at + used], options, name))
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


def _kept(program: str, words: Sequence[str], options: Table, name: str) -> Sequence[str]:
    found, _ = parse(program, words, options, permute=True)
    if not found or found[-1][0].field not in _CLUSTERS or found[-1][1] != name:
        return words
    # Of letters such as -hMname the flags before the M stay.
    return [] if len(found) == 1 else [words[0][: len(found)]]
