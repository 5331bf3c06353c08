"""Whole runs: folders as the local backend makes them, real agents from a fork server, and what is left at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.control.backends.base import Run
from shim.control.backends.local import runs
from shim.job.agent import isolation, processes
from shim.job.agent.cleaning import is_marked
from shim.job.spec import RunSpec
from tests.job.agent.support import ROOT, ForkServer, lives
from tests.job.run_folder import spec_of
from tests.support import wait_until

AGENT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from shim.job.agent import main; "
    "sys.exit(main.run(sys.argv[2], int(sys.argv[3])))"
)


class Scene:
    """One run: its folder, and agents by index."""

    def __init__(self, folder: Path, script: str, nodes: int = 2, **fields: Any) -> None:
        self.out = folder / "out"
        spec = spec_of(nodes=nodes, script=True, folder=str(folder), kill_wait=5)
        job = spec.job.replace(stdout=str(self.out), stderr=str(self.out))
        self.spec: RunSpec = spec.replace(job=job, **fields)
        self.run = Run(cluster="local", job_id=7, restart=0)
        environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7"}
        runs.create(self.run, self.spec, environment, script.encode())
        self.run_dir = runs.folder(self.run)
        self.pids: list[int] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, server: ForkServer) -> None:
        """All its agents, from a fork server."""
        for index in range(len(self.spec.nodes)):
            self.pids.append(server.ask({"run_dir": self.run_dir, "index": index})["pid"])

    def start_child(self, index: int, limit: int = 60) -> subprocess.Popen[bytes]:
        """One agent as a child, for its exit code; ``limit``: how long it looks for its leader."""
        path = Path(self.run_dir, "spec.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **self.spec.replace(barrier=limit).to_dict()}))
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", AGENT, str(ROOT), self.run_dir, str(index)],
            stdin=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def line(self, kind: str) -> dict[str, Any]:
        """The journal's first line of that kind, once it is there."""

        def find() -> dict[str, Any] | None:
            return next((line for line in runs.journal(self.run) if line["kind"] == kind), None)

        found = wait_until(find, f"{kind} in the journal")
        assert found is not None
        return found

    def kinds(self) -> list[str]:
        return [line["kind"] for line in runs.journal(self.run)]

    def said(self, text: str) -> str:
        """The output, once ``text`` is in it."""
        return (
            wait_until(lambda: self.out.exists() and text in self.out.read_text() and self.out.read_text(), text) or ""
        )

    def log(self, index: int) -> str:
        return (Path(self.run_dir) / f"agent.{index}.log").read_text()

    def left(self) -> list[int]:
        """Living processes that came from the run."""
        marker = os.fsencode(self.run_dir)
        return [
            pid
            for pid, process in processes.table().items()
            if process.alive and is_marked(processes.environment(pid), marker)
        ]

    def over(self) -> None:
        """Waits until the agents are gone; nothing of the run may be left then."""
        wait_until(lambda: not any(lives(pid) for pid in self.pids), "the agents' ends")
        assert self.left() == []
        assert not any(runs.alive(self.run, index) for index in range(len(self.spec.nodes)))

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
            process.wait(30)
        for pid in self.pids:
            if lives(pid):
                os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not any(lives(pid) for pid in self.pids), "the agents' ends")
        for pid in self.left():  # of a test that has failed
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[Any]:
    made: list[Scene] = []

    def make(script: str, **fields: Any) -> Scene:
        made.append(Scene(tmp_path, "#!/bin/sh\n" + script, **fields))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def test_a_run_of_two_nodes(fork_server: ForkServer, scenes: Any) -> None:
    scene = scenes("echo to be heard; setsid sleep 1000 & exit 3")
    scene.start(fork_server)
    ended = scene.line("ended")
    assert scene.line("started")["hosts"] == ["n1", "n2"]
    assert (ended["state"], ended["status"]) == ("FAILED", 3 << 8)
    assert scene.kinds() == ["started", "ending", "ended"]
    assert scene.out.read_text() == "to be heard\n"
    scene.over()


def test_nodes_that_know_their_names(fork_server: ForkServer, scenes: Any, tmp_path: Path) -> None:
    private = tmp_path / "private"
    isolation.prepare(str(private), {"n1": "127.0.0.71", "n2": "127.0.0.72"}, "/our/commands")
    scene = scenes("uname -n; getent hosts n2", isolate="namespaces", private=str(private))
    scene.start(fork_server)
    assert scene.line("ended")["state"] in ("COMPLETED", "FAILED")
    name, *addresses = scene.out.read_text().splitlines()
    if isolation.probe()[0] == "namespaces":
        assert name == "n1"
        assert [address.split() for address in addresses] == [["127.0.0.72", "n2"]]
    else:
        assert name == os.uname().nodename
        assert "no namespaces: " in scene.log(0)
    scene.over()


def test_a_node_whose_agent_is_killed_ends_the_run(fork_server: ForkServer, scenes: Any) -> None:
    scene = scenes("echo ready; sleep 1000")
    scene.start(fork_server)
    scene.said("ready")
    os.kill(scene.pids[1], signal.SIGKILL)
    assert scene.line("ended")["state"] == "NODE_FAIL"
    scene.over()


def test_agents_started_twice_run_once(fork_server: ForkServer, scenes: Any) -> None:
    scene = scenes("echo once; while ! test -s go; do sleep 0.05; done", nodes=1)
    scene.start(fork_server)
    scene.said("once")
    again = scene.start_child(0)
    assert again.wait(30) == 0
    (scene.out.parent / "go").write_text("x")
    assert scene.line("ended")["state"] == "COMPLETED"
    scene.over()
    late = scene.start_child(0)  # the journal says that it was started before
    assert late.wait(30) == 0
    assert scene.kinds() == ["started", "ending", "ended"]
    assert scene.out.read_text() == "once\n"


def test_a_leader_that_is_told_to_end(scenes: Any) -> None:
    scene = scenes("trap '' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done")
    leader, node = scene.start_child(0), scene.start_child(1)
    scene.said("ready")
    leader.terminate()
    assert leader.wait(30) == 143
    assert node.wait(30) in (0, 1)  # stopped by the leader in time, or without one
    assert scene.left() == []
    # The script's death is not taken for its own end: without an end in the journal the run is lost.
    assert scene.kinds() == ["started", "ending"]
    assert scene.line("ending")["state"] == "NODE_FAIL"


def test_a_node_without_a_leader_gives_up(scenes: Any) -> None:
    scene = scenes("echo never")
    assert scene.start_child(1, limit=0).wait(30) == 1
    assert "the leader cannot be reached" in scene.log(1)


def test_a_node_that_still_looks_for_its_leader_ends_at_once(scenes: Any) -> None:
    scene = scenes("echo never")
    node = scene.start_child(1)
    wait_until(lambda: _handles_term(node.pid), "the agent")
    node.terminate()
    assert node.wait(30) == 143


def _handles_term(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False
