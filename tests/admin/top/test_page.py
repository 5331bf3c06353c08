"""The page of `shim top`: what is known and chosen goes in, lines come out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.admin.top import draw, listing
from shim.admin.top.cells import fitted, wide
from shim.admin.top.page import page
from shim.admin.top.snapshot import TARGET, Cells, ClusterLine, Entry, NodeLine, Snapshot, Span, total
from shim.admin.top.state import FOLLOW, HELP, State, Told, at

NOW = 1_795_196_163.0


class Job(Entry):
    """A job of which the page is told what it shows."""

    def cells(self, now: float) -> Cells:
        known = dict.fromkeys("iPjutMDRlLCSNE", "")
        return {
            **known,
            "i": str(self.job_id),
            "P": self.partition,
            "j": self.name,
            "u": self.user,
            "t": self.state[:1],
            TARGET: str(self.job_id),
        }


def entry(job_id: int, state: str = "PENDING", **fields: Any) -> Entry:
    values = {
        "cluster": "local",
        "name": f"job{job_id}",
        "user": "alice",
        "partition": "debug",
        "priority": 1000 - job_id,
        "submit": NOW - 60,
        "start": 0.0,
    }
    values.update(fields)
    return Job(values.pop("cluster"), job_id, f"{job_id}", state=state, **values)


def node(name: str, **fields: Any) -> NodeLine:
    return NodeLine(**{"cluster": "local", "name": name, "state": "idle", "cpus": 8, "memory": 16384, **fields})


def snapshot(*entries: Entry, nodes: tuple[NodeLine, ...] = (node("n1"),), **fields: Any) -> Snapshot:
    line = total("local", "local", nodes, one_machine=False, one_set_of_gpus=False)
    return Snapshot(**{"now": NOW, "clusters": [line], "nodes": nodes, "entries": entries, **fields})


def shown(
    known: Snapshot, state: State | None = None, told: Told | None = None, size: tuple[int, int] = (80, 24)
) -> list[str]:
    state = state or State()
    listed = state.listed(known.entries)
    chosen = listed[at(listed, state.selected)] if listed else None
    return [draw.plain(line) for line in page(known, listed, chosen, state, told or Told(), size)]


def test_those_that_run_come_first_then_who_is_next() -> None:
    found = [
        entry(1, priority=5),
        entry(2, priority=9),
        entry(3, "RUNNING", start=NOW - 9),
        entry(4, "RUNNING", start=NOW - 3),
        entry(5, priority=0),
    ]
    assert [one.job_id for one in listing.chosen(found)] == [4, 3, 2, 1, 5]
    assert [one.job_id for one in listing.chosen(found, order="id", reverse=True)] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({}, [3, 2, 1]),
        ({"state": "running"}, [3, 2]),
        ({"state": "pending"}, [1]),
        ({"state": "ended"}, [4]),
        ({"user": "bob"}, [2]),
        ({"text": "JOB3"}, [3]),
        ({"text": "1"}, [1]),
    ],
)
def test_the_list_has_what_is_asked_for(fields: dict[str, str], ids: list[int]) -> None:
    found = [
        entry(1),
        entry(2, "COMPLETING", user="bob", start=1.0),
        entry(3, "RUNNING", start=2.0),
        entry(4, "FAILED"),
    ]
    assert [one.job_id for one in listing.chosen(found, **fields)] == ids


def test_the_curve_is_what_was_in_use_on_average() -> None:
    spans = [
        Span(start=NOW - 100, end=NOW - 50, cpus=4),
        Span(start=NOW - 25, cpus=2, gpus=1),  # runs
        Span(start=NOW - 9000, end=NOW - 80, cpus=10),  # began before
        Span(start=NOW - 10, end=NOW - 10, cpus=99),  # never ran
    ]
    assert listing.curve(spans, NOW, 100, 4) == pytest.approx([4 + 10 * 20 / 25, 4, 0, 2])
    assert listing.curve(spans, NOW, 100, 4, gpus=True) == pytest.approx([0, 0, 0, 1])


def test_nodes_that_are_one_machine_are_counted_once() -> None:
    nodes = [node("n1", cpus_used=3, gpus=2, gpus_used=1), node("n2", cpus_used=3, gpus=2, gpus_used=1)]
    assert total("a", "local", nodes, one_machine=True, one_set_of_gpus=True) == ClusterLine(
        name="a", cpus=8, cpus_used=3, memory=16384, gpus=2, gpus_used=2
    )
    apart = total("a", "local", nodes, one_machine=False, one_set_of_gpus=False)
    assert (apart.cpus, apart.cpus_used, apart.gpus) == (16, 6, 4)


def test_the_page_says_what_is_in_use() -> None:
    nodes = (node("n1", state="mix", cpus_used=4, memory_used=2048, gpus=4, gpus_used=1), node("n2", state="drain"))
    lines = shown(snapshot(entry(1, "RUNNING"), entry(2), nodes=nodes))
    assert lines[0].startswith("shim top 1 running  1 pending  2 shown")
    assert lines[1] == "local              cpus ##........ 4/16  mem #......... 2.0/32G  gpus 1/4"
    assert "n1        mix       4/8   2.0/16G  1/4" in lines[4]
    assert "n2        drain     0/8     0/16G    -" in lines[4]


def test_of_many_nodes_those_in_use_are_shown() -> None:
    nodes = tuple(
        node(f"n{number:03}", state="mix" if number == 77 else "idle", cpus_used=number == 77) for number in range(100)
    )
    text = "\n".join(shown(snapshot(nodes=nodes)))
    assert "n077" in text
    assert "and 91 more, 91 of them idle" in text


def test_the_selected_job_is_in_sight_and_explained() -> None:
    entries = [entry(number) for number in range(1, 101)]
    told = Told(reasons=("It waits.",))
    for number in (1, 50, 100):
        lines = shown(snapshot(*entries), State(selected=str(number)), told)
        assert any(line.split()[:1] == [str(number)] for line in lines[6:18])
        assert any(line.startswith(f"-- {number} job{number} --") for line in lines)
        assert "It waits." in lines


def test_a_job_that_runs_shows_its_last_lines() -> None:
    told = Told(
        path="/w/out", output=[f"line {number}" for number in range(9)], reasons=("Its limit …",), uses="It uses much."
    )
    lines = shown(snapshot(entry(1, "RUNNING")), told=told)
    assert lines[-5:-1] == ["Its limit …", "It uses much.", "line 7", "line 8"]
    assert "/w/out is not there." in shown(snapshot(entry(1, "RUNNING")), told=Told(path="/w/out"))
    assert "/w/out is empty." in shown(snapshot(entry(1, "RUNNING")), told=Told(path="/w/out", output=()))


def test_followed_output_can_be_looked_back_at() -> None:
    told = Told(path="/w/out", output=[f"line {number}" for number in range(100)])
    known = snapshot(entry(1, "RUNNING"))
    assert shown(known, State(mode=FOLLOW), told)[-2] == "line 99"
    assert shown(known, State(mode=FOLLOW, back=10), told)[-2] == "line 89"
    assert shown(known, State(mode=FOLLOW, back=1000), told)[1] == "line 0"


def test_a_job_that_has_left_the_list_is_still_followed() -> None:
    told = Told(path="/w/out", output=["the end"])
    gone = entry(7, "RUNNING")
    lines = [
        draw.plain(line)
        for line in page(snapshot(entry(1)), [entry(1)], gone, State(mode=FOLLOW, selected="7"), told, (80, 24))
    ]
    assert lines[0].startswith("Output of 7 job7")


def test_nothing_of_a_name_or_an_output_is_obeyed() -> None:
    told = Told(path="/w/out", output=["\x1b[2Jgone\x07", "a\tb"])
    text = "\n".join(shown(snapshot(entry(1, "RUNNING", name="\x1b]0;x\x07", user="\u202eevil")), told=told))
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\t"}
    assert "\\x1b[2Jgone\\x07" in text


def test_troubles_are_said() -> None:
    assert "! k8s: it does not answer" in shown(snapshot(troubles=["k8s: it does not answer"]))


def test_what_is_asked_is_on_the_last_line() -> None:
    known = snapshot(entry(1))
    assert shown(known, State(asked="Cancel job 1"))[-1] == "Cancel job 1? y/n"
    assert shown(known, State(prompt="user", typed="al"))[-1].startswith("user: al_")
    assert shown(known, State(message="done"))[-1] == "done"


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(
    st.integers(40, 220),
    st.integers(8, 60),
    st.lists(_TEXT, max_size=30),
    st.integers(0, 40),
    st.sampled_from(["list", FOLLOW, HELP]),
    st.integers(0, 6),
)
def test_a_page_has_its_size_whatever_is_on_it(
    width: int, height: int, names: list[str], nodes: int, mode: str, clusters: int
) -> None:
    entries = [
        entry(number, "RUNNING" if number % 2 else "PENDING", name=name, user=name)
        for number, name in enumerate(names, 1)
    ]
    known = snapshot(
        *entries,
        nodes=tuple(node(f"node-of-a-long-name-{number}", gpus=8, cpus_used=number % 9) for number in range(nodes)),
        clusters=[
            ClusterLine(name=f"cluster {number}", cpus=1 << 20, cpus_used=1 << 19, memory=1 << 40, gpus=4096)
            for number in range(clusters)
        ],
        spans=[Span(start=NOW - 100, cpus=1000, gpus=3)],
        troubles=["x" * 300] * 3,
    )
    state = State(mode=mode, text="", message="".join(names))
    told = Told(reasons=["y " * 300], path="/" + "".join(names), output=names, uses="z" * 200)
    listed = state.listed(known.entries)
    lines = page(known, listed, listed[0] if listed else None, state, told, (width, height))
    assert len(lines) == height
    for line in lines:
        text = "".join(part for part, _ in line)
        assert wide(text) <= width
        assert "\x1b" not in text and "\n" not in text


@given(_TEXT, st.integers(0, 80))
def test_a_fitted_text_has_its_width(text: str, width: int) -> None:
    clean = "".join(letter for letter in text if letter.isprintable())
    assert wide(fitted(clean, width)) == width


def test_only_changed_lines_are_sent() -> None:
    painter = draw.Painter()
    assert painter.painted([[("a", "")], [("b", "bold")]]) == "\x1b[2J\x1b[1;1H\x1b[Ka\x1b[2;1H\x1b[K\x1b[1mb\x1b[0m"
    assert painter.painted([[("a", "")], [("c", "")]]) == "\x1b[2;1H\x1b[Kc"
    assert painter.painted([[("a", "")]]) == "\x1b[2;1H\x1b[K"
    painter.forget()
    assert painter.painted([[("a", "")]]) == "\x1b[2J\x1b[1;1H\x1b[Ka"


def test_terminals_without_colours_or_letters() -> None:
    line = [("▁█ 名", "green"), ("x", "reverse")]
    assert draw.obeyed(line, colours=False) == "▁█ 名\x1b[7mx\x1b[0m"
    assert draw.obeyed(line, colours=False, unicode=False) == ".@ ?\x1b[7mx\x1b[0m"


def test_the_picture_is_one_and_the_same() -> None:
    lines = [[("a<b", "bold"), ("名", "reverse")], []]
    found = draw.picture(lines, 10)
    assert found == draw.picture(lines, 10)
    assert "a&lt;b" in found
    assert found.startswith("<svg ")
