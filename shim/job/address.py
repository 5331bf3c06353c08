"""Where a leader listens: addresses, and sockets for them.

An address is ``{"unix": path}`` or ``{"tcp": [host, port]}``, with ``"encrypted": true`` where nothing is said there in the clear; the file ``leader`` of a run folder holds one. Hosts are IP
addresses: nothing here asks a name service. Sockets are the interpreter's bare ones (``_socket``): the ``socket`` module
costs srun 4 ms. All are non-blocking.
"""

from __future__ import annotations

import _socket
import os

from shim.core.jsonlite import dumps, loads
from shim.job import rawfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_STREAM = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_MOST_WAITING = 65535
_LONGEST_UNIX = 107  # bytes that fit sockaddr_un with the final NUL
_NO_IPV6 = (97, 99)  # EAFNOSUPPORT, EADDRNOTAVAIL
FILE = "leader"  # of the run folder, where the leader does not listen in it
SOCKET = "leader.sock"  # of the run folder


def write_address(run_dir: str, address: dict[str, Any]) -> None:
    """Tell where the leader listens; the file appears whole or not at all."""
    path = os.path.join(run_dir, FILE)
    file = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, dumps(address).encode("ascii"))
    finally:
        os.close(file)
    os.replace(path + ".new", path)


def read_address(run_dir: str) -> dict[str, Any]:
    """Where the leader listens: as the file says, else in the run folder. OSError: it does not (yet)."""
    try:
        address = loads(rawfile.read(os.path.join(run_dir, FILE)))
    except FileNotFoundError:
        address = {"unix": os.path.join(run_dir, SOCKET)}
        os.stat(address["unix"])
    if not isinstance(address, dict):
        raise OSError(f"no address in {run_dir}/{FILE}")
    return address


def listen(address: dict[str, Any]) -> tuple[_socket.socket, dict[str, Any]]:
    """A listening socket and its address (with the port that was taken, where 0 was given). OSError.

    The host ``::`` stands for all addresses of both families; of IPv4 alone where the machine has no IPv6.
    A socket file that is there already is replaced: the caller holds the lock of whoever could have made it.
    """
    if address.get("tcp", ("",))[0] == "::":
        try:
            return _listen(address)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
            address = {"tcp": ["0.0.0.0", address["tcp"][1]]}
    return _listen(address)


def _listen(address: dict[str, Any]) -> tuple[_socket.socket, dict[str, Any]]:
    server = _socket.socket(_family(address), _STREAM)
    try:
        if "unix" in address:
            try:
                os.unlink(address["unix"])
            except FileNotFoundError:
                pass
            _with_short_name(address["unix"], server.bind)
        else:
            host, port = address["tcp"]
            server.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            if host == "::":
                server.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 0)  # both families
            server.bind((host, port))
            address = {"tcp": [host, server.getsockname()[1]]}
        # As many as the kernel allows: where the queue of a unix socket is full, an srun is turned away at once.
        server.listen(_MOST_WAITING)
    except OSError:
        server.close()
        raise
    return server, address


def connect(address: dict[str, Any]) -> _socket.socket:
    """A socket on its way to ``address``: writable when the connection stands. OSError where that is known at once."""
    client = _socket.socket(_family(address), _STREAM)
    try:
        if "unix" in address:
            _with_short_name(address["unix"], client.connect)
            return client
        host, port = address["tcp"]
        client.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        try:
            client.connect((host, port))
        except BlockingIOError:
            pass  # under way
    except OSError:
        client.close()
        raise
    return client


def accept(server: _socket.socket) -> _socket.socket:
    """The next connection. BlockingIOError when there is none."""
    fd, _peer = server._accept()  # type: ignore[attr-defined]
    os.set_blocking(fd, False)
    connection = _socket.socket(fileno=fd)
    if connection.family != _socket.AF_UNIX:
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    return connection


def _family(address: dict[str, Any]) -> int:
    if "unix" in address:
        return _socket.AF_UNIX
    return _socket.AF_INET6 if ":" in address["tcp"][0] else _socket.AF_INET


def _with_short_name(path: str, use: Callable[[str], object]) -> None:
    """``use(path)``, by way of the folder's descriptor where the path is too long for a socket address."""
    if len(os.fsencode(path)) <= _LONGEST_UNIX:
        use(path)
        return
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)
