"""Tasks started without a fork: they are what a forked one is, or are left to the fork."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.job.agent.node.spawn import IGNORED, spawn
from shim.job.agent.node.task_start import TaskStart
from tests.support import wait_until

pytestmark = pytest.mark.skipif(
    not (3, 11) <= sys.version_info[:2] <= (3, 13), reason="vfork is used in Python 3.11 to 3.13"
)

TELLS = """echo $$ $SLURM_TASK_PID $(umask) $(pwd) $OWN "$@"
while read -r name value rest; do case $name in Sig[BI]*) echo $name $value;; esac; done < /proc/self/status
read -r line; echo "$line"; echo error >&2
exec sleep 600"""


@pytest.fixture(autouse=True)
def ordinary_signals() -> Iterator[None]:
    """The tests may have been started with signals ignored or blocked, as in the background of a shell."""
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    ignored = [n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN and n not in IGNORED]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., TaskStart]]:
    """Tasks over files ``in``, ``out`` and ``err`` of the folder; fields may be given otherwise."""
    (tmp_path / "in").write_text("a line\n")
    files = [os.open(tmp_path / "in", os.O_RDONLY)]
    files += [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("out", "err")]

    def task(**other: Any) -> TaskStart:
        fields = {
            "argv": ["/bin/sh", "-c", TELLS, "sh", "a word"],
            "environment": {"PATH": os.defpath, "OWN": "ä", "SLURM_TASK_PID": "of another"},
            "work_dir": str(tmp_path),
            "umask": 0o27,
            "rlimits": {"RLIMIT_CORE": resource.getrlimit(resource.RLIMIT_CORE), "RLIMIT_NEW": (1, 2)},
            "files": tuple(files),
            "first": True,
        }
        return TaskStart(**{**fields, **other})

    yield task
    for fd in files:
        os.close(fd)


def children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def test_a_task_has_all_that_a_forked_one_has(make: Callable[..., TaskStart], tmp_path: Path) -> None:
    # Others fork too, so that even four guesses may be wrong.
    pid = wait_until(lambda: spawn(make()), "a right guess")
    try:
        wait_until(lambda: (tmp_path / "err").read_text(), "its last line")
        assert (tmp_path / "out").read_text().splitlines() == [
            f"{pid} {pid} 0027 {tmp_path} ä a word",
            *(f"{name}: {0:016x}" for name in ("SigBlk", "SigIgn")),
            "a line",
        ]
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_with_wrong_guesses_nothing_runs_and_nothing_is_left(
    make: Callable[..., TaskStart], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.job.agent.node.spawn._TRIES", 1)
    task = make(argv=["/bin/sh", "-c", "echo it ran"])
    before = children()
    assert spawn(task, lambda: os.getpid()) is None  # taken: no process can get it
    assert spawn(task, lambda: 0) is None  # no /proc
    assert (tmp_path / "out").read_text() == ""
    assert children() <= before


def test_a_wrong_guess_shows_the_right_one(make: Callable[..., TaskStart], tmp_path: Path) -> None:
    task = make(argv=["/bin/sh", "-c", "echo it ran"])
    pid = wait_until(lambda: spawn(task, lambda: os.getpid()), "a right guess")
    assert os.waitpid(pid, 0) == (pid, 0)
    assert (tmp_path / "out").read_text() == "it ran\n"


@pytest.mark.parametrize(
    "other",
    [
        {"pty": True},
        {"argv": []},
        {"argv": ["sh", "-c", "echo it ran"]},
        {"argv": ["/bin/sh", "-c", "echo it ran", "a\0b"]},
        {"argv": ["/nosuch"]},
        {"argv": ["/etc"]},
        {"work_dir": "relative"},
        {"work_dir": "/nosuch"},
        {"work_dir": "/a\0b"},
        {"environment": {"A": "b\0c"}},
        {"environment": {"A=B": "c"}},
        {"environment": {"": "c"}},
        {"rlimits": {"RLIMIT_CORE": (-2, -2)}},
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_the_fork(
    make: Callable[..., TaskStart], other: dict[str, Any], tmp_path: Path
) -> None:
    before = children()
    assert spawn(make(**{"argv": ["/bin/sh", "-c", "echo it ran"], **other})) is None
    assert (tmp_path / "out").read_text() == ""
    assert children() <= before


@pytest.mark.parametrize("blocked", [True, False])
def test_so_is_everything_while_a_signal_is_blocked_or_ignored(make: Callable[..., TaskStart], blocked: bool) -> None:
    if blocked:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        assert spawn(make()) is None
        return
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        assert spawn(make()) is None
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_where_no_process_can_be_made_the_error_is_told(
    make: Callable[..., TaskStart], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "no more")

    monkeypatch.setattr("shim.job.agent.node.spawn._fork_exec", full)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BlockingIOError):
        spawn(make())
    assert len(os.listdir("/proc/self/fd")) == before
