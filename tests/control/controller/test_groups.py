"""Jobs that leave their agents: a control group holds what neither descent nor environment tells from the user's other processes."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.control import client, paths, starter
from shim.job.agent import cgroup
from tests.control.controller import processes
from tests.job.agent.support import lives
from tests.other_user import USER, needs_root, run_as
from tests.support import wait_until


def why_not() -> str:
    try:
        cgroup.find()
    except OSError as problem:
        return str(problem)
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no control group may be divided here: {why_not()}")

# Nothing of it tells whose it is: no descent, session or variable.
ESCAPE = """env -i /bin/sh -c 'setsid /bin/sh -c "echo \\$\\$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600" &'
until [ -e {pid} ]; do sleep 0.05; done
"""


@pytest.fixture(autouse=True)
def own_controller(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHIM_CONTROLLER_IDLE", "60")
    with processes.ended_afterwards():
        yield
    for folder in (paths.state_dir(), str(state_dir / "other" / os.uname().nodename)):
        if os.path.exists(folder):
            cgroup.sweep(folder)
            assert groups(folder) == []


def groups(folder: str = "") -> list[str]:
    return cgroup._groups(cgroup.find(), folder or paths.state_dir())


def escaped(pid: Path) -> int:
    wait_until(pid.exists, "it has left its agent")
    return int(pid.read_text())


def ended(job_id: int) -> str:
    return str(client.call("wait", {"job_id": job_id})["state"])


def test_who_kills_its_agent_and_hides_ends_with_its_job(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    job_id = processes.submit(ESCAPE.format(pid=pid) + "kill -9 $PPID\nsleep 600\n", requeue=False)
    assert ended(job_id) == "NODE_FAIL"
    wait_until(lambda: not lives(escaped(pid)), "its end")
    wait_until(lambda: not groups(), "no group is left")


def test_who_kills_another_nodes_agent_and_hides_ends_with_its_job(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hide = ESCAPE.format(pid=pid) + "kill -9 $PPID\nsleep 600\n"
    (tmp_path / "hide").write_text("#!/bin/sh\n" + hide)
    (tmp_path / "hide").chmod(0o755)
    srun = Path(__file__).resolve().parents[3] / "bin" / "srun"
    script = f"export SHIM_PYTHON={sys.executable}\n{srun} -w node2 -N1 -n1 {tmp_path}/hide\nsleep 600\n"
    job_id = processes.submit(script, requeue=False, min_nodes=2, ntasks=2)
    assert ended(job_id) == "NODE_FAIL"
    wait_until(lambda: not lives(escaped(pid)), "its end")


def test_who_calls_itself_a_service_ends_with_its_job(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hide = ESCAPE.replace("env -i", "env -i SHIM_SERVICE=controller").format(pid=pid)
    assert ended(processes.submit(hide)) == "COMPLETED"
    wait_until(lambda: not lives(escaped(pid)), "its end")


def test_after_everything_was_killed_the_next_controller_ends_what_is_left(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    processes.submit(ESCAPE.format(pid=pid) + "sleep 600\n", requeue=False)
    hidden = escaped(pid)
    state = os.fsencode(os.path.dirname(paths.state_dir()))
    everything = [one for one in all_pids() if state in environment(one)]
    assert len(everything) >= 5  # a controller, two halves of a herald, a fork server, an agent, the script
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for one in everything:
            os.kill(one, number)
    assert lives(hidden)
    assert groups()
    wait_until(lambda: not [one for one in everything if lives(one)], "their ends")
    starter.start()
    wait_until(lambda: not lives(hidden), "its end")
    wait_until(lambda: not groups(), "no group is left")


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def test_a_controller_of_another_folder_that_a_job_starts_outlives_it(tmp_path: Path, state_dir: Path) -> None:
    sbatch = Path(__file__).resolve().parents[3] / "bin" / "sbatch"
    other = f"SHIM_STATE_DIR={state_dir}/other SHIM_PYTHON={sys.executable} SHIM_LOCAL_NODES=2 SHIM_CONTROLLER_IDLE=60"
    job_id = processes.submit(
        f"env -u SHIM_HOST_STATE_DIR {other} {sbatch} --begin=now+1hour -o /dev/null --wrap true > {tmp_path}/told 2>&1\n"
    )
    assert ended(job_id) == "COMPLETED", processes.log() + (tmp_path / "told").read_text()
    assert "Submitted batch job 1\n" in (tmp_path / "told").read_text()
    lock = state_dir / "other" / os.uname().nodename / "controller.lock"
    pid = int(lock.read_text())
    client.call("shutdown", {"now": True})
    wait_until(lambda: not groups(), "its agent has ended")
    assert lives(pid)
    assert "shim-agent-" not in Path(f"/proc/{pid}/cgroup").read_text()


def test_groups_go_with_their_agents(tmp_path: Path) -> None:
    assert ended(processes.submit("cat /proc/self/cgroup > %s\n" % (tmp_path / "told"))) == "COMPLETED"
    assert re.search(r"/shim-agent-[0-9a-f.]+-\d+$", (tmp_path / "told").read_text(), re.M)
    assert len(groups()) == 1, "an agent without work keeps its own"
    client.call("shutdown", {"now": True})
    wait_until(lambda: not groups(), "no group is left")


def in_a_group(home: cgroup.Home) -> tuple[str, int]:
    """The group of an agent that has killed itself, and what it left there."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            folder = home.enter()
            hidden = os.fork()
            if hidden == 0:
                os.setsid()
                os.execv("/bin/sh", ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
            os.write(tell, f"{hidden} {folder}".encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    hidden_pid, folder = os.read(told, 4096).decode().split()
    os.close(told)
    os.close(tell)
    return folder, int(hidden_pid)


def test_a_pid_that_has_come_again_is_no_agent() -> None:
    state = paths.ensure(paths.state_dir())
    home = cgroup.home(state)
    assert home is not None
    folder, hidden = in_a_group(home)
    again = f"{folder.rpartition('-')[0]}-{os.getpid()}"  # what runs under its pid now is this process
    os.mkdir(again)
    Path(f"{again}/cgroup.procs").write_text(str(hidden))
    assert cgroup.sweep(state) == []
    wait_until(lambda: not lives(hidden), "its end")
    assert groups() == []


@needs_root
def test_version_1_has_the_freezer(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [folder for folder in cgroup._own() if os.path.exists(f"{folder}/cgroup.clone_children")]
    if not own:
        pytest.skip("there is no freezer of version 1")
    monkeypatch.setattr(cgroup, "_own", lambda: own)
    state = paths.ensure(paths.state_dir())
    home = cgroup.home(state)
    assert home is not None
    folder, hidden = in_a_group(home)
    os.mkdir(f"{folder}/below")
    Path(f"{folder}/freezer.state").write_text("FROZEN")
    assert lives(hidden)
    assert cgroup.sweep(state) == []
    wait_until(lambda: not lives(hidden), "its end")
    assert not os.path.exists(folder)


@needs_root
@pytest.mark.parametrize("delegated", [True, False])
def test_another_user_has_them_where_a_group_is_theirs(delegated: bool) -> None:
    theirs = f"{cgroup.find()}/shim-test-delegated-{os.getpid()}"
    os.mkdir(theirs)
    state = tempfile.mkdtemp(prefix="shim-groups-")
    try:
        os.chown(state, USER, USER)
        if delegated:  # as systemd does it
            for path in (theirs, f"{theirs}/cgroup.procs"):
                os.chown(path, USER, USER)
        Path(f"{theirs}/cgroup.procs").write_text("0")  # who is in there may move below
        try:
            said = run_as(USER, lambda: print(tried(theirs, state)))
        finally:
            Path(f"{os.path.dirname(theirs)}/cgroup.procs").write_text("0")
        if delegated:
            assert said == "left [], hidden False\n"
        else:
            assert "Permission denied" in said
            assert theirs in said
    finally:
        wait_until(lambda: cgroup.end(theirs), "nothing is left")
        os.unlink(f"{state}/cgroups") if os.path.exists(f"{state}/cgroups") else None
        os.rmdir(state)


def tried(theirs: str, state: str) -> str:
    """What becomes of a process that a killed agent has left, in a group of this user's; or why there is none."""
    cgroup._own = lambda: [theirs]
    home = cgroup.home(state)
    if home is None:
        try:
            cgroup.find()
        except OSError as problem:
            return str(problem)
        return "none"
    folder, hidden = in_a_group(home)
    left = cgroup.sweep(state)
    end = time.monotonic() + 20
    while lives(hidden) and time.monotonic() < end:
        time.sleep(0.01)
    return f"left {left}, hidden {lives(hidden)}"
