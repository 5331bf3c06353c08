"""Signals: names, numbers, the C library's texts, and ``--signal=[R][B]:num[@lead]``.

The numbers are Linux's on the common machines. The ``signal`` module would do, but it imports ``enum``, which read
commands cannot afford; a test compares the two.
"""

from __future__ import annotations

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
_NUMBERS = {name: number for number, name in enumerate(_NAMES, 1)}
_NUMBERS.update({"IOT": 6, "CLD": 17, "POLL": 29})

_TEXTS = (
    "Hangup",
    "Interrupt",
    "Quit",
    "Illegal instruction",
    "Trace/breakpoint trap",
    "Aborted",
    "Bus error",
    "Floating point exception",
    "Killed",
    "User defined signal 1",
    "Segmentation fault",
    "User defined signal 2",
    "Broken pipe",
    "Alarm clock",
    "Terminated",
    "Stack fault",
    "Child exited",
    "Continued",
    "Stopped (signal)",
    "Stopped",
    "Stopped (tty input)",
    "Stopped (tty output)",
    "Urgent I/O condition",
    "CPU time limit exceeded",
    "File size limit exceeded",
    "Virtual timer expired",
    "Profiling timer expired",
    "Window changed",
    "I/O possible",
    "Power failure",
    "Bad system call",
)
_FIRST_REALTIME, _LAST_REALTIME = 34, 64


def parse_signal(text: str) -> int:
    """The number of ``TERM``, ``SIGTERM``, ``term`` or ``15``; numbers without a name are taken. Raises ValueError."""
    if text.isascii() and text.isdigit() and len(text) < 6:
        return int(text)
    word = text.upper()
    number = _NUMBERS.get(word[3:] if word.startswith("SIG") else word)
    if number is None:
        raise ValueError(f"Invalid signal: {text}")
    return number


def name_of(number: int) -> str:
    """``TERM`` for 15; the number itself as text where there is no name."""
    return _NAMES[number - 1] if 1 <= number <= len(_NAMES) else str(number)


def describe(number: int) -> str:
    """The C library's text (strsignal): ``Terminated`` for 15."""
    if 1 <= number <= len(_TEXTS):
        return _TEXTS[number - 1]
    if _FIRST_REALTIME <= number <= _LAST_REALTIME:
        return f"Real-time signal {number - _FIRST_REALTIME}"
    return f"Unknown signal {number}"


def parse_signal_request(text: str) -> SignalRequest:
    """The value of ``--signal``. ``R`` (reservations) changes nothing here. Raises ValueError."""
    head, colon, rest = text.partition(":")
    batch = False
    if colon:
        letters = head.upper()
        if not letters or letters.strip("BR"):
            raise ValueError(f"Invalid signal: {text}")
        batch = "B" in letters
    else:
        rest = text
    word, at, lead = rest.partition("@")
    number = parse_signal(word)
    lead = lead or "0"  # ``USR1@`` is no mistake to Slurm
    if at and not (lead.isascii() and lead.isdigit() and len(lead) < 6 and int(lead) <= 0xFFFF):
        raise ValueError(f"Invalid signal time: {text}")
    if not 0 < number <= 0xFFFF:
        raise ValueError(f"Invalid signal: {text}")
    return SignalRequest(number=number, lead=int(lead) if at else 60, batch=batch)
