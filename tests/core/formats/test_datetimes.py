"""Points in time: ``--begin`` as measured at 17:12:59 on 20 November 2026."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats.datetimes import WhenError, parse_when
from shim.core.formats.times import stamp


@pytest.fixture(autouse=True, scope="module")
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


NOW = 1795194779


def pairs(table: str) -> list[tuple[str, str]]:
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


BEGINS = """
now+1hour 2026-11-20T18:12:59       now+60 2026-11-20T17:13:59         now+5minutes 2026-11-20T17:17:59
now+2days 2026-11-22T17:12:59       now+1weeks 2026-11-27T17:12:59     tomorrow 2026-11-21T00:00:00
16:00 2026-11-21T16:00:00           23:59:30 2026-11-20T23:59:30       midnight 2026-11-21T00:00:00
noon 2026-11-21T12:00:00            teatime 2026-11-21T16:00:00        fika 2026-11-21T15:00:00
today 2026-11-20T00:00:00           2030-01-20 2030-01-20T00:00:00     2030-01-20T12:34:00 2030-01-20T12:34:00
2030-01-20T12:34 2030-01-20T12:34:00                                   010130 2030-01-01T00:00:00
01/01/30 2030-01-01T00:00:00        1/1 2027-01-01T00:00:00            now 2026-11-20T17:12:59
10:30pm 2026-11-20T22:30:00         now-1hour 2026-11-20T16:12:59      12:15am 2026-11-21T00:15:00
12:15pm 2026-11-21T12:15:00         12.24.27 2027-12-24T00:00:00       1224 2026-12-24T00:00:00
now+1second 2026-11-20T17:13:00     now+2seconds 2026-11-20T17:13:01   now+1minute 2026-11-20T17:13:59
now+2hours 2026-11-20T19:12:59      now+1day 2026-11-21T17:12:59       now+1week 2026-11-27T17:12:59
1224-10:00 2026-12-24T10:00:00      12/24-noon 2026-12-24T12:00:00     122427-10:00 2027-12-24T10:00:00
tomorrowT10:00 2026-11-21T10:00:00  todayTnoon 2026-11-20T12:00:00     1/1T9:00 2027-01-01T09:00:00
10:00:59 2026-11-21T10:00:59        00:00 2026-11-21T00:00:00          12/31/26 2026-12-31T00:00:00
"""


@pytest.mark.parametrize(("text", "shown"), pairs(BEGINS))
def test_begin(text: str, shown: str) -> None:
    assert stamp(parse_when(text, NOW)) == shown


def test_other_forms() -> None:
    assert parse_when("", NOW) == 0
    assert parse_when("uts1795194779", 0) == NOW
    assert stamp(parse_when("2030-01-20 12:34 ", NOW)) == "2030-01-20T12:34:00"
    assert parse_when("now + 2 minutes", NOW) == NOW + 120
    assert stamp(parse_when("noon 12/24", NOW)) == "2026-12-24T12:00:00"
    assert stamp(parse_when("teatime tomorrow", NOW)) == "2026-11-21T16:00:00"
    assert stamp(parse_when("10:00   pm", NOW)) == "2026-11-20T22:00:00"
    assert stamp(parse_when("12:00 am", NOW)) == "2026-11-21T00:00:00"
    assert stamp(parse_when("12/24/99", NOW)) == "2099-12-24T00:00:00"
    assert parse_when("uts1000000", NOW) == 1_000_000
    assert parse_when("now+999999999999", NOW) == NOW + 999_999_999_999


def test_a_time_that_is_now() -> None:
    """A bare time of day is tomorrow's; with its date it is now, and not a year away."""
    assert stamp(parse_when("17:12:59", NOW)) == "2026-11-21T17:12:59"
    assert parse_when("17:12:59", NOW, past=True) == NOW
    for past in (False, True):
        assert parse_when("11/20T17:12:59", NOW, past) == NOW


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("abc", 0),
        ("25:00", 0),
        ("1hour", 1),
        ("10pm", 2),
        ("now+3x", 4),
        ("2030-13-01", 5),
        ("now+", 3),
        ("uts12", 0),
        ("16:00 xyz", 6),
        ("midnight abc", 9),
        ("10:00:60", 6),
        ("10:000", 4),
        ("10:00:5", 7),
        ("13:00am", 5),
        ("uts999999", 0),
        ("1x:30", 1),
        ("12:5", 4),
        ("2030-01:20", 0),
        ("1224-25", 5),
        ("12.24-27", 6),
        ("1224:10", 4),
        ("24:00", 0),
        ("10:60", 3),
        ("2030-12-32", 8),
        ("2030-00-10", 5),
        ("13/1", 0),
        ("0/1", -1),
        ("12/32", 3),
    ],
)
def test_refused_with_the_position(text: str, position: int) -> None:
    with pytest.raises(WhenError) as caught:
        parse_when(text, NOW)
    assert caught.value.position == position
    assert str(caught.value) == f"Invalid time specification (pos={position}): {text}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("16:00", "2026-11-20T16:00:00"), ("12/24", "2025-12-24T00:00:00"), ("1/1", "2026-01-01T00:00:00")],
)
def test_the_past_for_accounting(text: str, shown: str) -> None:
    assert stamp(parse_when(text, NOW, past=True)) == shown


@given(st.text(alphabet="nowtda+-:/.0123456789pmhT ", max_size=16))
def test_any_text_is_an_instant_or_a_when_error(text: str) -> None:
    try:
        assert isinstance(parse_when(text, NOW), int)
    except WhenError as error:
        assert -1 <= error.position <= len(text)


@given(st.integers(10**9, 4 * 10**9))
def test_stamps_read_back(epoch: int) -> None:
    assert parse_when(stamp(epoch), NOW) == epoch


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1899-01-01", "2027-01-01T00:00:00"),  # -1 years after 1900: none is given
        ("1899-12-31T23:59:59", "2026-12-31T23:59:59"),
        ("1900-01-01", "1900-01-01T00:00:00"),
        ("1800-02-28", "1800-02-28T00:00:00"),
    ],
)
def test_years_of_long_ago(text: str, expected: str) -> None:
    when = parse_when(text, NOW)
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(when)) == expected


def test_the_second_that_stands_for_a_failure() -> None:
    with pytest.raises(WhenError, match="pos=19"):
        parse_when("1969-12-31T23:59:59", NOW)
    assert parse_when("1969-12-31T23:59:58", NOW) == -2
