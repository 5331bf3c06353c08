"""Pods played on this machine: the real archive, started by the real container command, each with a folder for a root."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shim.control.backends.kubernetes.objects.bundle import bundle, container_command
from shim.core.model.cluster import Partition
from shim.job.agent.journal import read_journal
from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.session import open_session
from shim.job.spec import SCRIPT, RunNode, RunSpec
from shim.job.wire import BATCH, FILES
from tests import leftovers
from tests.job.pod.dns import NameServer
from tests.job.run_folder import KEY, spec_of
from tests.support import wait_until

DOMAIN = "slurm.test.svc.cluster.local"


def free_port() -> int:
    """A TCP port that nobody has now."""
    with socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::", 0))
        return int(sock.getsockname()[1])


class Pods:
    """The pods of job 7. ``start(index)`` runs one; ``close`` ends whatever is left."""

    def __init__(self, folder: Path, nodes: int = 1, script: str | None = None, **fields: Any) -> None:
        self.folder = folder
        self.work_dir = folder / "work"
        self.work_dir.mkdir()
        self.out = self.work_dir / "slurm-7.out"
        names = [f"slurm-7-{index}" for index in range(nodes)]
        spec = spec_of(nodes=nodes, script=script is not None, folder=str(self.work_dir), kill_wait=5)
        shares = tuple(share.replace(name=name, host=name) for share, name in zip(spec.job.shares, names))
        self.spec: RunSpec = spec.replace(
            job=spec.job.replace(shares=shares),
            nodes=tuple(RunNode(name=name, host=name) for name in names),
            cluster=spec.cluster.replace(
                nodes=tuple(node.replace(name=name) for node, name in zip(spec.cluster.nodes, names)),
                partitions=(Partition(name="debug"),),
            ),
            listen=f"tcp:{free_port()}",
            leader=f"{names[0]}.{DOMAIN}.",
            barrier=60,
        ).replace(**fields)
        self.script = script
        self.archive: bytes | None = None  # the working directory in the ticket
        self.code = bundle()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SLURM_JOB_ID": "7"}
        self.dns = NameServer()
        self.dns.names[f"{names[0]}.{DOMAIN}"] = "127.0.0.1"
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._others: list[subprocess.Popen[bytes]] = []

    def root(self, index: int) -> Path:
        """The folder that is /opt/shim to a pod."""
        return self.folder / f"pod{index}"

    def run_dir(self, index: int = 0) -> Path:
        return self.root(index) / "run" / self.spec.name

    def make(self, index: int) -> dict[str, str]:
        """The pod's folder, as mounts would make it; the container's environment."""
        root = self.root(index)
        ticket = root / "ticket"
        for name in ("agent", "ticket", "run"):
            (root / name).mkdir(parents=True)
        (root / "agent/agent.zip").write_bytes(self.code.archive)
        spec = self.spec
        if spec.staged and index:  # pods have a file system each; here they must not unpack in the same place
            spec = spec.replace(job=spec.job.replace(request=spec.job.request.replace(work_dir=f"{root}/work")))
        (ticket / "spec.json").write_text(json.dumps(spec.to_dict()))
        (ticket / "key").write_text(KEY.hex())
        (ticket / "environment.json").write_text(json.dumps(self.environment))
        if self.script is not None:
            (ticket / SCRIPT).write_text(self.script)
        if self.archive is not None:
            (ticket / "stage.tar.gz").write_bytes(self.archive)
        (root / "resolv.conf").write_text(f"search {DOMAIN}\nnameserver 127.0.0.1#{self.dns.port}\n")
        (root / "hosts").write_text("127.0.0.1\tlocalhost\n")
        return {
            "PATH": os.environ["PATH"],
            "SHIM_POD_ROOT": str(root),
            "SHIM_AGENT_DIGEST": self.code.digest,
            "JOB_COMPLETION_INDEX": str(index),
            "SHIM_POD_UID": f"uid-{index}",
            "SHIM_POD_IP": f"127.0.0.{index + 1}",
            "SHIM_NODE_NAME": f"node{index}",
            "IMAGE_SAYS": "hello",
        }

    def start(self, index: int, *interpreters: str, **environment: str) -> subprocess.Popen[bytes]:
        """Starts the pod's container; ``interpreters`` are tried instead of the usual ones."""
        command = container_command()
        process = subprocess.Popen(
            [*command[:4], *interpreters] if interpreters else command,
            env={**self.make(index), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.processes[index] = process
        return process

    def start_all(self) -> None:
        for index in range(len(self.spec.nodes)):
            self.start(index)

    def ended(self, index: int = 0) -> int:
        """The container's exit code, once it has ended."""
        return self.processes[index].wait(60)

    def said(self, index: int = 0) -> str:
        """The container's output; it has ended."""
        return self.processes[index].communicate(timeout=60)[0].decode()

    def termination(self, index: int = 0) -> str:
        return (self.root(index) / "termination-log").read_text()

    def journal(self) -> list[dict[str, Any]]:
        return read_journal(str(self.run_dir() / "journal"))

    def line(self, kind: str) -> dict[str, Any]:
        """The journal's first line of that kind, once it is there."""
        return wait_until(
            lambda: next((line for line in self.journal() if line["kind"] == kind), None), f"{kind} in the journal"
        )

    def command(self, *words: str, index: int = 0, code: int | None = 0, stdin: str = "", **more: str) -> str:
        """Runs one of our commands inside the pod; stdout and stderr together."""
        environment = {**self.environment, "SHIM_RUN_DIR": str(self.run_dir(index)), **more}
        environment["PATH"] = f"{self.root(index)}/run/bin:{environment['PATH']}"
        done = subprocess.run(
            [f"{self.root(index)}/run/bin/{words[0]}", *words[1:]],
            env=environment,
            cwd=self.work_dir,
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        assert code is None or done.returncode == code, done.stdout.decode()
        return done.stdout.decode()

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(30)
            finally:
                process.kill()
                process.wait()
                if process.stdout is not None and not process.stdout.closed:
                    print(process.stdout.read().decode(errors="replace")[-2000:])  # for a test that has failed
                    process.stdout.close()
        leftovers.killed(str(self.folder))  # with its container a pod's processes end, whatever started them
        self.dns.close()


class Controller:
    """A controller's connection to the leader of played pods, in this process."""

    def __init__(self, pods: Pods) -> None:
        self.loop = Loop()
        port = int(pods.spec.listen.partition(":")[2])
        wait_until(lambda: (pods.run_dir() / "leader").exists(), "the leader listens")
        self.link = SessionLink(open_session(self.loop, {"tcp": ["127.0.0.1", port]}, KEY, "controller"))
        self.got: list[dict[str, Any]] = []
        self.data = {1: b"", 2: b""}
        self.files: dict[str, bytes] = {}  # of steps, by their numbers
        self.credit = True
        self.link.on_message = self.got.append
        self.link.on_data = self._data

    def _data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        name = str(rank) if step == FILES else {1: "stdout", 2: "stderr"}[stream]
        if step == FILES:
            self.files[name] = self.files.get(name, b"") + data
        else:
            self.data[stream] += data
        if self.credit:
            self.send("credit", step=BATCH, bytes=len(data), stream=name)

    def send(self, do: str, **fields: Any) -> None:
        self.link.send({"do": do, **fields})

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Turns its loop until that is so."""

        def turned() -> bool:
            self.loop.run_once(0.02)
            return bool(condition())

        wait_until(turned, what)

    def all(self, do: str) -> list[dict[str, Any]]:
        return [message for message in self.got if message["do"] == do]

    def kinds(self) -> list[str]:
        """The kinds of the journal's lines that came."""
        return [message["line"]["kind"] for message in self.all("journal")]

    def close(self) -> None:
        self.link.close()
        self.loop.close()
