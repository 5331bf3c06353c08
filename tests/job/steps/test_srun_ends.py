"""How steps are ended with real agents: signals, limits, failures; and whole runs of a batch script."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from shim.core.formats.lists import expand_ranks, fold_ranks
from shim.core.options.grammar import Grammar
from tests.job.run_folder import ROOT, SRUN, LiveRun, spec_of
from tests.support import wait_until

EXIT = re.compile(r"srun: error: (\w+): tasks? ([\d,-]+): (.*)")
SLEEP = ": > there$SLURM_PROCID; exec sleep 600"


@pytest.fixture(scope="module")
def allocation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    run = LiveRun(tmp_path_factory.mktemp("allocation"), spec_of(nodes=1, cpus=4, kill_wait=5))
    run.wait_for("started")
    yield run
    run.close()


@pytest.fixture
def run(allocation: LiveRun) -> LiveRun:
    """The allocation with an empty work folder."""
    for path in allocation.work_dir.iterdir():
        path.unlink()
    return allocation


def sleepers(run: LiveRun, *options: str) -> subprocess.Popen[bytes]:
    """srun with two tasks that sleep; both are there."""
    srun = run.start_srun(*options, "-n2", "sh", "-c", SLEEP)
    for rank in (0, 1):
        wait_until(lambda rank=rank: (run.work_dir / f"there{rank}").exists(), f"task {rank}")  # type: ignore[misc]
    return srun


def lines_of(err: bytes) -> list[str]:
    """srun's lines without slurmstepd's, whose place among them is a matter of luck, and with what is said about several tasks
    in one line, as srun does unless the machine is slow.
    """
    lines: list[str] = []
    ranks: dict[tuple[str, str], set[int]] = {}
    for line in err.decode().splitlines():
        match = EXIT.fullmatch(line)
        if match:
            ranks.setdefault((match[1], match[3]), set()).update(expand_ranks(match[2]))
        elif "*** STEP" not in line:
            lines.append(line)
    for (node, end), tasks in ranks.items():
        text = fold_ranks(tasks)
        lines.append(f"srun: error: {node}: task{'s' if len(tasks) > 1 else ''} {text}: {end}")
    return lines


def read_until(terminal: int, mark: bytes) -> bytes:
    """What comes from a terminal up to ``mark``."""
    seen = b""
    while mark not in seen:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"no {mark!r} after {seen!r}"
        seen += os.read(terminal, 1024)
    return seen


def test_the_first_failure_ends_the_others(run: LiveRun) -> None:
    # The one that fails waits for the others: a task that is not there yet cannot be seen to be terminated.
    script = (
        ": > there$SLURM_PROCID; [ $SLURM_PROCID = 1 ] || exec sleep 600; "
        "until [ -e there0 ] && [ -e there2 ]; do sleep 0.05; done; sleep 0.2; exit 4"
    )
    code, _out, err = run.srun("-K", "-n3", "sh", "-c", script)
    step = f"7.{run.last_step()}"
    assert code == 143
    assert err.splitlines()[:2] == [
        "srun: error: n1: task 1: Exited with exit code 4",
        f"srun: launch/slurm: _step_signal: Terminating StepId={step}",
    ]
    assert f"slurmstepd: error: *** STEP {step} ON n1 CANCELLED AT " in err
    assert lines_of(err.encode())[1:] == [
        f"srun: Force Terminated StepId={step}",
        "srun: error: n1: task 1: Exited with exit code 4",
        "srun: error: n1: tasks 0,2: Terminated",
    ]


def test_waiting_for_the_others_has_a_limit(run: LiveRun) -> None:
    code, _out, err = run.srun("-W1", "-n3", "sh", "-c", "[ $SLURM_PROCID = 1 ] && exit 0; exec sleep 600")
    step = f"7.{run.last_step()}"
    assert code == 137
    assert lines_of(err.encode()) == [
        "srun: First task exited 1s ago",
        f"srun: StepId={step} tasks 0,2: running",
        f"srun: StepId={step} task 1: exited",
        f"srun: launch/slurm: _step_signal: Terminating StepId={step}",
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.",
        "srun: error: n1: tasks 0,2: Killed",
    ]


def test_a_signal_is_passed_on(run: LiveRun) -> None:
    script = "trap 'echo got usr1; exit 7' USR1; : > there; while :; do sleep 0.05; done"
    srun = run.start_srun("-n1", "sh", "-c", script)
    wait_until(lambda: (run.work_dir / "there").exists(), "the task")
    srun.send_signal(signal.SIGUSR1)
    out, err = srun.communicate(timeout=60)
    assert (srun.returncode, out) == (7, b"got usr1\n")
    # The shell's own child gets the signal too, and the shell may say so.
    assert lines_of(err)[-1] == "srun: error: n1: task 0: Exited with exit code 7"


def test_signals_that_are_ignored(run: LiveRun) -> None:
    grammar = json.dumps(Grammar(release="25.11").to_dict())
    script = "trap 'exit 7' USR1; : > there; while [ ! -e go ]; do sleep 0.05; done"
    srun = run.start_srun("--ignore-signals=TERM,SIGUSR1", "-n1", "sh", "-c", script, SHIM_GRAMMAR=grammar)
    wait_until(lambda: (run.work_dir / "there").exists(), "the task")
    srun.send_signal(signal.SIGUSR1)
    srun.send_signal(signal.SIGTERM)
    (run.work_dir / "go").touch()
    assert srun.communicate(timeout=60) == (b"", b"")
    assert srun.returncode == 0


def test_term_ends_the_step(run: LiveRun) -> None:
    srun = sleepers(run)
    srun.send_signal(signal.SIGTERM)
    _out, err = srun.communicate(timeout=60)
    assert srun.returncode == 137
    assert lines_of(err) == [
        "srun: forcing job termination",
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.",
        "srun: error: n1: tasks 0-1: Killed",
    ]


def test_ctrl_c_once_shows_and_twice_ends(run: LiveRun) -> None:
    srun = sleepers(run)
    assert srun.stderr is not None
    step = f"7.{run.last_step()}"
    srun.send_signal(signal.SIGINT)
    assert srun.stderr.readline() == b"srun: interrupt (one more within 1 sec to abort)\n"
    assert srun.stderr.readline() == f"srun: StepId={step} tasks 0-1: running\n".encode()
    # A slow machine may let the second go by: then the next counts as the first again.
    seen = b""
    while b"sending Ctrl-C" not in seen:
        srun.send_signal(signal.SIGINT)
        seen = srun.stderr.readline()
    rest = srun.stderr.read()
    assert srun.wait(60) == 130
    assert seen == f"srun: sending Ctrl-C to StepId={step}\n".encode()
    assert lines_of(rest) == [
        "srun: forcing job termination",
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.",
    ]


def test_two_ctrl_c_let_handlers_begin(run: LiveRun) -> None:
    """A shell that waits for a command looks at its signal when that has ended."""
    srun = run.start_srun("--quit-on-interrupt", "-n1", "bash", "-c", "trap 'exit 6' INT; echo up; sleep 100; exit 1")
    assert srun.stdout is not None
    assert srun.stdout.readline() == b"up\n"
    srun.send_signal(signal.SIGINT)
    assert "srun: error: n1: task 0: Exited with exit code 6" in lines_of(srun.communicate(timeout=60)[1])
    assert srun.returncode == 6


def test_ctrl_c_goes_to_the_tasks_where_status_is_disabled(run: LiveRun) -> None:
    srun = sleepers(run, "-X")
    srun.send_signal(signal.SIGINT)
    _out, err = srun.communicate(timeout=60)
    assert srun.returncode == 130
    assert lines_of(err) == [
        f"srun: sending Ctrl-C to StepId=7.{run.last_step()}",
        "srun: error: n1: tasks 0-1: Interrupt",
    ]


def test_two_ctrl_c_end_a_step_whose_status_is_disabled(run: LiveRun) -> None:
    srun = run.start_srun("-X", "-n1", "sh", "-c", "trap 'echo got' INT; echo up; while :; do sleep 0.05; done")
    assert srun.stdout is not None
    assert srun.stderr is not None
    assert srun.stdout.readline() == b"up\n"
    step = f"7.{run.last_step()}"
    seen: list[bytes] = []
    while (
        b"srun: forcing job termination\n" not in seen and len(seen) < 200
    ):  # a slow machine may let a second go by between two of them
        srun.send_signal(signal.SIGINT)
        seen.append(srun.stderr.readline())
    assert set(seen[:-1]) == {f"srun: sending Ctrl-C to StepId={step}\n".encode()}
    assert len(seen) > 2
    assert b": Killed" not in srun.communicate(timeout=60)[1]  # our own doing
    assert srun.returncode == 137


def test_tasks_whose_output_nobody_reads_any_more_go_on_to_their_end(run: LiveRun) -> None:
    srun = run.start_srun("-n1", "sh", "-c", "echo first; read line; seq 300000; exit 7")
    assert srun.stdout is not None and srun.stdin is not None
    assert srun.stdout.readline() == b"first\n"
    srun.stdout.close()
    srun.stdin.write(b"go on\n")
    srun.stdin.close()
    assert srun.wait(60) == 7


def test_a_killed_srun_takes_its_tasks_along(run: LiveRun) -> None:
    srun = run.start_srun("-n1", "sh", "-c", "echo $$ > pid; mv pid there; exec sleep 600")
    there = run.work_dir / "there"
    wait_until(there.exists, "the task")
    task = there.read_text().strip()
    srun.kill()
    wait_until(lambda: not os.path.exists(f"/proc/{task}"), "the end of the task")


def test_a_second_step_waits(run: LiveRun) -> None:
    first = run.start_srun("-n1", "sh", "-c", ": > there; read line")
    wait_until((run.work_dir / "there").exists, "the first step")
    second = run.start_srun("-n1", "echo", "mine")
    assert second.stderr is not None
    assert second.stderr.readline() == (
        b"srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
    )
    first.communicate(b"go\n", timeout=60)
    out, err = second.communicate(timeout=60)
    assert (out, err) == (b"mine\n", b"srun: Step created for job 7\n")


def test_an_interrupt_ends_the_wait(run: LiveRun) -> None:
    first = run.start_srun("-n1", "sh", "-c", ": > there; read line")
    wait_until((run.work_dir / "there").exists, "the first step")
    second = run.start_srun("-n1", "echo", "mine")
    assert second.stderr is not None
    second.stderr.readline()
    second.send_signal(signal.SIGINT)
    _out, err = second.communicate(timeout=60)
    assert (second.returncode, err) == (1, b"srun: Cancelled pending job step with signal 2\n")
    first.communicate(b"go\n", timeout=60)
    assert first.returncode == 0


def test_pty(run: LiveRun) -> None:
    """The task has a terminal of srun's size, its keys go there unchanged, and srun's own is given back as it was."""
    ours, its = pty.openpty()
    ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    before = termios.tcgetattr(its)
    script = "stty size; stty -echo; echo ready; read line; echo got $line; exit 4"
    srun = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SRUN, str(ROOT), "-n1", "--pty", "sh", "-c", script],
        env=run.environment,
        cwd=run.work_dir,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    try:
        seen = read_until(ours, b"ready")
        os.write(ours, b"hello\r")
        seen += read_until(ours, b"exit code 4")
        assert srun.wait(60) == 4
        assert termios.tcgetattr(its) == before
    finally:
        srun.kill()
        srun.wait()
        os.close(ours)
        os.close(its)
    assert b"33 77\r\n" in seen
    assert b"got hello\r\n" in seen


# Whole runs


def test_a_batch_script_with_steps(tmp_path: Path) -> None:
    script = "#!/bin/sh\nsrun -l -n2 echo hi | sort\nsrun -n1 -N1 sh -c 'exit 5'\necho rc=$?\nexit 3\n"
    run = LiveRun(tmp_path, spec_of(nodes=2, script=True), script)
    try:
        ended = run.wait_for("ended")
        assert (ended["state"], ended["status"], ended["derived"], ended["reason"]) == (
            "FAILED",
            3 << 8,
            5 << 8,
            "NonZeroExitCode",
        )
        assert run.output() == "0: hi\n1: hi\nsrun: error: n1: task 0: Exited with exit code 5\nrc=5\n"
        assert run.kinds() == ["started", "step", "step-end", "step", "step-end", "ending", "ended"]
    finally:
        run.close()


def test_a_limit_ends_a_batch_script_and_its_step(tmp_path: Path) -> None:
    script = (
        "#!/bin/sh\ntrap 'echo trapped; exit 9' TERM\nsrun -n1 sh -c ': > there; exec sleep 600'\necho srun rc=$?\n"
    )
    run = LiveRun(tmp_path, spec_of(script=True), script)
    try:
        wait_until((run.work_dir / "there").exists, "the step")
        run.order(1, "limit", seconds=0)
        ended = run.wait_for("ended")
        assert (ended["state"], ended["status"], ended["reason"]) == ("TIMEOUT", 9 << 8, "TimeLimit")
        lines = run.output().splitlines()
        assert sum("*** JOB 7 ON n1 CANCELLED AT " in line and "DUE TO TIME LIMIT" in line for line in lines) == 1
        assert "trapped" in lines
        assert run.kinds()[:2] == ["started", "step"]
    finally:
        run.close()


def test_scancel_of_a_step(run: LiveRun) -> None:
    srun = sleepers(run)
    run.order(1, "end", step=run.last_step(), uid=0, state="CANCELLED")
    _out, err = srun.communicate(timeout=60)
    assert srun.returncode == 137
    assert lines_of(err) == [
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.",
        "srun: error: n1: tasks 0-1: Killed",
    ]


def test_a_killed_node_fails_the_run(tmp_path: Path) -> None:
    run = LiveRun(tmp_path, spec_of(nodes=2))
    try:
        run.wait_for("started")
        run.agents[1].kill()
        assert run.wait_for("ended")["state"] == "NODE_FAIL"
    finally:
        run.close()


def test_output_that_a_full_disk_takes_away_is_not_lost_without_a_word(run: LiveRun) -> None:
    _code, _out, err = run.srun("-o", "/dev/full", "-n1", "echo", "lost")
    assert "srun: error: write error: No space left on device\n" in err
