"""Agents that serve one run after another: when they do, when they must not, and what a run finds of the one before."""

from __future__ import annotations

import _socket
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import Run
from shim.control.backends.local import runs
from shim.job.agent import isolation, spares
from shim.job.run_folder import JOURNAL
from tests.job.agent.support import ForkServer, lives
from tests.job.run_folder import spec_of
from tests.support import wait_until

JOURNALS = (f"/{JOURNAL}", f"/{JOURNAL} (deleted)")


class Runs:
    """Runs of one node, one after the other, all asked of one fork server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = ForkServer()
        self.pids: set[int] = set()
        self._restart = 0

    def start(self, script: str, place: str = "here", **fields: Any) -> int:
        """Asks for an agent; its pid."""
        spec = spec_of(nodes=1, script=True, folder=str(self.folder), kill_wait=5)
        self._restart += 1
        self.run = Run(cluster="local", job_id=7, restart=self._restart)
        self.out = self.folder / f"out.{self._restart}"
        job = spec.job.replace(stdout=str(self.out), stderr=str(self.out), restarts=self._restart)
        runs.create(
            self.run, spec.replace(job=job, **fields), {"PATH": os.environ["PATH"]}, f"#!/bin/sh\n{script}".encode()
        )
        request = {"run_dir": runs.folder(self.run), "index": 0, "place": place}
        pid = int(self.server.ask(request)["pid"])
        self.pids.add(pid)
        return pid

    def end(self) -> str:
        """The run's output, once its end is written and its agent has left it."""
        wait_until(lambda: any(line["kind"] == "ended" for line in runs.journal(self.run)), "the end")
        wait_until(lambda: not runs.alive(self.run), "the agent has left")
        return self.out.read_text()

    def done(self, script: str, place: str = "here", **fields: Any) -> int:
        """A whole run, and the moment in which its agent says that it is free; its pid."""
        pid = self.start(script, place, **fields)
        self.end()
        wait_until(lambda: not lives(pid) or waits(pid), "free, or gone")
        return pid

    def close(self) -> None:
        self.server.socket.close()
        self.server.process.wait(30)
        wait_until(lambda: not any(lives(pid) for pid in self.pids), "the agents' ends")


def waits(pid: int) -> bool:
    """Whether an agent waits for another run: it has no journal open then, has said that it is free, and sleeps."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            return False
        return not any(os.readlink(fd).endswith(JOURNALS) for fd in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Runs]:
    scene = Runs(tmp_path)
    yield scene
    scene.close()


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_the_next_run_finds_the_same_agent_as_new(scene: Runs) -> None:
    first = scene.done("echo $PPID; umask; pwd; ulimit -n 64; setsid sleep 1000 & export LEFT=1; cd /")
    open_files = descriptors(first)
    second = scene.done("echo $PPID; umask; pwd; echo $LEFT")
    assert first == second
    assert descriptors(second) == open_files
    assert scene.end().split() == [str(first), "0022", str(scene.folder)]
    assert [line["kind"] for line in runs.journal(scene.run)] == ["started", "ending", "ended"]


def test_a_busy_agent_is_not_given_another_run(scene: Runs) -> None:
    one = scene.start(f"while ! test -s {scene.folder}/go; do sleep 0.05; done")
    first = scene.run
    two = scene.done("true")
    assert one != two
    (scene.folder / "go").write_text("x")
    scene.run = first
    assert scene.end() == ""


@pytest.mark.parametrize("request_", [{"place": "elsewhere"}, {"place": ""}])
def test_another_place_needs_another_agent(scene: Runs, request_: dict[str, str]) -> None:
    assert scene.done("true") != scene.done("true", **request_)


def test_an_agent_without_a_place_ends_with_its_run(scene: Runs) -> None:
    pid = scene.start("true", place="")
    scene.end()
    wait_until(lambda: not lives(pid), "the agent's end")


def test_an_agent_that_was_killed_while_it_waited(scene: Runs) -> None:
    first = scene.done("true")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not lives(first), "its death")
    second = scene.done("echo alive")
    assert second != first
    assert scene.end() == "alive\n"


def test_an_agent_that_is_told_to_end_while_it_waits(scene: Runs) -> None:
    pid = scene.done("true")
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not lives(pid), "its end")


def test_an_agent_with_a_service_below_it_ends(scene: Runs) -> None:
    told = scene.folder / "service"
    # The script ends when the service is a program with that variable, and not a shell that is about to start it.
    pid = scene.start(
        f"SHIM_SERVICE=1 setsid sh -c 'echo $$ > {told}; exec sleep 1000' & while ! test -s {told}; do sleep 0.05; done"
    )
    scene.end()
    wait_until(lambda: not lives(pid), "the agent's end")
    service = int(told.read_text())
    assert lives(service)
    os.kill(service, signal.SIGKILL)


def test_an_agent_whose_run_failed_ends(scene: Runs) -> None:
    folder = scene.folder / "broken"
    folder.mkdir()
    (folder / "spec.json").write_text("{")
    pid = int(scene.server.ask({"run_dir": str(folder), "index": 0, "place": "here"})["pid"])
    wait_until(lambda: not lives(pid), "the agent's end")


@pytest.mark.skipif(os.getuid() != 0, reason="only root's jobs can change their namespaces")
@pytest.mark.parametrize("change", ["mount -t tmpfs none /mnt", "hostname other"])
def test_an_agent_whose_namespaces_were_changed_ends(scene: Runs, change: str) -> None:
    if isolation.probe()[0] != isolation.NAMESPACES:
        pytest.skip("no namespaces on this machine")
    private = str(scene.folder / "private")
    isolation.prepare(private, {"n1": "127.0.0.71"}, "/our/commands")
    where = {"isolate": isolation.NAMESPACES, "private": private}
    # Whether it is a new one or had a run before: mounts that come from outside end an agent too.
    scene.done("true", **where)
    scene.start(f"{change}; uname -n", **where)
    scene.end()
    wait_until(lambda: not any(lives(pid) for pid in scene.pids), "the agent's end")
    scene.done("uname -n; findmnt -n /mnt", **where)
    assert scene.end() == "n1\n"


def test_free_agents_end_with_the_fork_server(scene: Runs) -> None:
    pid = scene.done("true")
    assert lives(pid)
    scene.server.process.kill()
    scene.server.process.wait(30)
    wait_until(lambda: not lives(pid), "the agent's end")


class Kept:
    """Spares without processes: the test holds the agents' ends."""

    def __init__(self) -> None:
        self.now = 100.0
        self.poll = select.poll()
        self.spares = spares.Spares(self.poll, lambda: self.now)
        self.ends: dict[int, _socket.socket] = {}
        self._sockets: list[_socket.socket] = []

    def add(self, place: str, pid: int) -> None:
        ours, self.ends[pid] = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._sockets += (ours, self.ends[pid])
        self.spares.add(place, pid, ours)

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()

    def free(self, *pids: int) -> None:
        for pid in pids:
            self.ends[pid].send(b"\0")
            self.hear()

    def hear(self) -> None:
        for descriptor, _events in self.poll.poll(0):
            self.spares.hear(descriptor)


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept = Kept()
    yield kept
    kept.close()


def test_the_last_to_become_free_is_given_first(kept: Kept) -> None:
    for pid in (1, 2, 3):
        kept.add("here", pid)
    assert kept.spares.give("here", b"x", None) is None
    kept.free(3, 1)
    assert [kept.spares.give("here", b"x", None) for _ in range(3)] == [1, 3, None]
    assert [kept.ends[pid].recv(10) for pid in (1, 3)] == [b"x", b"x"]


def test_those_that_wait_for_long_are_let_go(kept: Kept) -> None:
    for pid in (1, 2):
        kept.add("here", pid)
    assert kept.spares.pause() is None
    kept.free(1)
    kept.now += 1
    kept.free(2)
    kept.now += spares.LINGER - 1
    assert 0 < (kept.spares.pause() or 0) <= 1001
    assert kept.ends[1].recv(10) == b""
    assert kept.spares.give("here", b"x", None) == 2


def test_one_that_is_gone_is_passed_over(kept: Kept) -> None:
    for pid in (1, 2):
        kept.add("here", pid)
    kept.free(1, 2)
    kept.ends[2].close()
    assert kept.spares.give("here", b"x", None) == 1
    kept.ends[1].close()
    kept.hear()
    assert kept.spares.room


def test_there_is_room_for_so_many(kept: Kept) -> None:
    for pid in range(spares.MOST):
        assert kept.spares.room
        kept.add("here", pid)
    assert not kept.spares.room
