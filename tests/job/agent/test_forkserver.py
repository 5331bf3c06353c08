"""The fork server: requests and answers, agents that are nobody's burden, its ends."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.job.agent.support import Agent, ForkServer, lives, locked
from tests.support import wait_until


@pytest.fixture
def server() -> Iterator[ForkServer]:
    """A fork server of the test's own; the test may have ended it."""
    server = ForkServer()
    yield server
    server.socket.close()
    server.process.wait(30)


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_an_agent_has_nothing_of_its_fork_server(fork_server: ForkServer, agent: Agent) -> None:
    agent.leader.told("check-in")
    fields = Path(f"/proc/{agent.pid}/stat").read_text().rsplit(")", 1)[1].split()
    parent, group, session, terminal = (int(field) for field in fields[1:5])
    assert (parent, group, session, terminal) == (fork_server.process.pid, agent.pid, agent.pid, 0)
    links = {fd.name: os.readlink(fd) for fd in Path(f"/proc/{agent.pid}/fd").iterdir()}
    assert [links[fd] for fd in "012"] == [os.devnull] * 3
    servers = {os.readlink(fd) for fd in Path(f"/proc/{fork_server.process.pid}/fd").iterdir()} - {os.devnull}
    assert not servers & set(links.values())
    assert os.readlink(f"/proc/{agent.pid}/cwd") == "/"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"{}",
        b'{"run_dir": "/x"}',
        b'{"run_dir": 1, "index": 0}',
        b'{"run_dir": "/", "index": "0"}',
    ],
)
def test_what_is_no_request_is_refused_and_the_next_one_served(fork_server: ForkServer, body: bytes) -> None:
    assert fork_server.ask_bytes(body) == {"error": "not a request"}
    assert fork_server.ask({"run_dir": "/nosuch", "index": 0})["pid"] > 0


def test_a_request_that_is_far_too_long_ends_it(server: ForkServer) -> None:
    server.socket.sendall(struct.pack(">I", 1 << 30))
    assert server.process.wait(30) == 0


def test_agents_that_fail_leave_no_zombie_and_the_server_goes_on(server: ForkServer, tmp_path: Path) -> None:
    pids = [server.ask({"run_dir": str(tmp_path / "nosuch"), "index": index})["pid"] for index in range(5)]
    assert len(set(pids)) == 5
    wait_until(lambda: not children(server.process.pid), "the end of all agents, zombies too")
    assert server.ask({"run_dir": str(tmp_path / "nosuch"), "index": 0})["pid"] > 0


def test_an_agent_that_fails_says_so_in_its_log(fork_server: ForkServer, run_dir: Path) -> None:
    (run_dir / "spec.json").write_text("{")
    log = run_dir / "agent.1.log"
    fork_server.ask({"run_dir": str(run_dir), "index": 1})
    wait_until(lambda: log.exists() and "Error" in log.read_text(), "the log")
    assert "Traceback" in log.read_text()
    wait_until(lambda: not locked(run_dir), "the agent's end")


def test_a_second_agent_for_the_same_node_ends_quietly(fork_server: ForkServer, agent: Agent) -> None:
    agent.leader.told("check-in")
    second = fork_server.ask({"run_dir": str(agent.run_dir), "index": 1})["pid"]
    wait_until(lambda: not lives(second), "the second agent's end")
    assert lives(agent.pid)
    assert not (agent.run_dir / "agent.1.log").exists()


@pytest.mark.parametrize("by_signal", [False, True])
def test_it_ends_and_its_agents_go_on(server: ForkServer, run_dir: Path, by_signal: bool) -> None:
    agent = Agent(server, run_dir)
    try:
        agent.leader.start()
        if by_signal:
            server.process.terminate()
        else:
            server.socket.close()
        assert server.process.wait(30) == (-signal.SIGTERM if by_signal else 0)
        agent.leader.shell("echo still there")
        assert agent.leader.out() == "still there\n"
    finally:
        agent.close()


def test_a_terminals_signals_do_not_reach_it(server: ForkServer) -> None:
    server.ask({"run_dir": "/nosuch", "index": 0})  # it serves: its handlers are in place
    for number in (signal.SIGINT, signal.SIGHUP):
        server.process.send_signal(number)
    assert server.ask({"run_dir": "/nosuch", "index": 0})["pid"] > 0
