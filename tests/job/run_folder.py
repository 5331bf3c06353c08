"""Runs made by hand: a run folder, real agents in processes of their own, srun beside them. No controller is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from shim.core.model.cluster import Cluster, Node
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from shim.job.address import read_address
from shim.job.agent.journal import read_journal
from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.session import open_session
from shim.job.spec import SCRIPT, RunNode, RunSpec
from tests.support import wait_until

KEY = b"\xab" * 32
ROOT = Path(__file__).parents[2]
_AGENT = "import sys; sys.path.insert(0, sys.argv[1]); from shim.job.agent.main import run; sys.exit(run(sys.argv[2], int(sys.argv[3])))"
SRUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from shim.commands import entrypoint; from shim.commands.srun import main; "
    "sys.exit(entrypoint.run('srun', sys.argv[1:], main))"
)


def spec_of(
    nodes: int = 1,
    cpus: int = 4,
    script: bool = False,
    folder: str = "/tmp",
    job_id: int = 7,
    kill_wait: int = 30,
    limit: int | None = None,
    **request: Any,
) -> RunSpec:
    """A run of ``nodes`` nodes n1, n2 … with ``cpus`` CPUs each."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    kind = "batch" if script else "alloc"
    job = Job(
        job_id=job_id,
        uid=os.getuid(),
        user="user",
        request=JobRequest(**{"kind": kind, "name": "job", "work_dir": folder, **request}),
        partition="debug",
        shares=tuple(NodeShare(name=name, cpus=cpus, host=name) for name in names),
        cpus=nodes * cpus,
        nodes=nodes,
        stdout=os.path.join(folder, f"slurm-{job_id}.out") if script else "",
        stderr=os.path.join(folder, f"slurm-{job_id}.out") if script else "",
        stdin="/dev/null",
    )
    cluster = Cluster(name="local", nodes=tuple(Node(name=name, cpus=cpus) for name in names), kill_wait=kill_wait)
    return RunSpec(
        job=job,
        cluster=cluster,
        nodes=tuple(RunNode(name=name, host=name) for name in names),
        script=script,
        limit=limit,
        isolate="none",
        memory=(0,) * nodes,
    )


def write_folder(
    folder: Path, spec: RunSpec, script: str | None = None, environment: dict[str, str] | None = None
) -> str:
    """The run folder that a backend would make; its path."""
    run_dir = folder / spec.name
    run_dir.mkdir(parents=True)
    (run_dir / "spec.json").write_text(json.dumps(spec.to_dict()))
    (run_dir / "key").write_text(KEY.hex())
    (run_dir / "environment.json").write_text(json.dumps(environment or {}))
    if script is not None:
        (run_dir / SCRIPT).write_text(script)
        (run_dir / SCRIPT).chmod(0o700)
    return str(run_dir)


class LiveRun:
    """A run with real agents. To be closed: whatever is left is killed."""

    def __init__(self, folder: Path, spec: RunSpec, script: str | None = None) -> None:
        self.work_dir = folder / "work"
        self.work_dir.mkdir()
        job = spec.job.replace(request=spec.job.request.replace(work_dir=str(self.work_dir)))
        out = str(self.work_dir / "out.txt") if spec.script else ""
        self.spec = spec.replace(job=job.replace(stdout=out, stderr=out))
        base = {
            "PATH": f"{ROOT}/bin:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "SHIM_STATE_DIR": str(folder / "state"),
            "SLURM_JOB_ID": str(spec.job.job_id),
        }
        self.run_dir = write_folder(folder / "runs", self.spec, script, base)
        self.environment = dict(base, SHIM_RUN_DIR=self.run_dir)
        self.agents = [
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _AGENT, str(ROOT), self.run_dir, str(index)],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            for index in range(len(spec.nodes))
        ]
        self._sruns: list[subprocess.Popen[bytes]] = []

    def journal(self) -> list[dict[str, Any]]:
        """The journal so far."""
        return read_journal(os.path.join(self.run_dir, "journal"))

    def kinds(self) -> list[str]:
        """The kinds of the journal's lines."""
        return [line["kind"] for line in self.journal()]

    def wait_for(self, kind: str) -> dict[str, Any]:
        """The first line of that kind."""
        return wait_until(
            lambda: next((line for line in self.journal() if line["kind"] == kind), None), f"{kind} in the journal"
        )

    def last_step(self) -> str:
        """The number of the last step."""
        return str(next(line["step"] for line in reversed(self.journal()) if line["kind"] == "step"))

    def output(self) -> str:
        """What the batch script has written."""
        return (self.work_dir / "out.txt").read_text()

    def order(self, number: int, kind: str, **fields: Any) -> None:
        """An order, as a controller gives it; returns when the leader has obeyed."""
        loop = Loop()
        link = SessionLink(open_session(loop, read_address(self.run_dir), KEY, "controller"))
        answers: list[dict[str, Any]] = []
        link.on_message = answers.append
        link.send({"do": "order", "order": {"number": number, "kind": kind, **fields}})
        end = loop.now() + 60
        while not answers and loop.now() < end:
            loop.run_once(1)
        link.close()
        loop.close()
        assert answers == [{"do": "done", "number": number}]

    def start_srun(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        """Starts ``srun words`` as a program in the job would."""
        srun = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SRUN, str(ROOT), *words],
            env={**self.environment, **variables},
            cwd=self.work_dir,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._sruns.append(srun)
        return srun

    def srun(self, *words: str, stdin: str = "", **variables: str) -> tuple[int, str, str]:
        """Runs ``srun words``: its code, stdout and stderr."""
        srun = self.start_srun(*words, **variables)
        out, err = srun.communicate(stdin.encode(), timeout=60)
        return srun.returncode, out.decode(), err.decode()

    def close(self) -> None:
        """Ends everything that was started."""
        for process in (*self._sruns, *self.agents):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in (*self._sruns, *self.agents):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
