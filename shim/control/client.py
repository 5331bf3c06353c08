"""How commands talk to the controller: one call, whatever happens to the controller meanwhile.

A call starts a controller where none listens, and asks again when the connection is lost before the answer came. That is
safe: a submission carries a token by which the controller knows it again.
"""

from __future__ import annotations

import os
import time

from shim.control import channel, paths
from shim.control.alive import alive, freshen
from shim.control.channel import ChannelClosed, answer
from shim.control.protocol import OF_CONFIGURATION, PROTOCOL
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Allocation", "Unreachable", "alive", "call", "freshen", "open_allocation"]

PATIENCE = 20.0  # seconds to get hold of a controller
LOOK = 1.0  # seconds without an answer after which the controller is looked at
LOSSES = 60  # how many connections in a row may be lost without an answer


class Unreachable(ShimError):
    """No controller could be reached or started."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            "error: Unable to contact slurm controller (connect failure)", f"error: {detail}; log: {paths.log_path()}"
        )


def call(
    op: str,
    fields: dict[str, Any] | None = None,
    *,
    on_event: Callable[[dict[str, Any]], None] | None = None,
    idle: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Asks the controller to do ``op`` (protocol.py) and returns its reply without ``ok``.

    Raises ShimError with the controller's lines and code when it refuses, Unreachable when there is none to be had.
    ``on_event`` gets the messages that come before the reply; ``idle`` is called at least every second until then.
    """
    message = request(op, fields)
    for loss in range(LOSSES):
        connected = reach(op, idle)
        try:
            connected.send(message)
            while True:
                # wait may take days, and a controller that goes on answers it: nobody looks whether it is stopped.
                if op != "wait" or idle is not None:
                    await_answer(connected, idle, refuse=op != "wait")
                reply = connected.receive()
                if "ok" in reply:
                    return answer(reply)
                if on_event is not None:
                    on_event(reply)
        except ChannelClosed as error:
            last = str(error)
            time.sleep(min(0.005 * (loss + 1), 0.1))
        finally:
            connected.close()
    raise Unreachable(last)


def request(op: str, fields: dict[str, Any] | None) -> dict[str, Any]:
    """The message of a call. A submission without a token gets one."""
    message = {"protocol": PROTOCOL, "op": op, **(fields or {})}
    if op in ("submit", "allocate") and not message.get("token"):
        message["token"] = os.urandom(16).hex()
    if op in OF_CONFIGURATION:
        from shim.control import sources

        message["configuration"] = sources.stated(os.environ)
        message["kubeconfig"] = sources.kubeconfig(os.environ)
    return message


def await_answer(connected: channel.Channel, idle: Callable[[], None] | None = None, *, refuse: bool = True) -> None:
    """Returns when something comes, however long that takes. ``refuse``: raises Unreachable for a controller that is stopped."""
    while not connected.wait(LOOK):
        if refuse:
            refuse_stopped(connected)
        if idle is not None:
            idle()


def refuse_stopped(connected: channel.Channel) -> None:
    """Raises Unreachable if the process at the other end was stopped: it may never answer."""
    if connected.stopped():
        raise Unreachable(stopped_text(connected.pid))


def stopped_text(pid: int) -> str:
    """What is said of a controller that somebody stopped: how to go on."""
    return f"the controller, pid {pid}, is stopped: kill -CONT {pid} lets it go on, shim controller stop --now ends it"


def reach(op: str = "", idle: Callable[[], None] | None = None) -> channel.Channel:
    """A connection to the controller, which is started if need be, to ask for ``op``; ``idle`` is called now and then. Raises Unreachable;
    NotOurs for another user's to
    whom we are no operator.
    """
    try:
        path = paths.socket_path()
    except paths.NotOurs as refused:
        from shim.control import operators

        return operators.reach(op, refused)
    connected = channel.connect(path)
    if connected is not None:
        return connected
    from shim.control import starter

    end = time.monotonic() + PATIENCE
    again = 0.0
    report = -1
    try:
        while True:
            now = time.monotonic()
            if now >= end:
                raise Unreachable(f"no controller listened within {PATIENCE:.0f} s")
            if now >= again:
                # One that was just leaving may have held the lock: a new one is started from time to time.
                if report >= 0:
                    os.close(report)
                report = starter.begin()
                again = now + 1.0
            time.sleep(0.004)
            if idle is not None:
                idle()
            connected = channel.connect(path)
            if connected is not None:
                return connected
            why = starter.told(report)
            if why:
                raise Unreachable(why)
    except OSError as error:
        raise Unreachable(starter.problem(error)) from None
    finally:
        if report >= 0:
            os.close(report)


def open_allocation(fields: dict[str, Any], *, op: str = "allocate") -> Allocation:
    """Asks for an allocation (op ``allocate``, or ``attach`` with job_id and token) and returns the connection to it."""
    return Allocation(request(op, fields))


class Allocation:
    """The connection that is an allocation's life: while it is open, the job lives.

    When the controller dies the allocation attaches to the next one by itself, and events that were seen are not repeated.
    """

    def __init__(self, message: dict[str, Any]) -> None:
        self._message = message
        self._token: str = message.get("token", "")
        self._seen: set[str] = set()
        self._losses = 0
        self._channel = reach()
        self.job_id: int | None = message.get("job_id")
        self._ask(message)

    def _ask(self, message: dict[str, Any]) -> None:
        while True:
            try:
                self._channel.send(message)
                return
            except ChannelClosed as error:
                self._again(error)

    def _again(self, error: ChannelClosed) -> None:
        self._losses += 1
        if self._losses > LOSSES:
            raise Unreachable(str(error))
        self._channel.close()
        time.sleep(min(0.005 * self._losses, 0.1))
        self._channel = reach()

    def refuse_stopped(self) -> None:
        """Raises Unreachable if the controller was stopped and will tell nothing."""
        refuse_stopped(self._channel)

    def fileno(self) -> int:
        """For poll: readable when something came (an event, or the end of a controller)."""
        return self._channel.fileno()

    def next_event(self, block: bool = True) -> dict[str, Any] | None:
        """The next event; None if there is none and ``block`` is false (ask so before polling ``fileno``).

        The reply at the job's end comes as ``{"event": "ended", state, exit_status, …}``. Raises ShimError when the
        controller refuses the allocation.
        """
        while True:
            try:
                message = self._channel.receive() if block else self._channel.receive_now()
            except ChannelClosed as error:
                self._again(error)
                self._ask(self._resumed())
                continue
            if message is None:
                return None
            self._losses = 0
            if "ok" in message:
                return {"event": "ended", **answer(message)}
            kind = str(message.get("event", ""))
            if kind == "submitted":
                self.job_id = message["job_id"]
            if kind in self._seen and kind not in ("revoked", "notice", "progress"):
                continue
            self._seen.add(kind)
            return message

    def _resumed(self) -> dict[str, Any]:
        if self.job_id is None:  # the token makes asking twice one submission
            return self._message
        asked = {"protocol": PROTOCOL, "op": "attach", "job_id": self.job_id, "token": self._token}
        return {**asked, "progress": True} if self._message.get("progress") else asked

    def close(self) -> None:
        """Closes the connection: unless the allocation was asked to be kept, its job ends."""
        self._channel.close()
