"""One connection to the controller, as short-lived commands use it: the C socket module and nothing else.

The wire is described in ``protocol.py``. Both sides check whose process is at the other end (SO_PEERCRED): a socket in a
folder that somebody else could write to is not trusted.
"""

from __future__ import annotations

import _socket
import os

from shim.control.protocol import MAX_MESSAGE
from shim.core import jsonlite
from shim.core.errors import RequestError, ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST = 100  # bytes of a path that surely fit into a socket address (108 with the final NUL)
_PEERCRED_SIZE = 12


class ChannelClosed(Exception):
    """The other side is gone: nobody listens, or the connection ended in the middle of a message."""


class Channel:
    """A connected socket that carries messages: dicts of JSON data."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._received = b""

    @property
    def pid(self) -> int:
        """Of the process at the other end; 0 where it cannot be seen from here."""
        return _credential(self._sock, 0)

    def stopped(self) -> bool:
        """Whether that process is stopped (SIGSTOP)."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                return file.read().rpartition(b") ")[2][:1] == b"T"
        except OSError:
            return False

    def fileno(self) -> int:
        """For select and poll. Take what is there with ``receive_now`` first: it may have been read already."""
        return int(self._sock.fileno())

    def send(self, message: dict[str, Any]) -> None:
        """Sends one message; ChannelClosed if the other side is gone, ShimError for one that it would never take."""
        data = pack(message)
        if len(data) > MAX_MESSAGE:
            raise ShimError("error: Pathname of a file, directory or other parameter too long")
        try:
            while data:
                data = data[self._sock.send(data) :]
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self) -> dict[str, Any]:
        """The next message, waiting for it. ChannelClosed when the connection ends."""
        while not self._whole():
            self._read(0)
        return self._take()

    def receive_now(self) -> dict[str, Any] | None:
        """The next message if it is there; None if it is not, or not all of it."""
        while not self._whole():
            if not self._read(_socket.MSG_DONTWAIT):
                return None
        return self._take()

    def wait(self, seconds: float) -> bool:
        """Whether something comes, or the connection ends, within that time."""
        if self._received:
            return True
        self._sock.settimeout(seconds)  # no poll(): its module is a library to be loaded
        try:
            self._sock.recv(1, _socket.MSG_PEEK)
        except (_socket.timeout, BlockingIOError):
            return False
        except OSError:
            pass  # it has ended
        finally:
            self._sock.settimeout(None)
        return True

    def ends(self, seconds: float | None) -> bool:
        """Whether the other side closes the connection within that time (None: however long it takes); what comes is passed over."""
        self._sock.settimeout(seconds)
        try:
            while self._sock.recv(65536):
                pass
        except _socket.timeout:  # TimeoutError from Python 3.10 on
            return False
        except OSError:
            pass  # it is gone
        return True

    def _read(self, flags: int) -> bool:
        try:
            data = self._sock.recv(65536, flags)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if not data:
            raise ChannelClosed("the controller closed the connection")
        self._received += data
        return True

    def _whole(self) -> bool:
        if len(self._received) < 4:
            return False
        size = int.from_bytes(self._received[:4], "big")
        if size > MAX_MESSAGE:
            raise ChannelClosed("not a controller: message too long")
        return len(self._received) >= 4 + size

    def _take(self) -> dict[str, Any]:
        size = 4 + int.from_bytes(self._received[:4], "big")
        message, self._received = self._received[4:size], self._received[size:]
        return unpack(message)

    def close(self) -> None:
        """Ends the connection."""
        self._sock.close()


def pack(message: dict[str, Any]) -> bytes:
    """The bytes of a message, its length in front."""
    data = jsonlite.dumps(message).encode("ascii")
    return len(data).to_bytes(4, "big") + data


def unpack(data: bytes) -> dict[str, Any]:
    """A message from its bytes (without the length). ChannelClosed for what is no message."""
    try:
        message = jsonlite.loads(data.decode("utf-8"))
    except ValueError as error:
        raise ChannelClosed(f"unreadable message: {error}") from None
    if not isinstance(message, dict):
        raise ChannelClosed("unreadable message")
    return message


def answer(reply: dict[str, Any]) -> dict[str, Any]:
    """What a reply says: its fields, or the RequestError that it stands for."""
    if reply["ok"]:
        return {name: value for name, value in reply.items() if name != "ok"}
    lines = reply.get("lines") or ["error: the controller refused without a reason"]
    raise RequestError(*[str(line) for line in lines], code=int(reply.get("code", 1)))


def peer_uid(sock: Any) -> int:
    """The uid of the process at the other end of a unix socket."""
    return _credential(sock, 4)


def _credential(sock: Any, place: int) -> int:
    credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEERCRED_SIZE)
    return int.from_bytes(credentials[place : place + 4], "little" if _little() else "big")


def _little() -> bool:
    import sys

    return sys.byteorder == "little"


class Address:
    """A socket path of any length: used as ``with Address(path) as short: sock.connect(short)``.

    A path that does not fit into a socket address is reached through a descriptor of its folder.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= _LONGEST:
            return self._path
        folder, name = os.path.split(self._path)
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._folder}/{name}"

    def __exit__(self, *_exception: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)


def connect(path: str) -> Channel | None:
    """A channel to the controller that listens at ``path``; None if there is none, or if it is not ours."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        with Address(path) as address:
            sock.connect(address)
        peer = peer_uid(sock)
        # Root looks after the jobs of others: the folder's owner answers there.
        if peer in (os.getuid(), 0) or (os.getuid() == 0 and peer == os.stat(os.path.dirname(path)).st_uid):
            return Channel(sock)
    except OSError:
        pass
    sock.close()
    return None
