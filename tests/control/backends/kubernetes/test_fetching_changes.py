"""Archives of what a job has changed, on their way from a leader to their places."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from shim.control.backends.kubernetes.api.stream_slots import Turns
from shim.control.backends.kubernetes.run.following import Follower
from shim.control.backends.kubernetes.run.stage_out import Destination, StageOut, StageReport
from shim.core.stage_out import Entry, Manifest
from shim.job import stage_out
from tests.control.backends.kubernetes.fakeleader import FakeLeader

KEY = b"k" * 32


def _archive(**files: bytes) -> bytes:
    from hashlib import sha256

    entries = [
        Entry(path=name, size=len(content), digest=sha256(content).hexdigest()) for name, content in files.items()
    ]
    return stage_out.head(Manifest(entries=tuple(entries))) + b"".join(files.values())


def test_files_are_in_their_places_before_the_end_is_told_and_go_on_after_a_break(tmp_path: Path) -> None:
    to = Destination(
        job_id=7,
        restart=0,
        root=str(tmp_path / "here"),
        folder=str(tmp_path / "run"),
        spool=str(tmp_path / "state/spool"),
    )
    (tmp_path / "run").mkdir()
    first, second = _archive(a=b"of node 0" * 100, same=b"0"), _archive(b=b"of node 1", same=b"1")
    told = [
        {"do": "changes", "stream": str((1 << 30) + node), "node": node, "round": 1, "bytes": len(archive)}
        for node, archive in enumerate((first, second))
    ]

    async def inside() -> None:
        leader = FakeLeader(KEY)
        lines: list[str] = []
        reports: list[StageReport] = []

        async def dial() -> Any:
            there, here = socket.socketpair()
            leader.serve(there)
            return here

        follower = Follower(
            dial,
            lambda: KEY,
            Turns(20),
            0,
            lambda line: lines.append(line["kind"]),
            stage_out=lambda message: StageOut(message, to),
            returned=reports.append,
        )

        async def until(condition: Any) -> None:
            async with asyncio.timeout(20):
                while not condition():
                    await asyncio.sleep(0.01)

        def asked() -> list[tuple[str, int]]:
            return [(message["stream"], message["after"]) for message in leader.asked("output")]

        await until(lambda: follower.connected)
        leader.line("started")
        leader.say(told[0])
        leader.say(told[1])
        ended = {"do": "journal", "line": {"n": 2, "at": 2.0, "kind": "ended"}}
        leader.say(ended)  # a real one tells of changes first, also to who comes again
        await until(asked)
        assert asked() == [(told[0]["stream"], 0)]  # one after the other
        leader.print_file(int(str(told[0]["stream"])), first[:100])
        await until(lambda: leader.asked("credit"))
        await leader.close()  # the connection breaks in the middle
        await until(lambda: len(leader.asked("watch")) == 2)
        leader.say(told[0])
        leader.say(told[1])
        leader.say(ended)
        await until(lambda: len(asked()) == 2)
        assert asked()[-1] == (told[0]["stream"], 100)
        leader.print_file(int(str(told[0]["stream"])), first[100:])
        await until(lambda: len(asked()) == 3)
        assert "ended" not in lines
        leader.print_file(int(str(told[1]["stream"])), second)
        await until(lambda: "ended" in lines)
        assert {path.name: path.read_text()[:9] for path in (tmp_path / "here").iterdir()} == {
            "a": "of node 0",
            "b": "of node 1",
            "same": "0",
            "same.slurm-7-1": "1",
        }
        assert [report.files for report in reports] == [2, 2]
        await follower.close()
        await leader.close()

    asyncio.run(inside())


def test_what_was_asked_for_is_there_when_all_of_it_has_come(tmp_path: Path) -> None:
    to = Destination(
        job_id=7,
        restart=0,
        root=str(tmp_path / "here"),
        folder=str(tmp_path / "run"),
        spool=str(tmp_path / "state/spool"),
    )
    (tmp_path / "run").mkdir()
    archive = _archive(part=b"so far")

    async def inside() -> None:
        leader = FakeLeader(KEY)
        reports: list[StageReport] = []
        here: list[str] = []

        async def dial() -> Any:
            there, line = socket.socketpair()
            leader.serve(there)
            return line

        follower = Follower(
            dial,
            lambda: KEY,
            Turns(20),
            0,
            lambda line: None,
            stage_out=lambda m: StageOut(m, to),
            returned=reports.append,
        )

        async def until(condition: Any) -> None:
            async with asyncio.timeout(20):
                while not condition():
                    await asyncio.sleep(0.01)

        assert not follower.gather(lambda: here.append("unreached"))
        await until(lambda: follower.connected)
        assert follower.gather(lambda: here.append("first"))
        assert follower.gather(lambda: here.append("second"))
        await until(lambda: len(leader.asked("gather")) == 2)
        first, second = (message["number"] for message in leader.asked("gather"))
        leader.say({"do": "changes", "stream": str(1 << 30), "node": 0, "round": 1, "bytes": len(archive)})
        leader.say({"do": "gathered", "number": first})
        await until(lambda: leader.asked("output"))
        assert here == []  # it is on its way
        coming = follower.progress()
        assert coming is not None and (coming.what, coming.done, coming.all) == (
            "files of node 0 come",
            0,
            len(archive),
        )
        leader.print_file(1 << 30, archive)
        await until(lambda: here)
        assert follower.progress() is None
        assert here == ["first"]
        assert (tmp_path / "here/part").read_text() == "so far"
        assert [report.files for report in reports] == [1]
        leader.say({"do": "gathered", "number": second})  # nothing has changed since
        await until(lambda: len(here) == 2)
        assert here == ["first", "second"]
        await follower.close()
        await leader.close()

    asyncio.run(inside())
