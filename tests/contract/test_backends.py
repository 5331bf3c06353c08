"""What every backend must do (``shim.control.backends.base``), on real runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import KeepsJobs, Order, Run
from shim.core.formats import hostlist
from tests.contract.support import LIMIT, Subject, configure_kubernetes, forget, start
from tests.support import wait_until

BACKENDS = ["local", pytest.param("kubernetes", marks=pytest.mark.kubernetes)]

Test = Callable[[Subject, Path], Coroutine[Any, Any, None]]


def contract(test: Test) -> Callable[[str, Path, Path, pytest.FixtureRequest], None]:
    """Runs an asynchronous test on every backend."""

    @pytest.mark.parametrize("kind", BACKENDS)
    def run(kind: str, state_dir: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        if kind == "kubernetes":
            configure_kubernetes(request.getfixturevalue("kubeconfig"), request.getfixturevalue("namespace"), tmp_path)

        async def inside() -> None:
            subject = Subject(kind)
            try:
                await test(subject, tmp_path)
            finally:
                await subject.end()

        asyncio.run(inside())

    run.__doc__ = test.__doc__
    return run


class Sleeper:
    """A pipe that a process of the run holds open: it is seen to live, in whatever container and namespace it is."""

    def __init__(self, folder: Path) -> None:
        path = folder / "alive"
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.command = f"sleep 300 >{path}"

    def alive(self) -> bool:
        """Whether such a process is there."""
        try:
            return bool(os.read(self._pipe, 1))  # nobody writes, so this is the end: nobody has it open
        except BlockingIOError:
            return True

    def __del__(self) -> None:
        os.close(self._pipe)


@contract
async def test_a_run_tells_its_life_in_numbered_lines(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    go = folder / "go"
    run = await start(backend, cluster, f"#!/bin/sh\nuntil test -e {go}; do sleep 0.05; done\nexit 3\n")
    await observer.line(run, "started")
    go.touch()
    end = await observer.line(run, "ended")
    # What the backend itself says has no numbers.
    lines = [line for line in observer.of(run) if line["kind"] not in ("placed", "waits")]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert (lines[0]["kind"], lines[-1]) == ("started", end)
    assert (end["state"], end["status"]) == ("FAILED", 3 << 8)
    await forget(backend, run)


@contract
async def test_a_run_has_all_its_nodes_or_does_not_start(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    out, go = folder / "out", folder / "go"
    script = f"#!/bin/sh\necho $SLURM_JOB_NODELIST > {out}\nuntil test -e {go}; do sleep 0.05; done\n"
    run = await start(backend, cluster, script, nodes=2)
    assert len((await observer.line(run, "started"))["hosts"]) == 2
    go.touch()
    assert (await observer.line(run, "ended"))["state"] == "COMPLETED"
    assert len(hostlist.expand(out.read_text().strip())) == 2
    await forget(backend, run)


@contract
async def test_starting_twice_is_starting_once(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    script = f"#!/bin/sh\necho run >> {folder / 'out'}\n"
    run = await start(backend, cluster, script)
    await start(backend, cluster, script)
    await observer.line(run, "ended")
    # Not by another controller either that does not know how far the run has come.
    backend, observer, cluster = await subject.backend()
    await start(backend, cluster, script)
    assert (await observer.line(run, "ended"))["state"] == "COMPLETED"
    assert (folder / "out").read_text() == "run\n"
    await forget(backend, run)


@contract
async def test_runs_outlive_the_controller_and_are_found_again(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    run = await start(backend, cluster, f"#!/bin/sh\nuntil test -e {folder / 'go'}; do sleep 0.05; done\n")
    seen = (await observer.line(run, "started"))["n"]
    backend, observer, cluster = await subject.backend()
    await backend.recover([(run, seen)])
    (folder / "go").touch()
    assert (await observer.line(run, "ended"))["state"] == "COMPLETED"
    assert all(line.get("n", seen + 1) > seen for line in observer.of(run))
    await forget(backend, run)


@contract
async def test_an_end_that_came_meanwhile_is_told(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    run = await start(backend, cluster, "#!/bin/sh\nexit 1\n")
    await observer.line(run, "ended")
    backend, observer, cluster = await subject.backend()
    await backend.recover([(run, 1)])
    assert (await observer.line(run, "ended"))["status"] == 256
    await forget(backend, run)


@contract
async def test_an_ordered_end_leaves_nothing_behind(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    sleeper = Sleeper(folder)
    run = await start(backend, cluster, f"#!/bin/sh\n{sleeper.command} &\nwait\n")
    await asyncio.to_thread(wait_until, sleeper.alive, "the script runs", LIMIT)
    await observer.line(run, "started")  # a run of which nobody has heard yet may be ended without its leader
    order = Order(number=1, kind="end", state="CANCELLED", uid=os.getuid())
    await backend.order(run, order)
    await backend.order(run, order)
    end = await observer.line(run, "ended")
    assert (end["state"], end["status"], end["uid"]) == ("CANCELLED", signal.SIGTERM, os.getuid())
    assert not sleeper.alive()
    await forget(backend, run)


@contract
async def test_a_signal_reaches_the_batch_shell(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    ready = folder / "ready"
    script = f"#!/bin/sh\ntrap 'exit 5' USR1\ntouch {ready}\nwhile :; do sleep 0.05; done\n"
    run = await start(backend, cluster, script)
    await asyncio.to_thread(wait_until, ready.exists, "the trap is set", LIMIT)
    await backend.order(run, Order(number=1, kind="signal", signal=signal.SIGUSR1, scope="batch"))
    assert (await observer.line(run, "ended"))["status"] == 5 << 8
    await forget(backend, run)


@contract
async def test_runs_that_nobody_knows_are_ended_or_told(subject: Subject, folder: Path) -> None:
    backend, _observer, cluster = await subject.backend()
    sleeper = Sleeper(folder)
    run = await start(backend, cluster, f"#!/bin/sh\n{sleeper.command}\n")
    await asyncio.to_thread(wait_until, sleeper.alive, "the script runs", LIMIT)
    backend, observer, cluster = await subject.backend()
    await backend.recover([])
    if isinstance(backend, KeepsJobs):
        (kept,) = await backend.kept()
        assert (kept.run, kept.job.state) == (run, "CONFIGURING")
        backend.keep(kept.job)
        await backend.take_up(run)
        await observer.line(run, "started")
        await backend.order(run, Order(number=1, kind="end", state="CANCELLED"))
        assert (await observer.line(run, "ended"))["state"] == "CANCELLED"
        await forget(backend, run)
    await asyncio.to_thread(wait_until, lambda: not sleeper.alive(), "the orphan ended", LIMIT)
    assert isinstance(backend, KeepsJobs) or observer.of(run) == []


@contract
async def test_a_run_that_is_gone_is_reported_lost(subject: Subject, folder: Path) -> None:
    backend, observer, cluster = await subject.backend()
    run = Run(cluster=cluster.name, job_id=77)
    await backend.recover([(run, 1)])
    if isinstance(backend, KeepsJobs):  # whoever removed its record has seen its end: it may not be run again
        line = await observer.line(run, "ended")
        assert (line["state"], line["final"]) == ("NODE_FAIL", True)
    else:
        assert await observer.until(lambda: observer.gone) == [run]
