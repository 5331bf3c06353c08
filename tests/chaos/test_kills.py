"""Submissions from several processes while the controller is killed again and again: none lost, none run twice.

``CHAOS=full`` does it at full size (300 submissions from 8 processes, 50 kills), which takes some minutes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.control import client, paths
from shim.control.index.query import JobQuery
from shim.control.index.reader import open_reader
from tests.control.controller import processes
from tests.support import wait_until

FULL = os.environ.get("CHAOS") == "full"
PROCESSES, SUBMISSIONS, KILLS = (8, 300, 50) if FULL else (4, 32, 12)

# Four who start controllers that are killed need long for it on a machine with a hundred other processes.
_SUBMITTER = """
import sys
from shim.control import client
from tests.control.controller import processes
client.PATIENCE = 120.0
out, number = sys.argv[1], int(sys.argv[2])
for _ in range(number):
    print(processes.submit(f"echo $SLURM_JOB_ID >> {out}\\n"), flush=True)
"""


@pytest.fixture(autouse=True)
def own_controller(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHIM_CONTROLLER_IDLE", "60")
    with processes.ended_afterwards():
        yield


def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    out = tmp_path / "ran"
    root = Path(__file__).resolve().parents[2]
    shares = [SUBMISSIONS // PROCESSES + (one < SUBMISSIONS % PROCESSES) for one in range(PROCESSES)]
    submitters = [
        subprocess.Popen(
            [sys.executable, "-c", _SUBMITTER, str(out), str(number)], cwd=root, stdout=subprocess.PIPE, text=True
        )
        for number in shares
    ]
    kill_now_and_then(random.Random(7), KILLS, submitters)
    told = [int(line) for one in submitters for line in one.communicate()[0].split()]
    assert [one.returncode for one in submitters] == [0] * PROCESSES, processes.log()
    assert len(told) == len(set(told)) == SUBMISSIONS

    for job_id in told:
        end = client.call("wait", {"job_id": job_id})
        assert (job_id, end["state"], end["restarts"]) == (job_id, "COMPLETED", 0), processes.log()
    assert sorted(int(line) for line in out.read_text().split()) == sorted(told)
    reader = open_reader(paths.index_path())
    assert reader is not None
    assert len(reader.jobs(JobQuery(active=False))) == SUBMISSIONS
    reader.close()


def kill_now_and_then(chance: random.Random, times: int, while_running: list[subprocess.Popen[str]]) -> None:
    """Kills the controller ``times`` times at random moments, as long as there are submissions left to disturb."""
    for _ in range(times):
        # One that listens: on a slow machine none would ever get that far otherwise.
        wait_until(lambda: processes.alive() or over(while_running), "a controller listens")
        time.sleep(chance.uniform(0.0, 0.4))
        if over(while_running):
            return
        processes.kill()


def over(submitters: list[subprocess.Popen[str]]) -> bool:
    """Whether there is nothing left to disturb."""
    return all(one.poll() is not None for one in submitters)
