"""Which processes are a run's own, and the memory they hold."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from shim.job.agent import cleaning, processes
from shim.job.agent.cleaning import Belongings
from shim.job.agent.node.memory import MemoryWatch, heaviest_over
from shim.job.loop import Loop
from tests.job.agent.support import lives
from tests.support import wait_until

RUN = b"/runs/7.0"


@pytest.mark.parametrize(
    ("environ", "foreign", "marked"),
    [
        ([], False, False),
        ([b""], False, False),
        ([b"SHIM_RUN_DIR=/runs/7.0"], False, False),  # salloc's command
        ([b"SHIM_RUN_DIR=/runs/7.0", b"SLURM_TASK_PID=1"], False, True),
        ([b"A=SHIM_RUN_DIR=/runs/7.0", b"SLURM_TASK_PID=1"], False, False),
        ([b"SHIM_RUN_DIR=/runs/7.01", b"SLURM_TASK_PID=1"], True, False),
        ([b"SHIM_RUN_DIR=/runs/8.0", b"SLURM_TASK_PID=1"], True, False),
        ([b"SHIM_SERVICE=controller", b"SHIM_RUN_DIR=/runs/7.0", b"SLURM_TASK_PID=1"], True, False),
    ],
)
def test_environments(environ: list[bytes], foreign: bool, marked: bool) -> None:
    assert cleaning.is_foreign(environ, RUN) is foreign
    assert cleaning.is_marked(environ, RUN) is marked


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child of its own, both in the memory; it ends with its input."""
    program = "import os, sys; x = bytes(8 << 20); r = os.fork(); print(r or '', flush=True) if r else None; sys.stdin.read(1)"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"SHIM_RUN_DIR": "/runs/7.0"},
        start_new_session=True,
    )
    yield process
    process.communicate()


def test_the_table(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    below = int(child.stdout.readline())
    found = processes.table()
    assert found[child.pid].parent == os.getpid()
    assert found[below].parent == child.pid
    assert found[below].session == found[child.pid].session == child.pid
    assert found[below].alive
    assert processes.by_parent(found)[child.pid] == [below]
    assert processes.children(child.pid) in ([below], None)
    assert processes.environment(child.pid) == [b"SHIM_RUN_DIR=/runs/7.0", b""]
    assert processes.value_of(processes.environment(below), b"SHIM_RUN_DIR") == RUN
    size = processes.pss(child.pid)
    assert size is None or 0 < size <= found[child.pid].rss + (64 << 20)


def test_what_is_gone_counts_as_not_there() -> None:
    assert processes.environment(0) == [b""]
    assert processes.pss(0) is None
    assert processes.children(0) is None


def test_below_tasks_and_below_others(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    below = int(child.stdout.readline())
    mine = Belongings("/runs/7.0", subreaper=True)
    assert mine.below([child.pid], processes.table()) == [below]
    assert child.pid in mine.all()
    other = Belongings("/runs/8.0", subreaper=True)
    assert child.pid not in other.all()  # by its environment it is another run's
    other.tasks.add(child.pid)
    assert child.pid in other.all()  # but what the agent has started itself is its own, whatever it still shows
    alone = Belongings("/runs/7.0", subreaper=False)
    assert not alone.nothing_but_tasks()
    assert alone.all() == []  # no task's mark
    alone.tasks.add(child.pid)
    assert alone.all() == [child.pid, below]
    assert alone.of_step([child.pid], None) == [child.pid, below]


def test_heaviest_over_a_limit(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    child.stdout.readline()
    belongings = Belongings("/runs/7.0", subreaper=False)
    belongings.tasks.add(child.pid)
    found = processes.table()
    assert heaviest_over(1 << 40, belongings, found) is None
    assert heaviest_over(1 << 20, belongings, found) in belongings.all()


def test_the_watch_looks_every_second_while_it_runs(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    child.stdout.readline()
    now = [0.0]
    loop = Loop(clock=lambda: now[0])
    belongings = Belongings("/runs/7.0", subreaper=False)
    told: list[int] = []
    watch = MemoryWatch(1, belongings, loop, told.append)
    try:
        watch.start()
        watch.start()
        for expected in (0, 0, 1, 1, 1):
            if now[0] == 2:
                belongings.tasks.add(child.pid)
            loop.run_once(0)
            assert len(told) == expected, now  # while the one that was told still lives, no other
            now[0] += 1
        watch.stop()
        watch.stop()
        os.kill(told[0], signal.SIGKILL)
        wait_until(lambda: not lives(told[0]), "its end")
        now[0] += 5
        loop.run_once(0)
        assert len(told) == 1
    finally:
        loop.close()


def test_no_limit_no_looks() -> None:
    now = [0.0]
    loop = Loop(clock=lambda: now[0])
    belongings = Belongings("/runs/7.0", subreaper=False)
    belongings.tasks.add(os.getpid())
    told: list[int] = []
    try:
        MemoryWatch(0, belongings, loop, told.append).start()
        now[0] = 10
        loop.run_once(0)
        assert told == []
    finally:
        loop.close()


def test_a_number_that_is_no_signal_is_passed_over() -> None:
    cleaning.send([os.getpid()], 99, 1 << 40)
