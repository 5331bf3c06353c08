"""srun's ends of a step's streams: opens its files, writes the tasks' output, reads their input."""

from __future__ import annotations

import os

from shim.core.errors import ShimError
from shim.job.steps.feed import Feed
from shim.job.steps.lines import LineWriter
from shim.job.steps.sink import Output, Sink, TaskFiles
from shim.job.steps.streams import Stream, streams_of
from shim.job.wire import ALL_RANKS, STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Callable

    from shim.core.model.request import StepRequest
    from shim.job.loop import Loop
    from shim.job.steps.parts import Part

    Message = dict[str, Any]


class Plumbing:
    """``send(message)`` and ``send_data(rank, bytes)`` go to the leader; ``broken()``: what the tasks print cannot be written."""

    def __init__(
        self,
        loop: Loop,
        requests: Sequence[StepRequest],
        send: Callable[[Message], None],
        send_data: Callable[[int, bytes], None],
        broken: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._requests = requests
        self._request = requests[0]  # input and terminal are the same for all parts
        self._send = send
        self._send_data = send_data
        self._broken = broken
        self._errors = Sink(loop, 2, self._written, broken)
        self._own: dict[int, Sink] = {2: self._errors}
        self._sinks: list[Sink] = [self._errors]
        self._outputs: dict[int, list[tuple[range, Output]]] = {STDOUT: [], STDERR: []}
        self._feed: Feed | None = None
        self._input = Stream()
        self._ntasks = 1
        self._opened: list[int] = []
        self._files: dict[str, Sink] = {}
        self.opened: list[
            tuple[str, int]
        ] = []  # files to write to, and how many bytes of them were there and stay (-1: they are new)
        self._terminal: Any = None

    def say(self, text: str) -> None:
        """Prints ``text`` on standard error, in order with the tasks' own."""
        if text:
            self._errors.put(text.encode("utf-8", "surrogateescape"))

    def open(self, parts: Sequence[Part]) -> Message:
        """Opens srun's own files; what the tasks' ends are, for the leader. ShimError with Slurm's text."""
        self._ntasks = parts[0].ntasks
        self._input = streams_of(self._request.stdin, None, None)[0]
        stdin = self._open_input(self._input, parts[0].files)
        ends = [{"stdin": stdin, **self._open_outputs(*pair)} for pair in zip(self._requests, parts)]
        return ends[0] if len(ends) == 1 else {"parts": ends}

    def _open_outputs(self, request: StepRequest, part: Part) -> Message:
        """The outputs of one part."""
        _, stdout, stderr = streams_of(request.stdin, request.stdout, request.stderr)
        files = part.files
        ends: Message = {}
        self._outputs[STDOUT].append((part.ranks, self._open_output(stdout, "stdout", 1, request, part)))
        self._outputs[STDERR].append((part.ranks, self._open_output(stderr, "stderr", 2, request, part)))
        append = request.open_mode == "a"
        for name, stream in (("stdout", stdout), ("stderr", stderr)):
            if stream.kind == "files" and name not in files:
                ends[name] = {"to": "file", "path": stream.pattern, "append": append}
            else:
                ends[name] = {"to": "null"} if stream.kind == "none" else {"to": "leader"}
        return ends

    def start(self) -> None:
        """The tasks are being started: input may flow."""
        if self._request.window is not None:
            from shim.job.steps.terminal import RawTerminal

            self._terminal = RawTerminal(0)
            self._terminal.enter()
        if self._input.kind == "task":
            for rank in range(self._ntasks):
                if rank != self._input.rank:
                    self._send_data(rank, b"")
        if self._feed is not None:
            self._feed.start()

    def window(self) -> tuple[int, int] | None:
        """The terminal's size; None when it is gone."""
        from shim.job.steps.terminal import window_of

        try:
            return window_of(0)
        except OSError:
            return None

    def output(self, rank: int, stream: int, data: bytes) -> None:
        """Bytes of a task's stream, or its end."""
        for ranks, output in self._outputs[stream]:
            if rank in ranks:
                output.feed(rank, data)

    def credit(self, count: int) -> None:
        """The tasks have taken ``count`` bytes of input."""
        if self._feed is not None:
            self._feed.credit(count)

    def resumed(self) -> None:
        """srun was continued; it may read its terminal again."""
        if self._feed is not None:
            self._feed.resumed()

    def when_empty(self, then: Callable[[], None]) -> None:
        """Calls ``then`` once everything is written."""
        if self._feed is not None:
            self._feed.stop()
        if all(sink.empty for sink in self._sinks):
            then()
        else:
            for sink in self._sinks:
                sink.on_empty = lambda: then() if all(sink.empty for sink in self._sinks) else None

    def close(self) -> None:
        """Gives the terminal back and closes srun's files."""
        if self._terminal is not None:
            self._terminal.leave()
        for fd in self._opened:
            os.close(fd)

    def _open_input(self, stream: Stream, files: Mapping[str, Any]) -> Message:
        if stream.kind == "files":
            return {"to": "file", "path": stream.pattern, "append": False}
        if stream.kind == "none":
            return {"to": "null"}
        fd = 0
        if stream.kind == "shared":
            try:
                fd = os.open(files["stdin"], os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise ShimError(f"error: Could not open stdin file: {error.strerror}") from None
            self._opened.append(fd)
        rank = stream.rank if stream.kind == "task" else ALL_RANKS
        self._feed = Feed(self._loop, fd, lambda data: self._send_data(rank, data))
        return {"to": "leader"}

    def _open_output(self, stream: Stream, name: str, fd: int, request: StepRequest, part: Part) -> Output:
        names = part.files.get(name)
        if isinstance(names, list):
            return TaskFiles(
                {rank: Output(self._file(path, name), self._lines(request)) for rank, path in zip(part.ranks, names)}
            )
        if stream.kind in ("none", "files"):
            return Output(self._sink(None), self._lines(request))
        if names is not None:
            return Output(self._file(names, name), self._lines(request))
        if fd not in self._own:
            self._own[fd] = self._sink(fd)
        return Output(self._own[fd], self._lines(request), stream.rank if stream.kind == "task" else None)

    def _file(self, path: str, name: str) -> Sink:
        """A file to write to; one that both streams go to is opened once."""
        if path not in self._files:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            if self._request.open_mode != "a":
                flags |= os.O_TRUNC
            try:
                fd = os.open(path, flags, 0o666)
            except OSError as error:
                raise ShimError(f"error: Could not open {name} file: {error.strerror}") from None
            self._opened.append(fd)
            kept = os.fstat(fd).st_size if self._request.open_mode == "a" else -1
            self.opened.append((os.path.abspath(path), kept))
            self._files[path] = self._sink(fd)
        return self._files[path]

    def _sink(self, fd: int | None) -> Sink:
        sink = Sink(self._loop, fd, self._written, self._broken)
        self._sinks.append(sink)
        return sink

    def _lines(self, request: StepRequest) -> LineWriter:
        raw = request.unbuffered or request.window is not None
        return LineWriter(self._ntasks, request.label and request.window is None, raw)

    def _written(self, count: int) -> None:
        self._send({"do": "credit", "bytes": count, "stream": "out"})
