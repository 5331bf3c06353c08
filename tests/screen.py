"""A program on a terminal: a real pty, and of what a terminal obeys as much as this project sends."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.cells import cell_len

_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([@-~])|\x1b[=>78]|([\r\n\x08\x07])|([^\x1b\r\n\x08\x07]+)|\x1b")


class Shown:
    """What a terminal shows of the bytes that it was sent. ``other``: the second screen is in use; ``hidden``: the cursor is."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.other = self.hidden = False
        self._screens = {False: self._empty(), True: self._empty()}
        self._row = self._column = 0
        self._kept = (0, 0)  # where the cursor was on the first screen
        self._rest = ""

    def _empty(self) -> list[str]:
        return [""] * self.rows

    @property
    def lines(self) -> list[str]:
        """The lines of the screen in use."""
        return [line.rstrip() for line in self._screens[self.other]]

    @property
    def text(self) -> str:
        """All of them."""
        return "\n".join(self.lines)

    def resize(self, columns: int, rows: int) -> None:
        """Gives it another size; what it showed is gone."""
        self.columns, self.rows = columns, rows
        self._screens = {False: self._empty(), True: self._empty()}

    def feed(self, data: bytes) -> None:
        """Obeys."""
        text = self._rest + data.decode(errors="replace")
        begun = re.search(r"\x1b(\[[?0-9;]*)?$", text)
        text, self._rest = (text[: begun.start()], text[begun.start() :]) if begun else (text, "")
        for found in _TOKEN.finditer(text):
            if found[2]:
                self._control(found[1], found[2])
            elif found[3]:
                self._move(found[3])
            elif found[4]:
                self._put(found[4])

    def _move(self, letter: str) -> None:
        if letter == "\r":
            self._column = 0
        elif letter == "\n":
            self._row += 1
            if self._row >= self.rows:
                self._row = self.rows - 1
                self._screens[self.other] = [*self._screens[self.other][1:], ""]

    def _put(self, text: str) -> None:
        line = self._screens[self.other][self._row]
        before = _columns(line, 0, self._column)
        size = cell_len(text)
        self._screens[self.other][self._row] = before + text + _columns(line, self._column + size, 1 << 20)
        self._column += size
        assert self._column <= self.columns or not self.other, f"wider than the screen: {text!r}"

    def _control(self, words: str, letter: str) -> None:
        if letter == "H":
            row, _, column = words.partition(";")
            self._row, self._column = min(int(row or 1), self.rows) - 1, int(column or 1) - 1
        elif letter == "K":
            line = self._screens[self.other][self._row]
            self._screens[self.other][self._row] = "" if words == "2" else _columns(line, 0, self._column)
        elif letter == "J":
            self._screens[self.other] = self._empty()
        elif words == "?1049":
            self.other = letter == "h"
            if self.other:
                self._screens[True], self._kept = self._empty(), (self._row, self._column)
            else:
                self._row, self._column = self._kept
        elif words == "?25":
            self.hidden = letter == "l"


def _columns(line: str, first: int, end: int) -> str:
    """The part of the line in these columns, filled up with blanks."""
    found, column = "", 0
    for letter in line:
        size = cell_len(letter)
        if first <= column and column + size <= end:
            found += letter
        column += size
    wanted = min(end, max(column, end if end < 1 << 20 else 0)) - first
    return found + " " * max(0, wanted - cell_len(found)) if end < 1 << 20 else found


class Program:
    """A program whose terminal is ours. ``with Program([...]) as program``: it is ended afterwards, if it has not by itself."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
        cwd: str | None = None,
    ) -> None:
        self.shown = Shown(columns, rows)
        self.raw = b""
        self.master, slave = os.openpty()
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        self._size(columns, rows)

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=dict(environ), cwd=cwd, preexec_fn=own_terminal
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self._slave)

    def type(self, text: str) -> None:
        """Presses keys."""
        os.write(self.master, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Gives the terminal another size: the kernel tells the program."""
        self.shown.resize(columns, rows)
        self._size(columns, rows)

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def settings(self) -> list[object]:
        """The terminal's (stty)."""
        return termios.tcgetattr(self._slave)

    def read(self, seconds: float = 0.0) -> bool:
        """Takes in what the program has sent within that time; whether it was anything."""
        found, _, _ = select.select([self.master], [], [], seconds)
        if not found:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self.shown.feed(data)
        return bool(data)

    def until(self, *texts: str, gone: Sequence[str] = (), limit: float = 30.0) -> str:
        """What is shown as soon as all of these texts (patterns) are there, and none of ``gone``."""
        end = time.monotonic() + limit
        while True:
            shown = self.shown.text
            missing = [text for text in texts if not re.search(text, shown, re.MULTILINE)]
            still = [text for text in gone if re.search(text, shown, re.MULTILINE)]
            if not missing and not still:
                return shown
            assert time.monotonic() < end, f"missing {missing}, still there {still}:\n{shown}"
            self.read(0.2)

    def ended(self, limit: float = 30.0) -> int:
        """Its exit code when it has ended by itself, and all that it had sent is taken in."""
        end = time.monotonic() + limit
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it has not ended:\n{self.shown.text}"
            self.read(0.05)
        while self.read(0.0):
            pass
        return self.process.returncode
