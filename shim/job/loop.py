"""The event loop of agents and srun: one thread, epoll, timers, signals, ends of children.

asyncio would cost each of them more memory and start-up than all of their own work. Nothing here wakes up while nothing
happens: no tick, no polling. Callbacks take what is documented and return at once; an exception from one ends ``run``.
"""

from __future__ import annotations

import os
import select
from _heapq import heappop, heappush
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Callable, Protocol

    class ChildrenBytes(Protocol):
        """Counts what a child has moved, while it is waited for."""

        def before(self) -> None: ...

        def after(self) -> tuple[int, int] | None: ...

    class Timers(Protocol):
        """What counts the time of a job: a loop, or simulated timers."""

        def now(self) -> float:
            """Seconds; never goes back."""

        def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
            """As ``Loop.call_at``."""

        def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
            """As ``Loop.call_later``."""

else:
    import _signal  # ``signal`` itself imports enum

_READ = select.EPOLLIN | select.EPOLLRDHUP
_READY = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_WRITABLE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR
_NOTHING: list[tuple[int, int]] = []
_DAY = 86400.0
_MOST_UNSEEN = (
    8  # turns in succession that only do what is due at once: a look at the descriptors costs as much as most of them
)


class Timer:
    """A callback that is due at a time of the loop's clock; ``cancel`` may be called at any time."""

    __slots__ = ("_order", "callback", "when")

    def __init__(self, when: float, callback: Callable[[], None], order: int) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback
        self._order = order

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self._order) < (other.when, other._order)


class Loop:
    """``clock`` counts seconds and never goes back; tests give their own and drive the loop with ``run_once``."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.now = clock
        self._epoll = select.epoll(16)  # close-on-exec by itself
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._always: set[int] = set()  # regular files: epoll refuses them because they are always ready
        self._timers: list[Timer] = []
        self._order = 0
        self._soon: list[Callable[[], None]] = []
        self.used: Any = None  # resources, by the child whose end is being told
        self.moved: tuple[int, int] | None = None  # bytes that it has read and written, if ``bytes_moved`` counts them
        self.bytes_moved: ChildrenBytes | None = None
        self._unseen = 0  # turns since the last look at the descriptors
        self._signals: dict[int, Callable[[], None]] = {}
        self._old_handlers: dict[int, Any] = {}
        self._wakeup: tuple[int, int, int] | None = None  # read end, write end, the descriptor set before
        self._children: dict[int, Callable[[int], None]] = {}
        self._orphan: Callable[[int, int], None] | None = None
        self._stopped = False

    # Descriptors

    def reader(self, fd: int, callback: Callable[[], None] | None) -> None:
        """Call ``callback()`` whenever ``fd`` can be read without waiting or has ended; None: no longer."""
        self._watch(self._readers, fd, callback)

    def writer(self, fd: int, callback: Callable[[], None] | None) -> None:
        """Call ``callback()`` whenever ``fd`` takes bytes without waiting or is broken; None: no longer."""
        self._watch(self._writers, fd, callback)

    def forget(self, fd: int) -> None:
        """No longer watch ``fd``. To be called before it is closed."""
        self.reader(fd, None)
        self.writer(fd, None)

    def _watch(self, table: dict[int, Callable[[], None]], fd: int, callback: Callable[[], None] | None) -> None:
        before = self._mask(fd)
        if callback is None:
            table.pop(fd, None)
        else:
            table[fd] = callback
        mask = self._mask(fd)
        if fd in self._always:
            if not mask:
                self._always.discard(fd)
        elif mask == before:
            return
        elif not before:
            try:
                self._epoll.register(fd, mask)
            except PermissionError:
                self._always.add(fd)
        elif mask:
            self._epoll.modify(fd, mask)
        else:
            self._epoll.unregister(fd)

    def _mask(self, fd: int) -> int:
        return (_READ if fd in self._readers else 0) | (select.EPOLLOUT if fd in self._writers else 0)

    # Time

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback()`` once when the clock has reached ``when``."""
        self._order += 1
        timer = Timer(when, callback, self._order)
        heappush(self._timers, timer)
        return timer

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback()`` once, ``delay`` seconds from now."""
        return self.call_at(self.now() + delay, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` in the loop's next turn, in the order of the calls: never from inside the caller."""
        self._soon.append(callback)

    # Signals and children

    def on_signal(self, number: int, callback: Callable[[], None]) -> None:
        """Call ``callback()`` in the loop after signal ``number`` arrived (several may count as one). Main thread only."""
        self._listen(number)
        self._signals[number] = callback

    def on_exit(self, pid: int, callback: Callable[[int], None]) -> None:
        """Reap child ``pid`` when it ends and call ``callback(raw wait status)``."""
        self._listen(_signal.SIGCHLD)
        self._children[pid] = callback
        self.call_soon(self._reap)  # it may have ended before the handler was there

    def on_orphan(self, callback: Callable[[int, int], None]) -> None:
        """Reap every child, also those nobody waits for: ``callback(pid, raw wait status)``. For child subreapers."""
        self._listen(_signal.SIGCHLD)
        self._orphan = callback

    def _listen(self, number: int) -> None:
        if self._wakeup is None:
            read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._wakeup = (read_end, write_end, _signal.set_wakeup_fd(write_end, warn_on_full_buffer=False))
            self.reader(read_end, self._woken)
        if number not in self._old_handlers:
            # Python's own handler must be in place: it writes the number into the wake-up pipe.
            self._old_handlers[number] = _signal.signal(number, _noticed)

    def _woken(self) -> None:
        assert self._wakeup is not None
        numbers = set(os.read(self._wakeup[0], 4096))
        if _signal.SIGCHLD in numbers:
            self._reap()
        for number in sorted(numbers):
            callback = self._signals.get(number)
            if callback is not None:
                callback()

    def _reap(self) -> None:
        if self._orphan is None:
            for pid in list(self._children):
                self._wait(pid)
        else:
            while self._wait(-1):
                pass

    def _wait(self, which: int) -> bool:
        counted = self.bytes_moved if self._children else None
        if counted is not None:
            counted.before()
        try:
            pid, status, self.used = os.wait4(which, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return False
        self.moved = counted.after() if counted is not None and pid in self._children else None
        callback = self._children.pop(pid, None)
        if callback is not None:
            callback(status)
        elif self._orphan is not None:
            self._orphan(pid, status)
        return True

    # Running

    def run(self) -> None:
        """Turn until ``stop``; at once back when that was called before."""
        while not self._stopped:
            self.run_once()
        self._stopped = False

    def stop(self) -> None:
        """End ``run`` after the present turn."""
        self._stopped = True

    def run_once(self, limit: float | None = None) -> None:
        """One turn: wait for the next event, at most ``limit`` seconds (0: do not wait), and call what is due."""
        if self._soon and self._unseen < _MOST_UNSEEN:
            self._unseen += 1
            ready = _NOTHING
        else:
            self._unseen = 0
            ready = self._epoll.poll(self._pause(limit))
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()
        for fd in list(self._always):
            self._serve(fd, select.EPOLLIN | select.EPOLLOUT)
        for fd, events in ready:
            self._serve(fd, events)
        now = self.now()
        due = []
        while self._timers and self._timers[0].when <= now:
            due.append(heappop(self._timers))
        for timer in due:
            if timer.callback is not None:  # not cancelled, not even by one before it
                timer.callback()

    def _pause(self, limit: float | None) -> float | None:
        if self._soon or self._always or self._stopped:
            return 0
        while self._timers and self._timers[0].callback is None:
            heappop(self._timers)
        if self._timers:
            left = max(0.0, self._timers[0].when - self.now())
            limit = left if limit is None else min(limit, left)
        return limit if limit is None else min(limit, _DAY)  # epoll takes no more than 24 of them

    def _serve(self, fd: int, events: int) -> None:
        # Looked up anew for each: an earlier callback of this turn may have ended the watching.
        if events & _READY:
            reader = self._readers.get(fd)
            if reader is not None:
                reader()
        if events & _WRITABLE:
            writer = self._writers.get(fd)
            if writer is not None:
                writer()

    def begin_anew(self, *kept: int) -> None:
        """Forget everything that was asked of it, for another owner, but the descriptors in ``kept``. Signals that come meanwhile
        wait for that one.
        """
        own = self._wakeup[0] if self._wakeup is not None else -1
        for fd in (self._readers.keys() | self._writers.keys()) - {own, *kept}:
            self._readers.pop(fd, None)
            self._writers.pop(fd, None)
            try:
                self._epoll.unregister(fd)
            except OSError:
                pass  # it was closed, or is a regular file
        self._always.clear()
        self._timers.clear()
        self._soon.clear()
        self._signals.clear()
        self._children.clear()
        self._orphan = None
        self.bytes_moved = None
        self._stopped = False

    def close(self) -> None:
        """Give back the descriptors and the signal handlers. Watched descriptors stay open."""
        if self._wakeup is not None:
            read_end, write_end, before = self._wakeup
            _signal.set_wakeup_fd(before)
            for number, handler in self._old_handlers.items():
                _signal.signal(number, handler)
            os.close(read_end)
            os.close(write_end)
            self._wakeup = None
        self._epoll.close()


def _noticed(_number: int, _frame: object) -> None:
    """Python-level handler of every signal a loop listens to; the work is done in the loop."""
