"""A query's command line said again for another command of the same kind: some options left out, the rest as it was."""

from __future__ import annotations

from shim.core.options.getopt import parse
from shim.core.options.table_query import options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, List, Sequence, Tuple


def again(program: str, argv: Sequence[str], without: Collection[str]) -> Tuple[List[str], List[str]]:
    """The options of ``argv`` except those fields, each in one word, and the words that are no options.

    Raises UsageError as the command itself does for a line that it cannot read.
    """
    found, words = parse(program, argv, options_of(program), permute=True, code=1)
    options = [
        f"--{option.long}" if value is None else f"--{option.long}={value}"
        for option, value in found
        if option.field not in without
    ]
    return options, words
