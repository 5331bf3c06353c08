"""Durations and instants, as squeue and scontrol print them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats import times
from shim.core.model.request import INFINITE


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def pairs(table: str) -> list[tuple[str, str]]:
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


LIMITS = """
10 10:00          10:00 10:00       0:30 1:00          0:0:30 1:00        00:30 1:00         1:00:00 1:00:00
0:59 1:00         0:60 1:00         0:61 2:00          1:1 2:00           59:59 1:00:00      60:00 1:00:00
61:00 1:01:00     90 1:30:00        90:00 1:30:00      1440 1-00:00:00    1441 1-00:01:00    24:00:00 1-00:00:00
25:00:00 1-01:00:00                 100:00:00 4-04:00:00                  1-0 1-00:00:00     1- 1-00:00:00
1-2 1-02:00:00    1-2:3 1-02:03:00  1-2:3:4 1-02:04:00 1-25 2-01:00:00    1-24:00:00 2-00:00:00
1:90:00 2:30:00   1:0:90 1:02:00    365-0 365-00:00:00 0-0:10 10:00       0-0:0:10 1:00
0 UNLIMITED       0:0 UNLIMITED     -1 UNLIMITED       UNLIMITED UNLIMITED                   infinite UNLIMITED
2147483647 UNLIMITED                4294967295 UNLIMITED                  -5 INVALID         99999999 INVALID
"""


@pytest.mark.parametrize(("text", "shown"), pairs(LIMITS))
def test_time_limits_as_squeue_shows_them(text: str, shown: str) -> None:
    assert times.show_minutes(times.parse_minutes(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1.5",
        "1h",
        "10m",
        "1d",
        "+5",
        " 5",
        "5:",
        ":5",
        "1-:",
        "::",
        "1:2:3:4",
        "1-2-3",
        "1:2-3",
        "²",
        "-",
        "12:",
        "12:5:",
        "1--2",
    ],
)
def test_refused_time_limits(text: str) -> None:
    with pytest.raises(ValueError):
        times.parse_minutes(text)


def test_values_of_limits() -> None:
    assert times.parse_minutes("1:00:01") == 61
    assert times.parse_minutes("0") == INFINITE
    assert times.parse_minutes("71582785:46") == INFINITE  # 32 bits: less than no minutes, and -1 is no limit
    assert times.parse_minutes("71582784:46") == (1 << 32) - 2
    assert times.parse_seconds_any("1:30") == 90
    assert times.parse_seconds_any("infinite") == INFINITE
    assert (times.show_minutes(365 * 1440), times.show_minutes(365 * 1440 + 1)) == ("365-00:00:00", "INVALID")
    assert times.show_clock(60 * times.parse_minutes("-5")) == "2982611-04:17:00"


@given(st.integers(1, 365 * 1440))
def test_shown_limits_read_back(minutes: int) -> None:
    assert times.parse_minutes(times.show_minutes(minutes)) == minutes


@given(st.text(alphabet="0123456789:- .mh", max_size=12))
def test_any_text_is_a_limit_or_a_value_error(text: str) -> None:
    try:
        minutes = times.parse_minutes(text)
    except ValueError:
        return
    assert 0 < minutes < 1 << 32 or minutes == INFINITE


@pytest.mark.parametrize(
    ("seconds", "elapsed", "clock"),
    [
        (0, "0:00", "00:00:00"),
        (3, "0:03", "00:00:03"),
        (3723.9, "1:02:03", "01:02:03"),
        (93784, "1-02:03:04", "1-02:03:04"),
        (-1, "INVALID", "INVALID"),
    ],
)
def test_durations(seconds: float, elapsed: str, clock: str) -> None:
    assert times.show_elapsed(seconds) == elapsed
    assert times.show_clock(seconds) == clock


def test_no_limit() -> None:
    assert times.show_minutes(None) == "UNLIMITED"


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (None, "2026-11-20T17:22:40"),
        ("", "2026-11-20T17:22:40"),
        ("standard", "2026-11-20T17:22:40"),
        ("%s", "1795195360"),
        ("%d.%m.%Y", "20.11.2026"),
    ],
)
def test_stamps(utc: None, form: str | None, shown: str) -> None:
    assert times.stamp(1795195360.7, form) == shown


@pytest.mark.parametrize(
    ("days", "shown"),
    [
        (0, "17:22:40"),
        (1, "Ystday 17:22"),
        (-1, "Tomorr 17:22"),
        (-3, "Fri 17:22"),
        (-6, "Fri 17:22"),
        (-7, "20 Nov 17:22"),
        (2, "20 Nov 17:22"),
        (10, "20 Nov 17:22"),
        (42, "20 Nov 2026"),  # across a new year every day is far
        (1000, "20 Nov 2026"),
    ],
)
def test_relative_stamps(utc: None, days: int, shown: str) -> None:
    assert times.stamp(1795195360, "relative", 1795195360 + days * 86400) == shown


def test_no_instant() -> None:
    assert times.stamp(0) == "Unknown"
    assert times.stamp(1e30) == "Unknown"
