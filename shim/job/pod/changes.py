"""What has changed in a node's copy of the working directory: found in a child process, gathered by the leader, passed on with the output.

A node sends its own when nothing of the job is left on it, or when the leader asks; the leader has each in a file until a controller
has taken it. What the leader's own node has changed is read where it is.
"""

from __future__ import annotations

import os

from shim.core.jsonlite import dumps, loads
from shim.core.stage_out import Manifest, said
from shim.job import rawfile, stage_out
from shim.job.pod.staging import ARCHIVE, SNAPSHOT, apart
from shim.job.wire import CHANGES, CHUNK, STDIN, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Callable, Protocol

    from shim.job.link import Link
    from shim.job.loop import Loop, Timer
    from shim.job.spec import Returns

    Message = dict[str, Any]

    class Leading(Protocol):
        """The leader, as far as this concerns it."""

        started: bool
        over: bool

        @property
        def node_links(self) -> dict[int, Link]: ...

        @property
        def node_names(self) -> list[str]: ...


PATIENCE = 60.0  # seconds in which all nodes must have sent theirs, before the end is written without
HURRY = 3.0  # the same in a pod that is being taken away
_NAMED = 10  # nodes whose files are lost
_SLACK = 30.0  # seconds that a node waits longer than the leader does


class Finder:
    """Finds what has changed in the tree ``root`` since it was unpacked. ``archive``: the copy in the ticket; else it is in the run folder."""

    def __init__(self, loop: Loop, run_dir: str, root: str, archive: str, returns: Returns) -> None:
        self._loop = loop
        self._run_dir = run_dir
        self._root = root
        self._archive = archive if os.path.exists(archive) else f"{run_dir}/{ARCHIVE}"
        self._returns = returns

    def find(self, streamed: Collection[str], then: Callable[[stage_out.Archive | None], None]) -> None:
        """``then(an archive of it)``, from the loop; None where nothing has changed, or nobody knows."""
        result = f"{self._run_dir}/changes.json"

        def found(wrong: str) -> None:
            manifest = Manifest()
            if not wrong:
                try:
                    manifest = Manifest.from_list(loads(rawfile.read(result).decode("ascii")))
                except (OSError, ValueError) as error:
                    wrong = str(error)
            if wrong:
                os.write(2, f"slurm-shim: files do not come back: {wrong}\n".encode(errors="replace"))
            empty = not manifest.entries and not manifest.left_out
            then(None if empty else stage_out.Archive(manifest, self._root))

        apart(self._loop, lambda: self._work(streamed, result), "what has changed cannot be found", found)

    def _work(self, streamed: Collection[str], result: str) -> str:
        from marshal import loads as unmarshal

        from shim.job.stage_parts import digests

        try:
            before = unmarshal(rawfile.read(f"{self._run_dir}/{SNAPSHOT}"))
            found = stage_out.changes(
                self._root,
                before,
                stage_out.scan(self._root),
                lambda paths: digests(self._archive, paths),
                streamed,
            )
            manifest = stage_out.choose(found, self._returns.bytes, self._returns.files)
            rawfile.write(result, dumps(manifest.to_list()).encode("ascii"))
        except (OSError, ValueError, EOFError) as error:
            return str(error)
        return ""


class NodeChanges:
    """The part of a node that is not the leader."""

    def __init__(self, loop: Loop, finder: Finder) -> None:
        self._loop = loop
        self._finder = finder
        self._link: Link | None = None
        self._content: stage_out.Archive | None = None
        self._at = 0
        self._credit = 0
        self._leave: Callable[[], None] | None = None
        self._timer: Timer | None = None

    def send(self, link: Link, round_: int) -> None:
        """Sends what there is by now."""

        def found(content: stage_out.Archive | None) -> None:
            self._link, self._content, self._at, self._credit = link, content, 0, WINDOW
            link.send({"do": "changes", "bytes": content.size if content is not None else 0, "round": round_})
            self._pump()

        self._finder.find((), found)

    def send_last(self, link: Link, leave: Callable[[], None]) -> None:
        """Nothing of the job is left here; ``leave()`` once the leader has it all, or does not want it."""
        self._leave = leave
        self._timer = self._loop.call_later(PATIENCE + _SLACK, self.left)
        self.send(link, -1)

    def left(self) -> None:
        """The leader has it, or is gone."""
        leave, self._leave = self._leave, None
        if self._timer is not None:
            self._timer.cancel()
        if leave is not None:
            leave()

    def credit(self, count: int) -> None:
        """The leader has taken so much."""
        self._credit += count
        self._pump()

    def _pump(self) -> None:
        while self._link is not None and self._content is not None and self._credit > 0:
            piece = self._content.read(self._at, min(CHUNK, self._credit))
            if not piece:
                self._content.close()
                self._content = None
                return
            self._link.send_data(CHANGES, 0, STDIN, piece)
            self._at += len(piece)
            self._credit -= len(piece)


class _Received:
    """A node's archive in a file of the leader's run folder."""

    def __init__(self, path: str, size: int) -> None:
        self.size = size
        self.waits = True
        self._left = size
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    @property
    def whole(self) -> bool:
        return not self._left

    def add(self, data: bytes) -> None:
        view = memoryview(data)[: self._left]
        self._left -= len(view)
        rawfile.write_all(self._fd, bytes(view))

    def read(self, position: int, most: int) -> bytes:
        return os.pread(self._fd, most, position)

    @property
    def manifest(self) -> Manifest:
        with open(self._path, "rb") as file:
            return stage_out.read_manifest(file)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            os.unlink(self._path)


class LeaderChanges:
    """Gathers what all nodes have changed. ``found(node, round, content)``: something is there to be passed on."""

    def __init__(
        self,
        loop: Loop,
        leader: Leading,
        run_dir: str,
        finder: Finder,
        streamed: Callable[[], Collection[str]],
        found: Callable[[int, int, Any], None],
    ) -> None:
        self.patience = PATIENCE
        self.missing: list[int] = []  # nodes whose changes did not come when all were asked last
        self._loop = loop
        self._leader = leader
        self._run_dir = run_dir
        self._finder = finder
        self._streamed = streamed
        self._found = found
        self._round = 0
        self._last = False
        self._early: dict[int, _Received] = {}  # sent by nodes that are done, before they are asked
        self._receiving: dict[int, _Received] = {}
        self._waiting: set[int] | None = None  # None: nothing is under way
        self._then: Callable[[], None] | None = None
        self._asked: list[Callable[[], None]] = []
        self._timer: Timer | None = None

    def asked(self, link: Link, message: Message) -> None:
        """A controller wants what there is by now; it is told ``gathered``."""
        number = int(message.get("number", 0))

        def gathered() -> None:
            link.send({"do": "gathered", "number": number})

        if self._waiting is None and self._leader.started and not self._leader.over:
            self.gather(gathered)
        elif self._waiting is not None:
            self._asked.append(gathered)
        else:
            gathered()

    def gather(self, then: Callable[[], None], last: bool = False) -> None:
        """``then()`` when what all nodes have is there. ``last``: nothing of the job is left."""
        if self._waiting is not None:
            if last:  # one that a controller asked for is under way: what is found for the last time counts
                self._complete()
            else:
                self._asked.append(then)
                return
        self._then, self._last = then, last
        self._round += 1
        self.missing = []
        links = self._leader.node_links
        # The last time every node of the job is answered for: one may have sent its own and left, another may be lost.
        asked = range(1, len(self._leader.node_names)) if last else links
        self._waiting = {0, *asked}
        self._timer = self._loop.call_later(self.patience, self._complete)
        if last:
            for index in asked:
                if index in self._early and self._early[index].whole:
                    self._node_done(index, self._early.pop(index))
                elif index not in links:
                    self.node_lost(index)
        else:
            for index, link in links.items():
                if index:
                    link.send({"do": "gather", "round": self._round})
        round_ = self._round
        self._finder.find(self._streamed(), lambda content: self._own(round_, content))

    @property
    def lost(self) -> str:
        """Of which nodes nothing has come, for who reads how the job ended; "" for none."""
        names = self._leader.node_names
        missing = list(dict.fromkeys(names[index] for index in self.missing))
        if not missing:
            return ""
        return f"files of {said(missing, len(missing), _NAMED)} are lost: the first node did not get them in time"

    def _own(self, round_: int, content: Any) -> None:
        if round_ == self._round and self._waiting is not None:
            if content is not None:
                self._found(0, round_, content)
            self._done(0)

    def node_message(self, index: int, message: Message) -> None:
        """``changes``: what a node is about to send."""
        size = int(message["bytes"])
        name = f"{self._run_dir}/changes.{index}.{'last' if message['round'] < 0 else message['round']}"
        received = self._receiving[index] = _Received(name, size)
        if message["round"] < 0:
            self._early[index] = received
        self._look(index, received)

    def node_data(self, index: int, data: bytes) -> None:
        """A piece of it."""
        received = self._receiving.get(index)
        if received is not None:
            try:
                received.add(data)
            except OSError as error:
                os.write(2, f"slurm-shim: files of node {index} do not come back: {error}\n".encode())
                del self._receiving[index]
                self.node_lost(index)
                return
            self._look(index, received)
        link = self._leader.node_links.get(index)
        if link is not None:
            link.send({"do": "credit", "step": CHANGES, "bytes": len(data), "stream": "in"})

    def _look(self, index: int, received: _Received) -> None:
        if not received.whole:
            return
        self._receiving.pop(index, None)
        if self._early.get(index) is received:
            link = self._leader.node_links.get(index)
            if link is not None:
                link.send({"do": "leave"})
            if self._waiting is None or not self._last:
                return  # taken when the end is gathered
            del self._early[index]
        self._node_done(index, received)

    def _node_done(self, index: int, received: _Received) -> None:
        if self._waiting is None or index not in self._waiting:
            received.close()
            return
        if received.size:
            self._found(index, self._round, received)
        else:
            received.close()
        self._done(index)

    def node_lost(self, index: int) -> None:
        """A node is gone."""
        self._receiving.pop(index, None)
        if self._waiting is not None and index in self._waiting:
            self.missing.append(index)
            self._done(index)

    def _done(self, index: int) -> None:
        assert self._waiting is not None
        self._waiting.discard(index)
        if not self._waiting:
            self._complete()

    def hurry(self) -> None:
        """The pod is being taken away."""
        self.patience = HURRY
        if self._timer is not None and self._waiting is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(HURRY, self._complete)

    def _complete(self) -> None:
        if self._waiting is None:
            return
        self.missing += sorted(self._waiting - set(self.missing))
        self._waiting = None
        if self._timer is not None:
            self._timer.cancel()
        then, self._then = self._then, None
        asked, self._asked = self._asked, []
        for one in (then, *asked):
            if one is not None:
                one()
