"""What tasks use: looked at by the agent's clock, and told with their end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from shim.job.agent.node.usage import FIRST, UsageWatch
from shim.job.loop import Loop

HOLDS = "import sys; held = bytearray(64 << 20); print('there', flush=True); sys.stdin.read()"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Agent:
    """A loop by a clock of its own, and the tasks that it watches."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = Loop(self.clock)
        self.watch = UsageWatch(self.loop)
        self.told: dict[int, dict[str, Any]] = {}
        self.children: list[subprocess.Popen[str]] = []

    def start(self, code: str, every: float = 30) -> int:
        child = subprocess.Popen(
            [sys.executable, "-ISc", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.children.append(child)
        self.watch.add(child.pid, every)
        self.loop.on_exit(child.pid, lambda _status: self._ended(child.pid))
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        return child.pid

    def end(self, pid: int) -> dict[str, Any]:
        child = next(child for child in self.children if child.pid == pid)
        assert child.stdin is not None
        child.stdin.close()
        while pid not in self.told:
            self.loop.run_once(1)
        return self.told[pid]

    def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.loop.run_once(0)
        self.loop.run_once(0)

    def _ended(self, pid: int) -> None:
        self.told[pid] = self.watch.ended(pid, self.loop.used, self.loop.moved)


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    yield made
    for child in made.children:
        child.kill()
        for stream in (child.stdin, child.stdout):
            assert stream is not None
            stream.close()
        child.returncode = 0
    made.watch.close()
    made.loop.close()


def test_a_task_is_looked_at_soon_and_then_by_its_frequency(agent: Agent) -> None:
    pid = agent.start(HOLDS, every=10)
    assert agent.watch.told(pid)[1] == []
    agent.later(FIRST)
    told, pids = agent.watch.told(pid)
    assert pids == [pid]
    assert told["memory"][0] >= 64 << 10
    assert told["virtual"][0] >= told["memory"][0]
    agent.watch._tasks[pid].pids = []
    agent.later(9)
    assert agent.watch.told(pid)[1] == []
    agent.later(1)
    assert agent.watch.told(pid)[1] == [pid]


def test_frequency_0_leaves_a_task_alone_until_its_end(agent: Agent) -> None:
    pid = agent.start(HOLDS, every=0)
    agent.later(100)
    assert agent.watch.told(pid) == ({"user": 0.0, "system": 0.0}, [])
    told = agent.end(pid)
    assert told["user"] + told["system"] > 0
    assert "virtual" not in told


def test_processes_below_a_task_count_with_it(agent: Agent) -> None:
    pid = agent.start(f"import os\nchild = os.fork()\n{HOLDS}\nos.wait() if child else None")
    agent.watch.look()
    told, pids = agent.watch.told(pid)
    assert pid in pids
    assert len(pids) == 2
    assert told["memory"][0] > 64 << 10


def test_the_end_tells_what_was_moved_by_the_task_and_all_that_it_waited_for(agent: Agent) -> None:
    writes = "os.write(os.open('/dev/null', os.O_WRONLY), bytes(3000000))"
    pid = agent.start(
        f"import os, sys\n{writes}\nprint('there', flush=True)\nif os.fork():\n os.wait()\nelse:\n {writes}\n"
    )
    told = agent.end(pid)
    assert 6000000 <= told["written"][0] < 6010000


def test_a_peak_of_memory_that_was_the_agents_own_is_no_tasks(agent: Agent) -> None:
    held = bytearray(256 << 20)
    pid = agent.start("print('there', flush=True); input()")
    told = agent.end(pid)
    assert "memory" not in told
    assert held


def test_no_timer_is_left_when_no_task_runs(agent: Agent) -> None:
    agent.end(agent.start(HOLDS))
    assert agent.watch._timer is None
    assert agent.loop._pause(None) is None or not agent.loop._timers or agent.loop._timers[0].callback is None


def test_who_reads_its_own_account_is_not_counted(agent: Agent) -> None:
    from shim.job.agent.node.usage import ChildrenBytes

    count = ChildrenBytes()
    count.before()
    first = count.after()
    assert first is None or first[1] == 0
    assert first is None or first[0] < 8
    os.close(count._file)
