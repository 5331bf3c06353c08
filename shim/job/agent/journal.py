"""The journal of a run: one JSON line per event, appended before the leader acts on it or tells anybody.

Each line has ``n`` (1, 2, …), ``at`` (epoch seconds) and ``kind``. A line is written with one ``write`` to a file opened for
appending: it survives the death of the process, not a power cut. A line cut short by a full disk or a death is no line.
"""

from __future__ import annotations

import os

from shim.core.jsonlite import dumps, loads
from shim.job import rawfile
from shim.job.run_folder import JOURNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Line = dict[str, Any]


def lock_name(index: int) -> str:
    """The file of the run folder that agent ``index`` holds locked (flock) as long as it lives: the leader its journal."""
    return f"lock.{index}" if index else JOURNAL


def read_journal(path: str) -> list[Line]:
    """The complete lines of the journal at ``path``, in order; none when there is no file."""
    try:
        content = rawfile.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    lines: list[Line] = []
    for text in content.split(b"\n")[:-1]:
        try:
            line = loads(text)
        except ValueError:
            continue  # the cut end of a write that failed; the line was written again after it
        if isinstance(line, dict) and line.get("n") == len(lines) + 1:
            lines.append(line)
    return lines


class Journal:
    """The leader's end of the journal: appends, remembers, and holds back what a full disk refuses.

    ``lines`` are those that are on disk: only they may be told. ``clock`` gives the epoch. ``file``: the journal's, open for
    reading and appending already; it stays the caller's.
    """

    def __init__(self, path: str, clock: Callable[[], float], file: int | None = None) -> None:
        self._path = path
        self._clock = clock
        self._held: list[Line] = []
        if file is None:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        else:
            self._file = os.dup(file)
        size = os.fstat(self._file).st_size
        self.lines = read_journal(path) if size else []
        self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def now(self) -> float:
        """The time by which lines are written."""
        return self._clock()

    def append(self, kind: str, **fields: Any) -> bool:
        """Writes a line; False when the disk took it not, it is then held for ``flush``."""
        number = len(self.lines) + len(self._held) + 1
        self._held.append({"n": number, "at": round(self._clock(), 3), "kind": kind, **fields})
        return self.flush()

    def flush(self) -> bool:
        """Writes what is held. True when nothing is held any more."""
        while self._held:
            data = dumps(self._held[0]).encode() + b"\n"
            if self._torn:
                data = b"\n" + data
            try:
                written = os.write(self._file, data)
            except OSError:
                return False
            if written < len(data):
                self._torn = True
                return False
            self._torn = False
            self.lines.append(self._held.pop(0))
        return True

    def has(self, kind: str) -> bool:
        """Whether a line of that kind was written (or is held)."""
        return any(line["kind"] == kind for line in (*self.lines, *self._held))

    @property
    def gone(self) -> bool:
        """Whether its file was removed: nobody can ask for it any more."""
        return not os.path.exists(self._path)

    def close(self) -> None:
        """Closes the file; the lines stay readable."""
        os.close(self._file)
