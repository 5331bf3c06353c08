"""WebSocket frames, however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.control.backends.kubernetes.api import frames


def unmasked(data: bytes) -> bytes:
    """A client's frame as a server would send it."""
    size = data[1] & 0x7F
    head = 2 if size < 126 else 4 if size == 126 else 10
    key, payload = data[head : head + 4], data[head + 4 :]
    mask = (key * (len(payload) // 4 + 1))[: len(payload)]
    plain = (int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(payload), "big")
    return data[:1] + bytes([size]) + data[2:head] + plain


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 8, 9, 10]), st.one_of(st.binary(max_size=300), st.just(b"x" * 70000)))),
    st.integers(7, 5000),
)
def test_frames_survive_any_cutting(sent: list[tuple[int, bytes]], step: int) -> None:
    whole = b"".join(unmasked(frames.frame(opcode, payload)) for opcode, payload in sent)
    parser = frames.Parser()
    found = []
    for start in range(0, len(whole), step):
        found += parser.feed(whole[start : start + step])
    assert found == [(opcode, True, payload) for opcode, payload in sent]


def test_channels_and_fragments() -> None:
    channels = frames.Channels()
    data = b"\x02\x03\x01ab" + b"\x89\x01p" + b"\x80\x02cd" + b"\x82\x02\x02e" + b"\x82\x00" + b"\x88\x02\x03\xe8"
    assert list(channels.feed(data)) == [(1, b"ab"), (-9, b"p"), (1, b"cd"), (2, b"e"), (-8, b"\x03\xe8")]


@pytest.mark.parametrize(
    "data",
    [b"\x80\x00", b"\x02\x00", b"\xc2\x00", b"\x82\x80", b"\x82\x7f" + b"\xff" * 8, b"\x82\x7f\0\0\0\0\x7f\0\0\0"],
)
def test_what_is_not_the_protocol(data: bytes) -> None:
    with pytest.raises(frames.FrameError):
        list(frames.Channels().feed(data))
