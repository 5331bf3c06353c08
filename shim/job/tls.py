"""Encryption of what agents on different machines say to each other: TLS by the interpreter's ssl, carried in frames of the wire.

The frames around it carry a tag under the run's key, so both ends have proved who they are before TLS begins, and nobody else can
change, leave out or add a byte of it. TLS need therefore not authenticate anybody: it agrees on a key anonymously (ephemeral Diffie-Hellman, ffdhe2048 of
RFC 7919), which gives forward secrecy, and encrypts (AES-GCM). No certificate is made or kept for it. TLS 1.2, because later ones have
no anonymous suites before Python 3.13 knows pre-shared keys.
"""

from __future__ import annotations

import os

from shim.job.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ssl import SSLContext

_GROUP = b"""-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""
_SUITES = "ADH-AES256-GCM-SHA384:@SECLEVEL=0"  # anonymous ones have no higher level
_READ = 64 * 1024
_contexts: dict[bool, SSLContext] = {}


def available() -> bool:
    """Whether this interpreter can do it."""
    try:
        _context(server=True)
    except (ImportError, OSError, ValueError, AttributeError):  # none, or one that was built without such suites
        return False
    return True


def _context(server: bool) -> SSLContext:
    found = _contexts.get(server)
    if found is None:
        import ssl

        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        found.check_hostname = False
        found.verify_mode = ssl.CERT_NONE  # the frames around it prove who is there
        found.minimum_version = found.maximum_version = ssl.TLSVersion.TLSv1_2
        found.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_SINGLE_DH_USE
        found.set_ciphers(_SUITES)
        if server:
            file = os.memfd_create("dh")
            try:
                os.write(file, _GROUP)
                found.load_dh_params(f"/proc/self/fd/{file}")
            finally:
                os.close(file)
        _contexts[server] = found
    return found


class Tls:
    """One end. ``feed`` gets the peer's bytes; ``outgoing`` has those for the peer. ``ready``: ``write`` may be called."""

    def __init__(self, server: bool) -> None:
        import ssl

        self.ready = False
        self._error = ssl.SSLError
        self._wants = ssl.SSLWantReadError
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._end = _context(server).wrap_bio(self._in, self._out, server_side=server)

    def feed(self, data: bytes) -> bytes:
        """What the peer has said with ``data`` (none: to begin). WireError: it is no TLS, or not the one that is wanted."""
        self._in.write(data)
        said = []
        try:
            if not self.ready:
                self._end.do_handshake()
                self.ready = True
            while True:
                piece = self._end.read(_READ)
                if not piece:
                    raise WireError("the encryption has ended")
                said.append(piece)
        except self._wants:
            return b"".join(said)
        except self._error as error:
            raise WireError(f"the encryption is broken: {error}") from None

    def write(self, data: bytes) -> None:
        """Encrypts ``data``."""
        with memoryview(data) as view:
            at = 0
            while at < len(view):
                at += self._end.write(view[at:])

    def outgoing(self) -> bytes:
        """What is to be sent."""
        return self._out.read()
