"""Reading the command line of a query command together with its input variables."""

from __future__ import annotations

from shim.core.options.getopt import parse
from shim.core.options.table_query import options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Sequence, Tuple


def read(
    command: str, argv: Sequence[str], environ: Mapping[str, str], from_environment: bool = True
) -> Tuple[Dict[str, str], List[str]]:
    """What squeue, scancel, sinfo, scontrol or sacct was asked: values by field, and the words that are no options.

    A flag and an optional value that was not given have the value ``""``; an option given several times keeps its last
    value, except ``verbose``, which has one ``v`` for each time. The command line wins over variables. UsageError (rc 1).

    ``squeue -j 5`` and ``-s 5.0``: these take a value only in attached form, so the 5 is among the words.
    """
    options = options_of(command)
    found, words = parse(command, argv, options, permute=True, code=1)
    values: Dict[str, str] = {}
    if from_environment:
        for option in options:
            for variable in option.env:
                if variable in environ:
                    values[option.field] = environ[variable] if option.arity else ""
    for option, value in found:
        if option.field == "verbose":
            values["verbose"] = values.get("verbose", "") + "v"
        else:
            values[option.field] = value or ""
    return values, words
