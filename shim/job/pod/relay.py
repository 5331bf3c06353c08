"""The way to a run's leader from outside the cluster: a byte pipe between this process' stdin and stdout and the leader.

Run by pods/exec in the leader's pod (``relay`` beside the run folder). It knows nothing of what passes through: whoever is at
the other end proves itself to the leader by the run's key. It ends with either side, and never waits for one side alone: when the
client of an exec is gone, stdin ends but stdout may stay blocked for ever. When the leader has ended it stays until the client goes, for a
little while: what a client sends to a program that is no more makes the API server drop what the program has said last.
"""

from __future__ import annotations

import os
import select
import sys
from time import monotonic

from shim.job.address import connect, read_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PIECE = 64 * 1024
_LAST = 10_000  # milliseconds that the last bytes from the leader may take
_LINGER = 3_000  # milliseconds that the client has to go once it has them


def main() -> NoReturn:
    """Relays between the descriptors 0 and 1 and the leader of the run folder in the first argument."""
    try:
        socket = connect(read_address(sys.argv[1]))
    except (OSError, ValueError) as error:
        os.write(2, f"relay: no leader here: {error}\n".encode())
        os._exit(1)
    try:
        relay(socket.fileno(), 0, 1)
    except OSError as error:
        os.write(2, f"relay: {error.strerror}\n".encode())
        os._exit(1)
    os._exit(0)


def relay(leader: int, source: int, sink: int) -> None:
    """Until ``source`` or the leader ends; what the leader has said last is then still written to ``sink``, and ``source`` awaited."""
    up, down = Direction(source, leader), Direction(leader, sink)
    for fd in (leader, source, sink):
        os.set_blocking(fd, False)
    while not down.ended:
        wanted: dict[int, int] = {}
        for one in (up, down):
            fd, event = (one.target, select.POLLOUT) if one.held else (one.origin, select.POLLIN)
            wanted[fd] = wanted.get(fd, 0) | event
        poll = select.poll()
        for fd, event in wanted.items():
            poll.register(fd, event)
        poll.poll()
        try:
            up.move()
        except OSError:
            up.drop()  # the leader takes nothing any more: what it has said last comes all the same
        if up.ended:
            return
        down.move()
    end = select.poll()
    end.register(sink, select.POLLOUT)
    while down.held and end.poll(_LAST):
        down.move()
    up.drop()
    left = select.poll()
    left.register(source, select.POLLIN)
    until = monotonic() + _LINGER / 1000
    while not up.ended and left.poll(max(0, until - monotonic()) * 1000):
        up.move()


class Direction:
    """Bytes from one descriptor to another; at most one piece is held."""

    def __init__(self, origin: int, target: int) -> None:
        self.origin = origin
        self.target = target
        self.held = b""
        self.ended = False
        self._dropped = False

    def drop(self) -> None:
        """From now on what comes is for nobody."""
        self.held, self._dropped = b"", True

    def move(self) -> None:
        """Passes on what can be, without waiting. OSError when the target is gone."""
        try:
            if not self.held and not self.ended:
                self.held = os.read(self.origin, _PIECE)
                self.ended = not self.held
            if self._dropped:
                self.held = b""
            if self.held:
                self.held = self.held[os.write(self.target, self.held) :]
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.ended = True
