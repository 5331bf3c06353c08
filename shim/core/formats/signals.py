"""Signals: names, numbers, and ``--signal=[R][B]:num[@lead]``.

The numbers are Linux's on the common machines. The ``signal`` module would do, but it imports ``enum``, which read
commands cannot afford; a test compares the two.
"""

from __future__ import annotations

from shim.core.formats.integers import SPACE, is_number
from shim.core.model.request import SignalRequest

_NAMES = [
    "HUP",
    "INT",
    "QUIT",
    "ILL",
    "TRAP",
    "ABRT",
    "BUS",
    "FPE",
    "KILL",
    "USR1",
    "SEGV",
    "USR2",
    "PIPE",
    "ALRM",
    "TERM",
    "STKFLT",
    "CHLD",
    "CONT",
    "STOP",
    "TSTP",
    "TTIN",
    "TTOU",
    "URG",
    "XCPU",
    "XFSZ",
    "VTALRM",
    "PROF",
    "WINCH",
    "IO",
    "PWR",
    "SYS",
]
# The names that Slurm's commands know; any other signal has to be given as a number.
_KNOWN = (
    "HUP",
    "INT",
    "QUIT",
    "ABRT",
    "KILL",
    "USR1",
    "USR2",
    "ALRM",
    "TERM",
    "CONT",
    "STOP",
    "TSTP",
    "TTIN",
    "TTOU",
    "URG",
    "XCPU",
)
_NUMBERS = {name: number for number, name in enumerate(_NAMES, 1) if name in _KNOWN}


def parse_signal(text: str) -> int:
    """The number of ``TERM``, ``SIGTERM``, ``term`` or ``15``; numbers without a name are taken. Raises ValueError."""
    word = text.strip(SPACE)
    digits = word[1:] if word[:1] in ("+", "-") else word
    if is_number(digits, 9):
        return int(word)
    upper = word.upper()
    number = _NUMBERS.get(upper[3:] if upper.startswith("SIG") else upper)
    if number is None:
        raise ValueError(f"Invalid signal: {text}")
    return number


def name_of(number: int) -> str:
    """``TERM`` for 15; the number itself as text where there is no name."""
    return _NAMES[number - 1] if 1 <= number <= len(_NAMES) else str(number)


def parse_signal_request(text: str) -> SignalRequest:
    """The value of ``--signal``. ``R`` (reservations) changes nothing here. Raises ValueError.

    Slurm needs no colon after the letters, and none of them before it; a number loses what is above its 16 bits.
    """
    letters, rest = scope_of(text)
    word, at, lead = rest.partition("@")
    number = parse_signal(word) & 0xFFFF
    lead = lead.lstrip(SPACE) or "0"  # ``USR1@`` is no mistake to Slurm
    if at and not (is_number(lead, 5) and int(lead) <= 0xFFFF):
        raise ValueError(f"Invalid signal time: {text}")
    if not number:
        raise ValueError(f"Invalid signal: {text}")
    return SignalRequest(number=number, lead=int(lead) if at else 60, batch="B" in letters)


def scope_of(text: str) -> tuple[str, str]:
    """The letters R and B at the start of a ``--signal`` text, in capitals, and what follows them and their colon."""
    letters = ""
    while text[:1].upper() in ("R", "B") and text[0].upper() not in letters:
        letters, text = letters + text[0].upper(), text[1:]
    return letters, text[1:] if text[:1] == ":" else text


def show_signal_request(request: SignalRequest) -> str:
    """The text that ``parse_signal_request`` reads back to an equal value; the lead only if it is not the usual minute."""
    lead = "" if request.lead == 60 else f"@{request.lead}"
    return ("B:" if request.batch else "") + name_to_give(request.number) + lead


def name_to_give(number: int) -> str:
    """``TERM`` for 15; the number itself where Slurm's commands take no name."""
    name = name_of(number)
    return name if name in _NUMBERS else str(number)
