"""The components of a heterogeneous job: several sets of options on one command line, or in one script.

A component's options are read over what is left of the component before it: what describes its resources starts anew, the
rest (name, time, memory per node, output, account …) stays (measured for every option). Then come its directives, the variables
and its part of the command line.
"""

from __future__ import annotations

from shim.core.errors import ShimError
from shim.core.options.sources import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence

    from shim.core.options.sources import Settings

# What variables say of --switches, which each component starts without.
_OF_SWITCHES = ("REQ_SWITCH", "WAIT4SWITCH", "switch-wait")
MOST_COMPONENTS = 128  # of a job, as far as --het-group can name them


def next_component(before: Settings) -> Reading:
    """What the component behind ``before`` begins with: what carries over; nothing of its own is read yet."""
    reading = Reading(before.command, before.context)
    by_name = reading.table.by_name
    for name, value in before.values.items():
        if name not in _OF_SWITCHES and "anew" not in by_name.get(name, ()):
            reading.values[name] = value
            if name in before.sources:
                reading.sources[name] = before.sources[name]
                reading.texts[name] = before.texts[name]
    return reading


def keep_verbosity(reading: Reading, before: Optional[Settings]) -> None:
    """``-v`` of one component is for all behind it; given again with the same words it does not count twice."""
    if before is not None and "verbose" in before and "verbose" not in reading:
        for kept, known in (
            (reading.values, before.values),
            (reading.sources, before.sources),
            (reading.texts, before.texts),
        ):
            kept["verbose"] = known["verbose"]


def het_groups(text: str) -> List[int]:
    """The component numbers that ``--het-group`` names: ``0,2``, ``0-2``, ``1-`` for one. ShimError with srun's text."""
    invalid = f"error: Invalid --het-group value: {text}"
    inner = text
    if text.startswith("["):
        inner = text[1:-1] if text.endswith("]") else text[1:]
    if "]" in inner:
        raise ShimError(invalid)
    found: List[int] = []
    for part in inner.split(","):
        first, _, last = part.lstrip(" ").partition("-")
        last = last or first
        if not _is_number(first) or not _is_number(last) or int(first) > int(last):
            raise ShimError(f"error: _parse_single_range: Invalid range: `{part}'", invalid)
        if int(last) >= MOST_COMPONENTS:
            raise ShimError(invalid)
        found.extend(range(int(first), int(last) + 1))
    return sorted(set(found))


def cut(words: Sequence[str]) -> List[List[str]]:
    """The words between the colons."""
    parts: List[List[str]] = [[]]
    for word in words:
        if word == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
