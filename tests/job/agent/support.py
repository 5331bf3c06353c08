"""A fork server, a run folder, and a leader's end for agents under test: real processes, real sockets."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.job import address as addresses
from shim.job.link import SessionLink
from shim.job.listener import Listener
from shim.job.loop import Loop
from shim.job.session import Session
from shim.job.spec import RunNode, RunSpec
from shim.job.wire import BATCH, STDIN
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[3]
KEY = b"k" * 32
MOST_OUTPUT = 16 * 1024 * 1024
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); import runpy; "
    "runpy.run_module('shim.job.agent.forkserver', run_name='__main__')"
)
# The same with everything loaded first and something done between: this user may not be able to read the interpreter.
BOOT_AFTER = (
    "import sys; sys.path.insert(0, sys.argv[1]); import ctypes, os, socket; from shim.job.agent import forkserver, place; from shim.job import libc\n"
    "%s\n"
    "forkserver.serve(0)"
)
NOBODY = 65534
# Dumpable again, as every program is that was executed as that user: /proc/self is its own.
AS_NOBODY = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); libc._call('prctl', 4, 1, 0, 0, 0)"
NO_SUBREAPER = "place.become_subreaper = lambda: False"


class ForkServer:
    """The fork server as the local backend starts it, or (``after``) once these Python statements are done."""

    def __init__(self, after: str = "") -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", BOOT_AFTER % after if after else BOOT, str(ROOT)],
                stdin=theirs,
                start_new_session=True,
            )

    def ask(self, request: object) -> dict[str, Any]:
        return self.ask_bytes(json.dumps(request).encode())

    def ask_bytes(self, body: bytes) -> dict[str, Any]:
        self.socket.sendall(struct.pack(">I", len(body)) + body)
        (size,) = struct.unpack(">I", self._read(4))
        answer = json.loads(self._read(size))
        assert isinstance(answer, dict)
        return answer

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the fork server closed its end"
            data += piece
        return data

    def close(self) -> None:
        self.socket.close()
        assert self.process.wait(30) == 0


class FakeLeader:
    """The leader's end: sends what a test wants, keeps what the agent says."""

    def __init__(self, run_dir: Path) -> None:
        self.loop = Loop()
        server, address = addresses.listen({"unix": str(run_dir / "leader.sock")})
        self.listener = Listener(self.loop, server, KEY, self._connected)
        addresses.write_address(str(run_dir), address)
        self.run_dir = run_dir
        self.link: SessionLink | None = None
        self.messages: list[dict[str, Any]] = []
        self.output: dict[tuple[int, int, int], bytes] = {}
        self.ended: set[tuple[int, int, int]] = set()  # streams
        self.credit = True  # give credit back at once
        self.closed = False

    def _connected(self, session: Session, hello: dict[str, Any]) -> None:
        self.link = SessionLink(session)
        self.link.on_message = self.messages.append
        self.link.on_data = self._data
        self.link.on_close = self._closed

    def _closed(self, _reason: str) -> None:
        self.closed = True

    def _data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        key = (step, rank, stream)
        self.output[key] = self.output.get(key, b"") + data
        assert len(self.output[key]) <= MOST_OUTPUT, "a task that writes without end"
        if not data:
            self.ended.add(key)
        elif self.credit:
            self.send("credit", step=step, bytes=len(data), stream="out")

    def send(self, do: str, **fields: Any) -> None:
        assert self.link is not None
        self.link.send({"do": do, **fields})

    def feed(self, data: bytes, step: int = 0, rank: int = 0) -> None:
        assert self.link is not None
        self.link.send_data(step, rank, STDIN, data)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        def turned() -> Any:
            self.loop.run_once(0.02)
            return condition()

        try:
            return wait_until(turned, what)
        except AssertionError as failure:
            tails = {key: data[-200:] for key, data in self.output.items()}  # a failed test must not print megabytes
            raise AssertionError(f"{failure}; so far: {self.messages[-20:]} {tails}") from None

    def told(self, do: str, **fields: Any) -> dict[str, Any]:
        """The first message of that kind with these fields; waits for it."""

        def find() -> dict[str, Any] | None:
            for message in self.messages:
                if message["do"] == do and all(message.get(name) == value for name, value in fields.items()):
                    return message
            return None

        found = self.until(find, f"{do} {fields}")
        assert isinstance(found, dict)
        return found

    def start(self) -> None:
        self.told("check-in")
        self.send("start")

    def launch(
        self, *argv: str, step: int = 0, tasks: Any = 1, env: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        environment = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "node2", **(env or {})}
        if step != BATCH:
            environment["SLURM_STEP_ID"] = str(step)
        to = {"to": "leader"}
        fields: dict[str, Any] = {
            "step": step,
            "name": "test",
            "tasks": tasks
            if isinstance(tasks, list)
            else [
                {"rank": rank, "local": rank, "argv": argv, "environment": {"SLURM_PROCID": str(rank)}}
                for rank in range(tasks)
            ],
            "environment": environment,
            "work_dir": str(self.run_dir),
            "umask": 0o022,
            "stdin": {"to": "null"},
            "stdout": to,
            "stderr": to,
        }
        self.send("launch", **{**fields, **more})

    def shell(self, script: str, **more: Any) -> None:
        self.launch("/bin/sh", "-c", script, **more)

    def out(self, stream: int = 1, step: int = 0, rank: int = 0) -> str:
        """All output of a task that has ended."""
        self.told("drained", step=step)
        return os.fsdecode(self.output.get((step, rank, stream), b""))

    def status(self, step: int = 0, rank: int = 0) -> int:
        return int(self.told("exit", step=step, rank=rank)["status"])

    def line(self, step: int = 0, rank: int = 0) -> str:
        """The task's standard output once it has a whole line."""
        key = (step, rank, 1)
        self.until(lambda: b"\n" in self.output.get(key, b""), "a line")
        return self.output[key].decode().splitlines()[0]

    def close(self) -> None:
        self.listener.close()
        if self.link is not None:
            self.link.close()
        self.loop.close()


def write_spec(run_dir: Path, **fields: Any) -> None:
    spec: dict[str, Any] = {
        "job": Job(job_id=7),
        "cluster": Cluster(name="local"),
        "nodes": (RunNode(name="node1", host="node1"), RunNode(name="node2", host="node2")),
    }
    (run_dir / "spec.json").write_text(json.dumps(RunSpec(**{**spec, **fields}).to_dict()))


def lives(pid: int) -> bool:
    """Whether ``pid`` runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def locked(run_dir: Path, index: int = 1) -> bool:
    with open(run_dir / f"lock.{index}", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class Agent:
    """Agent 1 of a run, a real process, and the leader it talks to."""

    def __init__(self, fork_server: ForkServer, run_dir: Path, owner: int | None = None) -> None:
        self.leader = FakeLeader(run_dir)
        if owner is not None:
            for path in (run_dir, *run_dir.iterdir()):
                os.chown(path, owner, owner)
        self.run_dir = run_dir
        self.pid = int(fork_server.ask({"run_dir": str(run_dir), "index": 1})["pid"])

    def close(self) -> None:
        """End the agent by its pid. Its fork server does not wait for it, so /proc tells when it is gone."""
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.leader.until(lambda: not lives(self.pid), "the agent's end")
        self.leader.close()
