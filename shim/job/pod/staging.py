"""The working directory that comes with a run: brought to every pod and unpacked there before anything of the user's starts.

A small archive is in the ticket of every pod. A larger one a controller pushes to the leader, which passes it on to the other
nodes, each at its own pace. Whoever has the whole archive unpacks it in a child process: it can take minutes, and the agent goes on
answering.
"""

from __future__ import annotations

import os

from shim.job import rawfile
from shim.job.pod.unpack import UnpackError, unpack_parts
from shim.job.wire import CHUNK, STAGE, STDIN, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Callable, Protocol

    from shim.job.link import Link
    from shim.job.loop import Loop

    class CanSend(Protocol):
        """A link, or the controller's connection to a leader."""

        def send(self, message: dict[str, Any]) -> None: ...

        def send_data(self, step: int, rank: int, stream: int, data: bytes) -> None: ...

    Message = dict[str, Any]
    Told = Callable[[str], None]  # with what went wrong; "" for nothing
else:
    import _signal

ARCHIVE = "stage.tar.gz"  # in the ticket and in the run folder
SNAPSHOT = "snapshot"  # in the run folder: how the tree looked when it was unpacked
_CANNOT = "the working directory cannot be unpacked"


def unpack_apart(loop: Loop, archive: str, target: str, then: Told) -> None:
    """Unpacks in a child process; ``then("" or what went wrong)`` from the loop."""
    snapshot = f"{os.path.dirname(archive)}/{SNAPSHOT}"
    apart(loop, lambda: unpacked(archive, target, snapshot), f"{_CANNOT} at {target}", then)


def apart(loop: Loop, work: Callable[[], str], what: str, then: Told) -> None:
    """Does it in a child process; ``then`` with what ``work`` says went wrong, or that ``what`` since the process ended otherwise."""
    said, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                # A signal to this process must not be taken for one to the agent.
                _signal.set_wakeup_fd(-1)
                _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
                _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
                wrong = work()
                os.write(tell, wrong.encode("utf-8", "backslashreplace")[:4096])
                code = 1 if wrong else 0
            finally:
                os._exit(code)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    os.close(tell)

    def ended(status: int) -> None:
        try:
            text = os.read(said, CHUNK).decode("utf-8", "replace")
        except BlockingIOError:
            text = ""
        os.close(said)
        then(text or (f"{what}: the program ended with status {status}" if status else ""))

    loop.on_exit(pid, ended)


def unpacked(archive: str, target: str, snapshot: str = "") -> str:
    """Unpacks here and now; what went wrong, "" for nothing. ``snapshot``: the file where it is kept how everything looks then."""
    try:
        with open(archive, "rb") as file:
            unpack_parts(file, target)
        if snapshot:
            take_snapshot(target, snapshot)
    except UnpackError as error:
        return f"{_CANNOT} at {target}: {error}"
    except OSError as error:
        return f"{_CANNOT} at {target}: {error.strerror}: {error.filename}"
    return ""


def take_snapshot(target: str, path: str) -> None:
    """Keeps how the tree looks now. OSError."""
    from marshal import dumps

    from shim.job.stage_out import scan

    rawfile.write(path, dumps(scan(target)))


class Receiver:
    """Takes an archive that is sent in pieces: ``begin`` (as often as the sender likes), ``data``, and it is whole.

    Pieces count that come by the connection that has begun it last: what an earlier one had under way is no part of it. ``wrong``: why it
    cannot be kept; then nothing more is.
    """

    def __init__(self, path: str, on_whole: Callable[[], None]) -> None:
        self.whole = False
        self.wrong = ""
        self._source: Link | None = None
        self._path = path
        self._on_whole = on_whole
        self._left = -1
        self._fd = -1

    def begin(self, link: Link, size: int) -> None:
        """From the start; one that is whole stays so."""
        self._source = link
        if self.whole or self.wrong:
            return
        self._close()
        self._left = size
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._failed(error)
        else:
            self._look()

    def data(self, link: Link, piece: bytes) -> None:
        """The next piece."""
        if self._fd >= 0 and link is self._source:
            view = memoryview(piece)[: self._left]
            self._left -= len(view)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError as error:
                self._failed(error)
            else:
                self._look()
        link.send({"do": "credit", "step": STAGE, "bytes": len(piece), "stream": "in"})

    def _failed(self, error: OSError) -> None:
        self.wrong = f"the working directory cannot be kept: {error.strerror}"
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _look(self) -> None:
        if not self._left:
            self._close()
            self.whole = True
            self._on_whole()


class Sender:
    """Sends the archive in ``file`` (a descriptor, left open) to one node, or to the leader, within its credit."""

    def __init__(self, link: CanSend, file: int, size: int) -> None:
        self._link = link
        self._file = file
        self._at = 0
        self._credit = WINDOW
        link.send({"do": "stage", "bytes": size})
        self._pump()

    @property
    def sent(self) -> int:
        """How many bytes were sent."""
        return self._at

    def credit(self, count: int) -> None:
        """``count`` bytes were taken."""
        self._credit += count
        self._pump()

    def _pump(self) -> None:
        while self._credit > 0:
            piece = os.pread(self._file, min(CHUNK, self._credit), self._at)
            if not piece:
                return
            self._link.send_data(STAGE, 0, STDIN, piece)
            self._at += len(piece)
            self._credit -= len(piece)


class NodeStage:
    """The part of a node that is not the leader: takes the archive, unpacks it, says ``staged``."""

    def __init__(self, loop: Loop, run_dir: str, target: str) -> None:
        self._loop = loop
        self._path = f"{run_dir}/{ARCHIVE}"
        self._target = target
        self._link: Link | None = None
        self._receiver = Receiver(self._path, self._arrived)
        self._result: str | None = None

    def message(self, link: Link, message: Message) -> None:
        """``stage`` of the leader, which may ask again after a connection was lost."""
        self._link = link
        self._receiver.begin(link, int(message["bytes"]))
        self._look()
        if self._result is not None:
            self._done(self._result)

    def data(self, link: Link, piece: bytes) -> None:
        """A piece from the leader."""
        self._receiver.data(link, piece)
        self._look()

    def _look(self) -> None:
        if self._receiver.wrong and self._result is None:
            self._done(self._receiver.wrong)

    def _arrived(self) -> None:
        unpack_apart(self._loop, self._path, self._target, self._done)

    def _done(self, error: str) -> None:
        self._result = error
        if self._link is not None:
            self._link.send({"do": "staged", "error": error})


class LeaderStage:
    """The leader's part: ``start(nodes, then)`` when all nodes are there; ``then(what went wrong)`` once all have unpacked it.

    ``given``: the archive in the ticket; every pod has it, and has unpacked it before it checked in. Otherwise it is awaited from a
    controller: ``message`` and ``data``.
    """

    def __init__(self, loop: Loop, run_dir: str, target: str, given: bool) -> None:
        self._loop = loop
        self._path = f"{run_dir}/{ARCHIVE}"
        self._target = target
        self._given = given
        self._receiver = Receiver(self._path, self._arrived)
        self._controllers: list[Link] = []  # that want to know when it is whole
        self._nodes: dict[int, Link] = {}
        self._senders: dict[int, Sender] = {}
        self._waiting: set[int] = set()  # nodes that have not unpacked it
        self._then: Told | None = None

    def message(self, link: Link, message: Message) -> None:
        """``stage`` of a controller."""
        self._controllers.append(link)
        self._receiver.begin(link, int(message["bytes"]))
        if self._receiver.whole:
            self._tell_controllers()
        self._look()

    def data(self, link: Link, piece: bytes) -> None:
        """A piece from a controller."""
        self._receiver.data(link, piece)
        self._look()

    def _look(self) -> None:
        """A copy that cannot be kept ends the run as soon as its nodes are there."""
        if self._receiver.wrong:
            self._finish(self._receiver.wrong)

    def start(self, nodes: dict[int, Link], then: Told) -> None:
        """All ``nodes`` (by index; 0 is this process) have checked in."""
        self._then = then
        self._nodes = nodes
        if self._given:
            self._finish("")
        elif self._receiver.whole:
            self._distribute()
        else:
            self._look()

    def node_message(self, index: int, message: Message) -> bool:
        """``credit`` or ``staged`` of a node; whether it was about this."""
        if message["do"] == "credit" and message.get("step") == STAGE:
            if index in self._senders:
                self._senders[index].credit(int(message["bytes"]))
            return True
        if message["do"] == "staged":
            self._unpacked(index, str(message.get("error") or ""))
            return True
        return False

    def _arrived(self) -> None:
        self._tell_controllers()
        if self._then is not None:
            self._distribute()

    def _tell_controllers(self) -> None:
        for link in self._controllers:
            link.send({"do": "staged"})
        self._controllers.clear()

    def _distribute(self) -> None:
        self._waiting = set(self._nodes)
        unpack_apart(self._loop, self._path, self._target, lambda error: self._unpacked(0, error))
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        size = os.fstat(file).st_size
        self._senders = {index: Sender(link, file, size) for index, link in self._nodes.items() if index}

    def _unpacked(self, index: int, error: str) -> None:
        self._waiting.discard(index)
        if error:
            self._finish(error)
        elif not self._waiting:
            self._finish("")

    def _finish(self, error: str) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(error)
