"""Real controller processes: started on demand, one at a time, killed at every boundary."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.control import client, paths, starter
from shim.control.index.reader import open_reader
from shim.core.errors import ShimError
from tests.control.controller import processes
from tests.support import wait_until


@pytest.fixture(autouse=True)
def own_controller(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHIM_CONTROLLER_IDLE", "60")
    with processes.ended_afterwards():
        yield


def test_a_call_starts_a_controller_and_the_next_one_finds_it() -> None:
    first = client.call("ping")
    assert first["pid"] == processes.pid()
    assert client.call("ping")["pid"] == first["pid"]
    assert oct(os.stat(paths.socket_path()).st_mode & 0o777) == "0o600"


def test_many_at_once_start_one() -> None:
    code = "from shim.control import client; print(client.call('ping')['pid'])"
    root = Path(__file__).resolve().parents[3]
    many = [
        subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    found = [one.communicate()[0] for one in many]
    assert set(found) == {f"{processes.pid()}\n"}


def test_a_stale_socket_is_no_obstacle() -> None:
    client.call("ping")
    processes.kill()
    wait_until(lambda: processes.pid() is None, "the controller is dead")
    assert os.path.exists(paths.socket_path())
    assert client.call("ping")["pid"] == processes.pid()


def test_an_idle_controller_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_CONTROLLER_IDLE", "0.05")
    client.call("ping")
    wait_until(lambda: processes.pid() is None, "the idle controller left")
    assert not os.path.exists(paths.socket_path())


def test_a_job_from_submit_to_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    job_id = processes.submit("echo $SLURM_JOB_ID\nexit 3\n", stdout=str(out))
    end = client.call("wait", {"job_id": job_id})
    assert (end["state"], end["exit_status"]) == ("FAILED", 768)
    assert out.read_text() == f"{job_id}\n"


@pytest.mark.parametrize(
    "point", ["submit", "submit-written", "commit:2", "commit:3", "committed:2", "committed:4", "started", "start"]
)
def test_killed_around_the_submission(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_and_run_once(point, tmp_path, monkeypatch)


@pytest.mark.parametrize("point", ["start-asked", "commit:4", "commit:5", "observed:2", "forget"])
def test_killed_while_the_job_runs(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_and_run_once(point, tmp_path, monkeypatch)


def killed_and_run_once(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first controller dies at ``point``; whoever needs one starts the next; the job runs exactly once."""
    out = tmp_path / "out"
    monkeypatch.setenv("SHIM_TEST_CRASH", point)
    starter.start()
    wait_until(lambda: processes.alive() or processes.begun(), "the controller listens, or is dead again")
    monkeypatch.delenv("SHIM_TEST_CRASH")
    job_id = processes.submit(f"echo run >> {out}\n")
    end = client.call("wait", {"job_id": job_id})
    assert (end["state"], end["restarts"]) == ("COMPLETED", 0), processes.log()
    assert out.read_text() == "run\n"
    # The end of a job is told before its run is forgotten: the last points may still lie ahead.
    wait_until(lambda: processes.begun() > 1 or processes.pid() is None, "the first controller died")
    client.call("ping")
    assert processes.begun() > 1
    reader = open_reader(paths.index_path())
    assert reader is not None
    job = reader.job("local", job_id)
    reader.close()
    assert job is not None
    assert job.state == "COMPLETED"
    # It may be kept under another name for the next run.
    wait_until(lambda: all(name[0] == "." for name in os.listdir(paths.run_dir())), "the run's folder is put away")


def test_killed_between_a_cancel_and_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_TEST_CRASH", "cancelled")
    starter.start()
    wait_until(lambda: processes.alive() or processes.begun(), "the controller listens, or is dead again")
    monkeypatch.delenv("SHIM_TEST_CRASH")
    ready = tmp_path / "ready"
    job_id = processes.submit(f"echo > {ready}\nsleep 300\n")
    wait_until(ready.exists, "the script runs")
    client.call("cancel", {"targets": [{"job_id": job_id}]})
    assert client.call("wait", {"job_id": job_id})["state"] == "CANCELLED"
    assert processes.begun() == 2


def test_another_protocol_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PROTOCOL", 99)
    with pytest.raises(ShimError, match="the controller speaks protocol 1, this command 99"):
        client.call("ping")


def test_a_damaged_index_is_said_on_the_terminal() -> None:
    paths.ensure(paths.state_dir())
    Path(paths.index_path()).write_bytes(b"this is no database" * 100)
    with pytest.raises(ShimError, match=r"the job index .* is damaged"):
        client.call("ping")
    assert Path(paths.index_path()).read_bytes().startswith(b"this is no database")


def test_a_controller_that_breaks_down_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    # A configuration is read; that its reader fails stands for any error of this program while it starts.
    broken = "import shim.control.site as site; site.clusters = lambda: 1 / 0; "
    monkeypatch.setattr(starter, "_CODE", starter._CODE.replace("from shim", broken + "from shim", 1))
    starter.start()
    wait_until(lambda: "ZeroDivisionError" in log(), "the controller broke down")
    wait_until(lambda: processes.pid() is None, "it left its place")


def log() -> str:
    return processes.log() if os.path.exists(paths.log_path()) else ""


def test_a_very_long_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path / ("long" * 30) / ("path" * 20)))
    with processes.ended_afterwards():
        out = tmp_path / "out"
        assert client.call("wait", {"job_id": processes.submit("echo here\n", stdout=str(out))})["state"] == "COMPLETED"
        assert out.read_text() == "here\n"


def test_read_commands_start_a_controller_only_for_active_jobs(tmp_path: Path) -> None:
    job_id = processes.submit("true\n")
    client.call("wait", {"job_id": job_id})
    processes.kill()
    wait_until(lambda: processes.pid() is None, "the controller is dead")
    reader = open_reader(paths.index_path())
    assert reader is not None
    client.freshen(reader, "squeue")
    assert processes.pid() is None
    held = processes.submit("true\n", hold=True)
    processes.kill()
    wait_until(lambda: processes.pid() is None, "the controller is dead")
    generation = reader.generation()
    client.freshen(reader, "squeue")
    wait_until(lambda: reader.generation() > generation, "a new controller caught up")
    reader.close()
    client.call("cancel", {"targets": [{"job_id": held}]})
