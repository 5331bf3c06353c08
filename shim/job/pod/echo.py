"""The batch script's output in the container's own log (kubectl logs), and how it is read back out of that.

Both streams go out by one descriptor, in whole lines: a log of two descriptors does not tell which of them a line is of, nor which came
first. Where there are two streams, or so much that a kubelet may have begun a new file of the log, the last line of the log says what
the bytes before it are: ``slurm-shim: log o120 e0: e20 o300 x1`` (120 bytes of stdout and none of stderr that are not listed, then 20 of
stderr, 300 of stdout, one that is neither's).
"""

from __future__ import annotations

import os

from shim.job.wire import CHUNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable, Dict, Optional, Protocol, Tuple

    from shim.job.loop import Loop

    Pieces = Dict[str, Tuple[int, bytes]]

    class Readable(Protocol):
        """A file that grows."""

        @property
        def size(self) -> int: ...

        def read(self, position: int, most: int) -> bytes: ...


LETTERS = {"stdout": "o", "stderr": "e"}
OURS = "x"
MOST_PLAIN = 1024 * 1024  # bytes of one stream that are never told
_MOST_RUNS = 20_000  # more are told as a sum
_WORD = b"slurm-shim: log "


class Runs:
    """What has gone out: in its order, as far as that is kept."""

    def __init__(self) -> None:
        self.total = 0
        self._before = dict.fromkeys(LETTERS.values(), 0)
        self._runs: list[list[Any]] = []

    def add(self, letter: str, count: int) -> None:
        """``count`` more bytes of that stream."""
        self.total += count
        if self._runs and self._runs[-1][0] == letter:
            self._runs[-1][1] += count
        else:
            self._runs.append([letter, count])
        if len(self._runs) > 2 * _MOST_RUNS:
            for gone, size in self._runs[:_MOST_RUNS]:
                self._before[gone] = self._before.get(gone, 0) + size
            del self._runs[:_MOST_RUNS]

    def line(self) -> bytes:
        """The last line of the log."""
        before = " ".join(f"{letter}{self._before[letter]}" for letter in LETTERS.values())
        return _WORD + f"{before}: {' '.join(f'{letter}{count}' for letter, count in self._runs)}\n".encode("ascii")


def split(log: bytes) -> Optional[Pieces]:
    """Each stream's last bytes out of a log, and how many there were before them; None for a log that does not tell.

    The log may have lost its beginning.
    """
    body, newline, last = log[:-1].rpartition(b"\n")
    body += newline
    if not last.startswith(_WORD):
        return None
    before, _, runs = last[len(_WORD) :].decode("ascii", "replace").partition(":")
    try:
        starts = {word[0]: int(word[1:]) for word in before.split()}
        told = [(word[0], int(word[1:])) for word in runs.split()]
    except ValueError:
        return None
    missing = sum(count for _, count in told) - len(body)
    at = max(0, -missing)  # what our own agent has said before is not counted
    pieces: dict[str, list[bytes]] = {letter: [] for letter in starts}
    for letter, count in told:
        gone = min(count, max(0, missing))
        missing -= gone
        if letter in pieces:
            starts[letter] += gone
            pieces[letter].append(body[at : at + count - gone])
        at += count - gone
    return {name: (starts.get(letter, 0), b"".join(pieces.get(letter, []))) for name, letter in LETTERS.items()}


class Echo:
    """Our own stdout as somebody who follows the files; written without waiting. ``on_moved()``: after each late write."""

    def __init__(self, loop: Loop, files: Mapping[str, Readable], fd: int, on_moved: Callable[[], None]) -> None:
        self._loop = loop
        self._on_moved = on_moved
        self._files = files
        self._positions = dict.fromkeys(files, 0)
        self._fd = fd
        self._held = b""
        self._whole = True  # what has gone out ends with a line's end
        self._runs = Runs()
        self._ending = False
        self._told = False
        os.set_blocking(fd, False)

    def end(self) -> None:
        """Nothing is written to the files any more."""
        self._ending = True

    @property
    def done(self) -> bool:
        """Whether everything is out that can go out."""
        if self._fd < 0:
            return True
        left = any(self._positions[name] < file.size for name, file in self._files.items())
        return not (self._held or left or (self._ending and self._to_be_told))

    @property
    def _to_be_told(self) -> bool:
        return not self._told and self._runs.total > 0 and (len(self._files) > 1 or self._runs.total > MOST_PLAIN)

    def pump(self) -> bool:
        """Writes what it can; whether anything was."""
        moved = False
        while self._fd >= 0:
            if not self._held and not self._fill():
                self._loop.writer(self._fd, None)
                break
            try:
                self._held = self._held[os.write(self._fd, self._held) :]
                moved = True
            except BlockingIOError:
                self._loop.writer(self._fd, self._writable)
                break
            except OSError:
                self._loop.writer(self._fd, None)
                self._fd = -1  # nobody has it any more
        return moved

    def _fill(self) -> bool:
        for name, file in self._files.items():
            data = file.read(self._positions[name], CHUNK)
            if len(self._files) > 1 and len(data) < CHUNK and not self._ending:
                data = data[: data.rfind(b"\n") + 1]
            if data:
                self._positions[name] += len(data)
                self._put(LETTERS[name], data)
                return True
        if self._ending and self._to_be_told:
            self._told = True
            self._separate()
            self._held += self._runs.line()
            return True
        return False

    def _put(self, letter: str, data: bytes) -> None:
        if letter != self._last:
            self._separate()
        self._last = letter
        self._held += data
        self._whole = data.endswith(b"\n")
        self._runs.add(letter, len(data))

    _last = ""

    def _separate(self) -> None:
        if not self._whole:
            self._held += b"\n"
            self._runs.add(OURS, 1)
            self._whole = True

    def _writable(self) -> None:
        self.pump()
        self._on_moved()
