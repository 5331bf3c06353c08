"""How a user whom the owner's configuration names in ``operators`` reaches that owner's controller.

The state folder stays 0700: the operator sees nothing of it and believes nothing in it. A controller with such operators listens at
an address without a file as well (unix(7), abstract), which is made of the folder's name. Anybody may connect there. The
kernel says to each side who the other is (SO_PEERCRED): the controller ends all connections but those of operators, and
who calls talks only to the user whose folder was named; so an address that somebody else has taken is of no use to them.
What operators may ask for is FOR_OPERATORS; nothing else is sent.
"""

from __future__ import annotations

import _socket
import os

from shim.control import channel, paths
from shim.control.protocol import FOR_OPERATORS, PROTOCOL
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CONNECT = 5.0  # seconds for the connection to be taken
_LONGEST = 80  # bytes of a folder's name that stand in the address as they are


def address(folder: str) -> bytes:
    """The abstract address of the controller of that state folder."""
    name = os.fsencode(folder)
    if len(name) > _LONGEST:
        from hashlib import sha256

        name = sha256(name).hexdigest().encode()
    return b"\0shim-operators:" + name


def reach(op: str, refused: paths.NotOurs) -> channel.Channel:
    """A connection to the controller of another's state folder that ``SHIM_STATE_DIR`` names. Raises what ``refused`` the folder, with the
    reason why there is none: no controller is started there.
    """
    if refused.user is None or not os.environ.get("SHIM_STATE_DIR"):
        raise refused
    first, *others = refused.lines
    if op not in FOR_OPERATORS:
        raise paths.NotOurs(
            first,
            "error: an operator sees and changes the jobs that are there (squeue, scancel, scontrol), and submits none",
            *others,
        )
    found = _connected(paths.named(), refused.user)
    if found is None:
        raise _silent(refused)
    return found


def ask(
    op: str, fields: dict[str, Any] | None = None, on_event: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """The reply to one request there, as ``client.call`` returns it. Raises as that does, and NotOurs where no controller answers."""
    refused = paths.anothers()
    if refused is None:
        raise ShimError("error: the state folder is another user's no more")
    connected = reach(op, refused)
    try:
        try:
            connected.send({"protocol": PROTOCOL, "op": op, **(fields or {})})
        except channel.ChannelClosed:
            pass  # who refuses us has not waited for it, and has said why
        while True:
            reply = connected.receive()
            if "ok" in reply:
                return channel.answer(reply)
            if on_event is not None:
                on_event(reply)
    except channel.ChannelClosed:
        raise _silent(refused) from None
    finally:
        connected.close()


def _silent(refused: paths.NotOurs) -> paths.NotOurs:
    first, *others = refused.lines
    why = "no controller of that user listens to operators: it must run, and have you among the operators of its configuration"
    return paths.NotOurs(first, f"error: {why}", *others)


def _connected(folder: str, owner: int) -> channel.Channel | None:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(_CONNECT)  # whoever has taken the address, and accepts nobody, holds up nobody
        sock.connect(address(folder))
        if channel.peer_uid(sock) == owner:
            sock.settimeout(None)
            return channel.Channel(sock)
    except OSError:
        pass
    sock.close()
    return None
