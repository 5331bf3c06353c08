"""The event loop: descriptors, timers on an own clock, signals, children."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator

import pytest

from shim.job.loop import Loop
from tests.support import wait_until


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop(clock: Clock) -> Iterator[Loop]:
    loop = Loop(clock)
    yield loop
    loop.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass  # the test closed it


def turn_until(loop: Loop, condition: Callable[[], object], what: str) -> None:
    def turned() -> object:
        loop.run_once(0.01)
        return condition()

    wait_until(turned, what)


def test_reader_and_its_end(loop: Loop, pipe: tuple[int, int]) -> None:
    got: list[bytes] = []

    def read() -> None:
        got.append(os.read(pipe[0], 100))
        if not got[-1]:
            loop.reader(pipe[0], None)

    loop.reader(pipe[0], read)
    loop.run_once(0)
    assert got == []
    os.write(pipe[1], b"one")
    loop.run_once(1)
    os.close(pipe[1])
    loop.run_once(1)
    loop.run_once(0)
    assert got == [b"one", b""]


def test_writer_until_full(loop: Loop, pipe: tuple[int, int]) -> None:
    calls: list[int] = []
    loop.writer(pipe[1], lambda: calls.append(1))
    loop.run_once(1)
    assert calls == [1]
    with pytest.raises(BlockingIOError):
        while True:
            os.write(pipe[1], b"x" * 4096)
    loop.run_once(0)
    assert calls == [1]
    os.read(pipe[0], 65536)
    loop.run_once(1)
    assert calls == [1, 1]


def test_a_callback_may_end_the_watching_of_another(loop: Loop, pipe: tuple[int, int]) -> None:
    other = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    got: list[str] = []

    def called(name: str) -> Callable[[], None]:
        def callback() -> None:
            got.append(name)
            loop.forget(pipe[0])
            loop.forget(other[0])

        return callback

    loop.reader(pipe[0], called("one"))
    loop.reader(other[0], called("other"))
    os.write(pipe[1], b"x")
    os.write(other[1], b"x")
    loop.run_once(1)
    loop.run_once(0)
    assert len(got) == 1
    os.close(other[0])
    os.close(other[1])


def test_a_regular_file_is_always_ready(loop: Loop) -> None:
    with tempfile.TemporaryFile() as file:
        calls: list[int] = []
        loop.reader(file.fileno(), lambda: calls.append(1))
        loop.run_once()
        loop.run_once()
        loop.forget(file.fileno())
        loop.run_once(0)
        assert calls == [1, 1]


def test_timers_in_order_and_cancelled(loop: Loop, clock: Clock) -> None:
    got: list[str] = []
    loop.call_later(2, lambda: got.append("two"))
    loop.call_later(1, lambda: got.append("one"))
    loop.call_at(101, lambda: got.append("also one"))
    loop.call_later(1, lambda: got.append("never")).cancel()
    loop.run_once(0)
    assert got == []
    clock.now += 1
    loop.run_once(0)
    assert got == ["one", "also one"]
    clock.now += 100
    loop.run_once(0)
    assert got == ["one", "also one", "two"]


def test_a_timer_that_sets_itself_again_does_not_hold_the_loop(loop: Loop) -> None:
    calls: list[int] = []

    def again() -> None:
        calls.append(1)
        loop.call_later(0, again)

    again()
    loop.run_once(0)
    assert calls == [1, 1]


def test_a_timer_cancelled_by_one_of_the_same_turn(loop: Loop, clock: Clock) -> None:
    got: list[str] = []
    loop.call_later(1, lambda: second.cancel())
    second = loop.call_later(1, lambda: got.append("second"))
    clock.now += 1
    loop.run_once(0)
    assert got == []


def test_call_soon_is_never_called_from_inside(loop: Loop) -> None:
    got: list[str] = []

    def first() -> None:
        loop.call_soon(lambda: got.append("second"))
        got.append("first")

    loop.call_soon(first)
    assert got == []
    loop.run_once(0)
    assert got == ["first"]
    loop.run_once()
    assert got == ["first", "second"]


def test_stop_ends_run(loop: Loop) -> None:
    loop.call_soon(loop.stop)
    loop.run()


def test_stop_before_run_counts_once(loop: Loop) -> None:
    got: list[int] = []
    loop.stop()
    loop.call_soon(lambda: got.append(1))
    loop.run()
    assert got == []
    loop.call_soon(loop.stop)
    loop.run()
    assert got == [1]


def test_a_signal_wakes_the_loop(loop: Loop) -> None:
    got: list[int] = []
    loop.on_signal(signal.SIGUSR1, lambda: got.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    turn_until(loop, lambda: got, "the signal's callback")
    assert got == [1]


def test_close_gives_the_handlers_back(clock: Clock) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    loop = Loop(clock)
    loop.on_signal(signal.SIGUSR2, lambda: None)
    assert signal.getsignal(signal.SIGUSR2) is not before
    loop.close()
    assert signal.getsignal(signal.SIGUSR2) is before


def child(status: int) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(status)
    return pid


def test_children_are_reaped(loop: Loop) -> None:
    got: dict[int, int] = {}
    pids = [child(code) for code in (0, 3, 7)]
    for pid in pids:
        loop.on_exit(pid, lambda status, pid=pid: got.update({pid: status}))  # type: ignore[misc]
    turn_until(loop, lambda: len(got) == 3, "the ends of three children")
    assert got == dict(zip(pids, (0, 3 << 8, 7 << 8), strict=True))
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_a_child_that_nobody_named_is_left_alone(loop: Loop) -> None:
    named, other = child(1), child(2)
    got: list[int] = []
    loop.on_exit(named, got.append)
    turn_until(loop, lambda: got, "the end of the named child")
    assert os.waitpid(other, 0) == (other, 2 << 8)


def test_orphans_are_reaped_when_wanted(loop: Loop) -> None:
    orphans: dict[int, int] = {}
    got: list[int] = []
    loop.on_orphan(lambda pid, status: orphans.update({pid: status}))
    named, other = child(1), child(2)
    loop.on_exit(named, got.append)
    # Whatever else this process has as a child, left by another test, is reaped as well.
    turn_until(loop, lambda: got and other in orphans, "the ends of both")
    assert (got, orphans[other]) == ([1 << 8], 2 << 8)
    assert named not in orphans


def test_one_that_begins_anew_has_forgotten_everything_but_its_signals(
    loop: Loop, clock: Clock, pipe: tuple[int, int]
) -> None:
    got: list[str] = []
    with tempfile.TemporaryFile() as file:
        loop.reader(file.fileno(), lambda: got.append("file"))
        loop.reader(pipe[0], lambda: got.append("reader"))
        loop.writer(pipe[1], lambda: got.append("writer"))
        loop.on_signal(signal.SIGUSR1, lambda: got.append("signal"))
        loop.call_soon(lambda: got.append("soon"))
        loop.call_later(1, lambda: got.append("timer"))
        loop.stop()
        loop.begin_anew()
    os.write(pipe[1], b"x")
    os.kill(os.getpid(), signal.SIGUSR1)
    clock.now += 2
    loop.run_once(0)
    assert got == []
    loop.reader(pipe[0], loop.stop)
    loop.on_signal(signal.SIGUSR1, lambda: got.append("signal"))
    os.kill(os.getpid(), signal.SIGUSR1)
    turn_until(loop, lambda: got, "the signal")
    loop.run()
    assert got == ["signal"]


def test_one_that_begins_anew_may_have_watched_what_is_closed(loop: Loop) -> None:
    one, other = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    loop.reader(one, lambda: None)
    os.close(one)
    os.close(other)
    loop.begin_anew()
    got: list[str] = []
    again, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    loop.reader(again, lambda: got.append("reader"))
    os.close(end)
    loop.run_once(1)
    assert got == ["reader"]
    loop.forget(again)
    os.close(again)


def test_descriptors_are_looked_at_however_much_is_due_at_once(loop: Loop, pipe: tuple[int, int]) -> None:
    def on() -> None:
        loop.call_soon(on)

    loop.reader(pipe[0], loop.stop)
    loop.call_soon(on)
    os.write(pipe[1], b"x")
    loop.run()
