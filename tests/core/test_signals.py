"""Signals agree with the C library's; ``--signal`` as sbatch takes it."""

from __future__ import annotations

import signal

import pytest

from shim.core import signals
from shim.core.model.request import SignalRequest


@pytest.mark.parametrize("number", [number for number in range(1, 65) if number not in (32, 33)])
def test_texts_are_the_c_librarys(number: int) -> None:
    assert signals.describe(number) == signal.strsignal(number)


@pytest.mark.parametrize("known", [item for item in signal.Signals if not item.name.startswith("SIGRT")])
def test_names_are_the_systems(known: signal.Signals) -> None:
    assert signals.parse_signal(known.name) == known
    assert signals.parse_signal(known.name[3:].lower()) == known
    assert signals.parse_signal(signals.name_of(known)) == known


def test_numbers() -> None:
    assert signals.parse_signal("15") == 15
    assert signals.parse_signal("99") == 99
    assert signals.name_of(99) == "99"
    assert signals.describe(99) == "Unknown signal 99"


@pytest.mark.parametrize("text", ["", "FOO", "SIG", "-9", "SIG15", "²", "9 "])
def test_bad_signals(text: str) -> None:
    with pytest.raises(ValueError):
        signals.parse_signal(text)


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("USR1", SignalRequest(number=10, lead=60, batch=False)),
        ("10@30", SignalRequest(number=10, lead=30, batch=False)),
        ("B:USR1@90", SignalRequest(number=10, lead=90, batch=True)),
        ("b:TERM@0", SignalRequest(number=15, lead=0, batch=True)),
        ("R:USR1", SignalRequest(number=10, lead=60, batch=False)),
        ("RB:SIGUSR2@5", SignalRequest(number=12, lead=5, batch=True)),
    ],
)
def test_signal_requests(text: str, request_: SignalRequest) -> None:
    assert signals.parse_signal_request(text) == request_


@pytest.mark.parametrize("text", ["", "abc", "USR1@abc", "X:USR1", ":USR1", "0", "USR1@65536", "B:", "99999@1"])
def test_bad_signal_requests(text: str) -> None:
    with pytest.raises(ValueError):
        signals.parse_signal_request(text)
