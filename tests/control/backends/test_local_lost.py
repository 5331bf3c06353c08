"""A run whose first agent was killed: it is told as lost, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from shim.control.backends.base import Order
from shim.control.backends.local import runs, watch
from tests.contract.support import Subject, start
from tests.job.agent.support import lives
from tests.support import wait_until

SCRIPT = """#!/bin/sh
trap '' TERM HUP
echo $$ > {pid}.new
mv {pid}.new {pid}
while :; do sleep 0.05; done
"""


def test_what_a_killed_leader_left_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def inside() -> None:
        subject = Subject("local")
        try:
            backend, observer, cluster = await subject.backend()
            run = await start(backend, cluster, SCRIPT.format(pid=pid))
            await asyncio.to_thread(wait_until, pid.exists, "the script runs")
            agent = runs.journal(run)[0]["pid"]
            os.kill(agent, signal.SIGKILL)
            assert await observer.until(lambda: observer.gone) == [run]
            await asyncio.to_thread(wait_until, lambda: not lives(int(pid.read_text())), "the script's end")
            await backend.forget(run)
            assert not os.path.exists(runs.folder(run))
        finally:
            await subject.end()

    asyncio.run(inside())


STOPPER = """#!/bin/sh
env -i PATH=/usr/bin:/bin setsid sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 300' &
until [ -e {pid} ]; do sleep 0.05; done
kill -STOP $PPID
"""


def test_a_run_that_stops_its_agent_is_ended_by_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "DISOBEDIENT", 0.1, raising=False)
    monkeypatch.setenv("SHIM_LOCAL_KILL_WAIT", "1")
    pid = tmp_path / "pid"

    async def inside() -> None:
        subject = Subject("local")
        try:
            backend, observer, cluster = await subject.backend()
            run = await start(backend, cluster, STOPPER.format(pid=pid))
            await asyncio.to_thread(wait_until, pid.exists, "the script runs")
            agent = runs.journal(run)[0]["pid"]
            stat = Path(f"/proc/{agent}/stat")
            await asyncio.to_thread(wait_until, lambda: stat.read_text().split()[2] == "T", "the agent is stopped")
            await backend.order(run, Order(number=1, kind="end", state="CANCELLED"))
            assert await observer.until(lambda: observer.gone) == [run]
            await asyncio.to_thread(wait_until, lambda: not lives(int(pid.read_text())), "the end of what hides")
            assert not lives(agent)
            await backend.forget(run)
        finally:
            await subject.end()

    asyncio.run(inside())
