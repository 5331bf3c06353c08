"""Signals agree with the C library's; ``--signal`` as sbatch takes it."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats import signals
from shim.core.model.request import SignalRequest

# Slurm's commands take no other names.
KNOWN = (
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


@pytest.mark.parametrize("known", [item for item in signal.Signals if not item.name.startswith("SIGRT")])
def test_names_are_the_systems(known: signal.Signals) -> None:
    assert signals.name_of(known) == known.name[3:]
    if known.name[3:] in KNOWN:
        assert signals.parse_signal(known.name) == known
        assert signals.parse_signal(f" {known.name[3:].lower()} ") == known
    else:
        with pytest.raises(ValueError):
            signals.parse_signal(known.name)
    assert signals.parse_signal(signals.name_to_give(known)) == known


def test_numbers() -> None:
    assert signals.parse_signal("15") == 15
    assert signals.parse_signal("99") == 99
    assert signals.name_of(99) == "99"


@pytest.mark.parametrize("text", ["", "FOO", "SIG", "SIG15", "²", "9 x", "USR1x", "WINCH"])
def test_bad_signals(text: str) -> None:
    with pytest.raises(ValueError):
        signals.parse_signal(text)


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("USR1", SignalRequest(number=10, lead=60, batch=False)),
        ("10@30", SignalRequest(number=10, lead=30, batch=False)),
        ("USR1@", SignalRequest(number=10, lead=0, batch=False)),
        ("USR1@ 7", SignalRequest(number=10, lead=7, batch=False)),
        ("USR1@65535", SignalRequest(number=10, lead=65535, batch=False)),
        ("65546", SignalRequest(number=10, lead=60, batch=False)),
        ("B:USR1@90", SignalRequest(number=10, lead=90, batch=True)),
        ("b:TERM@0", SignalRequest(number=15, lead=0, batch=True)),
        ("R:USR1", SignalRequest(number=10, lead=60, batch=False)),
        ("RB:SIGUSR2@5", SignalRequest(number=12, lead=5, batch=True)),
        (":USR1", SignalRequest(number=10, lead=60, batch=False)),
        ("BUSR1", SignalRequest(number=10, lead=60, batch=True)),
        ("USR1 @ 5", SignalRequest(number=10, lead=5, batch=False)),
        ("70000", SignalRequest(number=4464, lead=60, batch=False)),
        ("-1", SignalRequest(number=65535, lead=60, batch=False)),
    ],
)
def test_signal_requests(text: str, request_: SignalRequest) -> None:
    assert signals.parse_signal_request(text) == request_


@pytest.mark.parametrize(
    "text",
    ["", "abc", "USR1@abc", "X:USR1", "::USR1", "B::USR1", "BB:USR1", "0", "65536", "USR1@65536", "B:", "USR1@5 "],
)
def test_bad_signal_requests(text: str) -> None:
    with pytest.raises(ValueError):
        signals.parse_signal_request(text)


@given(st.builds(SignalRequest, number=st.integers(1, 0xFFFF), lead=st.integers(0, 0xFFFF), batch=st.booleans()))
def test_signal_requests_round_trip(wanted: SignalRequest) -> None:
    assert signals.parse_signal_request(signals.show_signal_request(wanted)) == wanted


@given(st.text("BR:@USRINT0123456789 -x", max_size=12))
def test_any_text_is_a_request_that_reads_back_or_a_value_error(text: str) -> None:
    try:
        wanted = signals.parse_signal_request(text)
    except ValueError:
        return
    assert signals.parse_signal_request(signals.show_signal_request(wanted)) == wanted


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (SignalRequest(number=10), "USR1"),
        (SignalRequest(number=10, lead=61), "USR1@61"),
        (SignalRequest(number=28, lead=60, batch=True), "B:28"),  # WINCH is no name that Slurm takes
    ],
)
def test_shown_requests(request_: SignalRequest, text: str) -> None:
    assert signals.show_signal_request(request_) == text
