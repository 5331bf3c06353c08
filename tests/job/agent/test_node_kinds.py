"""Agents that cannot do all they would like to: without a subreaper, of an ordinary user, with an error of their own."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.job.agent.support import AS_NOBODY, KEY, NO_SUBREAPER, NOBODY, Agent, ForkServer, lives, locked, write_spec
from tests.support import wait_until

# Prints its pid, then lives in a session of its own, its parents gone.
DAEMON = "setsid sh -c 'sh -c \"echo \\$\\$; exec sleep 1000\" & wait' & "


@pytest.fixture
def without_subreaper(run_dir: Path) -> Iterator[Agent]:
    server = ForkServer(NO_SUBREAPER)
    agent = Agent(server, run_dir)
    agent.leader.start()
    yield agent
    agent.close()
    server.close()


@pytest.fixture
def of_nobody() -> Iterator[Agent]:
    """An agent of an ordinary user: nobody, or whoever runs the tests."""
    root = os.getuid() == 0
    base = Path(tempfile.mkdtemp(prefix="shim-agent-", dir="/tmp"))  # where that user may look
    try:
        base.chmod(0o755)
        folder = base / "run"
        folder.mkdir()
        write_spec(folder)
        (folder / "key").write_text(KEY.hex())
        server = ForkServer(AS_NOBODY if root else "")
        agent = Agent(server, folder, NOBODY if root else None)
        agent.leader.start()
        yield agent
        agent.close()
        server.close()
    finally:
        shutil.rmtree(base)


def test_without_a_subreaper_the_environment_tells_what_is_left(without_subreaper: Agent) -> None:
    leader = without_subreaper.leader
    leader.shell(DAEMON + "while ! test -s go; do sleep 0.05; done")
    daemon = int(leader.line())
    (leader.run_dir / "go").write_text("x")
    leader.told("drained", step=0)
    leader.send("stop", grace=0)
    leader.told("stopped")
    wait_until(lambda: not lives(daemon), "the daemon's end")


def test_without_a_subreaper_a_stop_spares_the_rest_of_the_machine(without_subreaper: Agent) -> None:
    leader = without_subreaper.leader
    leader.shell(
        "env -u SLURM_TASK_PID setsid sh -c 'echo $$; exec sleep 1000' & while ! test -s go; do sleep 0.05; done"
    )
    other = int(leader.line())  # as salloc's command: the run's folder in its environment, but no task
    try:
        (leader.run_dir / "go").write_text("x")
        leader.told("exit", step=0)
        leader.send("stop", grace=0)
        leader.told("stopped")
        assert lives(other)
    finally:
        os.kill(other, signal.SIGKILL)


def test_an_ordinary_users_tasks_run_and_end(of_nobody: Agent) -> None:
    leader = of_nobody.leader
    uid = NOBODY if os.getuid() == 0 else os.getuid()
    leader.shell("id -u; pwd; echo in the file > /dev/stderr", stderr={"to": "file", "path": "err"})
    assert leader.out() == f"{uid}\n{leader.run_dir}\n"
    assert (leader.run_dir / "err").read_text() == "in the file\n"
    assert (leader.run_dir / "err").stat().st_uid == uid
    leader.shell(DAEMON + "trap '' TERM; while :; do sleep 0.05; done", step=1)
    daemon = int(leader.line(step=1))
    leader.send("stop", grace=0)
    leader.told("stopped")
    assert not lives(daemon)
    assert os.WTERMSIG(leader.status(step=1)) == signal.SIGKILL
    wait_until(lambda: not locked(of_nobody.run_dir), "the agent's end")


def test_an_error_of_the_agents_own_leaves_nothing_running(agent: Agent) -> None:
    leader = agent.leader
    leader.start()
    leader.shell(DAEMON + "trap '' TERM; wait; while :; do sleep 0.05; done")
    daemon = int(leader.line())
    task = leader.told("task")["pid"]
    leader.send("launch", step=1)  # no leader of ours says that
    leader.until(lambda: leader.closed, "the agent's end")
    wait_until(lambda: not lives(daemon) and not lives(task), "the end of both")
    wait_until(lambda: not lives(agent.pid), "the agent's end")
    assert "KeyError" in (agent.run_dir / "agent.1.log").read_text()


def test_input_for_a_step_that_is_over_or_was_never_there_is_credited(agent: Agent) -> None:
    leader = agent.leader
    leader.start()
    leader.launch("true", stdin={"to": "leader"})
    leader.told("drained", step=0)
    leader.feed(b"late", step=0)
    leader.feed(b"", step=0)
    leader.feed(b"nobody's", step=5)
    assert leader.told("credit", step=0)["bytes"] == len("late")
    assert leader.told("credit", step=5)["bytes"] == len("nobody's")
