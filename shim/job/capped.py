"""Files that somebody names, read no further than such a file may be long: /dev/zero and many a pipe have no end."""

from __future__ import annotations

import errno
import os

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


def text(path: str) -> str:
    """All of the file as text; bytes that are none survive."""
    return whole(path).decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
