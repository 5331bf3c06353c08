"""A start that fails half way leaves nothing that the next start could take for its own."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from shim.control.backends.base import BackendError, Run
from shim.control.backends.local import backend as local
from shim.control.backends.local import runs
from shim.control.backends.local.backend import LocalBackend
from shim.control.threads import aside
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.job.run_folder import JOURNAL
from shim.job.spec import RunNode, RunSpec

RUN = Run(cluster="local", job_id=5)
SPEC = RunSpec(
    job=Job(job_id=5),
    cluster=Cluster(name="local"),
    nodes=(RunNode(name="node1", host="node1"), RunNode(name="node2", host="node2")),
)


class Spawner:
    """Starts the first agent only."""

    async def spawn(self, run_dir: str, index: int, place: str, line: socket.socket | None = None) -> int:
        if index:
            raise BackendError("no agent could be started: out of processes", transient=True)
        return 4711


def start(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = LocalBackend(SPEC.cluster)
    monkeypatch.setattr(backend, "_spawner", Spawner())
    asyncio.run(backend.start(SPEC, {}, None))


def test_the_folder_of_a_start_that_failed_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError):
        start(monkeypatch)
    assert runs.existing() == []


def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under RLIMIT_NPROC."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_where_no_thread_can_be_started_the_start_fails_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    no_threads(monkeypatch)
    with pytest.raises(BackendError, match="out of processes"):
        start(monkeypatch)
    assert runs.existing() == []


def test_what_is_done_aside_is_done_once_and_tells_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bool] = []

    def work(result: int) -> int:
        done.append(threading.current_thread() is threading.main_thread())
        return 1 // result

    assert asyncio.run(aside(work, 1)) == 1
    with pytest.raises(ZeroDivisionError):
        asyncio.run(aside(work, 0))
    no_threads(monkeypatch)
    assert asyncio.run(aside(work, 1)) == 1
    assert done == [False, False, True]


def test_a_fork_server_that_cannot_be_waited_for_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_words: object, **_options: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    backend = LocalBackend(SPEC.cluster)
    with pytest.raises(BackendError, match="no agent could be started: can't start new thread"):
        asyncio.run(backend.start(SPEC, {}, None))


def test_a_run_that_was_there_before_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    runs.create(RUN, SPEC, {}, None)
    with pytest.raises(BackendError):
        start(monkeypatch)
    assert Path(runs.folder(RUN)).is_dir()


def test_a_controller_that_died_half_way_has_a_successor_that_asks_for_all_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    class All:
        async def spawn(self, run_dir: str, index: int, place: str, line: socket.socket | None = None) -> int:
            asked.append(index)
            return 4711

        async def close(self) -> None: ...

    async def recover_and_start() -> None:
        backend = LocalBackend(SPEC.cluster)
        monkeypatch.setattr(backend, "_spawner", All())
        await backend.open(Mock())
        await backend.recover([(RUN, 0)])
        await backend.start(SPEC, {}, None)
        await backend.close()

    runs.create(RUN, SPEC, {}, None)
    first = os.open(f"{runs.folder(RUN)}/{JOURNAL}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(first, fcntl.LOCK_EX)  # the first agent waits for the others
    asyncio.run(recover_and_start())
    os.close(first)
    assert asked == [0, 1]


class Watch:
    """Of a run that goes on."""

    async def close(self) -> None: ...


@pytest.mark.parametrize("when", ["idle", "later", "closed"])
def test_a_forgotten_run_is_gone_at_once_and_its_files_soon(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Soon: when nothing else runs, or a little later, or when the controller ends."""
    monkeypatch.setattr(local, "TIDY", 0.0 if when == "later" else 3600.0)
    goes_on = Run(cluster="local", job_id=6)

    async def body() -> None:
        backend = LocalBackend(SPEC.cluster)
        backend._watches[goes_on] = Watch()  # type: ignore[assignment]
        for number in range(5):
            run = Run(cluster="local", job_id=5, restart=number % 2)  # a new index gives the ids of an old one again
            runs.create(run, SPEC, {}, None)
            if when == "idle" and number == 4:
                del backend._watches[goes_on]
            await backend.forget(run)
            assert not os.path.exists(runs.folder(run))
        above = Path(runs.folder(RUN)).parent
        if when == "closed":
            assert len(list(above.glob("*/spec.json"))) == 5
            await backend.close()
        async with asyncio.timeout(30):
            while list(above.iterdir()):
                await asyncio.sleep(0.001)
        await backend.close()

    asyncio.run(body())


class Told:
    """Hears what the backend tells."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def happened(self, run: Run, event: Mapping[str, Any]) -> None:
        self.kinds.append(str(event["kind"]))


def test_a_run_that_begins_before_its_start_has_returned_is_known_by_its_journal() -> None:
    backend, told = LocalBackend(SPEC.cluster), Told()
    asyncio.run(backend.open(told))  # type: ignore[arg-type]
    backend.catch_up(RUN)
    runs.create(RUN, SPEC, {}, None)
    lines = [{"n": 1, "at": 1.0, "kind": "started"}, {"n": 2, "at": 1.0, "kind": "ended"}]
    Path(runs.folder(RUN), JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    backend.catch_up(RUN)
    assert told.kinds == ["started"]  # the end is for who watches the run
