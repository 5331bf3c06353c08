"""The herald starts what it was told to, as often as it is rung, and holds nothing of its maker's open."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.job.agent import herald as herald_module
from shim.job.agent.herald import Herald, Ties, begin
from tests.support import wait_until


def told_to(script: str) -> list[str]:
    """What starts such a "controller"; it ends at once, and in order unless the script kills it."""
    goodbye = 'for last; do :; done; eval "printf x >&${last#*,}"'
    return ["/bin/sh", "-c", f"{script}; {goodbye}", "sh"]


def absent(script: str = ":") -> Ties:
    """The ties of a controller that has ended in order: its herald listens to whoever rings."""
    ties = begin(told_to(script))
    ties.goodbye()
    os.close(ties.life)
    return ties


def processes_of(bell: int) -> set[int]:
    """The processes that are a herald: they hear this bell."""
    pipe = os.readlink(f"/proc/self/fd/{bell}")
    found = set()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) != os.getpid() and os.readlink(f"/proc/{name}/fd/3") == pipe:
                found.add(int(name))
        except OSError:
            continue
    return found


def gone(pids: set[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def both(ties: Ties) -> set[int]:
    """The herald's two processes, once they are there."""
    wait_until(lambda: len(processes_of(ties.bell)) == 2, "a herald is two processes")
    return processes_of(ties.bell)


def test_it_starts_a_process_each_time(tmp_path: Path) -> None:
    said = tmp_path / "said"
    herald = Herald(absent().bell, told_to(f"echo started >> {said}"))
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
    herald = Herald(absent().bell, told_to(f": > {said}"))
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
    ties = absent()
    herald = Herald(ties.bell, ["/nosuch/program"])
    mine = both(ties)
    herald.ring()
    herald.ring()
    herald.close()
    # It counts as killed: what is known to start a controller is tried, and that one ends in order.
    wait_until(lambda: gone(mine), "nobody can ring it, it is gone")


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
    herald = Herald(absent().bell, told_to(f"grep -E '^Sig(Ign|Blk)' /proc/self/status >> {said}; echo >> {said}"))
    try:
        for count in (1, 2, 3):
            herald.ring()
            wait_until(lambda count=count: said.exists() and said.read_text().count("\n\n") == count, "a start")  # type: ignore[misc]
    finally:
        herald.close()
    masks = [int(line.split()[1], 16) for line in said.read_text().splitlines() if line]
    python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert [mask & ~python_ignores for mask in masks] == [0] * 6


@pytest.mark.parametrize("in_order", [False, True])
def test_it_has_a_killed_controller_replaced_and_no_other(tmp_path: Path, in_order: bool) -> None:
    said = tmp_path / "said"
    ties = begin(told_to(f"echo $SHIM_SUCCESSION >> {said}"))
    mine = both(ties)
    os.close(ties.bell)
    if in_order:
        ties.goodbye()
    os.kill(min(mine), signal.SIGKILL)  # what it goes by is in none of its halves
    os.close(ties.life)
    if in_order:
        wait_until(lambda: gone(mine), "nobody can ring it, it is gone")
        assert not said.exists()
    else:
        wait_until(lambda: said.exists() and said.read_text() == "1\n", "the first successor")
        wait_until(lambda: gone(mine), "which ended in order")


def test_a_successor_that_is_killed_before_it_can_say_anything_has_one(tmp_path: Path) -> None:
    said = tmp_path / "said"
    killed = f"echo $SHIM_SUCCESSION >> {said}; [ $SHIM_SUCCESSION = 3 ] || kill -9 $$"
    ties = begin(told_to(killed))
    mine = both(ties)
    os.close(ties.bell)
    os.close(ties.life)
    wait_until(lambda: said.exists() and said.read_text() == "1\n2\n3\n", "one after the other")
    wait_until(lambda: gone(mine), "the last one ended in order")


def test_nobody_is_started_while_a_controller_lives(tmp_path: Path) -> None:
    said = tmp_path / "said"
    ties = begin(told_to(f"echo successor >> {said}"))
    mine = both(ties)
    herald = Herald(os.dup(ties.bell), told_to(f"echo rung >> {said}"))
    herald.ring()
    herald.close()
    wait_until(lambda: not herald_module._said(ties.bell), "it has heard that")
    os.close(ties.bell)
    os.close(ties.life)
    wait_until(lambda: gone(mine), "the successor ended in order")
    assert said.read_text() == "successor\n"


def test_where_both_halves_are_killed_another_of_the_same_pipes_is_made(tmp_path: Path) -> None:
    said = tmp_path / "said"
    ties = begin(told_to(f"echo $SHIM_SUCCESSION >> {said}"))
    for _ in range(2):
        mine = both(ties)
        assert not ties.deaf
        for number in (signal.SIGSTOP, signal.SIGKILL):  # at once: neither has time to replace the other
            for pid in mine:
                os.kill(pid, number)
        wait_until(lambda: ties.deaf, "nobody hears")
        ties.herald()
        assert not ties.deaf
    mine = both(ties)
    os.close(ties.bell)
    os.close(ties.life)
    wait_until(lambda: said.exists() and said.read_text() == "1\n", "the successor")
    wait_until(lambda: gone(mine), "which ended in order")


@pytest.mark.parametrize(
    ("number", "lived", "pause"),
    [("", 1, 0.25), ("1", 1, 0.5), ("2", 1, 1), ("9", 1, 128), ("10", 1, None), ("10", 61, 0.25)],
)
def test_controllers_that_do_not_live_long_are_replaced_ever_later(
    monkeypatch: pytest.MonkeyPatch, number: str, lived: float, pause: float | None
) -> None:
    now = [1000.0]
    monkeypatch.setattr(herald_module, "monotonic", lambda: now[0])
    monkeypatch.setenv("SHIM_SUCCESSION", number)
    monkeypatch.setattr(herald_module._Listening, "_watch", lambda listening: None)
    guarded, hold = os.pipe()
    listening = herald_module._Listening(guarded, [])
    now[0] += lived
    due = listening._next()
    os.close(guarded)
    os.close(hold)
    assert (None if due is None else due - now[0]) == pause


def test_either_half_is_replaced_when_it_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    ties = absent()
    bell = ties.bell
    herald = Herald(bell, told_to(f"echo started >> {said}"))
    try:
        both(ties)
        for count, which in enumerate((min, max, min, max), 1):
            killed = which(processes_of(bell))
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda gone=killed: len(processes_of(bell) - {gone}) == 2, "another in its place")  # type: ignore[misc]
            herald.ring()
            wait_until(lambda count=count: said.exists() and len(said.read_text().split()) == count, "a start")  # type: ignore[misc]
        last = processes_of(bell)
    finally:
        herald.close()
    wait_until(lambda: gone(last), "nobody can ring it, it is gone")
