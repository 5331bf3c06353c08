"""The herald starts what it was told to, as often as it is rung, and holds nothing of its maker's open."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.job.agent import leader_herald
from shim.job.agent.leader_herald import Herald, Life, begin
from tests.support import wait_until


def test_it_starts_a_process_each_time(tmp_path: Path) -> None:
    said = tmp_path / "said"
    herald = Herald(begin(), ["/bin/sh", "-c", f"echo started >> {said}"])
    try:
        for count in (1, 2):
            herald.ring()
            wait_until(lambda count=count: said.exists() and len(said.read_text().split()) == count, "a start")  # type: ignore[misc]
    finally:
        herald.close()


def test_it_holds_no_lock_of_its_maker(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    said = tmp_path / "said"
    herald = Herald(begin(), ["/bin/sh", "-c", f": > {said}"])
    try:
        herald.ring()
        wait_until(said.exists, "a start")
        os.close(lock)
        again = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(again)
    finally:
        herald.close()


def test_a_program_that_is_not_there_harms_nobody(tmp_path: Path) -> None:
    herald = Herald(begin(), ["/nosuch/program"])
    herald.ring()
    herald.ring()
    herald.close()


@pytest.fixture
def careless_maker() -> Iterator[None]:
    """The fork server ignores SIGCHLD, so that the kernel takes its agents away; others are started by nohup."""
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGCHLD, signal.SIGHUP)]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before:
        signal.signal(number, handler)


def test_it_serves_again_whatever_its_maker_ignores(tmp_path: Path, careless_maker: None) -> None:
    said = tmp_path / "said"
    herald = Herald(begin(), ["/bin/sh", "-c", f"grep -E '^Sig(Ign|Blk)' /proc/self/status >> {said}; echo >> {said}"])
    try:
        for count in (1, 2, 3):
            herald.ring()
            wait_until(lambda count=count: said.exists() and said.read_text().count("\n\n") == count, "a start")  # type: ignore[misc]
    finally:
        herald.close()
    masks = [int(line.split()[1], 16) for line in said.read_text().splitlines() if line]
    python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert [mask & ~python_ignores for mask in masks] == [0] * 6


@pytest.mark.parametrize("goodbye", [b"", b"\0"])
def test_it_has_a_killed_controller_replaced_and_no_other(tmp_path: Path, goodbye: bytes) -> None:
    said = tmp_path / "said"
    seen, life = os.pipe()
    bell = begin(Life(seen, ["/bin/sh", "-c", f"echo $SHIM_SUCCESSION >> {said}"]))
    os.close(seen)
    wait_until(lambda: len(processes_of(bell)) == 2, "a herald is two processes")
    mine = processes_of(bell)
    os.close(bell)
    os.write(life, goodbye)
    os.kill(min(mine), signal.SIGKILL)  # what it goes by is in none of its halves
    os.close(life)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in mine), "nobody can ring it, it is gone")
    if goodbye:
        assert not said.exists()
    else:
        wait_until(lambda: said.exists() and said.read_text() == "1\n", "the first successor")


def test_controllers_that_do_not_live_long_are_replaced_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(leader_herald, "monotonic", lambda: now[0])

    def pause(number: str, lived: float) -> float | None:
        monkeypatch.setenv("SHIM_SUCCESSION", number)
        seen, life = os.pipe()
        os.close(life)
        one = Life(seen, [])
        now[0] += lived
        due = one.ended()
        os.close(seen)
        return None if due is None else due - now[0]

    assert [pause(number, 1.0) for number in ("", "1", "2", "9", "10")] == [0.25, 0.5, 1.0, 128.0, None]
    assert pause("10", 61.0) == 0.25


def processes_of(bell: int) -> set[int]:
    """The two processes that are a herald: they hear this bell."""
    pipe = os.readlink(f"/proc/self/fd/{bell}")
    found = set()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) != os.getpid() and os.readlink(f"/proc/{name}/fd/3") == pipe:
                found.add(int(name))
        except OSError:
            continue
    return found


def test_either_half_is_replaced_when_it_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    bell = begin()
    herald = Herald(bell, ["/bin/sh", "-c", f"echo started >> {said}"])
    try:
        wait_until(lambda: len(processes_of(bell)) == 2, "a herald is two processes")
        for count, which in enumerate((min, max, min, max), 1):
            killed = which(processes_of(bell))
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda gone=killed: len(processes_of(bell) - {gone}) == 2, "another in its place")  # type: ignore[misc]
            herald.ring()
            wait_until(lambda count=count: said.exists() and len(said.read_text().split()) == count, "a start")  # type: ignore[misc]
        last = processes_of(bell)
    finally:
        herald.close()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in last), "nobody can ring it, it is gone")
