"""`shim top` with ten thousand jobs: how soon its page is there, and what the controller does for it while it is watched."""

from __future__ import annotations

import fcntl
import os
import select
import statistics
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measuring import ROOT, cost, empty_entry_point, environment, row

JOBS = 9990  # max_jobs is 10000
WATCHED = 30.0  # seconds
_ROUNDS = 10
# In an interpreter of its own: the state folder is the environment's.
_FILL = f"""
import os, sys, time
sys.path.insert(0, sys.argv[1])
from shim.control import paths
from shim.control.index.opening import open_store
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
paths.ensure(paths.state_dir())
store = open_store(paths.index_path())
with store.transaction():
    for number in range(10001, {10001 + JOBS}):
        store.add_job(Job(
            job_id=number, uid=os.getuid(), user="bench", partition="debug", held="user", reason="JobHeldUser",
            request=JobRequest(name=f"job-{{number}}", work_dir="/tmp", command="/tmp/job.sh", hold=True),
            submit_time=time.time(), stdout=f"/tmp/slurm-{{number}}.out",
        ))
store.close()
"""


def top(folder: Path) -> None:
    """The first page beside an empty entry point; the controller's share of a CPU while nobody and while somebody watches."""
    env = environment(folder, TERM="xterm", LC_ALL="C.UTF-8", SHIM_CONTROLLER_IDLE="600")
    env["PATH"] = f"{ROOT / 'bin'}:{env['PATH']}"
    (folder / "shim").mkdir(exist_ok=True)
    (folder / "shim/config.toml").write_text('[clusters.local]\nbackend = "local"\nnodes = 8\n')
    python = str(ROOT / ".venv/bin/python")
    subprocess.run([python, "-c", _FILL, str(ROOT)], env=env, check=True)
    subprocess.run(
        ["sbatch", "-o", str(folder / "out"), "--wrap", "while sleep 0.5; do date; done"],
        env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    count = subprocess.run(["squeue", "-h"], env=env, capture_output=True, text=True, check=True).stdout.count("\n")
    empty = empty_entry_point(folder)
    first, nothing, busy = [], [], []
    for _ in range(_ROUNDS):
        nothing.append(cost(empty, env, folder))
        with Watcher(env) as watcher:
            first.append(watcher.first)
            busy.append(watcher.cpu)
    median, base = statistics.median(first), statistics.median(nothing)
    row(f"shim top, first page, {count} jobs", f"{median:.0f} ms  ({median / base:.1f} x)", "wanted: <= 500 ms")
    row("the same, CPU time", f"{statistics.median(busy):.0f} ms", "on a busy machine the rest is waiting")
    pid = _controller(env)
    alone = _share(pid, WATCHED)
    with Watcher(env) as watcher:
        own = _cpu(watcher.process.pid)
        watched = _share(pid, WATCHED, watcher)
        own = (_cpu(watcher.process.pid) - own) / WATCHED
    row("controller's share of a CPU, watched", f"{100 * watched:.2f} %  (alone {100 * alone:.2f} %)", "wanted: <= 2 %")
    row("shim top's own share, a job's output open", f"{100 * own:.1f} %", "recorded; not limited")


class Watcher:
    """`shim top` on a terminal of 80x24. ``first``: milliseconds until its first page was there; ``cpu``: of CPU time."""

    def __init__(self, env: Mapping[str, str]) -> None:
        began = time.perf_counter()
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            ["shim", "top"], stdin=slave, stdout=slave, stderr=slave, env=dict(env), start_new_session=True
        )
        os.close(slave)
        seen = b""
        while b"q end" not in seen:  # its last line
            seen += os.read(self._master, 65536)
        self.first = (time.perf_counter() - began) * 1000
        self.cpu = _cpu(self.process.pid) * 1000

    def drain(self, seconds: float) -> None:
        """Takes what it sends, until it has left the terminal."""
        if select.select([self._master], [], [], seconds)[0]:
            try:
                os.read(self._master, 65536)
            except OSError:
                self.process.wait()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_error: object) -> None:
        os.write(self._master, b"q")
        while self.process.poll() is None:
            self.drain(0.01)
        os.close(self._master)


def _controller(env: Mapping[str, str]) -> int:
    answer = subprocess.run(["shim", "controller", "status"], env=dict(env), capture_output=True, text=True, check=True)
    return int(answer.stdout.split("pid ")[1].split()[0])


def _share(pid: int, seconds: float, watcher: Watcher | None = None) -> float:
    """CPU seconds of the process for each second."""
    before, end = _cpu(pid), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if watcher is None:
            time.sleep(left)
        else:
            watcher.drain(min(left, 0.5))
    return (_cpu(pid) - before) / seconds


def _cpu(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
