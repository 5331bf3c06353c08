"""Signals, stops, losses, and what is left behind: nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.job.agent import cleaning
from shim.job.wire import BATCH
from tests.job.agent.support import Agent, FakeLeader, ForkServer, lives, locked, write_spec
from tests.support import wait_until

# Prints its pid, then lives in a session of its own, its parents gone.
DAEMON = "setsid sh -c 'sh -c \"echo \\$\\$; exec sleep 1000\" & wait' & "


def pid_of(leader: FakeLeader, step: int = 0, rank: int = 0) -> int:
    return int(leader.line(step, rank))


def test_a_signal_reaches_all_below_the_task(leader: FakeLeader) -> None:
    leader.shell("trap 'echo shell' USR1; sh -c 'echo $$; exec sleep 1000'; echo over")
    child = pid_of(leader)
    leader.send("signal", step=0, signal=int(signal.SIGUSR1), scope="steps", ranks=None)
    assert leader.out().splitlines()[1:] == ["shell", "over"]
    assert not lives(child)


def test_a_signal_to_the_batch_shell_alone(leader: FakeLeader) -> None:
    leader.shell("trap 'echo shell' USR1; sh -c 'echo $$; read x; echo child $x' <&3", step=BATCH, stdin={"to": "null"})
    leader.told("drained", step=BATCH)  # descriptor 3 is not there: the child never starts
    leader.shell(
        "trap 'echo shell; exit 3' USR1; (echo ready; exec sleep 1000) & wait", step=1, env={"SLURM_STEP_ID": "1"}
    )
    leader.line(step=1)
    leader.send("signal", step=1, signal=int(signal.SIGUSR1), scope="batch", ranks=None)
    assert leader.out(step=1) == "ready\nshell\n"
    assert leader.status(step=1) == 3 << 8


def test_a_signal_to_all_steps_spares_the_batch_script(leader: FakeLeader) -> None:
    leader.shell("echo batch; sleep 1000", step=BATCH)
    leader.shell("echo step; sleep 1000", step=0)
    leader.line(step=BATCH)
    leader.line(step=0)
    leader.send("signal", step=None, signal=int(signal.SIGTERM), scope="steps", ranks=None)
    assert os.WTERMSIG(leader.status(step=0)) == signal.SIGTERM
    leader.send("signal", step=None, signal=int(signal.SIGKILL), scope="all", ranks=None)
    assert os.WTERMSIG(leader.status(step=BATCH)) == signal.SIGKILL


def test_a_signal_to_some_ranks(leader: FakeLeader) -> None:
    leader.shell("echo ready; sleep 1000", tasks=3)
    for rank in range(3):
        leader.line(rank=rank)
    leader.send("signal", step=0, signal=int(signal.SIGTERM), scope="steps", ranks=[1])
    leader.told("exit", rank=1)
    leader.send("signal", step=0, signal=int(signal.SIGKILL), scope="steps", ranks=None)
    assert [os.WTERMSIG(leader.status(rank=rank)) for rank in range(3)] == [9, 15, 9]


def test_what_a_step_leaves_is_killed_and_its_output_ends(leader: FakeLeader) -> None:
    leader.shell(DAEMON + "sleep 1000 & while ! test -s ready; do sleep 0.05; done")
    daemon = pid_of(leader)
    assert lives(daemon)
    (leader.run_dir / "ready").write_text("x")
    leader.told("drained", step=0)
    wait_until(lambda: not lives(daemon), "the daemon's end")
    assert (0, 0, 1) in leader.ended


def test_a_step_does_not_take_another_with_it(leader: FakeLeader) -> None:
    leader.shell(DAEMON + "echo; while ! test -s one; do sleep 0.05; done", step=1)
    leader.shell(DAEMON + "while ! test -s two; do sleep 0.05; done", step=2)
    leader.until(lambda: len(leader.output.get((1, 0, 1), b"").split()) == 1, "the first daemon")
    first = int(leader.output[1, 0, 1].split()[0])
    second = pid_of(leader, step=2)
    (leader.run_dir / "one").write_text("x")
    leader.told("drained", step=1)
    wait_until(lambda: not lives(first), "the first daemon's end")
    assert lives(second)
    (leader.run_dir / "two").write_text("x")
    leader.told("drained", step=2)
    wait_until(lambda: not lives(second), "the second daemon's end")


@pytest.mark.parametrize("variable", ["SHIM_SERVICE=controller", "SHIM_RUN_DIR=/another/run"])
def test_services_and_other_runs_are_not_the_jobs(leader: FakeLeader, variable: str) -> None:
    leader.shell(f"env {variable} setsid sh -c 'echo $$; exec sleep 1000' & while ! test -s go; do sleep 0.05; done")
    service = pid_of(leader)
    try:
        (leader.run_dir / "go").write_text("x")
        leader.told("drained", step=0)
        leader.send("stop", grace=0)
        leader.told("stopped")
        assert lives(service)
    finally:
        os.kill(service, signal.SIGKILL)


def test_stop_with_nothing_running(agent: Agent, leader: FakeLeader) -> None:
    leader.send("stop", grace=30)
    leader.told("stopped")
    leader.until(lambda: not locked(agent.run_dir), "the agent's end")


def test_stop_gives_time_to_end(agent: Agent, leader: FakeLeader) -> None:
    leader.shell("trap 'echo trapped; exit 4' TERM; echo ready; while :; do sleep 0.05; done")
    leader.line()
    leader.send("stop", grace=1000)
    assert leader.out() == "ready\ntrapped\n"
    assert leader.status() == 4 << 8
    leader.told("stopped")
    assert [message["do"] for message in leader.messages][-1] == "stopped"


def test_stop_wakes_what_is_stopped(leader: FakeLeader) -> None:
    leader.shell("echo ready; kill -STOP $$; sleep 1000")
    leader.line()
    leader.send("stop", grace=1000)
    assert os.WTERMSIG(leader.status()) == signal.SIGTERM
    leader.told("stopped")


def test_stop_kills_what_does_not_listen(leader: FakeLeader) -> None:
    leader.shell("trap '' TERM; echo $$; while :; do sleep 0.05; done")
    pid = pid_of(leader)
    leader.send("stop", grace=0.2)
    leader.told("stopped")
    assert os.WTERMSIG(leader.status()) == signal.SIGKILL
    assert not lives(pid)


def test_stop_finds_daemons_without_any_marker(leader: FakeLeader) -> None:
    leader.shell(
        "trap '' TERM; env -i /usr/bin/setsid /bin/sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done' & wait"
    )
    daemon = pid_of(leader)
    leader.send("stop", grace=0)
    leader.told("stopped")
    assert not lives(daemon)


def test_nothing_starts_after_the_stop(leader: FakeLeader) -> None:
    leader.shell("trap '' TERM; echo ready; sleep 1000")
    leader.line()
    leader.send("stop", grace=0.5)
    leader.shell("echo late", step=1)
    leader.told("stopped")
    assert all(message.get("step") != 1 for message in leader.messages)


@pytest.fixture
def impatient(run_dir: Path) -> Iterator[Agent]:
    """An agent that soon gives up a reader of the last output."""
    server = ForkServer("from shim.job.agent.node import node; node._LAST_OUTPUT = 0.3")
    agent = Agent(server, run_dir)
    agent.leader.start()
    yield agent
    agent.close()
    server.close()


def test_a_stop_does_not_wait_for_a_reader_that_never_reads(impatient: Agent) -> None:
    leader = impatient.leader
    leader.credit = False
    leader.shell("yes")
    leader.until(lambda: (0, 0, 1) in leader.output, "output")
    leader.send("stop", grace=0)
    leader.told("stopped")


def test_losing_the_leader_ends_the_tasks(agent: Agent, leader: FakeLeader) -> None:
    leader.shell("trap '' TERM HUP; echo $$; while :; do sleep 0.05; done")
    pid = pid_of(leader)
    assert leader.link is not None
    leader.link.close()
    wait_until(lambda: not lives(pid), "the task's end")
    wait_until(lambda: not locked(agent.run_dir), "the agent's end")


def test_an_agent_that_is_told_to_end_ends_its_tasks(agent: Agent, leader: FakeLeader) -> None:
    leader.shell("trap '' TERM HUP; echo $$; while :; do sleep 0.05; done")
    pid = pid_of(leader)
    os.kill(agent.pid, signal.SIGTERM)
    leader.until(lambda: not lives(agent.pid), "the agent's end")
    assert not lives(pid)


def test_what_a_killed_agent_left_is_found_by_its_marker(agent: Agent, leader: FakeLeader) -> None:
    leader.shell("trap '' TERM HUP; " + DAEMON + "while :; do sleep 0.05; done")
    daemon = pid_of(leader)
    task = leader.told("task")["pid"]
    os.kill(agent.pid, signal.SIGKILL)
    wait_until(lambda: not lives(agent.pid), "the agent's end")
    assert lives(daemon)
    assert lives(task)
    assert cleaning.kill_marked("/another/run") == 0
    assert cleaning.kill_marked(str(agent.run_dir), "node1") == 0
    assert cleaning.kill_marked(str(agent.run_dir), "node2") >= 2
    wait_until(lambda: not lives(daemon) and not lives(task), "the end of both")


def test_memory_over_the_limit(fork_server: ForkServer, run_dir: Path) -> None:
    write_spec(run_dir, memory=(0, 60))
    agent = Agent(fork_server, run_dir)
    try:
        leader = agent.leader
        leader.start()
        eater = "x = b'x' * 200_000_000; import time; time.sleep(1000)"
        leader.launch("python3", "-c", eater)
        message = leader.told("memory")
        assert (message["step"], message["pid"]) == (0, leader.told("task")["pid"])
        exit_ = leader.told("exit", step=0)
        assert (os.WTERMSIG(exit_["status"]), exit_["oom"]) == (signal.SIGKILL, True)
        assert leader.out(2) == (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may have been "
            "killed by the cgroup out-of-memory handler.\n"
        )
    finally:
        agent.close()


def test_memory_of_the_batch_script_is_told_in_its_file(fork_server: ForkServer, run_dir: Path) -> None:
    write_spec(run_dir, memory=(0, 60))
    agent = Agent(fork_server, run_dir)
    try:
        leader = agent.leader
        leader.start()
        where = {"to": "file", "path": "out"}
        script = "python3 -c \"x = b'x' * 200_000_000; import time; time.sleep(1000)\"; echo $?"
        leader.shell(script, step=BATCH, stdout=where, stderr=where)
        exit_ = leader.told("exit", step=BATCH)
        assert (exit_["status"], exit_["oom"]) == (0, True)
        leader.told("drained", step=BATCH)
        text = (run_dir / "out").read_text()
        assert "\n137\n" in "\n" + text
        assert text.endswith("killed by the cgroup out-of-memory handler.\n")
        assert "StepId=7.batch." in text
    finally:
        agent.close()
