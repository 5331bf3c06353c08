"""A job's output on its way out of the pod: to the container's log, and to controllers that ask.

The script writes to its files as everywhere; they are read again as they grow. A controller asks from an offset on, takes
what comes within its credit, and may come back with another offset: nothing is lost or doubled. Where both streams go to one
file, they are one stream, ``stdout``. Files that an srun here has opened below a working directory that is a copy are followed the same
way: each is a stream of its own, called by a number, of which controllers are told.
"""

from __future__ import annotations

import os
from _stat import S_IMODE, S_ISREG

from shim.core.stage_out import Manifest, unfetched
from shim.job import libc
from shim.job.pod.echo import Echo
from shim.job.wire import BATCH, CHUNK, FILES, STDERR, STDOUT, WINDOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

    from shim.job.link import Link
    from shim.job.loop import Loop, Timer
    from shim.job.spec import RunSpec

NAMES = {"stdout": STDOUT, "stderr": STDERR}
STALLED = 10.0  # seconds without progress after which the end waits for nobody any more
_HURRY = 3.0  # seconds for the same in a pod that is being taken away
_CHANGES = 1 << 30  # the number of the first archive of changes: files of steps are below
_SOON = 0.02  # seconds from the first byte written to our reading: what comes meanwhile is read with it
_POLL = 0.25  # seconds between looks where the kernel does not tell of writes


class _File:
    """One of the script's output files. ``start``: bytes that it had before."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.start = 0
        self.fd = -1

    def before(self, append: bool) -> None:
        """It is about to be opened by who writes to it."""
        try:
            self.start = os.stat(self.path).st_size if append else 0
        except OSError:
            return  # it will be new

    def open(self) -> None:
        """It is there."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return  # it could not be made either: the script's end says so
        if S_ISREG(os.fstat(fd).st_mode):
            self.fd = fd
        else:
            os.close(fd)  # a pipe, say: what is read here is lost to its reader

    @property
    def size(self) -> int:
        return max(0, os.fstat(self.fd).st_size - self.start) if self.fd >= 0 else 0

    def read(self, position: int, most: int) -> bytes:
        return os.pread(self.fd, most, self.start + position) if self.fd >= 0 and most > 0 else b""


class _StepFile:
    """A file that an srun has opened: looked at by its name, as there may be thousands. ``round`` counts how often it was begun anew."""

    def __init__(self, number: int, path: str, append: bool, start: int, mode: int) -> None:
        self.number = number
        self.path = path
        self.append = append
        self.start = start
        self.mode = mode
        self.round = 0
        self.final: int | None = None  # its size, once who has opened it is gone

    @property
    def size(self) -> int:
        if self.final is not None:
            return self.final
        try:
            return max(0, os.stat(self.path).st_size - self.start)
        except OSError:
            return 0  # removed: what was read of it is all there is

    def read(self, position: int, most: int) -> bytes:
        if most <= 0 or position >= self.size:
            return b""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return b""
        try:
            return os.pread(fd, most, self.start + position)
        finally:
            os.close(fd)

    def told(self) -> dict[str, Any]:
        """What a controller is told of it."""
        words = {"path": self.path, "append": self.append, "mode": self.mode, "round": self.round}
        return {"do": "file", "stream": str(self.number), **words}


class _Changes:
    """What a node has changed in its copy of the working directory, as an archive that is told by a number of its own."""

    def __init__(self, number: int, node: int, round_: int, content: Any) -> None:
        self.number = number
        self.taken = False
        self._node = node
        self._round = round_
        self._content = content
        self.size = content.size
        self.waits = content.waits  # its pod stays for it

    def read(self, position: int, most: int) -> bytes:
        data: bytes = self._content.read(position, most) if most > 0 and not self.taken else b""
        return data

    @property
    def manifest(self) -> Any:
        """What is in it. OSError, ValueError."""
        return self._content.manifest

    def told(self) -> dict[str, Any]:
        """What a controller is told of it."""
        words = {"node": self._node, "round": self._round, "bytes": self.size}
        return {"do": "changes", "stream": str(self.number), **words}

    def over(self) -> None:
        """A controller has all of it."""
        self.taken = True
        self._content.close()


class _Reader:
    """A controller at the other end of ``link``: its credit and how far it is in each stream. Step files share a credit."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.credit = dict.fromkeys((*NAMES, ""), WINDOW)
        self.positions: dict[str, int] = {}

    def pump(self, files: dict[str, Any]) -> bool:
        moved = False
        for name, position in self.positions.items():
            group = name if name in NAMES else ""
            data = files[name].read(position, min(CHUNK, self.credit[group]))
            while data:
                if group:
                    self.link.send_data(BATCH, 0, NAMES[name], data)
                else:
                    self.link.send_data(FILES, int(name), STDOUT, data)
                position += len(data)
                self.credit[group] -= len(data)
                moved = True
                data = files[name].read(position, min(CHUNK, self.credit[group]))
            self.positions[name] = position
        return moved

    def has(self, changes: _Changes) -> bool:
        """Whether all of it was sent and taken."""
        return self.positions.get(str(changes.number), -1) >= changes.size and self.credit[""] >= WINDOW

    def take(self, stream: str, count: int) -> None:
        """The controller has taken that much."""
        self.credit[stream if stream in NAMES else ""] += count

    def done(self, files: dict[str, Any]) -> bool:
        """Whether all was sent and taken."""
        sent = all(position >= files[name].size for name, position in self.positions.items())
        return sent and all(credit >= WINDOW for credit in self.credit.values())


class PodOutput:
    """``before`` and ``begin`` around the start of the script; ``finish(then)`` when nothing writes any more. ``echo``: the descriptor of
    the container's log; None: no copy there.
    """

    def __init__(self, loop: Loop, spec: RunSpec, echo: int | None) -> None:
        self._loop = loop
        self._spec = spec
        self._echo_to = echo
        job = spec.job
        shared = job.stderr in ("", job.stdout)
        self._batch = {"stdout": _File(job.stdout or os.devnull)}
        self._batch["stderr"] = _File(os.devnull if shared else job.stderr)
        self._files: dict[str, Any] = dict(self._batch)
        self._paths: dict[str, _StepFile] = {}
        self._open: dict[Link, list[str]] = {}  # what each srun has opened
        self._told: set[Link] = set()  # who is told of step files
        self._echo: Echo | None = None
        self._readers: dict[Link, _Reader] = {}
        self._begun = False
        self._inotify = -1
        self._timer: Timer | None = None
        self._polling: Timer | None = None
        self._then: Callable[[], None] | None = None
        self._stall: Timer | None = None
        self._changes: list[_Changes] = []
        self._waits_until = 0.0  # by the loop's clock: until then somebody may come for changes that nobody has taken

    # The script

    def before(self) -> None:
        """The script is about to be started."""
        for file in self._batch.values():
            file.before(self._spec.job.request.open_mode == "a")

    def begin(self) -> None:
        """The script's files are there, and it runs."""
        if self._begun:
            return
        self._begun = True
        for file in self._batch.values():
            file.open()
        written = {name: file for name, file in self._batch.items() if file.fd >= 0}
        if self._echo_to is not None and written:
            self._echo = Echo(self._loop, written, self._echo_to, self._echoed)
        if self._echo is not None or self._readers:
            self._watch()
        self._look()

    # Steps

    def opened(self, srun: Link, files: Sequence[Sequence[Any]]) -> list[str]:
        """An srun in this pod has opened files to write to: [path, bytes that were there and stay, or -1]. Notes for its user."""
        notes = []
        self._open[srun] = [str(path) for path, _kept in files]
        for path, kept in files:
            if self._comes_back(path):
                self._follow(path, max(0, int(kept)), int(kept) >= 0)
            elif _is_lost(path):
                where = f"files below {self._spec.job.request.work_dir} come back from it" if self._spec.staged else ""
                notes.append(f"note: {path} is lost with the job's pod{'; ' + where if where else ''}")
        return notes

    def closed(self, srun: Link) -> None:
        """An srun is gone: its files grow no more, but for what the script itself adds."""
        for path in self._open.pop(srun, ()):
            if path in self._paths and not any(path in others for others in self._open.values()):
                self._paths[path].final = self._paths[path].size

    @property
    def streamed(self) -> set[str]:
        """What comes back as a stream below the working directory, as paths from there."""
        folder = self._spec.job.request.work_dir.rstrip("/") + "/"
        job = self._spec.job
        paths = [job.stdout, job.stderr, *self._paths]
        return {path[len(folder) :] for path in paths if path.startswith(folder)}

    def add_changes(self, node: int, round_: int, content: Any) -> None:
        """What a node has changed is to be passed on."""
        one = _Changes(_CHANGES + len(self._changes), node, round_, content)
        self._changes.append(one)
        self._files[str(one.number)] = one
        for link in self._told:
            link.send(one.told())

    @property
    def untaken(self) -> int:
        """Archives of changes that no controller has, and that are nowhere else."""
        return sum(one.waits and not one.taken for one in self._changes)

    @property
    def lost(self) -> str:
        """What is lost if nobody takes it any more; "" for nothing."""
        manifests = []
        for one in self._changes:
            if one.waits and not one.taken:
                try:
                    manifests.append(one.manifest)
                except (OSError, ValueError):
                    manifests.append(Manifest())
        return unfetched(manifests) if manifests else ""

    def hurry(self) -> None:
        """The pod is being taken away: what nobody takes now is lost."""
        self._waits_until = min(self._waits_until, self._loop.now() + _HURRY)
        if self._then is not None:
            self._progress()

    def _comes_back(self, path: str) -> bool:
        folder = self._spec.job.request.work_dir.rstrip("/") + "/"
        names = path[len(folder) :].split("/")
        return (
            self._spec.staged
            and folder != "/"
            and path.startswith(folder)
            and not any(name[:1] in ("", ".") for name in names)
        )

    def _follow(self, path: str, start: int, append: bool) -> None:
        file = self._paths.get(path)
        if file is None:
            mode = _mode(path)
            if mode is None:
                return  # no file: a pipe keeps its bytes for its reader
            file = self._paths[path] = _StepFile(len(self._paths) + 1, path, append, start, mode)
            self._files[str(file.number)] = file
        elif append:
            file.final = None
            return
        else:
            file.final = None
            file.round += 1
            file.start, file.append = 0, False
            for reader in self._readers.values():
                reader.positions.pop(str(file.number), None)  # each asks anew
        for link in self._told:
            link.send(file.told())

    # Controllers

    def tell_files(self, link: Link) -> None:
        """A controller wants to know of step files, now and later."""
        self._told.add(link)
        for file in self._paths.values():
            link.send(file.told())
        for one in self._changes:
            if not one.taken:
                link.send(one.told())

    def message(self, link: Link, message: dict[str, Any]) -> None:
        """``output`` or ``credit`` of a controller. KeyError, TypeError or ValueError: it makes no sense."""
        if message["do"] == "credit":
            reader = self._readers.get(link)
            if reader is not None:
                reader.take(str(message.get("stream")), int(message["bytes"]))
                self._progress()
        else:
            name, after = message["stream"], int(message["after"])
            if name not in self._files or after < 0:
                raise ValueError("no such stream")
            file = self._files[name]
            if isinstance(file, _StepFile) and message.get("round") != file.round:
                return  # it has been begun anew meanwhile: the controller is about to hear of it
            self._readers.setdefault(link, _Reader(link)).positions[name] = after
            if self._begun and name in NAMES:
                self._watch()
            self._poll_step_files()
        self._look()

    def gone(self, link: Link) -> None:
        """A controller is gone."""
        self._told.discard(link)
        self._readers.pop(link, None)
        self._maybe_finished()

    # The end

    def finish(self, then: Callable[[], None]) -> None:
        """Nothing is written any more: ``then()`` once all who follow have everything, or nobody has moved for STALLED seconds."""
        self._then = then
        self._waits_until = self._loop.now() + (self._spec.returns.wait if self.untaken else 0)
        if self._echo is not None:
            self._echo.end()
        for file in self._paths.values():
            file.final = None
        self._progress()
        self._look()

    # Following

    def _watch(self) -> None:
        paths = [file.path for file in self._batch.values() if file.fd >= 0]
        if not paths or self._inotify >= 0 or self._timer is not None:
            return
        try:
            self._inotify = libc.watch_writes(paths)
        except OSError:
            self._timer = self._loop.call_later(_POLL, self._poll)
            return
        self._loop.reader(self._inotify, self._was_written)

    def _was_written(self) -> None:
        os.read(self._inotify, 65536)
        if self._timer is None:
            self._timer = self._loop.call_later(_SOON, self._look_after_all)

    def _look_after_all(self) -> None:
        self._timer = None
        self._look()

    def _poll(self) -> None:
        self._timer = self._loop.call_later(_POLL, self._poll) if self._then is None else None
        self._look()

    def _poll_step_files(self) -> None:
        """While a controller follows some: there may be more of them than the kernel would watch."""
        if self._polling is None and self._then is None and self._followed():
            self._polling = self._loop.call_later(_POLL, self._look_at_step_files)

    def _followed(self) -> bool:
        return any(name not in NAMES for reader in self._readers.values() for name in reader.positions)

    def _look_at_step_files(self) -> None:
        self._polling = None
        self._look()
        self._poll_step_files()

    def _look(self) -> None:
        if not self._begun and self._then is None and not self._paths:
            return
        moved = self._echo is not None and self._echo.pump()
        for reader in self._readers.values():
            moved = reader.pump(self._files) or moved
        for one in self._changes:
            asked = [reader for reader in self._readers.values() if str(one.number) in reader.positions]
            if not one.taken and asked and all(reader.has(one) for reader in asked):
                one.over()
        if moved:
            self._progress()
        self._maybe_finished()

    def _progress(self) -> None:
        if self._then is not None:
            if self._stall is not None:
                self._stall.cancel()
            left = self._waits_until - self._loop.now() if self.untaken else 0.0
            self._stall = self._loop.call_later(max(_HURRY, left) if left > 0 else STALLED, self._finished)

    def _maybe_finished(self) -> None:
        if self._then is None or (self.untaken and self._loop.now() < self._waits_until):
            return
        everybody = [reader.done(self._files) for reader in self._readers.values()]
        if all(everybody) and (self._echo is None or self._echo.done):
            self._finished()

    def _echoed(self) -> None:
        self._progress()
        self._maybe_finished()

    def _finished(self) -> None:
        then, self._then = self._then, None
        if self._stall is not None:
            self._stall.cancel()
        for reader in self._readers.values():
            for name in reader.positions:
                reader.link.send({"do": "output-end", "stream": name, "size": self._files[name].size})
        if then is not None:
            then()


def _mode(path: str) -> int | None:
    """The permissions of a regular file; None for anything else."""
    try:
        found = os.lstat(path).st_mode
    except OSError:
        return None
    return S_IMODE(found) & 0o666 if S_ISREG(found) else None


def _is_lost(path: str) -> bool:
    """Whether it is a file on the container's own disk."""
    try:
        found = os.stat(path)
        return S_ISREG(found.st_mode) and found.st_dev == os.stat("/").st_dev
    except OSError:
        return False
