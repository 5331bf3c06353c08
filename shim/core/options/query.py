"""Reading the command line of a query command together with its input variables."""

from __future__ import annotations

from shim.core.options.getopt import parse
from shim.core.options.table_query import ADD_UP, options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Sequence, Tuple

    _Base = Dict[str, str]
else:
    _Base = dict


class Values(_Base):
    """What was asked, by field. ``said``: what the command line says, in its order: field and value."""

    def __init__(self) -> None:
        super().__init__()
        self.said: List[Tuple[str, str]] = []

    def each(self, field: str) -> List[str]:
        """Every value that the command line has for ``field``."""
        return [value for name, value in self.said if name == field]

    def shows_all(self, naming: str) -> bool:
        """Whether hidden partitions are shown: of --all, --hide and ``naming``, which names partitions, the last one decides."""
        told = [name for name, _ in self.said if name in ("all", "hide", naming)]
        return told[-1] != "hide" if told else "all" in self or naming in self


def read(
    command: str, argv: Sequence[str], environ: Mapping[str, str], from_environment: bool = True
) -> Tuple[Values, List[str]]:
    """What squeue, scancel, sinfo, scontrol or sacct was asked: values by field, and the words that are no options.

    A flag and an optional value that was not given have the value ``""``. Of an option given several times the last value
    counts, except those of ``ADD_UP``, whose values are one list, and ``verbose``, which has one ``v`` for each time. The
    command line wins over variables. UsageError (rc 1).

    ``squeue -j 5`` and ``-s 5.0``: these take a value only in attached form, so the 5 is among the words.
    """
    options = options_of(command)
    found, words = parse(command, argv, options, permute=True, code=1)
    values = Values()
    if from_environment:
        for option in options:
            for variable in option.env:
                if variable in environ:
                    values[option.field] = environ[variable] if option.arity else ""
    for option, value in found:
        values.said.append((option.field, value or ""))
        if option.field == "verbose":
            values["verbose"] = values.get("verbose", "") + "v"
        else:
            values[option.field] = value or ""
    for field in ADD_UP.get(command, "").split():
        if len(values.each(field)) > 1:
            values[field] = ",".join(values.each(field))
    return values, words
