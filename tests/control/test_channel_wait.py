"""A command waits for the controller's answer on the socket itself."""

from __future__ import annotations

import _socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.control.channel import Channel, ChannelClosed, pack

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_POLL = """
import sys
sys.path.insert(0, sys.argv[1])
import _socket
from shim.control.channel import Channel
here, there = _socket.socketpair()
there.send(b"x")
assert Channel(here).wait(1)
print("select" in sys.modules)
"""


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """The two ends of a connection."""
    here, there = _socket.socketpair()
    yield Channel(here), Channel(there)
    here.close()
    there.close()


@pytest.mark.parametrize("seconds", [0, 0.001])
def test_nothing_comes_and_the_connection_stays_as_it_was(ends: tuple[Channel, Channel], seconds: float) -> None:
    here, there = ends
    assert not here.wait(seconds)
    there.send({"late": True})
    assert here.receive() == {"late": True}


def test_what_came_is_still_there(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    there._sock.send(pack({"n": 1}) + pack({"n": 2}))
    assert here.wait(5)
    assert here.receive() == {"n": 1}
    assert here.wait(5)  # read already, with the first
    assert here.receive() == {"n": 2}


def test_an_end_is_something_that_comes(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    there.close()
    assert here.wait(5)
    with pytest.raises(ChannelClosed):
        here.receive()


def test_no_library_is_loaded_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT_POLL, str(ROOT)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
