"""What a run's working directory is made of: the copy that was packed at submission, and what earlier runs and jobs have left, in their order.

Where there is nothing but the packed copy, the file is that one. Else it is ``SHIMPART``, then for each part its length in 8 bytes and its bytes;
the first is the packed copy, the others are archives as ``stage_out`` has them.
"""

from __future__ import annotations

import os
from _struct import Struct

from shim.core.stage_out import FILE
from shim.job import stage_out
from shim.job.stage_out import Broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import IO

MAGIC = b"SHIMPART"
_LENGTH = Struct(">Q")
_PIECE = 1024 * 1024


class Part:
    """A part of a file, read as if it were one. ``read`` and ``readinto`` only."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, most: int = -1) -> bytes:
        """Like a file's."""
        data = self._file.read(self._left if most < 0 else min(most, self._left))
        self._left -= len(data)
        return data

    def rest(self) -> None:
        """Passes over what was not read."""
        self._file.seek(self._left, os.SEEK_CUR)
        self._left = 0


def parts(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The parts of a file, each to be read before the next is asked for. Broken."""
    if file.read(len(MAGIC)) != MAGIC:
        file.seek(0)
        yield file
        return
    while True:
        begin = file.read(_LENGTH.size)
        if not begin:
            return
        if len(begin) < _LENGTH.size:
            raise Broken("it ends too soon")
        part = Part(file, _LENGTH.unpack(begin)[0])
        yield part  # type: ignore[misc]
        part.rest()


def join(packed: str, later: Sequence[str | bytes], target: str) -> None:
    """Makes the file ``target`` of a packed copy and archives (paths, or what is in them). OSError."""
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(MAGIC)
        for one in (packed, *later):
            if isinstance(one, bytes):
                file.write(_LENGTH.pack(len(one)) + one)
                continue
            with open(one, "rb") as part:
                file.write(_LENGTH.pack(os.fstat(part.fileno()).st_size))
                piece = part.read(_PIECE)
                while piece:
                    file.write(piece)
                    piece = part.read(_PIECE)


def digests(path: str, wanted: Collection[str]) -> dict[str, set[str]]:
    """The digests of all that the parts of the file have at these paths; of what is damaged or not there, none."""
    found: dict[str, set[str]] = {}
    try:
        with open(path, "rb") as file:
            for number, part in enumerate(parts(file)):
                if number:
                    _of_archive(part, wanted, found)
                else:
                    _of_packed(part, wanted, found)
    except (OSError, ValueError, EOFError):
        pass
    return found


def _of_archive(part: IO[bytes], wanted: Collection[str], found: dict[str, set[str]]) -> None:
    for entry in stage_out.read_manifest(part).entries:
        if entry.kind == FILE and entry.path in wanted:
            found.setdefault(entry.path, set()).add(entry.digest)


def _of_packed(part: IO[bytes], wanted: Collection[str], found: dict[str, set[str]]) -> None:
    import tarfile
    from hashlib import sha256

    try:
        with tarfile.open(fileobj=part, mode="r|*") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() and member.name in wanted else None
                if content is not None:
                    made = sha256()
                    piece = content.read(_PIECE)
                    while piece:
                        made.update(piece)
                        piece = content.read(_PIECE)
                    found.setdefault(member.name, set()).add(made.hexdigest())
    except tarfile.TarError:
        pass
