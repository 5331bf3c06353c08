"""Reading small files with bare system calls: in an agent just forked ``open`` costs more than the file (every first use of an
object copies its page).
"""

from __future__ import annotations

import os

_PIECE = 64 * 1024


def read(path: str) -> bytes:
    """All of the file. OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = piece = os.read(fd, _PIECE)
        while piece:
            piece = os.read(fd, _PIECE)
            data += piece
        return data
    finally:
        os.close(fd)


def read_if_there(path: str) -> bytes:
    """All of the file; nothing of one that is gone or somebody else's."""
    try:
        return read(path)
    except OSError:
        return b""
