"""Leaders that are kept for the next run: which one is asked, when they go, and what becomes of a run that one of them cannot serve."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from shim.control import paths
from shim.control.backends.base import BackendError, Order, Run
from shim.control.backends.leader_link import LinkError, dial
from shim.control.backends.local import idle, runs
from shim.control.backends.local.backend import LocalBackend
from shim.control.backends.local.idle import IdleLeaders
from shim.control.backends.local.line import Line
from shim.core.model.cluster import Cluster
from shim.job.address import read_address
from tests.contract.support import Observer, Subject, start
from tests.job.agent.support import lives
from tests.support import wait_until


class Leaders:
    """Idle ones, by number, and the ends of their connections."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.idle = IdleLeaders(self.gone.append)
        self.ends: list[socket.socket] = []
        self.lines: list[Line] = []

    def add(self, place: str) -> None:
        ours, theirs = socket.socketpair()
        theirs.settimeout(30)
        self.ends.append(theirs)
        self.lines.append(Line(ours))
        self.idle.add(place, self.lines[-1])

    def take(self, place: str) -> int | None:
        line = self.idle.take(place)
        return None if line is None else self.lines.index(line)


def with_leaders(body: Callable[[Leaders], Coroutine[None, None, None]]) -> None:
    async def inside() -> None:
        leaders = Leaders()
        try:
            await body(leaders)
        finally:
            leaders.idle.close()
            for line, end in zip(leaders.lines, leaders.ends):
                line.close()
                end.close()

    asyncio.run(inside())


def test_the_last_to_work_at_a_place_is_asked_first() -> None:
    async def body(leaders: Leaders) -> None:
        for place in ("here", "here", "there"):
            leaders.add(place)
        assert [leaders.take("here") for _ in range(3)] == [1, 0, None]
        assert leaders.take("there") == 2

    with_leaders(body)


def test_one_that_ends_is_not_asked_and_one_that_says_something_is() -> None:
    async def body(leaders: Leaders) -> None:
        for _ in range(2):
            leaders.add("here")
        leaders.ends[1].close()
        leaders.ends[0].send(b'\0\0\0\x1aJ{"do":"done","number":1}')
        async with asyncio.timeout(30):
            while not leaders.lines[1].closed:
                await asyncio.sleep(0.001)
        assert [leaders.take("here") for _ in range(2)] == [0, None]

    with_leaders(body)


def test_they_go_when_nobody_needs_them_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "LINGER", 0.01)

    async def body(leaders: Leaders) -> None:
        for place in ("here", "there", "here"):
            leaders.add(place)
        taken = leaders.take("there")
        async with asyncio.timeout(30):
            while not (leaders.lines[0].closed and leaders.lines[2].closed):
                await asyncio.sleep(0.001)
        assert taken == 1
        assert not leaders.lines[1].closed
        assert leaders.take("here") is None

    with_leaders(body)


def test_what_their_last_runs_have_left_goes_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "LINGER", 1000)

    async def body(leaders: Leaders) -> None:
        for number, place in enumerate(("here", "here", "there", "here")):
            leaders.add(place)
            leaders.lines[-1].folder = f"folder{number}" if number else ""
        assert leaders.take("there") == 2  # whose folder is the taker's
        leaders.ends[3].close()
        async with asyncio.timeout(30):
            while not leaders.lines[3].closed:
                await asyncio.sleep(0.001)
        assert leaders.gone == ["folder3"]
        leaders.idle.close()
        assert leaders.gone == ["folder3", "folder1"]

    with_leaders(body)


class Scene:
    """A local backend with its real agents, and the agents that were asked of the fork server."""

    def __init__(self, backend: LocalBackend, observer: Observer, cluster: Cluster) -> None:
        self.backend = backend
        self.observer = observer
        self.cluster = cluster
        self.asked: list[str] = []
        spawn = backend._spawner.spawn

        async def spawned(run_dir: str, index: int, place: str, line: socket.socket | None = None) -> int:
            self.asked.append(os.path.basename(run_dir))
            return await spawn(run_dir, index, place, line)

        backend._spawner.spawn = spawned  # type: ignore[method-assign]

    async def start(self, script: str, job_id: int) -> Run:
        return await start(self.backend, self.cluster, script, job_id=job_id)

    async def done(self, run: Run) -> int:
        """Waits for the run's end, which is committed then; the pid of its leader."""
        ended = await self.observer.line(run, "ended")
        assert ended["state"] == "COMPLETED"
        await self.backend.forget(run)
        return int((await self.observer.line(run, "started"))["pid"])


def with_scene(body: Callable[[Scene], Coroutine[None, None, None]]) -> None:
    async def inside() -> None:
        subject = Subject("local")
        try:
            backend, observer, cluster = await subject.backend()
            assert isinstance(backend, LocalBackend)
            await body(Scene(backend, observer, cluster))
        finally:
            await subject.end()

    asyncio.run(inside())


def test_the_next_run_is_asked_of_the_same_leader(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        pids = [
            await scene.done(await scene.start(f"#!/bin/sh\necho $SLURM_JOB_ID >> {tmp_path}/out\n", number))
            for number in range(1, 6)
        ]
        assert scene.asked == ["1.0"]
        assert len(set(pids)) == 1
        assert (tmp_path / "out").read_text().split() == ["1", "2", "3", "4", "5"]

    with_scene(body)


async def _let_go() -> None:
    """Waits until the leader has let go of its last run's journal: one that still holds it gets a new one with its next run."""
    (gone,) = (name for name in os.listdir(paths.run_dir()) if name.startswith(".gone."))
    async with asyncio.timeout(30):
        while True:
            journal = os.open(f"{paths.run_dir()}/{gone}/journal", os.O_RDWR | os.O_CLOEXEC)
            try:
                if runs._free(journal):
                    return
            finally:
                os.close(journal)
            await asyncio.sleep(0.001)


def _inodes(run: Run) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(runs.folder(run))}


def test_the_next_run_has_the_folder_and_the_socket_of_the_last_one(tmp_path: Path) -> None:
    go = [tmp_path / f"go{number}" for number in range(4)]

    def script(number: int) -> str:
        return f"#!/bin/sh\nwhile ! test -e {go[number]}; do sleep 0.05; done\n# {'x' * 100 * (3 - number)}\n"

    async def body(scene: Scene) -> None:
        found, pids = [], []
        for number in (1, 2, 3):
            run = await scene.start(script(number), number)
            await scene.observer.line(run, "started")
            found.append(_inodes(run))
            assert (Path(runs.folder(run)) / "slurm_script").read_text() == script(number)
            go[number].touch()
            pids.append(await scene.done(run))
            await _let_go()
        assert found[0] == found[1] == found[2]
        assert len(set(pids)) == 1
        assert sorted(found[0]) == ["journal", "leader.sock", "slurm_script", "spec.json"]

    with_scene(body)


def test_who_asks_a_kept_leader_by_its_socket_must_know_the_new_key(tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def body(scene: Scene) -> None:
        first = await scene.start("#!/bin/sh\ntrue\n", 1)
        old = runs.key(first)
        await scene.done(first)
        run = await scene.start(f"#!/bin/sh\nwhile ! test -e {go}; do sleep 0.05; done\n", 2)
        await scene.observer.line(run, "started")
        address = read_address(runs.folder(run))
        stranger = await dial(address, old)
        with pytest.raises(LinkError):
            await stranger.receive()
        await stranger.close()
        link = await dial(address, runs.key(run))
        link.send({"do": "watch", "after": 0})
        assert (await link.receive())["line"]["kind"] == "started"
        await link.close()
        go.touch()
        await scene.done(run)

    with_scene(body)


def test_a_folder_in_which_a_job_left_something_is_not_used_again(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        pids = [await scene.done(await scene.start('#!/bin/sh\ntouch "$(dirname "$0")/more"\n', 1))]
        run = await scene.start('#!/bin/sh\ntest ! -e "$(dirname "$0")/more"\n', 2)
        pids.append(await scene.done(run))
        assert len(set(pids)) == 1
        assert scene.asked == ["1.0"]

    with_scene(body)


def test_a_leader_is_kept_though_its_run_s_folder_cannot_be_put_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_run: Run) -> str:
        raise OSError(errno.EROFS, "Read-only file system")

    async def body(scene: Scene) -> None:
        run = await scene.start("#!/bin/sh\ntrue\n", 1)
        await scene.observer.line(run, "ended")
        with monkeypatch.context() as patched:
            patched.setattr(runs, "put_away", refused)
            with pytest.raises(OSError, match="Read-only"):
                await scene.backend.forget(run)
        await scene.done(await scene.start("#!/bin/sh\ntrue\n", 2))
        assert scene.asked == ["1.0"]

    with_scene(body)


def test_a_busy_leader_is_not_asked(tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def body(scene: Scene) -> None:
        await scene.done(await scene.start("#!/bin/sh\ntrue\n", 1))
        busy = await scene.start(f"#!/bin/sh\nwhile ! test -e {go}; do sleep 0.05; done\n", 2)
        other = await scene.start("#!/bin/sh\ntrue\n", 3)
        second = await scene.done(other)
        go.touch()
        assert await scene.done(busy) != second
        assert scene.asked == ["1.0", "3.0"]

    with_scene(body)


def test_a_run_whose_leader_was_killed_before_it_was_asked_gets_another(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        pid = await scene.done(await scene.start("#!/bin/sh\ntrue\n", 1))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not lives(pid), "its death")  # and nobody here has heard of it
        run = await scene.start(f"#!/bin/sh\necho once >> {tmp_path}/out\n", 2)
        assert await scene.done(run) != pid
        assert scene.asked == ["1.0", "2.0"]
        assert (tmp_path / "out").read_text() == "once\n"

    with_scene(body)


def test_a_run_that_was_asked_of_a_leader_that_serves_no_more_gets_another(tmp_path: Path) -> None:
    told = tmp_path / "service"
    # It leaves a service below its agent, so that this is no agent for anybody else.
    script = (
        f"#!/bin/sh\nSHIM_SERVICE=1 setsid sh -c 'echo $$ > {told}; exec sleep 1000' &\n"
        f"while ! test -s {told}; do sleep 0.05; done\n"
    )

    async def body(scene: Scene) -> None:
        pid = await scene.done(await scene.start(script, 1))
        run = await scene.start(f"#!/bin/sh\necho once >> {tmp_path}/out\n", 2)
        assert await scene.done(run) != pid
        assert (tmp_path / "out").read_text() == "once\n"

    try:
        with_scene(body)
    finally:
        os.kill(int(told.read_text()), signal.SIGKILL)


def test_an_order_reaches_a_run_of_a_kept_leader_and_of_the_one_in_its_place() -> None:
    script = "#!/bin/sh\nwhile :; do sleep 0.05; done\n"
    end = Order(number=1, kind="end", state="CANCELLED")

    async def body(scene: Scene) -> None:
        pid = await scene.done(await scene.start("#!/bin/sh\ntrue\n", 1))
        run = await scene.start(script, 2)
        await scene.backend.order(run, end)
        assert (await scene.observer.line(run, "ended"))["state"] == "CANCELLED"
        await scene.backend.forget(run)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not lives(pid), "its death")
        run = await scene.start(script, 3)
        await scene.backend.order(run, end)
        assert (await scene.observer.line(run, "ended"))["state"] == "CANCELLED"
        assert not runs.journal(Run(cluster="local", job_id=2))
        await scene.backend.forget(run)

    with_scene(body)


def test_a_run_that_has_begun_is_not_taken_back_though_nobody_has_said_so(tmp_path: Path) -> None:
    """The fork server was killed after it had made the agent, before it answered; so was the next one."""

    async def body(scene: Scene) -> None:
        out = tmp_path / "out"
        spawn = scene.backend._spawner.spawn

        async def unanswered(run_dir: str, index: int, place: str, line: socket.socket | None = None) -> int:
            await spawn(run_dir, index, place, line)
            await asyncio.to_thread(wait_until, out.exists, "the script")
            raise BackendError("no agent could be started: [Errno 32] Broken pipe", transient=True)

        scene.backend._spawner.spawn = unanswered  # type: ignore[method-assign]
        await scene.done(await scene.start(f"#!/bin/sh\necho once >> {out}\n", 1))
        assert out.read_text() == "once\n"

    with_scene(body)


def test_kept_leaders_end_with_the_backend() -> None:
    pids: list[int] = []

    async def body(scene: Scene) -> None:
        pids.append(await scene.done(await scene.start("#!/bin/sh\ntrue\n", 1)))

    with_scene(body)
    wait_until(lambda: not lives(pids[0]), "the leader's end")
    assert os.listdir(paths.run_dir()) == []
