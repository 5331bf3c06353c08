"""Points in time as Slurm reads them: ``--begin``, ``--deadline``, sacct's ``-S`` and ``-E``.

``now[+|-count[unit]]``, ``today``, ``tomorrow``, ``HH:MM[:SS][am|pm]``, ``midnight noon fika teatime``,
``YYYY-MM-DD``, ``MMDD[YY]``, ``MM/DD[/YY]``, ``MM.DD[.YY]``, ``uts<seconds>`` and a date with a time (``T``, ``-`` or blanks
between). What is left out is the next that comes: a bare ``16:00`` is tomorrow's once it is past four.
"""

from __future__ import annotations

import time

from shim.core.formats.integers import is_number

_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_UNITS = (
    ("seconds", 1),
    ("second", 1),
    ("minutes", 60),
    ("minute", 60),
    ("hours", 3600),
    ("hour", 3600),
    ("days", 86400),
    ("day", 86400),
    ("weeks", 604800),
    ("week", 604800),
)
_BLANKS = " \t\n\r"
_NO_TIME = -1  # as for mktime(3), of which the last second of 1969 is a failure
_NO_YEAR = 1899  # Slurm counts years from 1900, and -1 stands for none


class WhenError(ValueError):
    """Text that is no point in time; ``position`` is where reading stopped, as Slurm counts."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(f"Invalid time specification (pos={position}): {text}")
        self.position = position


def parse_when(text: str, now: float, past: bool = False) -> int:
    """Seconds since the epoch, local time; 0 for an empty text. ``past``: left out parts lie before ``now`` (sacct -S).

    Raises WhenError.
    """
    if text[:3].lower() == "uts":
        if not is_number(text[3:], 15) or int(text[3:]) < 1000000:
            raise WhenError(text, 0)
        return int(text[3:])
    reader = _Reader(text, now)
    while reader.next_word():
        pass
    return _complete(reader, past)


class _Reader:
    """One pass over the text; finds a date (month, day, year or None) and a time of day, either absent."""

    def __init__(self, text: str, now: float) -> None:
        self.text = text
        self.lower = text.lower()
        self.now = now
        self.at = 0
        self.date: tuple[int, int, int | None] | None = None
        self.clock: tuple[int, int, int] | None = None

    def next_word(self) -> bool:
        """Reads the next word; False at the end."""
        while self.at < len(self.text) and self.text[self.at] in " \t-T":
            self.at += 1
        if self.at >= len(self.text):
            return False
        if self._take("today"):
            self._set_day(self.now)
        elif self._take("tomorrow"):
            self._set_day(self.now + 86400)
        elif self._starts("now"):
            self._now()
        else:
            for word, hour in _HOURS.items():
                if self._take(word):
                    self.clock = (hour, 0, 0)
                    return True
            if not is_number(self.text[self.at]):
                raise WhenError(self.text, self.at)
            if ":" in self.text[self.at + 1 : self.at + 3]:
                self._clock()
            else:
                self._date()
        return True

    def _starts(self, word: str) -> bool:
        return self.lower.startswith(word, self.at)

    def _take(self, word: str) -> bool:
        if not self._starts(word):
            return False
        self.at += len(word)
        return True

    def _set_day(self, epoch: float) -> None:
        day = time.localtime(epoch)
        self.date = (day.tm_mon, day.tm_mday, day.tm_year)

    def _now(self) -> None:
        self.at += 3
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        delta = 0
        if self.at < len(self.text):
            sign = self.text[self.at]
            if sign not in "+-":
                raise WhenError(self.text, self.at)
            self.at += 1
            delta = self._delta() * (1 if sign == "+" else -1)
        try:
            when = time.localtime(self.now + delta)
        except (OverflowError, OSError, ValueError):
            raise WhenError(self.text, self.at) from None
        self.date = (when.tm_mon, when.tm_mday, when.tm_year)
        self.clock = (when.tm_hour, when.tm_min, when.tm_sec)

    def _delta(self) -> int:
        digits = ""
        while self.at < len(self.text):
            for word, seconds in _UNITS:
                if self.lower.startswith(word, self.at):
                    self.at += len(word)
                    return self._amount(digits) * seconds
            char = self.text[self.at]
            if not is_number(char) and char not in _BLANKS:
                break
            digits += char.strip(_BLANKS)
            self.at += 1
        else:
            return self._amount(digits)
        raise WhenError(self.text, self.at - 1)

    def _amount(self, digits: str) -> int:
        if not digits or len(digits) > 12:
            raise WhenError(self.text, self.at - 1)
        return int(digits)

    def _number(self, least: int, most: int, low: int, high: int) -> int:
        """The next ``least`` to ``most`` digits as a number between ``low`` and ``high``."""
        start = self.at
        while self.at < len(self.text) and self.at - start < most and is_number(self.text[self.at]):
            self.at += 1
        if self.at - start < least:
            raise WhenError(self.text, self.at)
        number = int(self.text[start : self.at])
        if not low <= number <= high:
            raise WhenError(self.text, self.at - 2)
        return number

    def _expect(self, marks: str) -> None:
        if self.text[self.at : self.at + 1] not in tuple(marks):
            raise WhenError(self.text, self.at)
        self.at += 1

    def _clock(self) -> None:
        hour = self._number(1, 2, 0, 23)
        self._expect(":")
        minute = self._number(2, 2, 0, 59)
        second = 0
        if self.text[self.at : self.at + 1] == ":":
            self.at += 1
            second = self._number(2, 2, 0, 59)
        after = self.at
        while self.text[after : after + 1] in tuple(_BLANKS):
            after += 1
        half = self.lower[after : after + 2]
        if half in ("am", "pm"):
            if hour > 12:
                raise WhenError(self.text, after)
            hour = hour % 12 + (12 if half == "pm" else 0)
            after += 2
        self.at = after
        self.clock = (hour, minute, second)

    def _date(self) -> None:
        if self.text[self.at + 4 : self.at + 5] == "-" and self.text[self.at + 7 : self.at + 8] == "-":
            year: int | None = self._number(4, 4, 0, 9999)
            if year == _NO_YEAR:
                year = None
            self._expect("-")
            month = self._number(2, 2, 1, 12)
            self._expect("-")
            self.date = (month, self._number(2, 2, 1, 31), year)
            return
        month = self._number(1, 2, 1, 12)
        if self.text[self.at : self.at + 1] in ("/", "."):
            self.at += 1
        day = self._number(1, 2, 1, 31)
        rest = self.text[self.at : self.at + 1]
        if rest in ("", "T", "-", *_BLANKS):
            self.date = (month, day, None)
            return
        if rest in ("/", "."):
            self.at += 1
        self.date = (month, day, 2000 + self._number(2, 2, 0, 99))


def _complete(reader: _Reader, past: bool) -> int:
    """The instant, with what the text left out filled in."""
    today = time.localtime(reader.now)
    now_clock = (today.tm_hour, today.tm_min, today.tm_sec)
    if reader.date is None:
        if reader.clock is None:
            return 0
        # A time that is now counts as to come, except for the past.
        later = past or reader.clock > now_clock
        day = today if later else time.localtime(reader.now + 86400)
        date = (day.tm_year, day.tm_mon, day.tm_mday)
    else:
        month, mday, year = reader.date
        if year is None:
            year = today.tm_year
            this_year = (month, mday, *(reader.clock or (0, 0, 0)))
            reference = (today.tm_mon, today.tm_mday, *now_clock)
            if past and this_year > reference:
                year -= 1
            elif not past and this_year < reference:
                year += 1
        date = (year, month, mday)
    try:
        found = int(time.mktime((*date, *(reader.clock or (0, 0, 0)), 0, 0, -1)))
    except (OverflowError, ValueError):
        found = _NO_TIME
    if found == _NO_TIME:
        raise WhenError(reader.text, len(reader.text))
    return found
