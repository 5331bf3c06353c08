"""Files that somebody names, read no further than such a file may be long: /dev/zero and many a pipe have no end."""

from __future__ import annotations

import errno
import os
import stat

from shim.core.limits import LONGEST_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, Optional, Union


def start(file: Optional[BinaryIO]) -> bytes:
    """What is in an open file (None: nothing). More than LONGEST_FILE bytes are read as one more than that."""
    return file.read(LONGEST_FILE + 1) if file is not None else b""


def start_of(path: Union[str, int]) -> bytes:
    """``start`` of the file of that name, or of a descriptor that the caller has opened."""
    with open(path, "rb") as file:
        return start(file)


def whole(path: Union[str, int]) -> bytes:
    """All of the file. OSError (EFBIG) for one that is longer than LONGEST_FILE."""
    data = start_of(path)
    if len(data) > LONGEST_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return data


def kept(path: str) -> bytes:
    """``whole``, of a file that is read again and again. OSError for a pipe, of which nothing would be left, and for which one may wait for ever."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if stat.S_ISFIFO(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "a pipe, which can be read only once: a regular file is wanted", path)
    except OSError:
        os.close(file)
        raise
    return whole(file)


def text(path: str) -> str:
    """All of the file as text; bytes that are none survive."""
    return as_text(whole(path))


def as_text(data: bytes) -> str:
    """Bytes as text; those that are none survive."""
    return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
