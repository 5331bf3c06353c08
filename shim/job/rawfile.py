"""Reading and writing small files with bare system calls: in an agent just forked ``open`` costs more than the file (every first use of an
object copies its page).
"""

from __future__ import annotations

import os

_PIECE = 64 * 1024


def read(path: str) -> bytes:
    """All of the file. OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = [os.read(fd, _PIECE)]
        while pieces[-1]:
            pieces.append(os.read(fd, _PIECE))
        return b"".join(pieces)
    finally:
        os.close(fd)


def read_if_there(path: str) -> bytes:
    """All of the file; nothing of one that is gone or somebody else's."""
    try:
        return read(path)
    except OSError:
        return b""


def write(path: str, content: bytes, mode: int = 0o600) -> None:
    """Writes a file, which is made with that mode unless it is there."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        write_all(file, content)
    finally:
        os.close(file)


def write_all(file: int, content: bytes) -> None:
    """Writes all of it on a descriptor that blocks."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
