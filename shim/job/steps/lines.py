"""Tasks' output on its way to srun's streams: whole lines of each task, with labels where asked for. Pure.

A task's bytes are held until a line is complete; ``unbuffered`` lets them pass at once. With labels each line begins with
the rank, right-aligned to the width of the highest rank, and a last line without its end gets one; without labels the
bytes are never changed.
"""

from __future__ import annotations

LONGEST = 1 << 16  # bytes of one line that are held before they pass as they are


class LineWriter:
    """The lines of all tasks for one stream of srun's."""

    def __init__(self, ntasks: int, label: bool = False, unbuffered: bool = False) -> None:
        self._width = len(str(max(0, ntasks - 1)))
        self._label = label
        self._unbuffered = unbuffered
        self._held: dict[int, bytes] = {}

    def feed(self, rank: int, data: bytes) -> bytes:
        """What may be written now that ``data`` of task ``rank`` has come."""
        if self._unbuffered and not self._label:
            return data
        data = self._held.pop(rank, b"") + data
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        if rest and (len(rest) > LONGEST or self._unbuffered):
            return self._labelled(rank, data)
        if rest:
            self._held[rank] = rest
        return self._labelled(rank, data[:end])

    def finish(self, rank: int) -> bytes:
        """The end of the task's output: what is left of its last line."""
        return self._labelled(rank, self._held.pop(rank, b""))

    def _labelled(self, rank: int, data: bytes) -> bytes:
        if not self._label or not data:
            return data
        prefix = f"{rank:>{self._width}}: ".encode()
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return b"".join(prefix + line + b"\n" for line in lines)
