"""A message that no controller takes is refused before it is sent again and again."""

from __future__ import annotations

import socket

import pytest

from shim.control import channel
from shim.core.errors import ShimError


def test_a_message_that_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_MESSAGE", 100)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(ShimError, match="parameter too long"):
            channel.Channel(ours).send({"script": "#" * 100})
        channel.Channel(ours).send({"script": "#"})
        assert channel.Channel(theirs).receive() == {"script": "#"}
