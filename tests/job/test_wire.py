"""Frames and keys: what goes in comes out; anything else ends the connection."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.job.kdf import Hmac, hkdf, session_keys
from shim.job.wire import (
    ALL_RANKS,
    BATCH,
    DATA,
    MAX_FRAME,
    MESSAGE,
    Opener,
    Plain,
    Sealer,
    Splitter,
    WireError,
    data_payload,
    hello_frame,
    parse_message,
    split_data,
)

KEY = b"k" * 32


@given(st.binary(max_size=200), st.lists(st.binary(max_size=300), max_size=4))
def test_hmac_is_the_standard_one(key: bytes, parts: list[bytes]) -> None:
    assert Hmac(key).digest(*parts) == hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def test_hmac_digests_do_not_influence_each_other() -> None:
    mac = Hmac(KEY)
    assert mac.digest(b"one") == mac.digest(b"one") != mac.digest(b"two")


@pytest.mark.parametrize(
    ("secret", "salt", "info", "length", "output"),
    [
        (  # RFC 5869, test case 1
            "0b" * 22,
            "000102030405060708090a0b0c",
            "f0f1f2f3f4f5f6f7f8f9",
            42,
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (  # RFC 5869, test case 3
            "0b" * 22,
            "",
            "",
            42,
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
)
def test_hkdf_gives_the_published_results(secret: str, salt: str, info: str, length: int, output: str) -> None:
    made = hkdf(bytes.fromhex(secret), bytes.fromhex(salt), bytes.fromhex(info), length)
    assert made.hex() == output


def test_session_keys_depend_on_everything() -> None:
    keys = {
        key
        for secret in (b"s" * 32, b"t" * 32)
        for one in (b"a" * 16, b"b" * 16)
        for other in (b"a" * 16, b"c" * 16)
        for role in ("node", "srun")
        for key in session_keys(secret, one, other, role)
    }
    assert len(keys) == 2 * 2 * 2 * 2 * 2


frames = st.lists(st.tuples(st.sampled_from([MESSAGE, DATA]), st.binary(max_size=500)), max_size=6)


@given(frames, st.integers(1, 50))
def test_frames_survive_any_cutting(sent: list[tuple[bytes, bytes]], piece: int) -> None:
    sealer, opener, splitter = Sealer(KEY), Opener(KEY), Splitter()
    stream = b"".join(sealer.seal(kind, payload) for kind, payload in sent)
    got = []
    for start in range(0, len(stream), piece):
        got += [opener.open(body) for body in splitter.feed(stream[start : start + piece])]
    assert got == sent


def bodies(*stream: bytes) -> list[bytes]:
    return list(Splitter().feed(b"".join(stream)))


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_changed_frame_is_refused(payload: bytes, data: st.DataObject) -> None:
    (body,) = bodies(Sealer(KEY).seal(DATA, payload))
    place = data.draw(st.integers(0, len(body) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    changed = body[:place] + bytes((body[place] ^ bit,)) + body[place + 1 :]
    with pytest.raises(WireError):
        Opener(KEY).open(changed)


def test_a_repeated_a_left_out_and_a_foreign_frame_are_refused() -> None:
    sealer = Sealer(KEY)
    first, second = bodies(sealer.seal(DATA, b"1"), sealer.seal(DATA, b"2"))
    opener = Opener(KEY)
    opener.open(first)
    for receiver, body in ((opener, first), (Opener(KEY), second), (Opener(b"x" * 32), first)):
        with pytest.raises(WireError, match="tag"):
            receiver.open(body)


def test_an_unknown_kind_is_refused() -> None:
    (body,) = bodies(Sealer(KEY).seal(b"X", b""))
    with pytest.raises(WireError, match="kind"):
        Opener(KEY).open(body)


@pytest.mark.parametrize("body", [b"", b"J", b"J" + b"0" * 15])
def test_a_frame_without_room_for_a_tag_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        Opener(KEY).open(body)


def test_a_long_frame_is_refused_before_it_has_come() -> None:
    splitter = Splitter(limit=100)
    with pytest.raises(WireError, match="101"):
        list(splitter.feed((101).to_bytes(4, "big")))


def test_the_limit_can_be_raised_between_two_frames() -> None:
    sealer = Sealer(KEY)
    splitter = Splitter(limit=100)
    got = []
    for body in splitter.feed(sealer.seal(DATA, b"") + sealer.seal(DATA, b"x" * 1000)):
        got.append(body)
        splitter.limit = MAX_FRAME
    assert len(got) == 2


def test_too_much_in_one_frame_is_an_error_here_not_there() -> None:
    with pytest.raises(WireError):
        Sealer(KEY).seal(DATA, b"x" * MAX_FRAME)


@given(st.integers(0, BATCH), st.integers(0, ALL_RANKS), st.sampled_from([0, 1, 2]), st.binary(max_size=50))
def test_data_payloads(step: int, rank: int, stream: int, data: bytes) -> None:
    assert split_data(data_payload(step, rank, stream, data)) == (step, rank, stream, data)


@pytest.mark.parametrize("payload", [b"", b"\0" * 8, b"\0" * 8 + b"\3"])
def test_bad_data_payloads(payload: bytes) -> None:
    with pytest.raises(WireError):
        split_data(payload)


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"1", b"\xff", b'{"do":1} x'])
def test_bad_messages(payload: bytes) -> None:
    with pytest.raises(WireError):
        parse_message(payload)


def test_hello_is_a_message_without_a_tag() -> None:
    (body,) = bodies(hello_frame({"protocol": 1}))
    assert body[:1] == MESSAGE
    assert parse_message(body[1:]) == {"protocol": 1}


@given(st.lists(st.tuples(st.sampled_from([MESSAGE, DATA]), st.binary(max_size=300)), max_size=5))
def test_a_connection_that_was_handed_over_has_frames_without_tags(frames: list[tuple[bytes, bytes]]) -> None:
    stream = b"".join(Plain().seal(kind, payload) for kind, payload in frames)
    assert [Plain().open(body) for body in Splitter(MAX_FRAME).feed(stream)] == frames


@pytest.mark.parametrize("body", [b"", b"X", b"Xabc"])
def test_no_frame_without_tags(body: bytes) -> None:
    with pytest.raises(WireError):
        Plain().open(body)
    with pytest.raises(WireError):
        Plain().seal(DATA, b"x" * MAX_FRAME)
