"""Signals: of a job before its end, of a step, those that are ignored, and that of salloc's command."""

from __future__ import annotations

from shim.core.options.scan import bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple

    from shim.core.options.option import Option
    from shim.core.options.scan import Context


def _signal(option: Option, text: Optional[str], context: Context) -> str:
    from shim.core.formats.signals import parse_signal_request

    try:
        parse_signal_request(text or "")
    except ValueError:
        raise bad(option) from None
    return text or ""


def _step_signal(option: Option, text: Optional[str], context: Context) -> str:
    """The signal of srun and salloc, which have no batch shell (``B:``)."""
    from shim.core.formats.signals import scope_of

    if "B" in scope_of(text or "")[0]:
        raise bad(option)
    return _signal(option, text, context)


def _signals(option: Option, text: Optional[str], context: Context) -> Tuple[int, ...]:
    """A list of signals that can be ignored."""
    from shim.core.formats.signals import parse_signal

    try:
        numbers = tuple(parse_signal(word) for word in (text or "").split(","))
    except ValueError:
        raise bad(option) from None
    if any(
        number not in range(1, 65) or number in (9, 19, 32, 33) for number in numbers
    ):  # KILL, STOP, the C library's own
        raise bad(option)
    return numbers


def _signal_name(option: Option, text: Optional[str], context: Context) -> int:
    """salloc --kill-command: a signal, TERM when none is named."""
    from shim.core.formats.signals import parse_signal

    if not text:
        return 15
    try:
        number = parse_signal(text)
    except ValueError:
        raise bad(option) from None
    if not number:
        raise bad(option)
    return number


READERS: Dict[str, Callable[[Option, Optional[str], Context], Any]] = {
    "signal": _signal,
    "step-signal": _step_signal,
    "signals": _signals,
    "signal-name": _signal_name,
}
