"""Files of a job's output on the submitting machine: made as Slurm makes them, filled from what comes, and never waited for by others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.control.backends.kubernetes.run.output import Output, Refused, StepFile, begin
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.test_following import Line

LIMIT = 60.0  # seconds; only ends a test that has failed


@pytest.fixture
def private() -> Iterator[None]:
    """The umask of a controller."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.parametrize(("append", "base", "text"), [(False, 0, "new\n"), (True, 4, "old\nnew\n")])
def test_output_goes_behind_what_was_there(tmp_path: Path, append: bool, base: int, text: str) -> None:
    path = tmp_path / "out"
    path.write_text("old\n")

    async def inside() -> None:
        assert begin(str(path), append, 0o077) == base
        output = Output("stdout", str(path), base)
        assert await output.taken() == 0
        await output.add(b"new\n")
        assert (await output.taken(), path.read_text()) == (4, text)

    clock.run(inside())


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_a_new_file_has_the_submitter_s_mode(private: None, tmp_path: Path, umask: int, mode: int) -> None:
    path = tmp_path / "out"
    begin(str(path), False, umask)
    assert path.stat().st_mode & 0o777 == mode


def test_a_file_that_is_there_keeps_its_mode(private: None, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.touch()
    path.chmod(0o640)
    begin(str(path), False, 0o022)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(tmp_path: Path, there: bool) -> None:
    goal, path = tmp_path / "goal", tmp_path / "out"
    if there:
        goal.write_text("before")
    path.symlink_to(goal)

    async def inside() -> None:
        assert begin(str(path), False, 0o022) == 0
        output = Output("stdout", str(path))
        await output.add(b"out")
        assert (await output.taken(), goal.read_text()) == (3, "out")
        assert path.is_symlink()

    clock.run(inside())


def test_a_folder_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        begin(str(tmp_path), False, 0o022)


def test_a_named_pipe_without_a_reader_holds_up_nobody_else(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def inside() -> None:
        assert begin(str(pipe), False, 0o022) == 0
        line, other = Line(outputs=(Output("stdout", str(pipe)),)), Line()
        async with asyncio.timeout(LIMIT):
            while not line.leader.asked("output"):
                await asyncio.sleep(0.01)
            line.leader.print(b"hello ")
            other.leader.line("started")
            line.leader.line("started")
            while not (other.told and line.told):
                await asyncio.sleep(0.01)
            assert line.leader.asked("credit") == []
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            while not line.leader.asked("credit"):
                await asyncio.sleep(0.01)
            line.leader.print(b"world")
            while len(line.leader.asked("credit")) < 2:
                await asyncio.sleep(0.01)
            assert os.read(reader, 100) == b"hello world"
            line.leader.line("ended")
            line.leader.say({"do": "output-end", "stream": "stdout"})
            while line.told != [1, 2]:
                await asyncio.sleep(0.01)
        await line.end()
        await other.end()
        os.set_blocking(reader, True)
        assert os.read(reader, 100) == b""  # the end comes with the end of the run
        os.close(reader)

    asyncio.run(inside())


def test_a_pipe_s_output_is_not_repeated_after_a_break(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    async def inside() -> None:
        output = Output("stdout", str(pipe))
        await output.add(b"hello")
        assert await output.taken() == 5
        output.close()

    clock.run(inside())
    os.close(reader)


def _told(path: Path, **words: object) -> dict[str, object]:
    return {"stream": "1", "path": str(path), "append": False, "mode": 0o644, "round": 0, **words}


def test_a_step_s_file_is_made_where_it_was_named(private: None, tmp_path: Path) -> None:
    work, noted = tmp_path / "work", str(tmp_path / "noted")
    work.mkdir()
    path = work / "logs" / "of" / "one.txt"

    async def inside() -> None:
        file = StepFile(_told(path), str(work), noted)
        assert await file.taken() == 0
        await file.add(b"hello")
        assert path.read_bytes() == b"hello"
        assert path.stat().st_mode & 0o777 == 0o644
        assert path.parent.stat().st_mode & 0o777 == 0o755
        again = StepFile(_told(path), str(work), noted)  # another controller
        assert await again.taken() == 5
        anew = StepFile(_told(path, round=1), str(work), noted)
        anew.follow(again)
        assert (await anew.taken(), path.read_bytes()) == (0, b"")

    clock.run(inside())


def test_what_is_added_to_a_step_s_file_goes_behind_what_was_there(tmp_path: Path) -> None:
    path, noted = tmp_path / "one.txt", str(tmp_path / ".noted")
    path.write_bytes(b"before ")

    async def inside() -> None:
        for _ in range(2):
            file = StepFile(_told(path, append=True), str(tmp_path), noted)
            if not await file.taken():
                await file.add(b"after")
        assert path.read_bytes() == b"before after"

    clock.run(inside())


@pytest.mark.parametrize("name", ["../out", ".ssh/keys", "run.sh", "link/out", "here", "folder"])
def test_pods_cannot_write_what_they_may_not(tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "folder").mkdir()
    (work / "run.sh").write_text("mine")
    (work / "run.sh").chmod(0o755)
    (tmp_path / "other").mkdir()
    (work / "link").symlink_to(tmp_path / "other")
    (work / "here").symlink_to(tmp_path / "goal")
    before = sorted(str(path) for path in tmp_path.rglob("*"))

    async def inside() -> None:
        file = StepFile(_told(work / name), str(work), str(tmp_path / "noted"))
        with pytest.raises(Refused):
            await file.taken()

    clock.run(inside())
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert (work / "run.sh").read_text() == "mine"


def test_pods_cannot_write_into_our_own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_HOST_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(Refused):
        StepFile(_told(tmp_path / "state" / "index.db"), str(tmp_path), str(tmp_path / "noted"))._taken()


def test_step_files_are_followed_until_the_end(tmp_path: Path) -> None:
    async def inside() -> None:
        line = Line(step_file=lambda told: StepFile(told, str(tmp_path), str(tmp_path / ".noted")))
        path = tmp_path / "one.txt"
        await asyncio.sleep(1)
        assert line.leader.asked("watch")[0]["files"]
        line.leader.say({"do": "file", **_told(path)})
        await asyncio.sleep(1)
        assert line.leader.asked("output") == [{"do": "output", "stream": "1", "after": 0, "round": 0}]
        line.leader.print_file(1, b"first")
        await asyncio.sleep(1)
        await line.cut()
        await asyncio.sleep(1)
        line.leader.say({"do": "file", **_told(path)})
        await asyncio.sleep(1)
        assert [one["after"] for one in line.leader.asked("output")] == [0, 5]
        line.leader.say({"do": "file", **_told(path, round=1)})
        line.leader.line("ended")
        await asyncio.sleep(1)
        assert line.leader.asked("output")[-1] == {"do": "output", "stream": "1", "after": 0, "round": 1}
        line.leader.print_file(1, b"anew")
        line.leader.say({"do": "output-end", "stream": "1"})
        await asyncio.sleep(1)
        assert (path.read_bytes(), line.told) == (b"anew", [1])
        await line.end()

    clock.run(inside())


def test_what_is_still_being_written_counts_for_who_asks_next(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def inside() -> None:
        given_up, next_one = Output("stdout", str(pipe)), Output("stdout", str(pipe))
        writing = asyncio.ensure_future(given_up.add(b"late"))
        await asyncio.sleep(0.05)
        writing.cancel()
        asking = asyncio.ensure_future(next_one.taken())
        assert not (await asyncio.wait([asking], timeout=0.1))[0]
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        await asyncio.wait_for(asking, LIMIT)
        assert os.read(reader, 10) == b"late"
        given_up.close()
        await next_one.taken()
        os.close(reader)

    asyncio.run(inside())
