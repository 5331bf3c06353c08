"""The line to a leader: its journal, its output, what it is sent, and whose turn a stream is."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

from shim.control.backends.base import Order
from shim.control.backends.kubernetes.api.stream_slots import Turns
from shim.control.backends.kubernetes.run.following import Follower
from shim.control.backends.kubernetes.run.output import Output
from shim.job import wire
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakeleader import FakeLeader

KEY = b"k" * 32


class Line:
    """A follower and its leader; the way to it can be closed."""

    def __init__(self, turns: Turns | None = None, outputs: tuple[Output, ...] = (), **more: Any) -> None:
        self.leader = FakeLeader(KEY)
        self.told: list[int] = []
        self.dialled = 0
        self.closed = False
        self.follower = Follower(
            self._dial, lambda: KEY, turns or Turns(), 0, lambda line: self.told.append(line["n"]), outputs, **more
        )

    async def _dial(self) -> socket.socket:
        self.dialled += 1
        if self.closed:
            raise ConnectionRefusedError
        here, there = socket.socketpair()
        self.leader.serve(there)
        return here

    async def cut(self) -> None:
        """The leader's connections break."""
        await self.leader.close()

    async def end(self) -> None:
        await self.follower.close()
        await self.leader.close()


def test_each_line_is_told_once_whatever_becomes_of_the_connection() -> None:
    async def inside() -> None:
        line = Line()
        line.leader.line("started")
        await asyncio.sleep(1)
        line.closed = True
        await line.cut()
        line.leader.line("step")
        await asyncio.sleep(60)
        assert not line.follower.connected
        assert 10 < line.dialled < 25  # less and less often
        line.closed = False
        await asyncio.sleep(6)
        assert line.told == [1, 2]
        line.leader.say({"do": "journal", "line": line.leader.lines[0]})
        line.leader.line("ended")
        await asyncio.sleep(1)
        assert (line.told, line.follower.over) == ([1, 2, 3], True)
        await line.end()

    clock.run(inside())


def test_a_pod_s_clock_is_not_ours() -> None:
    async def inside() -> None:
        told: list[dict[str, Any]] = []
        line = Line(wall=lambda: 50_000.0)
        line.follower._tell = told.append
        line.leader.line("started")  # at 1 by its own clock
        await asyncio.sleep(1)
        line.leader.say({"do": "clock", "at": 53_600.0})
        for number, at in enumerate((53_590.0, 53_700.0), 2):
            line.leader.say({"do": "journal", "line": {"n": number, "at": at, "kind": "step"}})
        line.leader.say({"do": "clock", "at": 50_001.0})
        line.leader.say({"do": "journal", "line": {"n": 4, "at": 49_000.0, "kind": "ended"}})
        await asyncio.sleep(1)
        assert [one["at"] for one in told] == [1.0, 49_990.0, 50_000.0, 49_000.0]
        await line.end()

    clock.run(inside())


def test_what_is_no_leader_of_this_run_is_not_believed() -> None:
    async def inside() -> None:
        line = Line()
        line.leader = FakeLeader(b"x" * 32)
        line.leader.line("ended")
        await asyncio.sleep(30)
        assert line.told == []
        assert not line.follower.connected and line.dialled > 3
        await line.end()

    clock.run(inside())


def test_an_order_is_repeated_until_it_is_obeyed() -> None:
    async def inside() -> None:
        line = Line()
        await asyncio.sleep(1)
        line.follower.order(Order(number=4, kind="signal", signal=10))
        await asyncio.sleep(1)
        await line.cut()
        await asyncio.sleep(10)
        assert [one["order"]["number"] for one in line.leader.asked("order")] == [4, 4]
        line.leader.say({"do": "done", "number": 4})
        await asyncio.sleep(1)
        await line.cut()
        await asyncio.sleep(10)
        assert len(line.leader.asked("order")) == 2
        await line.end()

    clock.run(inside())


def test_streams_are_shared_by_runs_with_nothing_to_do() -> None:
    async def inside() -> None:
        turns = Turns(1)
        one, other = Line(turns), Line(turns)
        await asyncio.sleep(5)
        assert (one.follower.connected, other.follower.connected) == (True, False)
        await asyncio.sleep(30)
        assert one.leader.asked("watch") and other.leader.asked("watch")
        one.leader.line("ended")
        other.leader.line("ended")
        await asyncio.sleep(30)
        assert (one.told, other.told) == ([1], [1])
        await one.end()
        await other.end()

    clock.run(inside())


def test_a_stream_is_not_given_away_while_an_order_is_under_way() -> None:
    async def inside() -> None:
        turns = Turns(1)
        one = Line(turns)
        one.follower.order(Order(number=1, kind="end"))
        await asyncio.sleep(1)
        other = Line(turns)
        await asyncio.sleep(60)
        assert (one.follower.connected, other.dialled) == (True, 0)
        one.leader.say({"do": "done", "number": 1})
        await asyncio.sleep(5)
        assert other.follower.connected
        await one.end()
        await other.end()

    clock.run(inside())


async def _of_many(count: int) -> list[Line]:
    """Runs that have begun, and have nothing to do, with two streams."""
    turns = Turns(2)
    lines = []
    for _ in range(count):
        lines.append(Line(turns))
        lines[-1].leader.line("started")
        await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    return lines


def test_beginnings_do_not_wait_for_runs_with_nothing_to_do() -> None:
    async def inside() -> None:
        lines = await _of_many(30)
        assert [line.told for line in lines] == [[1]] * 30
        for line in lines:
            await line.end()

    clock.run(inside())


def test_an_order_does_not_wait_for_runs_with_nothing_to_do() -> None:
    async def inside() -> None:
        lines = await _of_many(20)
        idle = [line for line in lines if not line.follower.connected]
        for line in idle[-3:]:
            line.follower.order(Order(number=1, kind="signal", signal=10))
        await asyncio.sleep(0.5)
        assert [len(line.leader.asked("order")) for line in idle[-3:]] == [1, 1, 0]  # there are two streams
        for line in idle[-3:]:
            line.leader.say({"do": "done", "number": 1})
        await asyncio.sleep(2)
        assert [len(line.leader.asked("order")) for line in idle[-3:]] == [1, 1, 1]
        for line in lines:
            await line.end()

    clock.run(inside())


def test_every_run_is_listened_to_in_its_turn() -> None:
    async def inside() -> None:
        lines = await _of_many(12)
        for line in lines:
            line.leader.line("step")
        await asyncio.sleep(80)
        assert [line.told for line in lines] == [[1, 2]] * 12
        for line in lines:
            await line.end()

    clock.run(inside())


def test_the_end_is_told_when_the_output_is_here(tmp_path: Path) -> None:
    async def inside() -> None:
        out = tmp_path / "out"
        line = Line(outputs=(Output("stdout", str(out)),))
        await asyncio.sleep(1)
        line.leader.print(b"first ")
        await asyncio.sleep(1)
        await line.cut()
        await asyncio.sleep(1)
        assert [one["after"] for one in line.leader.asked("output")] == [0, 6]
        line.leader.line("ended")
        line.leader.print(b"last\n")
        await asyncio.sleep(1)
        assert line.told == []
        line.leader.say({"do": "output-end", "stream": "stdout"})
        await asyncio.sleep(1)
        assert (line.told, out.read_bytes()) == ([1], b"first last\n")
        assert line.leader.asked("credit")[0] == {"do": "credit", "step": "batch", "bytes": 6, "stream": "stdout"}
        assert line.follower.outputs_left == []
        await line.end()

    clock.run(inside())


def test_the_end_counts_though_the_output_does_not_come(tmp_path: Path) -> None:
    async def inside() -> None:
        line = Line(outputs=(Output("stdout", str(tmp_path / "out")),))
        line.leader.line("ended")
        await asyncio.sleep(5)
        assert line.told == []
        await asyncio.sleep(10)
        assert line.told == [1]
        await line.end()

    clock.run(inside())


def test_output_that_cannot_be_written_for_a_while_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    async def inside() -> None:
        out, trouble = tmp_path / "results" / "out", list[str]()
        line = Line(outputs=(Output("stdout", str(out)),), trouble=trouble.append)
        await asyncio.sleep(1)
        line.leader.print(b"first ")
        await asyncio.sleep(10)
        assert trouble == [f"{out}: No such file or directory"]
        assert line.leader.asked("credit") == []
        out.parent.mkdir()
        assert line.leader.asked("output")[-1]["after"] == 0
        line.leader.print(b"first ")
        await asyncio.sleep(1)
        await line.cut()
        await asyncio.sleep(1)
        assert line.leader.asked("output")[-1]["after"] == 6
        assert (out.read_bytes(), trouble[-1]) == (b"first ", "")
        await line.end()

    clock.run(inside())


def test_the_end_does_not_wait_for_ever_for_a_folder_that_is_gone(tmp_path: Path) -> None:
    async def inside() -> None:
        line = Line(outputs=(Output("stdout", str(tmp_path / "gone" / "out")),))
        line.leader.line("ended")
        for second in range(90):
            line.leader.print(b"some")
            await asyncio.sleep(1)
            assert line.told == [] or second > 50
        assert line.told == [1]
        assert [output.stream for output in line.follower.outputs_left] == ["stdout"]
        await line.end()

    clock.run(inside())


def test_a_working_directory_is_sent_as_fast_as_it_is_taken_and_again_after_a_break(tmp_path: Path) -> None:
    async def inside() -> None:
        archive = tmp_path / "stage.tar.gz"
        archive.write_bytes(os.urandom(wire.WINDOW + 1000))
        line = Line(stage=str(archive))
        await asyncio.sleep(1)
        assert line.leader.asked("stage") == [{"do": "stage", "bytes": wire.WINDOW + 1000}]
        assert len(line.leader.staged) == wire.WINDOW
        found = line.follower.progress()
        assert found is not None and (found.unit, found.done, found.all) == ("bytes", wire.WINDOW, wire.WINDOW + 1000)
        await line.cut()
        line.leader.staged = b""
        await asyncio.sleep(1)
        line.leader.say({"do": "credit", "bytes": 5000})
        await asyncio.sleep(1)
        assert line.leader.staged == archive.read_bytes()
        line.leader.say({"do": "staged"})
        await asyncio.sleep(1)
        assert line.follower.progress() is None
        await line.cut()
        await asyncio.sleep(1)
        assert len(line.leader.asked("stage")) == 2
        await line.end()

    clock.run(inside())
