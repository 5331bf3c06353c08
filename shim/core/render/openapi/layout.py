"""What a field of a document is, and how each of the two layouts writes it; the frame around the records.

Slurm 22.05 (v0.0.38) writes a number as it is, null if it is not set. From 23.02 on, here v0.0.43, what may be unset or without end is an
object that says so, and a word that may be several is a list.
"""

from __future__ import annotations

from shim.core.model.request import INFINITE
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Optional

    Record = dict[str, Any]
    Kind = Callable[[Any, bool], Any]  # (value, whether the newer layout is asked for) -> what stands in the document

OLD, NEW = "v0.0.38", "v0.0.43"


class Field:
    """One field: its name, what it is (``number``, ``plain`` …), and its value of a record; a constant for one that is always the same.

    ``only``: the layout (OLD, NEW) that has it; both have it else.
    """

    __slots__ = ("kind", "name", "only", "value")

    def __init__(self, name: str, kind: Kind, value: Any, only: str = "") -> None:
        self.name = name
        self.kind = kind
        self.value = value
        self.only = only

    def of(self, one: Any, newer: bool) -> Any:
        """What stands in the document for ``one``."""
        return self.kind(self.value(one) if callable(self.value) else self.value, newer)


def record(fields: Iterable[Field], one: Any, newer: bool) -> Record:
    """What the layout has of ``one``, in its order."""
    other = OLD if newer else NEW
    return {field.name: field.of(one, newer) for field in fields if field.only != other}


def plain(value: Any, newer: bool) -> Any:
    """A value that both layouts write as it is: a whole number that is always there, a truth, a list of texts."""
    return value


def text(value: Optional[str], newer: bool) -> Optional[str]:
    """A text. One that is not set is empty in the newer layout."""
    return value if value is not None or not newer else ""


def count(value: Optional[float], newer: bool) -> Optional[float]:
    """A number that may be unset in the older layout alone: the newer one has 0 for it."""
    return value if value is not None or not newer else 0


def number(value: Optional[float], newer: bool) -> Any:
    """A number that may be unset (None) or INFINITE."""
    infinite = value == INFINITE
    if not newer:
        return None if infinite else value
    known = value is not None and not infinite
    return {"set": known, "infinite": infinite, "number": value if known else 0}


def words(value: Sequence[str], newer: bool) -> Any:
    """States: the first is what the older layout shows, the newer one lists all."""
    return list(value) if newer else value[0]


def group(*fields: Field) -> Kind:
    """An object with fields of its own."""
    return lambda one, newer: record(fields, one, newer)


def each(kind: Kind) -> Kind:
    """A list of which every item is of that kind."""
    return lambda values, newer: [kind(value, newer) for value in values]


def itself(one: Any) -> Any:
    """The value of a ``group``: its fields look at the whole record."""
    return one


def raw_status(status: int, newer: bool) -> Any:
    """How a process ended: the wait status, in the newer layout in words."""
    return exit_code(status, newer) if newer else status


def exit_code(status: int, newer: bool) -> Record:
    """How a process ended. Slurm 22.05 says SUCCESS, 0 of whatever ended by itself, be its code what it may."""
    code, signal = status >> 8 & 0xFF, status & 0x7F
    if not newer:
        if not signal:
            return {"status": "SUCCESS", "return_code": 0}
        return {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": signal, "name": signal_name(signal)}}
    word = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return {
        "status": [word],
        "return_code": number(None if signal else code, newer),
        "signal": {"id": number(signal or None, newer), "name": signal_name(signal) if signal else ""},
    }


def signal_name(signal: int) -> str:
    """``Killed``, as the C library calls it."""
    from _signal import strsignal  # type: ignore[import-not-found]  # what signal itself brings, without enum

    try:
        return strsignal(signal) or f"Unknown signal {signal}"
    except ValueError:  # 125: memory ran out
        return f"Unknown signal {signal}"


def moments(now: float, last_pass: float | None = None) -> Record:
    """When the records were read, and when a job was last looked at: what the newer layout has beside them."""
    found = {} if last_pass is None else {"last_backfill": number(int(last_pass), newer=True)}
    return {**found, "last_update": number(int(now), newer=True)}


class Asked(Value):
    """A document as it is asked for: by whom, with which words, of which cluster. Only the newer layout says these things."""

    layout: str = OLD
    version: str = "22.05.8"  # of Slurm
    database: bool = False  # sacct's: 22.05 has another layout for them, and another name
    command: tuple[str, ...] = ()
    user: str = ""
    group: str = ""
    terminal: str = ""
    cluster: str = ""

    @property
    def newer(self) -> bool:
        """Whether the newer layout is meant."""
        return self.layout == NEW


def document(
    asked: Asked, name: str, records: Iterable[Record], more: Mapping[str, Any], errors: Sequence[Record]
) -> Record:
    """The whole document: ``records`` under ``name`` (jobs, nodes). ``more``: what else the newer layout has beside them."""
    major, minor, micro = (int(word) for word in asked.version.split(".")[:3])
    if not asked.newer:
        layout, label = ("dbv0.0.38", "DB v0.0.38") if asked.database else ("v0.0.38", "v0.0.38")
        return {
            "meta": {
                "plugin": {"type": f"openapi/{layout}", "name": f"Slurm OpenAPI {label}"},
                "Slurm": {"version": {"major": major, "micro": micro, "minor": minor}, "release": asked.version},
            },
            "errors": list(errors),
            name: list(records),
        }
    release = {"major": str(major), "micro": str(micro), "minor": str(minor)}
    return {
        name: list(records),
        **more,
        "meta": {
            "plugin": {"type": "", "name": "", "data_parser": f"data_parser/{asked.layout}", "accounting_storage": ""},
            "client": {"source": asked.terminal, "user": asked.user, "group": asked.group},
            "command": list(asked.command),
            "slurm": {"version": release, "release": asked.version, "cluster": asked.cluster},
        },
        "errors": list(errors),
        "warnings": [],
    }
