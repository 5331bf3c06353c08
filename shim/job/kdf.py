"""Keys and tags of the wire: HMAC-SHA256 and HKDF (RFC 2104, RFC 5869) on the interpreter's bare SHA-256.

``hmac`` and ``hashlib`` load OpenSSL, which costs srun a third of an interpreter's start; the bare module costs nothing.
A process that has OpenSSL loaded already (the agents' fork server does that once) uses it: it is several times faster.
"""

from __future__ import annotations

import sys
from _operator import _compare_digest as same  # constant time; hmac.compare_digest is this function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

TAG = 16  # bytes of a frame's tag
KEY = 32  # bytes of every key
_BLOCK = 64  # SHA-256's block
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def _bare_sha256() -> Callable[..., Any]:
    if "_hashlib" in sys.modules:
        return sys.modules["_hashlib"].openssl_sha256  # type: ignore[no-any-return]
    for module in ("_sha2", "_sha256"):  # 3.12 and later; before
        try:
            return __import__(module).sha256  # type: ignore[no-any-return]
        except ImportError:
            continue
    import hashlib

    return hashlib.sha256


class Hmac:
    """HMAC-SHA256 under one key, for many messages: the key's two blocks are hashed once."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        sha256 = _bare_sha256()
        if len(key) > _BLOCK:
            key = sha256(key).digest()
        key = key.ljust(_BLOCK, b"\0")
        self._inner = sha256(key.translate(_INNER))
        self._outer = sha256(key.translate(_OUTER))

    def digest(self, *parts: bytes | bytearray | memoryview) -> bytes:
        """The 32 bytes for the parts, one after the other."""
        inner = self._inner.copy()
        for part in parts:
            inner.update(part)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()  # type: ignore[no-any-return]


def hkdf(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """HKDF-SHA256 of RFC 5869: ``length`` bytes (at most 8160) out of ``secret``."""
    expand = Hmac(Hmac(salt).digest(secret))
    block = b""
    output = b""
    counter = 1
    while len(output) < length:
        block = expand.digest(block, info, bytes((counter,)))
        output += block
        counter += 1
    return output[:length]


def session_keys(secret: bytes, client_nonce: bytes, leader_nonce: bytes, role: str) -> tuple[bytes, bytes]:
    """The keys of one connection: (client to leader, leader to client).

    Both nonces make every connection's keys its own, so nothing recorded can be sent again; the role is part of them,
    so a connection of one role cannot be passed off as another's.
    """
    info = b"shim agent protocol 1 " + role.encode("ascii", "backslashreplace")
    both = hkdf(secret, client_nonce + leader_nonce, info, 2 * KEY)
    return both[:KEY], both[KEY:]


__all__ = ["Hmac", "KEY", "TAG", "hkdf", "same", "session_keys"]
