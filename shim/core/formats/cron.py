"""When a crontab's entry is due: ``5 4 * * sun``, ``*/15 8-17 * * *``, ``@daily``; as Slurm 22.05 reads it.

Times are local ones. A step keeps of what stands before it the values that are multiples of it. Of a restricted day of the month and a
restricted day of the week either one suffices.
"""

from __future__ import annotations

import time

from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Tuple

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_OF = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# First and last value; the one more that means the first; names, and what a name that is none is called.
_FIELDS = (
    (0, 59, True, (), ""),
    (0, 23, True, (), ""),
    (1, 31, False, (), ""),
    (1, 12, False, _MONTHS, "month"),
    (0, 6, True, _DAYS, "day"),
)
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 0-23 * * *",
}
_YEARS = 9  # a 29th of February comes at the latest after so many
_DAY = 86400
_SPACE = " \t"


class CronError(ValueError):
    """The text is no schedule; ``hint``: what more Slurm says, or ""."""

    def __init__(self, hint: str = "") -> None:
        super().__init__(hint)
        self.hint = hint


class Schedule(Value):
    """``minutes`` … ``weekdays``: the values that fit, None for every one (``*``)."""

    minutes: Optional[Tuple[int, ...]] = None
    hours: Optional[Tuple[int, ...]] = None
    days: Optional[Tuple[int, ...]] = None
    months: Optional[Tuple[int, ...]] = None
    weekdays: Optional[Tuple[int, ...]] = None

    def __str__(self) -> str:
        """The five fields in Slurm's spelling; ``parse`` reads it."""
        return " ".join("*" if field is None else _ranges(field) for field in self._fields())

    def _fields(self) -> Tuple[Optional[Tuple[int, ...]], ...]:
        return self.minutes, self.hours, self.days, self.months, self.weekdays

    def after(self, now: float) -> int:
        """The next time (epoch seconds) later than ``now``. A time that a change of clocks leaves out is passed over."""
        year, month, day = time.localtime(now)[:3]
        noon = time.mktime((year, month, day, 12, 0, 0, 0, 0, -1))
        for number in range(_YEARS * 366):
            date = time.localtime(noon + number * _DAY)[:3]
            if self._on(date):
                for when in self._times(date):
                    if when > now:
                        return when
        raise CronError

    def _on(self, date: Tuple[int, ...]) -> bool:
        year, month, day = date
        if self.months is not None and month not in self.months:
            return False
        by_day = self.days is not None and day in self.days
        if self.weekdays is None:
            return self.days is None or by_day
        weekday = (time.localtime(time.mktime((year, month, day, 12, 0, 0, 0, 0, -1))).tm_wday + 1) % 7
        return by_day or weekday in self.weekdays

    def _times(self, date: Tuple[int, ...]) -> Iterator[int]:
        minutes = range(60) if self.minutes is None else self.minutes
        for hour in range(24) if self.hours is None else self.hours:
            found = [_instants(date, hour, minute) for minute in minutes]
            yield from (times[0] for times in found if times)
            if self.hours is None:  # an hour that comes twice has entries for every hour twice
                yield from (times[1] for times in found if times[1:])


def _instants(date: Tuple[int, ...], hour: int, minute: int) -> List[int]:
    """When clocks show that: once, twice where they are set back, never where they are set forward."""
    year, month, day = date
    times = {int(time.mktime((year, month, day, hour, minute, 0, 0, 0, summer))) for summer in (1, 0)}
    return sorted(when for when in times if time.localtime(when)[:5] == (year, month, day, hour, minute))


def split(line: str) -> Tuple[str, str]:
    """The schedule's text and the command behind it. CronError for a line that has not both."""
    rest = line.lstrip(_SPACE)
    words: List[str] = []
    for _ in range(1 if rest.startswith("@") else len(_FIELDS)):
        word = rest.replace("\t", " ").partition(" ")[0]
        words.append(word)
        rest = rest[len(word) :].lstrip(_SPACE)
    if not rest:
        parse(" ".join(words))  # its own mistakes are told first
        raise CronError
    return " ".join(words), rest


def parse(text: str) -> Schedule:
    """The schedule: five fields, or one of the words with ``@``. Raises CronError."""
    if text.startswith("@"):
        if text.lower() not in _WORDS:
            raise CronError("invalid @ line")
        text = _WORDS[text.lower()]
    words = text.split()
    if len(words) != len(_FIELDS):
        raise CronError
    found = Schedule(
        minutes=_field(words[0], 0),
        hours=_field(words[1], 1),
        days=_field(words[2], 2),
        months=_field(words[3], 3),
        weekdays=_field(words[4], 4),
    )
    if found.days is not None and found.weekdays is None:
        months = range(1, 13) if found.months is None else found.months
        if not any(day <= _DAYS_OF[month - 1] for month in months for day in found.days):
            raise CronError
    return found


def _field(text: str, place: int) -> Optional[Tuple[int, ...]]:
    first, last, wraps, names, what = _FIELDS[place]
    if text[:1].isalpha() and names:
        if text[:3].lower() not in names:
            raise CronError(f"bad {what} specification")
        if len(text) > 3:
            raise CronError
        return (names.index(text[:3].lower()) + first,)
    listed, slash, step = text.partition("/")
    if listed == "*":
        if not slash:
            return None
        values = set(range(first, last + 1))
    else:
        values = {value for part in _parts(listed) for value in range(part[0], part[1] + 1)}
    if slash:
        if not _number(step) or int(step) == 0:
            raise CronError("bad step value" if _number(step) else "")
        values = {value for value in values if value % int(step) == 0}
    if wraps:
        values = {first if value == last + 1 else value for value in values}
    if not values or min(values) < first or max(values) > last:
        raise CronError
    return tuple(sorted(values))


def _parts(text: str) -> Iterator[Tuple[int, int]]:
    """The ranges of a list; ``-3`` at its begin is 0-3."""
    for place, part in enumerate(text.split(",")):
        low, dash, high = part.partition("-")
        if not low and dash and not place:
            low = "0"
        if not _number(low) or (dash and not _number(high)):
            raise CronError
        if dash and int(high) < int(low):
            raise CronError
        yield int(low), int(high if dash else low)


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def _ranges(values: Tuple[int, ...]) -> str:
    """``0-4,7``."""
    found: List[List[int]] = []
    for value in values:
        if found and value == found[-1][1] + 1:
            found[-1][1] = value
        else:
            found.append([value, value])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)
