"""What keys of a terminal are called, and what they change."""

from __future__ import annotations

import pytest

from shim.admin.top.keys import Decoder, Do, press
from shim.admin.top.snapshot import Entry
from shim.admin.top.state import FOLLOW, HELP, LIST, State
from tests.admin.top.test_page import entry

LISTED = [entry(number) for number in range(1, 31)]


def pressed(*keys: str, state: State | None = None, listed: list[Entry] | None = None) -> tuple[State, list[Do]]:
    state, done = state or State(), []
    for key in keys:
        state, do = press(state, key, LISTED if listed is None else listed, 10, "alice")
        if do is not None:
            done.append(do)
    return state, done


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"jk", ["j", "k"]),
        (b"\x1b[A\x1b[B\x1bOA", ["up", "down", "up"]),
        (b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[H", ["pgup", "pgdn", "home", "end", "home"]),
        (b"\x1b[1;5Cq", ["q"]),  # a key without a meaning here
        (b"\r\x7f\x0c", ["enter", "rubout", "redraw"]),
        ("é名".encode(), ["é", "名"]),
        (b"\x1bq", ["esc", "q"]),
        (b"\x00\x01", []),
        (b"\xff", ["\ufffd"]),
    ],
)
def test_bytes_are_keys(data: bytes, keys: list[str]) -> None:
    assert Decoder().feed(data) == keys
    slow = Decoder()
    assert [key for number in range(len(data)) for key in slow.feed(data[number : number + 1])] == keys


def test_only_time_tells_an_escape() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.pending
    assert decoder.settle() == ["esc"]
    assert not decoder.pending
    assert decoder.feed(b"\x1b[") == []
    assert decoder.settle() == ["esc", "["]


def test_the_selection_moves_and_stays_in_the_list() -> None:
    assert pressed("down")[0].selected == "2"
    assert pressed("down", "up", "up")[0].selected == "1"
    assert pressed("pgdn")[0].selected == "11"
    assert pressed("end", "down")[0].selected == "30"
    assert pressed("end", "home")[0].selected == "1"
    assert pressed("down", listed=[])[0].selected == ""


def test_cancelling_asks_and_only_y_means_yes() -> None:
    state, done = pressed("down", "c")
    assert state.asked == "Cancel job 2, job2, of alice"
    assert not done
    for key in ("n", "q", "esc", "enter", "c"):
        after, done = pressed(key, state=state)
        assert (after.asked, done) == ("", [])
    after, done = pressed("y", state=state)
    assert [do.words for do in done] == [("scancel", "-M", "local", "2")]


def test_a_job_that_went_meanwhile_is_not_cancelled_nor_another() -> None:
    state, _ = pressed("c")
    after, done = pressed("y", state=state, listed=LISTED[1:])
    assert done == []
    assert after.failed


@pytest.mark.parametrize(
    ("key", "words"),
    [("h", ("scontrol", "-M", "local", "hold", "1")), ("r", ("scontrol", "-M", "local", "release", "1"))],
)
def test_hold_and_release_are_commands_of_slurm(key: str, words: tuple[str, ...]) -> None:
    assert [do.words for do in pressed(key)[1]] == [words]


def test_what_is_typed_filters() -> None:
    assert pressed("u", "b", "o", "x", "rubout", "b", "enter")[0].user == "bob"
    assert pressed("/", "q", "enter")[0].text == "q"
    assert pressed("/", "q", "esc")[0] == State()
    assert pressed("m")[0].user == "alice"
    assert pressed("m", "m")[0].user == ""
    assert pressed("s", "m", "/", "x", "enter", "esc")[0].place == State().place


def test_modes() -> None:
    assert pressed("f")[0].mode == FOLLOW
    assert pressed("f", "up", "pgup")[0].back == 11
    assert pressed("f", "pgup", "end")[0].back == 0
    state, done = pressed("f", "q")
    assert (state.mode, done) == (LIST, [])
    assert pressed("?")[0].mode == HELP
    assert pressed("?", "q")[0].mode == LIST
    assert [do.what for do in pressed("q")[1]] == ["quit"]
    assert pressed("f", listed=[])[0].failed
