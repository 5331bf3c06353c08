"""What a node's tasks use: looked at while they run, every so often and when somebody asks, and told with their end.

A task is its first process, what has stayed in its session and what is below it. The kernel keeps, of each process, its CPU time and
the bytes that it has moved, those of children that were waited for among them: so the last look loses nothing of what ended well before
it, and what a task as a whole has moved is told by its end. Memory and address space are of the moment: the most of them is the
most that was seen, or the kernel's own peak of one process where that is more.
"""

from __future__ import annotations

import os

from shim.core.model.usage import FREQUENCY
from shim.job import rawfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

    from shim.job.loop import Loop, Timer

    Told = dict[str, Any]  # as core.model.usage.of_task takes it

FIRST = 0.5  # seconds after a task's start at which it is looked at for the first time
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE") // 1024  # KiB
# Fields of /proc/PID/stat behind the program's name.
_PARENT, _SESSION, _FAULTS, _CHILD_FAULTS, _USER, _SYSTEM, _CHILD_USER, _CHILD_SYSTEM, _VIRTUAL, _RESIDENT = (
    *(1, 3, 9, 10, 11, 12, 13, 14),
    *(20, 21),
)


class _Task:
    """A task that runs, as it was seen last; ``peaks``: the most of what is of the moment."""

    __slots__ = ("every", "peaks", "pids", "seen")

    def __init__(self, every: float) -> None:
        self.every = every
        self.seen: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.pids: list[int] = []

    def saw(self, seen: dict[str, float], pids: list[int]) -> None:
        self.seen = seen
        self.pids = pids
        for name in ("memory", "virtual"):
            if name in seen:
                self.peaks[name] = max(self.peaks.get(name, 0), seen[name])

    def told(self) -> Told:
        """As it was seen last."""
        shown: Told = {name: [value, self.peaks.get(name, value)] for name, value in self.seen.items()}
        shown["user"], shown["system"] = self.seen.get("user", 0.0), self.seen.get("system", 0.0)
        return shown


class UsageWatch:
    """The running tasks of one agent. One timer, and none while no task runs."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._tasks: dict[int, _Task] = {}
        self._timer: Timer | None = None
        self._own_peak = 0
        self._bytes = ChildrenBytes()

    def add(self, pid: int, every: float = FREQUENCY) -> None:
        """A task has started. ``every``: seconds between two looks, 0 for none."""
        if not self._tasks:
            # The loop forgets it with the run.
            self._loop.bytes_moved = self._bytes
            import resource

            self._own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._tasks[pid] = _Task(every)
        if every > 0:
            self._look_in(min(FIRST, every))

    def ended(self, pid: int, used: Any, moved: tuple[int, int] | None) -> Told:
        """The task has ended: all that is known of it. ``used``: its resources as the kernel tells them, ``moved``: bytes read and written."""
        task = self._tasks.pop(pid, None) or _Task(0)
        if not self._tasks and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        seen = task.seen
        seen["user"] = round(max(used.ru_utime, seen.get("user", 0)), 6)
        seen["system"] = round(max(used.ru_stime, seen.get("system", 0)), 6)
        seen["pages"] = max(used.ru_majflt, seen.get("pages", 0))
        # The kernel counts as a task's peak what the agent itself held when the task was made of it.
        if used.ru_maxrss > self._own_peak:
            seen.setdefault("memory", used.ru_maxrss)
            task.peaks["memory"] = max(used.ru_maxrss, task.peaks.get("memory", 0))
        if moved is not None:
            seen["read"], seen["written"] = max(moved[0], seen.get("read", 0)), max(moved[1], seen.get("written", 0))
        return task.told()

    def close(self) -> None:
        """Give back what it holds."""
        self._bytes.close()

    def look(self) -> None:
        """Look at all of them now."""
        for pid, processes in _by_task(self._tasks).items():
            self._tasks[pid].saw(_sum(processes), [int(one) for one, _ in processes])

    def told(self, pid: int) -> tuple[Told, list[int]]:
        """A running task as it was seen last, and its processes."""
        task = self._tasks[pid]
        return task.told(), task.pids

    def _look_in(self, seconds: float) -> None:
        due = self._loop.now() + seconds
        if self._timer is not None:
            if self._timer.when <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._due)

    def _due(self) -> None:
        self._timer = None
        self.look()
        every = [task.every for task in self._tasks.values() if task.every > 0]
        if every:
            self._look_in(min(every))


def _by_task(tasks: Iterable[int]) -> dict[int, list[tuple[str, list[bytes]]]]:
    """The processes of each task: pid and the fields of its status. Zombies are what they were, without memory."""
    known = {str(pid).encode(): pid for pid in tasks}
    table: dict[bytes, tuple[str, list[bytes]]] = {}
    for name in os.listdir("/proc"):
        if name[0] in "123456789":
            text = rawfile.read_if_there(f"/proc/{name}/stat")
            # The second field is the program's name in brackets; it may hold spaces and brackets.
            fields = text[text.rfind(b")") + 2 :].split(None, _RESIDENT + 1)
            if len(fields) > _RESIDENT:
                table[name.encode()] = (name, fields)
    found: dict[int, list[tuple[str, list[bytes]]]] = {pid: [] for pid in known.values()}
    for pid, process in table.items():
        task = _task_of(pid, known, table)
        if task is not None:
            found[task].append(process)
    return found


def _task_of(pid: bytes, known: dict[bytes, int], table: dict[bytes, tuple[str, list[bytes]]]) -> int | None:
    while pid in table:
        if pid in known:
            return known[pid]
        fields = table[pid][1]
        if fields[_SESSION] in known:
            return known[fields[_SESSION]]
        pid = fields[_PARENT]
    return None


def _sum(processes: list[tuple[str, list[bytes]]]) -> dict[str, float]:
    """What these processes use together."""
    total = [0] * (_RESIDENT + 1)
    moved = [0, 0]
    for name, fields in processes:
        for place in range(_FAULTS, _CHILD_SYSTEM + 1):
            total[place] += int(fields[place])
        total[_VIRTUAL] += int(fields[_VIRTUAL])
        total[_RESIDENT] += int(fields[_RESIDENT])
        for place, count in enumerate(_moved(rawfile.read_if_there(f"/proc/{name}/io"))):
            moved[place] += count
    return {
        "user": (total[_USER] + total[_CHILD_USER]) / _TICKS,
        "system": (total[_SYSTEM] + total[_CHILD_SYSTEM]) / _TICKS,
        "memory": total[_RESIDENT] * _PAGE,
        "virtual": total[_VIRTUAL] // 1024,
        "pages": total[_FAULTS] + total[_CHILD_FAULTS],
        "read": moved[0],
        "written": moved[1],
    }


def _moved(io: bytes) -> tuple[int, int]:
    """Bytes read and written, of the text of a ``/proc/PID/io``; (0, 0) where it may not be read."""
    words = io.split(None, 4)
    return (int(words[1]), int(words[3])) if len(words) > 3 else (0, 0)


class ChildrenBytes:
    """What a child that is being waited for has read and written, with all that it had waited for: what the kernel adds then to this
    process's own account. Of a process that has ended, or is another user's, nobody else may read it.
    """

    def __init__(self) -> None:
        self._file = -1
        self._before: tuple[int, int] | None = None

    def before(self) -> None:
        """A child may be waited for now."""
        text = self._look()
        # This look itself is counted too, as read.
        self._before = (_moved(text)[0] + len(text), _moved(text)[1]) if text else None

    def after(self) -> tuple[int, int] | None:
        """It has been: bytes read and written. None where the kernel does not count."""
        text = self._look()
        if self._before is None or not text:
            return None
        read, written = _moved(text)
        return max(0, read - self._before[0]), max(0, written - self._before[1])

    def _look(self) -> bytes:
        try:
            if self._file < 0:
                self._file = os.open("/proc/self/io", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._file, 512, 0)
        except OSError:
            return b""

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
