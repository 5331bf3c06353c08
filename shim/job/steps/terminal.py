"""The terminal of ``srun --pty``: raw while the task runs, its size told to the task, and given back as it was."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def window_of(fd: int) -> tuple[int, int]:
    """(rows, columns) of the terminal ``fd``. OSError when it is none."""
    import struct
    from fcntl import ioctl
    from termios import TIOCGWINSZ

    rows, columns, _x, _y = struct.unpack("HHHH", ioctl(fd, TIOCGWINSZ, bytes(8)))
    return rows, columns


class RawTerminal:
    """``enter`` makes terminal ``fd`` raw: every key, Ctrl-C too, goes to the task. ``leave`` restores it, as often as called."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before: list[Any] | None = None

    def enter(self) -> None:
        """Nothing happens when ``fd`` is no terminal."""
        import termios

        try:
            before = termios.tcgetattr(self._fd)
        except termios.error:
            return
        raw = list(before)
        raw[0] &= ~(
            termios.IGNBRK
            | termios.BRKINT
            | termios.PARMRK
            | termios.ISTRIP
            | termios.INLCR
            | termios.IGNCR
            | termios.ICRNL
            | termios.IXON
        )
        raw[1] &= ~termios.OPOST
        raw[2] = (raw[2] & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
        raw[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
        raw[6] = list(raw[6])
        raw[6][termios.VMIN] = 1
        raw[6][termios.VTIME] = 0
        self._before = before
        termios.tcsetattr(self._fd, termios.TCSADRAIN, raw)

    def leave(self) -> None:
        """Restores the terminal; one that is gone needs nothing."""
        if self._before is None:
            return
        import termios

        before, self._before = self._before, None
        try:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, before)
        except termios.error:
            return
