"""sattach's side: a step's output as it comes, with what was kept of it, and input for its tasks."""

from __future__ import annotations

import os

from shim.job.address import read_address
from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.run_folder import read_key
from shim.job.session import open_session
from shim.job.steps.feed import Feed
from shim.job.steps.lines import LineWriter
from shim.job.steps.sink import Output, Sink
from shim.job.wire import ALL_RANKS, STDERR, STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Message = dict[str, Any]


class Layout:
    """Where the tasks of a step are: the nodes' names, and the ranks on each."""

    def __init__(self, nodes: Sequence[str], ranks: Sequence[Sequence[int]]) -> None:
        self.nodes = nodes
        self.ranks = ranks

    @property
    def ntasks(self) -> int:
        """How many tasks there are."""
        return sum(map(len, self.ranks))


class Attachment:
    """A connection to one step. ``only``: the one rank whose standard output and error are shown, by stream (None: all), and the one that
    gets the input. OSError or ValueError: no leader answers.
    """

    def __init__(self, run_dir: str, step: int, *, label: bool, only: dict[int, int | None], pty: bool = False) -> None:
        self.layout: Layout | None = None  # None: there is no such step
        self.code = 0
        self._loop = Loop()
        self._step = step
        self._label = label
        self._only = only
        self._pty = pty
        self._lost = ""
        self._sinks: dict[int, Sink] = {}
        self._outputs: dict[int, Output] = {}
        self._terminal: Any = None
        self._feed = Feed(self._loop, 0, self._input)
        try:
            self._link = SessionLink(open_session(self._loop, read_address(run_dir), read_key(run_dir), "command"))
        except (OSError, ValueError):
            self._loop.close()
            raise
        self._link.on_message = self._message
        self._link.on_data = self._data
        self._link.on_close = self._gone

    def run(self) -> int:
        """Until the step has ended: the highest exit code that a task had meanwhile. OSError: the connection is lost."""
        try:
            self._link.send({"do": "attach", "step": self._step})
            self._loop.run()
        finally:
            if self._terminal is not None:
                self._terminal.leave()
            self._link.close()
            self._loop.close()
        if self._lost:
            raise OSError(self._lost)
        return self.code

    def _message(self, message: Message) -> None:
        do = message["do"]
        if do == "layout":
            self._begin(Layout(message["nodes"], message["ranks"]))
        elif do == "exit":
            self._task_ended(int(message["rank"]), int(message["status"]))
        elif do == "credit":
            self._feed.credit(int(message["bytes"]))
        elif do == "done":
            self._feed.stop()
            self._finish()

    def _begin(self, layout: Layout) -> None:
        self.layout = layout
        for stream in (STDOUT, STDERR):
            self._sinks[stream] = Sink(self._loop, stream, self._written, self._loop.stop)
            lines = LineWriter(layout.ntasks, self._label, unbuffered=self._pty)
            self._outputs[stream] = Output(self._sinks[stream], lines, self._only.get(stream))
        if self._pty:
            from shim.job.steps.terminal import RawTerminal

            self._terminal = RawTerminal(0)
            self._terminal.enter()
        self._feed.start()

    def _data(self, _step: int, rank: int, stream: int, data: bytes) -> None:
        if stream in self._outputs:
            self._outputs[stream].feed(rank, data)

    def _input(self, data: bytes) -> None:
        if data:  # the end of ours is not the end of the tasks' input
            rank = self._only.get(STDIN)
            self._link.send_data(self._step, ALL_RANKS if rank is None else rank, STDIN, data)

    def _written(self, count: int) -> None:
        self._link.send({"do": "credit", "bytes": count})

    def _task_ended(self, rank: int, status: int) -> None:
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0  # of one that a signal ended nothing is said
        if code:
            self._sinks[STDERR].put(f"sattach: error: task {rank} exited with exit code {code}\n".encode())
            self.code = max(self.code, code)

    def _finish(self) -> None:
        waits = [sink for sink in self._sinks.values() if not sink.empty]
        if not waits:
            self._loop.stop()
            return
        for sink in waits:
            sink.on_empty = self._finish

    def _gone(self, why: str) -> None:
        self._lost = why or "no answer"
        self._loop.stop()
