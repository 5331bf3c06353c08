"""The terminal as a page uses it, and as it was before: given back whatever ends the page, and while it is suspended."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Callable
from types import FrameType
from typing import Any

from shim.core.errors import ShimError

_ENTER = "\x1b[?1049h\x1b[?7l\x1b[?25l"  # the other screen, no wrapping of lines, no cursor
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1049l"
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_CAUGHT = (*ENDS, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class Terminal:
    """``with Terminal(read, write) as terminal``: a page on it. Not a terminal: ShimError.

    Signals wake whoever polls ``woken``. ``ended``: the signal that asks for the end, 0 for none; ``stale``: what the terminal shows is
    not known (it has another size, or was used by others meanwhile).
    """

    def __init__(self, read: int = 0, write: int = 1) -> None:
        if not os.isatty(read) or not os.isatty(write):
            raise ShimError("error: shim top shows a page on a terminal: here is none. shim top --once prints a page")
        if os.environ.get("TERM", "dumb") in ("", "dumb"):
            raise ShimError("error: this terminal (TERM) shows no pages. shim top --once prints a page")
        self.ended = 0
        self.stale = True
        self.keys = read  # readable when something was typed
        self._write = write
        self._before = termios.tcgetattr(read)
        self._handlers: dict[int, Any] = {}
        self._wakeup = -1
        self._used = False
        self.woken, self._wakes = os.pipe()
        for end in (self.woken, self._wakes):
            os.set_blocking(end, False)

    def __enter__(self) -> Terminal:
        self._wakeup = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        try:
            for number in _CAUGHT:
                self._handlers[number] = signal.signal(number, self._came)
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.woken)
        os.close(self._wakes)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        found = os.get_terminal_size(self._write)
        return (found.columns or 80), (found.lines or 24)

    def read(self) -> bytes:
        """What was typed; b"" where the terminal is gone."""
        try:
            return os.read(self.keys, 4096)
        except OSError:
            return b""

    def write(self, text: str) -> None:
        """Shows. The terminal may be gone: then this is the end."""
        data = text.encode(errors="replace")
        try:
            while data:
                data = data[os.write(self._write, data) :]
        except OSError:
            self.ended = self.ended or signal.SIGHUP

    def woke(self) -> None:
        """Takes note of the signals that came."""
        try:
            while os.read(self.woken, 512):
                pass
        except BlockingIOError:
            pass

    def lent(self, use: Callable[[], None]) -> None:
        """Gives the terminal back while ``use`` is at work with it: a command in the foreground."""
        self._give_back()
        # They are for the command, which does not inherit a handler as it would inherit that they are ignored.
        interrupts = [(number, signal.signal(number, _passed_over)) for number in (signal.SIGINT, signal.SIGQUIT)]
        suspends = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            use()
        finally:
            for number, handler in (*interrupts, (signal.SIGTSTP, suspends)):
                signal.signal(number, handler)
            self._take()

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if number in ENDS:
            self.ended = self.ended or number
        elif number == signal.SIGTSTP:
            self._suspend()
        elif number == signal.SIGCONT and self._used:  # nobody can catch SIGSTOP: the shell has had the terminal since
            self._take()
        self.stale = True

    def _suspend(self) -> None:
        """As any program is suspended: by its default action, so that the shell sees it, and with the terminal as it was."""
        self._give_back()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
        signal.signal(signal.SIGTSTP, handler)
        self._take()

    def _take(self) -> None:
        wanted = termios.tcgetattr(self.keys)
        wanted[3] &= ~(termios.ICANON | termios.ECHO)
        wanted[6] = list(wanted[6])
        wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
        # After `bg` this stops the process again, until it is in the foreground: the shell has the terminal.
        self._set(wanted)
        self._used = True
        self.write(_ENTER)
        self.stale = True

    def _give_back(self) -> None:
        if self._used:
            self._used = False
            self.write(_LEAVE)
            blocked = signal.pthread_sigmask(
                signal.SIG_BLOCK, [signal.SIGTTOU]
            )  # it is given back wherever this process is
            self._set(self._before)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _set(self, attributes: list[Any]) -> None:
        try:
            termios.tcsetattr(self.keys, termios.TCSADRAIN, attributes)
        except termios.error:
            pass  # it is gone


def _passed_over(_number: int, _frame: FrameType | None) -> None:
    return
