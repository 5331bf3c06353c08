"""The controller's socket. Apart from the server, so that it listens before asyncio is imported."""

from __future__ import annotations

import os
import socket

from shim.control.channel import Address
from shim.control.operators import address

_BACKLOG = 128


def listen_to_operators(folder: str) -> socket.socket:
    """A socket without a file, at which operators reach the controller of that state folder. OSError: somebody has taken the address."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(address(folder))
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def listen(path: str) -> socket.socket:
    """A listening socket at ``path`` that only its owner can connect to. The caller holds the controller's lock."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    old = os.umask(0o177)
    try:
        with Address(path) as address:
            sock.bind(address)
    finally:
        os.umask(old)
    sock.listen(_BACKLOG)
    return sock
