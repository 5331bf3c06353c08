"""Real controller processes: started on demand, one at a time, killed at every boundary."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shim.admin import controller as controller_commands
from shim.admin.doctor import BAD, machine
from shim.commands.allocation import Waiter
from shim.control import alive, client, paths, starter
from shim.control.index.reader import open_reader
from shim.core.errors import ShimError
from tests import reference
from tests.control.controller import processes
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[3]
PING = "from shim.control import client; client.call('ping')"


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


def test_each_controller_that_is_killed_has_a_successor(tmp_path: Path) -> None:
    # Both jobs have agents of the first controller's fork server; the second and third controller are started by its herald.
    gates, out = [tmp_path / "first", tmp_path / "second"], tmp_path / "out"
    script = "until [ -e {0} ]; do [ -e {0}.began ] || echo > {0}.began; sleep 0.05; done\n"
    jobs = [processes.submit(script.format(gate)) for gate in gates]
    processes.submit(f"echo dependent > {out}\n", dependency=f"afterok:{jobs[1]}")
    wait_until(lambda: all(Path(f"{gate}.began").exists() for gate in gates), "both scripts run")
    for count, gate in enumerate(gates, 1):
        assert processes.begun() == count
        processes.kill()
        gate.touch()
        wait_until(lambda count=count: processes.begun() > count, "a controller that nobody asked for")  # type: ignore[misc]
    wait_until(lambda: out.exists() and out.read_text(), "the dependent ran")
    status = Path(f"/proc/{processes.pid()}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert not ignored & 1 << (signal.SIGCHLD - 1)


def test_a_job_that_only_waits_has_a_controller_though_it_was_killed() -> None:
    job_id = processes.submit("true\n", begin=int(time.time()) + 3600)
    for count in (1, 2, 3):
        wait_until(lambda count=count: processes.begun() == count and forked(), "a controller and its fork server")  # type: ignore[misc]
        assert processes.kill()
        wait_until(lambda count=count: processes.begun() > count, "a controller that nobody asked for, and no leader")  # type: ignore[misc]
    client.call("cancel", {"job_ids": [job_id]})


def test_a_controller_and_the_last_leader_are_killed_and_the_dependent_runs(tmp_path: Path) -> None:
    pids, out = tmp_path / "pids", tmp_path / "out"
    job_id = processes.submit(f"echo $PPID > {pids}.new; mv {pids}.new {pids}\nsleep 600\n", requeue=False)
    processes.submit(f"echo dependent > {out}\n", dependency=f"afterany:{job_id}")
    wait_until(pids.exists, "the script runs")
    assert processes.kill()
    os.kill(int(pids.read_text()), signal.SIGKILL)
    wait_until(lambda: out.exists() and out.read_text(), "the dependent ran, though nobody asked")


def test_a_killed_controller_that_had_nothing_to_do_stays_away() -> None:
    client.call("ping")
    wait_until(lambda: forked(), "it has a fork server")
    assert processes.kill()
    wait_until(
        lambda: processes.begun() == 2 and processes.pid() is None and not forked(), "its successor has left at once"
    )


def test_a_controller_that_was_told_to_end_has_no_successor() -> None:
    job_id = processes.submit("true\n", begin=int(time.time()) + 3600)
    client.call("shutdown", {"now": True})
    wait_until(lambda: not forked(), "it ended, and nobody is left who could start another")
    assert processes.begun() == 1
    client.call("cancel", {"job_ids": [job_id]})


def ours(*programs: bytes) -> list[int]:
    """The processes of this state folder with one of these words in their command lines, by pid."""
    mark = f"{paths.HOST_VARIABLE}={paths.state_dir()}".encode()
    state = os.path.dirname(paths.state_dir()).encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if b"SHIM_STATE_DIR=" + state in environment or mark in environment:
            found += [int(name)] * any(program in line for program in programs)
    return sorted(found)


HERALD = b"herald.main()"


def forked() -> list[int]:
    """The fork server of this state folder and the herald, by pid."""
    return ours(b"forkserver", HERALD)


def kill_at_once(pids: list[int]) -> None:
    """None of them has time to see another one's end."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


def whole(fork_servers: int = 1) -> list[list[int]]:
    """Controller, the herald's two halves and the fork server, once they are there: each by its pids."""

    def found() -> list[list[int]] | None:
        holder = processes.pid()
        heralds, servers = ours(HERALD), ours(b"forkserver")
        there = holder is not None and alive.alive() and len(heralds) == 2 and len(servers) == fork_servers
        return [[holder], heralds[:1], heralds[1:], servers] if there and holder is not None else None

    return wait_until(found, "a controller, a herald, a fork server")


@pytest.mark.parametrize("others", [(), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3)])
def test_whoever_is_killed_with_a_controller_one_that_lives_sees_to_its_successor(others: tuple[int, ...]) -> None:
    job_id = processes.submit("true\n", begin=int(time.time()) + 3600)
    for count in (1, 2):
        parts = whole()
        wait_until(lambda count=count: processes.begun() == count, "it says so")  # type: ignore[misc]
        kill_at_once([pid for part in (0, *others) for pid in parts[part]])
        wait_until(lambda count=count: processes.begun() > count, "a controller that nobody asked for")  # type: ignore[misc]
    client.call("cancel", {"targets": [{"job_id": job_id}]})


def test_a_herald_that_was_killed_is_there_again_while_its_controller_lives() -> None:
    job_id = processes.submit("true\n", begin=int(time.time()) + 3600)
    before = whole()
    kill_at_once(before[1] + before[2])
    wait_until(lambda: set(ours(HERALD)).isdisjoint(before[1] + before[2]), "they are dead")
    assert whole()[0] == before[0]
    processes.kill()
    wait_until(lambda: processes.begun() == 2, "the next one")
    client.call("cancel", {"targets": [{"job_id": job_id}]})


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.02, 0.05])
def test_a_controller_that_is_killed_before_it_has_done_anything_has_a_successor(moment: float) -> None:
    job_id = processes.submit("true\n", begin=int(time.time()) + 3600)
    client.call("shutdown", {"now": True})
    wait_until(lambda: not forked(), "all are gone")
    starter.start()
    first = wait_until(lambda: set(ours(b"controller.main")) - set(ours(HERALD)), "its process")
    time.sleep(moment)  # into its start; any moment will do
    kill_at_once(sorted(first))
    wait_until(alive.alive, "the next one")
    client.call("cancel", {"targets": [{"job_id": job_id}]})


@pytest.mark.parametrize("others", [(), (1,), (2,)])
def test_where_no_cluster_is_local_a_controller_has_a_successor_too(tmp_path: Path, others: tuple[int, ...]) -> None:
    config = tmp_path / "config" / "shim" / "config.toml"
    config.parent.mkdir(parents=True)
    (tmp_path / "kubeconfig").write_text(
        '{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], '
        '"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}], "users": [{"name": "u", "user": {}}]}'
    )
    config.write_text(f'[clusters.k]\nbackend = "kubernetes"\nkubeconfig = "{tmp_path}/kubeconfig"\nimage = "i"\n')
    paths.ensure(paths.state_dir())
    reference.write_index(Path(paths.index_path()), [reference.job(1, cluster="k", uid=os.getuid())])
    starter.start()
    for count in (1, 2):
        parts = whole(fork_servers=0)
        wait_until(lambda count=count: processes.begun() == count, "it says so")  # type: ignore[misc]
        kill_at_once([pid for part in (0, *others) for pid in parts[part]])
        wait_until(lambda count=count: processes.begun() > count, "a controller that nobody asked for")  # type: ignore[misc]
    whole(fork_servers=0)


@pytest.mark.parametrize(
    "before", ["", "env -i PATH=$PATH SHIM_CONTROLLER_IDLE=60 SHIM_STATE_DIR={state} SHIM_NO_SYSTEM_CONFIG=1 "]
)
def test_a_job_has_its_dead_controller_replaced_outside(tmp_path: Path, state_dir: Path, before: str) -> None:
    out, told = tmp_path / "out", tmp_path / "told"
    pid = client.call("ping")["pid"]
    processes.submit(
        f"export SHIM_PYTHON={sys.executable}\n"
        f"kill -9 {pid}\n"
        f"{before.format(state=state_dir)}sbatch --parsable -o /dev/null --wrap 'hostname > {out}' > {told} 2>&1\n"
        f"echo code $? agent $PPID >> {told}\nuntil [ -s {out} ]; do sleep 0.05; done\n"
    )
    wait_until(lambda: told.exists() and "agent" in told.read_text(), "sbatch is over", limit=60)
    assert told.read_text().startswith("2\ncode 0 agent "), told.read_text()
    found = processes.pid()
    assert os.readlink(f"/proc/{found}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    assert os.readlink(f"/proc/{found}/ns/uts") == os.readlink("/proc/self/ns/uts")
    if not before:
        assert f"PPid:\t{told.read_text().split()[-1]}\n" not in Path(f"/proc/{found}/status").read_text()
    for job_id in (1, 2):
        assert client.call("wait", {"job_id": job_id})["state"] == "COMPLETED"


def test_a_controller_whose_folder_was_removed_leaves_its_successor_alone(tmp_path: Path) -> None:
    first = client.call("ping")["pid"]
    os.rename(paths.state_dir(), tmp_path / "taken away")
    second = client.call("ping")["pid"]
    assert second != first
    wait_until(lambda: not processes.is_controller(first), "the first one saw it and left")
    assert os.path.exists(paths.socket_path())
    assert client.call("ping")["pid"] == second == processes.pid()


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


@pytest.mark.parametrize("name", ["controller.log", "controller.lock", "controller.sock"])
def test_what_hinders_a_controller_from_starting_is_told_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference.write_index(paths.index_path(), [reference.running(1)])
    planted = os.path.join(paths.ensure(paths.state_dir()), name)
    os.mkdir(planted)
    monkeypatch.setattr(client, "PATIENCE", 3600.0)  # whoever waits for the end of it fails
    with pytest.raises(client.Unreachable, match=f"it cannot be started: Is a directory: .*/{name}; log: "):
        client.call("ping")
    reader = open_reader(paths.index_path())
    assert reader is not None
    monkeypatch.setattr(alive, "PATIENCE", 3600.0)
    alive.freshen(reader, "squeue")
    said = capsys.readouterr().err
    assert "squeue: warning: the controller was not running and it cannot be started: Is a directory: " in said
    os.rmdir(planted)


def test_a_controller_has_limits_of_its_own_and_jobs_have_their_submitter_s(tmp_path: Path) -> None:
    code = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (8192 * 1024, r.RLIM_INFINITY)); " + PING
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
    found = Path(f"/proc/{processes.pid()}/limits").read_text()
    assert re.search(r"^Max file size +unlimited +unlimited", found, re.MULTILINE)
    fields = processes.submission("ulimit -f\n", stdout=str(tmp_path / "out"))
    fields["rlimits"] = {"RLIMIT_FSIZE": [8192 * 1024, resource.RLIM_INFINITY]}
    client.call("wait", {"job_id": client.call("submit", fields)["job_id"]})
    assert (tmp_path / "out").read_text() in ("8192\n", "16384\n"), "in units of 1024 bytes, or of 512"


def test_a_hard_limit_under_which_no_controller_works_is_named() -> None:
    code = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (1024, 1024)); " + PING
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Unreachable" in done.stderr
    assert "it cannot work under a hard limit of 1 KiB (ulimit -f): start it from a shell without that" in done.stderr


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: ") T " in Path(f"/proc/{pid}/stat").read_text(), "it is stopped")


@pytest.fixture
def stopped() -> Iterator[int]:
    """The pid of a controller that was stopped."""
    pid = int(client.call("ping")["pid"])
    stop(pid)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_the_doctor_names_a_stopped_controller(stopped: int) -> None:
    found = [text for verdict, text in machine._findings() if verdict == BAD]
    assert found == [
        f"the controller, pid {stopped}, is stopped: kill -CONT {stopped} lets it go on, shim controller stop --now ends it"
    ]


def test_a_stopped_controller_hangs_nobody(stopped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LOOK", 0.01)
    for operation in ("ping", "submit", "cancel", "shutdown"):
        with pytest.raises(
            client.Unreachable, match=f"the controller, pid {stopped}, is stopped: kill -CONT {stopped}"
        ):
            client.call(operation)
    allocation = client.open_allocation(processes.submission("true\n"))
    with pytest.raises(client.Unreachable, match="is stopped"):
        Waiter("salloc", allocation, False, None).wait()
    allocation.close()
    asked = CliRunner().invoke(controller_commands.app, ["stop"])
    assert isinstance(asked.exception, client.Unreachable)
    ended = CliRunner().invoke(controller_commands.app, ["stop", "--now"])
    assert ended.output == "controller stopped\n"
    wait_until(lambda: processes.pid() is None, "it ended")


def test_listings_say_that_a_controller_is_stopped(stopped: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.kill(stopped, signal.SIGCONT)
    held = processes.submit("true\n", hold=True)
    stop(stopped)
    reader = open_reader(paths.index_path())
    client.freshen(reader, "squeue")
    said = f"squeue: warning: the controller, pid {stopped}, is stopped; this may be out of date\n"
    assert capsys.readouterr().err == said
    os.kill(stopped, signal.SIGCONT)
    client.call("cancel", {"targets": [{"job_id": held}]})


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
