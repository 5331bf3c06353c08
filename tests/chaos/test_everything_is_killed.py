"""Clients of five kinds while controller, fork server, heralds and agents are killed: nothing is lost, twice, untrue or left.

``CHAOS=full`` does it for five minutes (``CHAOS_SECONDS`` for as long as that says).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.control import client, paths
from shim.control.index.query import JobQuery
from shim.control.index.reader import open_reader
from shim.core.model import states
from shim.core.model.job import Job
from shim.job.agent import cgroup
from tests.control.controller import processes
from tests.support import wait_until

SECONDS = float(os.environ.get("CHAOS_SECONDS") or (300 if os.environ.get("CHAOS") == "full" else 8))
SLEEP = f"4000.{os.getpid()}"  # seconds; this session's
ROOT = Path(__file__).resolve().parents[2]

# A client: until the file ``over`` is there it submits, and says what it was told. Its jobs write one line each time they run.
_CLIENT = """
import os, random, sys, time
from shim.control import client
from tests.control.controller import processes
client.PATIENCE = 120.0
kind, folder, chance = sys.argv[1], sys.argv[2], random.Random(sys.argv[1])
def told(job_id):
    with open(f"{folder}/told", "a") as file:
        file.write(f"{job_id}\\n")

inner = f"echo $SLURM_JOB_ID.nested >> {folder}/ran/$SLURM_JOB_ID"
again = f"sbatch --parsable --no-requeue -o /dev/null --wrap '{inner}' >> {folder}/told 2>> {folder}/said || echo refused.$SLURM_JOB_ID >> {folder}/told\\n"
# It hides, and kills its agent: in every way that there is it has left its job.
hide = f"echo $$ >> {folder}/hidden; exec sleep {sys.argv[3]}"
leave = f"env -i setsid /bin/sh -c '{hide}' &\\nsleep 0.1\\nkill -9 $PPID\\nsleep 60\\n"
ran = f"echo $SLURM_JOB_ID.$SLURM_RESTART_COUNT >> {folder}/ran/$SLURM_JOB_ID\\n"
while not os.path.exists(f"{folder}/over"):
    nap = f"sleep {chance.uniform(0, 1):.2f}\\n"
    if kind == "plain":
        told(processes.submit(ran + nap, requeue=False))
    elif kind == "nodes":
        told(processes.submit(ran + nap, requeue=False, min_nodes=chance.choice([1, 2]), ntasks=2))
    elif kind == "leaving":
        told(processes.submit(ran + leave, requeue=False))
    elif kind == "nested":
        told(processes.submit(ran + again, requeue=False))
    else:
        first = processes.submit(ran + nap, requeue=False)
        told(first)
        told(processes.submit(ran, requeue=False, dependency=f"afterany:{first}"))
    time.sleep(chance.uniform(0.05, 0.3))
"""


@pytest.fixture(autouse=True)
def own_controller(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHIM_CONTROLLER_IDLE", "60")
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    with processes.ended_afterwards():
        yield


def ours() -> dict[int, str]:
    """The processes of this state folder, and what each is; fork servers and agents share a command line, and so do a herald's halves."""
    found = {}
    marks = {
        f"{paths.HOST_VARIABLE}={paths.state_dir()}".encode(),
        b"SHIM_STATE_DIR=" + os.fsencode(os.environ["SHIM_STATE_DIR"]),
    }
    for name in os.listdir("/proc"):
        try:
            if not name.isdigit() or marks.isdisjoint(Path(f"/proc/{name}/environ").read_bytes().split(b"\0")):
                continue
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if b"forkserver" in line:
            found[int(name)] = "forked"
        elif b"herald" in line:
            found[int(name)] = "herald"
    holder = processes.pid()
    if holder is not None and processes.is_controller(holder):
        found[holder] = "controller"
    return found


def test_nothing_is_lost_twice_untrue_or_left(tmp_path: Path) -> None:
    (tmp_path / "ran").mkdir()
    chance = random.Random(11)
    groups = divisible()
    clients = [
        subprocess.Popen([sys.executable, "-c", _CLIENT, kind, str(tmp_path), SLEEP], cwd=ROOT)
        for kind in ("plain", "nodes", "nested", "dependent", "leaving")
    ]
    killed, hit = kill_now_and_then(chance, time.monotonic() + SECONDS)
    (tmp_path / "over").touch()
    assert [one.wait(180) for one in clients] == [0] * len(clients), processes.log()
    assert all(killed.values()), killed

    # From now on nobody asks: the index is only read. A run that lost an agent before its nodes met takes a minute to say so.
    reader = open_reader(paths.index_path())
    assert reader is not None
    wait_until(lambda: not reader.active(), "every job has ended, though nobody asked", limit=240.0, pause=0.2)
    jobs = reader.jobs(JobQuery(active=False))
    reader.close()
    assert len(jobs) == len({job.job_id for job in jobs})
    wrong = [problem for job in jobs if (problem := told_wrongly(job, tmp_path / "ran" / str(job.job_id), hit))]
    assert not wrong, f"{killed}, scripts of {hit}: {wrong}"
    told = (tmp_path / "told").read_text().split()
    # A script whose leader was killed may see its sbatch killed just before itself.
    lost = {f"refused.{job.job_id}" for job in jobs if job.state == states.NODE_FAIL}
    refused = {line for line in told if line.startswith("refused")} - lost
    assert not refused, f"in a job sbatch works: {(tmp_path / 'said').read_text()}"
    told = [line for line in told if line not in lost]
    assert len(told) == len(set(told))
    assert set(told) <= {str(job.job_id) for job in jobs}, "who was told of a job finds it"
    client.call("shutdown", {"now": True})
    wait_until(lambda: not ours(), f"nothing is left: {killed}", limit=60.0, pause=0.2)
    assert [name for name in os.listdir(paths.run_dir()) if name[0] != "."] == []
    assert (tmp_path / "hidden").read_text()
    if groups:
        cgroup.sweep(paths.state_dir())  # of agents killed with the last fork server: the next one would do it
        assert hidden(tmp_path) == []
    for pid in hidden(tmp_path):
        os.kill(pid, signal.SIGKILL)


def hidden(folder: Path) -> list[int]:
    """Who has left its job and lives; pids come again within minutes."""
    found = []
    for pid in (folder / "hidden").read_text().split():
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\0" + SLEEP.encode() + b"\0":
                found.append(int(pid))
        except OSError:
            continue
    return found


def divisible() -> bool:
    """Whether there are control groups for agents here."""
    try:
        return bool(cgroup.find())
    except OSError:
        return False


def test_a_script_is_told_from_the_agents(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    job_id = processes.submit(
        f"echo $$ $PPID > {tmp_path}/pids.new\nmv {tmp_path}/pids.new {tmp_path}/pids\nread _ < {tmp_path}/fifo\n"
    )
    wait_until(lambda: (tmp_path / "pids").exists(), "the script runs")
    script, leader = map(int, (tmp_path / "pids").read_text().split())
    assert (script_of(script), script_of(leader)) == (job_id, 0)
    (tmp_path / "fifo").write_text("\n")
    assert client.call("wait", {"job_id": job_id})["state"] == "COMPLETED"


def told_wrongly(job: Job, ran: Path, hit: set[int]) -> str:
    """What the index says of a job that is not so; "" for the truth. A job that was killed with its agent may have run or not.

    ``hit``: jobs whose script itself was killed.
    """
    lines = ran.read_text().split() if ran.exists() else []
    if len(lines) > 1:
        return f"{job.job_id} ran {len(lines)} times: {lines}"
    if job.state == states.COMPLETED and not lines:
        return f"{job.job_id} is {job.state} and never ran"
    if job.job_id in hit and job.state == states.FAILED and job.exit_status == signal.SIGKILL:
        return ""
    if job.state not in (states.COMPLETED, states.NODE_FAIL):
        return f"{job.job_id} is {job.state}: {job.reason}, {job.exit_status}, {job.system_comment}, ran {lines}"
    return ""


def kill_now_and_then(chance: random.Random, end: float) -> tuple[dict[str, int], set[int]]:
    """Kills one process of ours after another at random; how many of each kind, and the jobs whose script was one of them."""
    killed = {"controller": 0, "forked": 0, "herald": 0}
    hit = set()
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.1, 0.8))
        there = ours()
        kind = chance.choice(["controller", "controller", "forked", "forked", "herald"])
        found = sorted(pid for pid, what in there.items() if what == kind)
        if found:
            victim = chance.choice(found)
            job_id = script_of(victim)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed[kind] += 1
            hit |= {job_id} - {0}
    return killed, hit


def script_of(pid: int) -> int:
    """The job whose script this process will be: a child of a leader, which looks like an agent until its execve. 0: it is none."""
    try:
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        files = [os.readlink(f"/proc/{parent}/fd/{name}") for name in os.listdir(f"/proc/{parent}/fd")]
    except OSError:
        return 0
    runs = f"{paths.run_dir()}/"
    journals = [path for path in files if path.startswith(runs) and path.endswith("/journal")]  # a leader's lock
    return int(journals[0][len(runs) :].partition(".")[0]) if journals else 0
