"""Fixtures: a fork server, a run folder, an agent and the leader it talks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.job.agent.support import KEY, Agent, FakeLeader, ForkServer, write_spec


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "key").write_text(KEY.hex())
    write_spec(folder)
    return folder


@pytest.fixture
def agent(fork_server: ForkServer, run_dir: Path) -> Iterator[Agent]:
    agent = Agent(fork_server, run_dir)
    yield agent
    agent.close()


@pytest.fixture
def leader(agent: Agent) -> FakeLeader:
    """The leader of an agent that has been told to start."""
    agent.leader.start()
    return agent.leader
