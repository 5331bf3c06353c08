"""When entries of a crontab are due. The spellings and mistakes are those of a real scrontab 22.05."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shim.core.formats.cron import CronError, Schedule, parse, split

NOW = 1_795_650_745  # Wed 2026-11-25 23:52:25 UTC


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", getattr(request, "param", "UTC"))
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("text", "shown", "due"),
    [
        ("* * * * *", "* * * * *", "2026-11-25T23:53:00"),
        ("@hourly", "0 0-23 * * *", "2026-11-26T00:00:00"),
        ("@HOURLY", "0 0-23 * * *", "2026-11-26T00:00:00"),
        ("@daily", "0 0 * * *", "2026-11-26T00:00:00"),
        ("@midnight", "0 0 * * *", "2026-11-26T00:00:00"),
        ("@weekly", "0 0 * * 0", "2026-11-29T00:00:00"),
        ("@monthly", "0 0 1 * *", "2026-12-01T00:00:00"),
        ("@yearly", "0 0 1 1 *", "2027-01-01T00:00:00"),
        ("@annually", "0 0 1 1 *", "2027-01-01T00:00:00"),
        ("5 4 * * sun", "5 4 * * 0", "2026-11-29T04:05:00"),
        ("0 0 1 jan *", "0 0 1 1 *", "2027-01-01T00:00:00"),
        ("* * * * MON", "* * * * 1", "2026-11-30T00:00:00"),
        ("60 * * * *", "0 * * * *", "2026-11-26T00:00:00"),
        ("* 24 * * *", "* 0 * * *", "2026-11-26T00:00:00"),
        ("* * * * 7", "* * * * 0", "2026-11-29T00:00:00"),
        ("* * * * 0-7", "* * * * 0-6", "2026-11-25T23:53:00"),
        ("*/5 * * * *", "0,5,10,15,20,25,30,35,40,45,50,55 * * * *", "2026-11-25T23:55:00"),
        ("*/7 * * * *", "0,7,14,21,28,35,42,49,56 * * * *", "2026-11-25T23:56:00"),
        ("1-10/3 * * * *", "3,6,9 * * * *", "2026-11-26T00:03:00"),
        ("1,2,3-5/2 * * * *", "2,4 * * * *", "2026-11-26T00:02:00"),
        ("1,2,10-15/5 * * * *", "10,15 * * * *", "2026-11-26T00:10:00"),
        ("20/5 * * * *", "20 * * * *", "2026-11-26T00:20:00"),
        ("1-5,7 * * * *", "1-5,7 * * * *", "2026-11-26T00:01:00"),
        ("0 8-10/2 * * *", "0 8,10 * * *", "2026-11-26T08:00:00"),
        ("-1 * * * *", "0-1 * * * *", "2026-11-26T00:00:00"),
        ("0 0 1 * 1", "0 0 1 * 1", "2026-11-30T00:00:00"),  # a Monday, or the first
        ("0 0 1-31 * 1", "0 0 1-31 * 1", "2026-11-26T00:00:00"),
        ("0 0 29 2 *", "0 0 29 2 *", "2028-02-29T00:00:00"),
    ],
)
def test_what_is_due_when(text: str, shown: str, due: str) -> None:
    found = parse(text)
    assert str(found) == shown
    assert parse(shown) == found or text in ("* * * * 0-7",)
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(found.after(NOW))) == due


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("* * * * x", "bad day specification"),
        ("* * * mon-fri *", "bad month specification"),
        ("* * * 13 *", ""),
        ("* * 0 * *", ""),
        ("* * 32 * *", ""),
        ("* * * * 8", ""),
        ("61 * * * *", ""),
        ("20-70 * * * *", ""),
        ("5-1 * * * *", ""),
        ("1-10/3,20 * * * *", ""),
        ("1- * * * *", ""),
        (",1 * * * *", ""),
        ("*,5 * * * *", ""),
        ("5,* * * * *", ""),
        ("*-5 * * * *", ""),
        ("a * * * *", ""),
        ("* * * * mon-fri", ""),
        ("* * * * monday", ""),
        ("* * * jan,feb *", ""),
        ("*/0 * * * *", "bad step value"),
        ("0 0 31 2 *", ""),
        ("0 0 30-31 feb *", ""),
        ("@reboot", "invalid @ line"),
        ("@nope", "invalid @ line"),
        ("* * * *", ""),
    ],
)
def test_what_is_no_schedule(text: str, hint: str) -> None:
    with pytest.raises(CronError) as refused:
        parse(text)
    assert refused.value.hint == hint


@pytest.mark.usefixtures("zone")
def test_each_time_comes_after_the_one_before() -> None:
    schedule = parse("0,30 12 * * *")
    first = schedule.after(NOW)
    assert [schedule.after(first - 1) - first, schedule.after(first) - first] == [0, 1800]
    assert schedule.after(first + 1800) - first == 86400


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("zone", ["CET-1CEST,M3.5.0,M10.5.0/3"], indirect=True)
def test_clocks_that_change() -> None:
    before = 1_774_652_400  # 2026-03-28 00:00 CET; on the 29th there is no 02:30
    due = parse("30 2 * * *")
    dates = []
    for _ in range(3):
        before = due.after(before)
        dates.append(time.strftime("%d %H:%M", time.localtime(before)))
    assert dates == ["28 02:30", "30 02:30", "31 02:30"]
    autumn = 1_792_792_800  # 2026-10-24 00:00 CEST; on the 25th 02:30 comes twice
    first = due.after(due.after(autumn))
    assert time.strftime("%d %H:%M", time.localtime(first)) == "25 02:30"
    assert time.strftime("%d %H:%M", time.localtime(due.after(first))) == "26 02:30"
    often, before, count = parse("30 * * * *"), due.after(first) - 86400, 0
    while before < due.after(first):
        before, count = often.after(before), count + 1
    assert count == 24


def test_a_line() -> None:
    assert split("   0  0\t*  *  * true  it is ") == ("0 0 * * *", "true  it is ")
    assert split("@daily   a 'b  c'") == ("@daily", "a 'b  c'")
    for line in ("* * * * *", "@daily", "foo", "* * * * "):
        with pytest.raises(CronError):
            split(line)


def test_a_schedule_without_restrictions_is_every_minute() -> None:
    assert Schedule().after(120) == 180
