"""Durations and instants as Slurm reads and prints them.

A duration given to an option is ``min``, ``min:sec``, ``h:m:s``, ``d-h``, ``d-h:m`` or ``d-h:m:s``, rounded up to
whole minutes. Slurm computes with 32 bits, and users see it: ``2147483647`` wraps round to no limit, ``99999999`` to 19734
days, ``-5`` (days) to nearly three million; all are accepted. squeue shows limits above a year as INVALID.
"""

from __future__ import annotations

import time

from shim.core.formats.integers import int32
from shim.core.model.request import INFINITE

_YEAR = 365 * 1440  # minutes
_UNLIMITED_WORDS = ("-1", "INFINITE", "UNLIMITED")


def parse_minutes(text: str) -> int:
    """Minutes of a ``--time`` text, in the 32 bits without a sign that Slurm keeps; INFINITE for no limit (also 0).

    Raises ValueError for what ``--time`` refuses.
    """
    seconds = _seconds(text)
    if seconds is None:
        return INFINITE
    wrapped = int32(seconds)
    minutes = int((wrapped + 59) / 60)  # towards zero, as C divides
    return minutes % (1 << 32) if minutes not in (0, -1) else INFINITE


def parse_seconds_any(text: str) -> int:
    """Seconds of a duration text, not rounded, perhaps negative; INFINITE for no limit. Raises ValueError where ``--time`` does."""
    seconds = _seconds(text)
    return INFINITE if seconds is None else seconds


def show_minutes(minutes: int | None) -> str:
    """A time limit as squeue's ``%l`` shows it: ``10:00``, ``1-02:03:00``, UNLIMITED (None too), INVALID above a year."""
    if minutes is None or minutes == INFINITE:
        return "UNLIMITED"
    if minutes > _YEAR:
        return "INVALID"
    return show_elapsed(minutes * 60)


def show_elapsed(seconds: float) -> str:
    """A duration as squeue's ``%M`` shows it: ``0:03``, ``1:02:03``, ``1-02:03:04``; INVALID below 0."""
    if seconds < 0:
        return "INVALID"
    days, hours, minutes, rest = _fields(seconds)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{rest:02d}"
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}"


def show_clock(seconds: float) -> str:
    """A duration as scontrol shows it: ``00:00:03``, ``1-00:00:00``; INVALID below 0."""
    if seconds < 0:
        return "INVALID"
    days, hours, minutes, rest = _fields(seconds)
    clock = f"{hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{days}-{clock}" if days else clock


def stamp(epoch: float, form: str | None = None, now: float | None = None) -> str:
    """An instant in local time: ``2026-11-20T17:22:40``; ``Unknown`` for 0.

    ``form`` is the user's SLURM_TIME_FORMAT: empty or ``standard`` for the above, ``relative`` (to ``now``), else a
    strftime format.
    """
    if not epoch:
        return "Unknown"
    try:
        when = time.localtime(int(epoch))
    except (OverflowError, OSError, ValueError):
        return "Unknown"
    if not form or form == "standard":
        form = "%Y-%m-%dT%H:%M:%S"
    elif form == "relative":
        form = _relative_form(when, time.localtime(now))
    return time.strftime(form, when)


def _relative_form(when: time.struct_time, today: time.struct_time) -> str:
    # Slurm's own measure of distance: not days across a new year, but thousands.
    distance = 1000 * (when.tm_year - today.tm_year) + when.tm_yday - today.tm_yday
    if distance == 0:
        return "%H:%M:%S"
    if distance == -1:
        return "Ystday %H:%M"
    if distance == 1:
        return "Tomorr %H:%M"
    if abs(distance) > 365:
        return "%-d %b %Y"
    if distance < -1 or distance > 6:
        return "%-d %b %H:%M"
    return "%a %H:%M"


def _fields(seconds: float) -> tuple[int, int, int, int]:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest


def _seconds(text: str) -> int | None:
    """Seconds as written, perhaps more than 32 bits hold or negative; None for no limit. Raises ValueError."""
    if text.upper() in _UNLIMITED_WORDS:
        return None
    _check_form(text)
    days_text, dash, rest = text.partition("-")
    fields = [int32(int(field or "0")) for field in (rest if dash else text).split(":")]
    if dash:
        # ``-5`` reads as a negative number of days.
        days = int32(int(days_text)) if days_text else -fields.pop(0)
        fields += [0] * (3 - len(fields))
    else:
        days = 0
        fields = {1: [0, *fields, 0], 2: [0, *fields], 3: fields}[len(fields)]
    return days * 86400 + fields[0] * 3600 + fields[1] * 60 + fields[2]


def _check_form(text: str) -> None:
    """The shape that Slurm accepts: digits, at most one dash before all colons, a number between any two marks."""
    numbers = dashes = colons = 0
    in_number = False
    for char in text:
        if char in "0123456789":
            numbers += not in_number
            in_number = True
            continue
        in_number = False
        if char == "-" and not colons:
            dashes += 1
        elif char == ":":
            colons += 1
        else:
            raise ValueError(f"Invalid time: {text}")
    needed = colons + 1 + (1 if dashes and colons else 0)
    if numbers < needed or dashes > 1 or colons > 2 or len(text) > 64:
        raise ValueError(f"Invalid time: {text}")
