"""Numbers with rules of their own: seconds, ports, sockets and threads, switches, priorities, signals."""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError
from shim.core.formats.integers import leading_int
from shim.core.options.getopt import Option
from shim.core.options.value_parsing import INT_MAX, Context, invalid_value, parse_natural, parse_positive, whole_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

INVALID = -2  # the time of --switches that is none


def _seconds(option: Option, text: Optional[str], context: Context) -> Optional[int]:
    """--immediate: the seconds; 0 (at once) for ``1`` and for no value; None for ``0``, with which nothing is asked."""
    number = whole_int(text) if text else 1
    if number is None or number < 0:
        raise ShimError(f'error: Invalid numeric value "{text}" for {option.long}.')
    number &= 0xFFFFFFFF
    return 0 if number == 1 else number or None


def _ports(option: Option, text: Optional[str], context: Context) -> int:
    """How many ports to reserve; without a value Slurm takes one a task, if it has any."""
    number = whole_int(text) if text else 0
    if number is None or not 0 <= number <= INT_MAX:
        raise ShimError(f'error: Invalid numeric value "{text}" for --resv-port.')  # Slurm's spelling
    return number


def _switch(option: Option, text: Optional[str], context: Context) -> int:
    """A number that switches something on; without a value 1."""
    return 1 if not text else parse_natural(option, text, context)


def _binary(option: Option, text: Optional[str], context: Context) -> int:
    number = parse_natural(option, text, context)
    if number > 1:
        raise invalid_value(option)
    return number


def _threads(option: Option, text: Optional[str], context: Context) -> int:
    number = parse_positive(option, text, context)
    if number > 60 and context.say is not None:
        context.say(f"error: Thread value --threads={number} exceeds recommended limit of 60")
    return number


def _boot_delay(option: Option, text: Optional[str], context: Context) -> int:
    """Seconds, in the 32 bits without a sign that Slurm keeps."""
    from shim.core.formats.times import parse_seconds_any

    try:
        return parse_seconds_any(text or "") % (1 << 32)
    except ValueError:
        raise invalid_value(option) from None


def _geometry(option: Option, text: Optional[str], context: Context) -> Tuple[Optional[int], ...]:
    """``-B sockets[:cores[:threads]]``: of each the least of a number or range, None for ``*`` and what is not said."""
    numbers: List[Optional[int]] = []
    for part, place in zip((text or "").split(":"), ("first", "second", "third")):
        number, rest = _kilo(part)
        if rest.startswith("-"):
            rest = _kilo(rest[1:])[1] if leading_int(rest[1:])[0] is not None else rest
        if part[:1] not in ("*", "") and (number is None or number < 0 or rest):
            raise ShimError(f'error: Invalid numeric value "{part}" for {place} arg of -B.')
        if number is not None and number > INT_MAX:
            raise ShimError(f"error: Numeric argument ({number}) to big for {place} arg of -B.")
        numbers.append(number)
    return tuple(numbers) + (None,) * (3 - len(numbers))


def _kilo(text: str) -> Tuple[Optional[int], str]:
    """``leading_int`` of a number that may be said in thousands: ``1k`` is 1024."""
    number, rest = leading_int(text)
    if number is not None and rest[:1] in ("k", "K"):
        return number * 1024, rest[1:]
    return number, rest


def _switches(option: Option, text: Optional[str], context: Context) -> Tuple[int, Optional[int]]:
    number, at, time = (text or "").partition("@")
    return parse_positive(option, number, context), switch_wait(time) if at else None


def switch_count(text: str) -> int:
    """What the variable for --switches says; ShimError as for the option."""
    return parse_positive(Option({"name": "switches"}), text, Context(0, 0, str))


def switch_wait(text: str) -> int:
    """Seconds of the wait of ``--switches``; no limit is -1, and ``INVALID`` stands for what is no time at all."""
    from shim.core.formats.times import parse_seconds_any

    try:
        return parse_seconds_any(text)
    except ValueError:
        return INVALID


def _priority(option: Option, text: Optional[str], context: Context) -> str:
    word = text or ""
    if word.upper() != "TOP":
        number = leading_int(word)[0] or 0
        if number < 0:
            raise UsageError("error: Priority must be >= 0")
        if number >= 0xFFFFFFFE:
            raise UsageError("error: Priority must be < 4294967294")
    return word


def priority(text: str) -> int:
    """The number of a ``--priority`` text as C reads it; TOP is the highest."""
    return 0xFFFFFFFD if text.upper() == "TOP" else leading_int(text)[0] or 0


def _signal(option: Option, text: Optional[str], context: Context) -> str:
    from shim.core.formats.signals import parse_signal_request

    try:
        parse_signal_request(text or "")
    except ValueError:
        raise invalid_value(option) from None
    return text or ""


def _step_signal(option: Option, text: Optional[str], context: Context) -> str:
    """The signal of srun and salloc, which have no batch shell (``B:``)."""
    from shim.core.formats.signals import scope_of

    if "B" in scope_of(text or "")[0]:
        raise invalid_value(option)
    return _signal(option, text, context)


def _signals(option: Option, text: Optional[str], context: Context) -> Tuple[int, ...]:
    """A list of signals that can be ignored."""
    from shim.core.formats.signals import parse_signal

    try:
        numbers = tuple(parse_signal(word) for word in (text or "").split(","))
    except ValueError:
        raise invalid_value(option) from None
    # KILL, STOP and the C library's own cannot be ignored.
    if any(number not in range(1, 65) or number in (9, 19, 32, 33) for number in numbers):
        raise invalid_value(option)
    return numbers


def _signal_name(option: Option, text: Optional[str], context: Context) -> int:
    """salloc --kill-command: a signal, TERM when none is named."""
    from shim.core.formats.signals import parse_signal

    if not text:
        return 15
    try:
        number = parse_signal(text)
    except ValueError:
        raise invalid_value(option) from None
    if not number:
        raise invalid_value(option)
    return number


READERS: Dict[str, Callable[[Option, Optional[str], Context], Any]] = {
    "seconds": _seconds,
    "ports": _ports,
    "switch": _switch,
    "binary": _binary,
    "threads": _threads,
    "boot-delay": _boot_delay,
    "geometry": _geometry,
    "switches": _switches,
    "priority": _priority,
    "signal": _signal,
    "step-signal": _step_signal,
    "signals": _signals,
    "signal-name": _signal_name,
}
