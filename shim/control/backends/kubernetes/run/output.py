"""A file of a job's output on the submitting machine, filled from the copy in the job's first pod.

What is there already counts as taken, so nothing is lost and nothing is doubled when a controller follows another. What is no file (a
named pipe, a terminal) cannot be asked that: it gets what comes while this controller lives.

A file may hang, on a server that does not answer, and a pipe without a reader does: whatever is asked of one is done in a thread, so
that its own job alone waits. A link is followed, as Slurm does: the path is the user's, of the job's record; pods have no say in it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EACCES
from stat import S_ISDIR, S_ISREG
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from shim.control import paths
from shim.control.backends.kubernetes.api.threads import Lane

T = TypeVar("T")


_lanes: WeakValueDictionary[str, Lane] = WeakValueDictionary()


def _lane_of(path: str) -> Lane:
    """One for each file: what who has given up has still under way there is done before another asks how much there is."""
    found = _lanes.get(path)
    if found is None:
        found = _lanes[path] = Lane()
    return found


class Refused(OSError):
    """A file that a pod may not have written here."""


class Output:
    """``stream``: what the leader calls it; ``path``: where it goes. What is asked is done in the order in which it is asked."""

    def __init__(self, stream: str, path: str, base: int = 0) -> None:
        self.stream = stream
        self.path = path
        self._base = base  # bytes that were there before the run
        self._lane = _lane_of(path)
        self._pipe: int | None = (
            None  # what is no regular file is opened once: its reader sees no end before there is one
        )
        self._piped = 0  # bytes that have gone there

    async def taken(self) -> int:
        """How many bytes of the run's output are here."""
        return await self._aside(self._taken)

    async def add(self, data: bytes) -> None:
        """Adds what came. OSError: a part of it could not be written; ``taken`` tells from where to ask again."""
        await self._aside(lambda: self._add(data))

    def close(self) -> None:
        """Nothing more comes; does not wait."""
        self._lane.submit(self._close)

    async def _aside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._lane, work)

    def _taken(self) -> int:
        try:
            found = os.stat(self.path)
        except OSError:
            return 0
        return max(0, found.st_size - self._base) if S_ISREG(found.st_mode) else self._piped

    def _add(self, data: bytes) -> None:
        descriptor = self._opened()
        try:
            while data:
                written = os.write(descriptor, data)
                data = data[written:]
                self._piped += written
        except OSError:
            self._close()
            raise
        finally:
            if descriptor != self._pipe:
                os.close(descriptor)

    def _opened(self) -> int:
        if self._pipe is not None:
            return self._pipe
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
        if not S_ISREG(os.fstat(descriptor).st_mode):
            self._pipe = descriptor
        return descriptor

    def _close(self) -> None:
        descriptor, self._pipe = self._pipe, None
        if descriptor is not None:
            os.close(descriptor)


class LateOutput(Output):
    """A file of a script's output that was not begun when its run was made: that was another machine's doing. ``noted``: see ``StepFile``."""

    def __init__(self, stream: str, path: str, append: bool, umask: int, noted: str) -> None:
        super().__init__(stream, path)
        self._append = append
        self._umask = umask
        self._noted = noted
        self._begun = False

    def _taken(self) -> int:
        if not self._begun:
            self._base = _begun(self.path, self.path, -1, self._append, self._umask, self._noted)
            self._begun = True
        return super()._taken()


class StepFile(Output):
    """A file that an srun in the pods has opened, below the working directory ``folder`` that they have a copy of.

    Pods are not trusted with paths: what is hidden, has a program's mode or is reached by a link that leads out is not written.
    ``told``: the leader's words. ``noted`` is a file where it is kept how often the file was begun, and with how many bytes.
    """

    def __init__(self, told: Mapping[str, Any], folder: str, noted: str) -> None:
        super().__init__(str(told["stream"]), str(told["path"]))
        self.round = int(told["round"])
        self._append = bool(told["append"]) and not self.round
        self._mode = int(told["mode"])
        self._folder = folder
        self._noted = noted
        self._begun = False

    def follow(self, before: Output) -> None:
        """It takes the place of another one, of the same name: what that one is just writing comes first."""
        before.close()

    def _taken(self) -> int:
        if not self._begun:
            self._begin()
            self._begun = True
        return super()._taken()

    def _begin(self) -> None:
        named, self.path = self.path, _within(self.path, self._folder)
        _make_folders(os.path.dirname(self.path), self._mode)
        self._base = _begun(self.path, named, self.round, self._append, 0o777 & ~self._mode, self._noted)


def _begun(path: str, named: str, number: int, append: bool, umask: int, noted: str) -> int:
    """How many bytes the file had before; it is made, or emptied, where it is not noted that this was done."""
    known = _noted(noted).get((named, number))
    if known is not None:
        return known
    base = begin(path, append, umask)
    line = json.dumps([named, number, base]) + "\n"
    descriptor = os.open(noted, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
    return base


def _make_folders(path: str, mode: int) -> None:
    """The folders that a file of that mode is in: who may read the file may look into them."""
    if not os.path.isdir(path):
        _make_folders(os.path.dirname(path), mode)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            os.chmod(path, 0o300 | mode | (mode & 0o444) >> 2)


def _noted(path: str) -> dict[tuple[str, int], int]:
    """Bytes that a step's file had before, by its name and round."""
    found = {}
    with suppress(FileNotFoundError), open(path) as file:
        for line in file:
            with suppress(ValueError):  # torn
                name, number, base = json.loads(line)
                found[str(name), int(number)] = int(base)
    return found


def _within(path: str, folder: str) -> str:
    """Where the file is. Refused for one that a pod may not write here."""
    root, real = os.path.realpath(folder), os.path.realpath(path)
    below = os.path.relpath(real, root)
    if any(name.startswith(".") for name in below.split(os.sep)):
        raise Refused(EACCES, f"not written: it is hidden, or not below {folder}", path)
    states = os.path.realpath(paths.state_dir())
    if os.path.commonpath([states, real]) == states:
        raise Refused(EACCES, "not written: it is in the state folder of shim", path)
    with suppress(FileNotFoundError):
        found = os.stat(real).st_mode
        if not S_ISREG(found) or found & 0o111:
            raise Refused(EACCES, "not written: there is a program, or no file, of that name", path)
    return real


def begin(path: str, append: bool, umask: int) -> int:
    """Makes the file as Slurm does at the start of a job; how many bytes it has (0 where it is emptied). OSError. It may block.

    This process has a umask of its own, for files of ours: a file that is made gets the job's. What is no file is left as it is.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        made = True
    else:
        made = False
        if not (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode)):
            if not os.access(path, os.W_OK):
                raise PermissionError(EACCES, os.strerror(EACCES), path)
            return 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC | (0 if append else os.O_TRUNC)
    descriptor = os.open(path, flags, 0o666 & ~umask)
    try:
        if made:
            os.fchmod(descriptor, 0o666 & ~umask)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
