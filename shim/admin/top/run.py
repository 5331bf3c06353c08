"""The loop: it sleeps until a key, the kernel (watch.py), an answer or the clock's next second brings something new."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TextIO

from shim.admin.top import draw
from shim.admin.top.helpers import Helper, foreground
from shim.admin.top.keys import Decoder, Do, press, target
from shim.admin.top.listing import ENDED
from shim.admin.top.page import rows_of_output
from shim.admin.top.real import RealSlurm, answered
from shim.admin.top.session import Session
from shim.admin.top.snapshot import Entry
from shim.admin.top.terminal import Terminal
from shim.admin.top.watch import Index
from shim.commands import site_view

LARGEST = 1000  # columns and lines of a page, whatever COLUMNS and LINES say
SECOND = 1.0
SOON = 0.3  # seconds until it is looked again whether the controller that was started is there
CONTROLLER = 5.0  # seconds until it is looked again whether there is one, where none is known
ESCAPE = 0.05  # seconds within which the rest of a key's bytes comes
REST = 0.25  # seconds at least between two looks at the index, and …
SHARE = 10  # … that many times as long as a look takes


def once(out: TextIO) -> None:
    """Prints one page as text, as large as COLUMNS and LINES say, else the terminal, else 80x24."""
    with ExitStack() as stack:
        top = Session()
        stack.callback(top.close)
        site_view.open_index("shim")  # which gives a controller a moment to bring it up to date
        answered(top.real)
        top.look()
        top.settle()
        size = shutil.get_terminal_size((80, 24))
        lines = top.lines((min(size.columns, LARGEST), min(size.lines, LARGEST)))
        out.write("".join(draw.plain(line) + "\n" for line in lines))


def watch() -> int:
    """Shows the page until its end is asked for; the exit code."""
    with ExitStack() as stack:
        terminal = stack.enter_context(Terminal())
        top = Session()
        stack.callback(top.close)
        loop = Loop(terminal, top)
        stack.callback(loop.close)
        loop.run()
    if terminal.ended and terminal.ended != signal.SIGINT:  # with the terminal as it was, the signal does what it does
        signal.signal(terminal.ended, signal.SIG_DFL)
        os.kill(os.getpid(), terminal.ended)
    return 0


class Loop:
    """Waits for whatever comes, and shows what has come of it."""

    def __init__(self, terminal: Terminal, top: Session) -> None:
        self._terminal = terminal
        self._top = top
        self._index = Index()
        self._keys = Decoder()
        self._painter = draw.Painter(colours="NO_COLOR" not in os.environ, unicode=_unicode())
        self._look_at = 0.0  # when the index is looked at next; inf: when it has changed
        self._looked = 0.0  # how long that took
        self._tick = self._controller = 0.0
        self._over = False

    def run(self) -> None:
        """Returns when the end was asked for."""
        top = self._top
        self._index.changed()
        self._look()
        self._paint()
        while not self._over and not self._terminal.ended:
            self._turn()
            for one in top.real:
                one.look(ended=top.state.filter == ENDED)
            top.selected.ask()
            self._wait()
            if self._terminal.ended or self._over:
                return
            self._paint()

    def close(self) -> None:
        """Watches no more."""
        self._index.close()

    def _turn(self) -> None:
        """What is due by the clock."""
        now = time.monotonic()
        if now >= self._controller:
            self._top.controller.find(needed=self._top.needs_controller())
            self._controller = now + (SOON if self._top.controller.starting else CONTROLLER)
            self._top.join()
        if now >= self._tick:
            self._tick = now + SECOND
            if self._index.writes.file < 0 and self._index.changed():
                self._due()
            if self._top.selected.file < 0:
                self._top.selected.read()
            self._top.selected.renew()
        if now >= self._look_at:
            self._look()

    def _look(self) -> None:
        began = time.monotonic()
        self._look_at = float("inf")
        self._top.look()
        self._looked = time.monotonic() - began

    def _due(self) -> None:
        """The index has changed: it is looked at soon, but not all the time."""
        if self._look_at == float("inf"):
            self._look_at = time.monotonic() + max(REST, SHARE * self._looked) if self._looked else 0.0

    def _paint(self) -> None:
        self._top.settle()
        if self._terminal.stale:
            self._terminal.stale = False
            self._painter.forget()
        self._terminal.write(self._painter.painted(self._top.lines(self._terminal.size)))

    def _wait(self) -> None:
        """Sleeps until something has come, and takes it in."""
        comes = self._sources()
        poll = select.poll()
        for number in comes:
            poll.register(number, select.POLLIN)
        now = time.monotonic()
        until = ESCAPE if self._keys.pending else max(0.0, min(self._tick, self._look_at, self._controller) - now)
        for number, _ in poll.poll(int(until * 1000) + 1):
            comes[number]()
        if self._keys.pending and time.monotonic() >= now + ESCAPE:
            self._pressed(self._keys.settle())

    def _sources(self) -> dict[int, Callable[[], None]]:
        """The descriptors that something may come by, and who takes it in."""
        top = self._top
        found: dict[int, Callable[[], None]] = {
            self._terminal.keys: self._typed,
            self._terminal.woken: self._terminal.woke,
            self._index.writes.file: self._written,
            top.selected.file: top.selected.read,
            top.controller.file: self._left_alone,
        }
        for number in top.helpers:
            found[number] = partial(self._helped, number)
        for one in top.real:
            found.update({number: partial(self._answered, one, number) for number in one.files})
        found.pop(-1, None)
        return found

    def _written(self) -> None:
        self._index.writes.take()
        if self._index.changed():
            self._due()

    def _left_alone(self) -> None:
        self._top.controller.ended()
        self._controller = 0.0

    def _helped(self, number: int) -> None:
        if self._top.helpers[number].read():
            del self._top.helpers[number]

    def _answered(self, one: RealSlurm, number: int) -> None:
        if one.read(number):
            self._top.join()

    def _typed(self) -> None:
        data = self._terminal.read()
        if not data:
            self._over = True  # the terminal is gone
        self._pressed(self._keys.feed(data))

    def _pressed(self, keys: Sequence[str]) -> None:
        top = self._top
        for key in keys:
            before = top.state
            rows = max(1, rows_of_output(self._terminal.size[1]) - 2)
            top.state, do = press(top.state, key, top.listed, rows, top.me)
            if (before.filter == ENDED) != (top.state.filter == ENDED):
                self._look()
                for one in top.real:
                    one.due = 0.0
            if before.place != top.state.place:
                top.settle()
            if do is not None:
                self._do(do)

    def _do(self, do: Do) -> None:
        if do.what == "quit":
            self._over = True
        elif do.what == "redraw":
            self._painter.forget()
        elif do.what == "attach" and do.entry is not None:
            self._attach(do.entry)
        elif do.what == "command":
            self._top.state = self._top.state.replace(message=f"{' '.join(do.words)} …")
            self._top.begin(Helper(do.words, lambda code, text: self._done(do.words, code, text)))

    def _done(self, words: Sequence[str], code: int, text: str) -> None:
        """What a command has said goes to the last line."""
        said = " ".join(line.strip() for line in text.splitlines() if line.strip())
        message = f"{' '.join(words)}: {said or ('done' if not code else f'exit code {code}')}"
        self._top.state = self._top.state.replace(message=message, failed=bool(code))
        for one in self._top.real:  # they do not tell what has come of it
            one.due = 0.0

    def _attach(self, entry: Entry) -> None:
        top, job = self._top, entry.job()
        step = top.gatherer.newest_step(job) if job is not None else "0"
        if not step:
            top.state = top.state.replace(message="No step of it runs. f shows its script's output.", failed=True)
            return
        words = ("sattach", f"{target(entry)}.{step}")
        codes: list[int] = []

        def ended() -> bool:
            self._terminal.woke()
            return bool(self._terminal.ended)

        def attached() -> None:
            os.write(1, f"{' '.join(words)}   (^C ends it, and shim top comes back)\n".encode())
            codes.append(foreground(words, self._terminal.woken, ended))

        self._terminal.lent(attached)
        if codes[0] in (0, 128 + signal.SIGINT):
            self._done(words, 0, "left")
        else:
            self._done(words, codes[0], "")


def _unicode() -> bool:
    """Whether the terminal shows more than ASCII, as far as the locale says."""
    text = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return "utf" in text.lower()
