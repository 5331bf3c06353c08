"""A small API server over plain HTTP: every request is answered by the test's next word for it."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Object = dict[str, Any]


class Request(BaseHTTPRequestHandler):
    """One request, with what a test needs to answer it in any manner."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # head and body are two writes: the second would wait for the first one's acknowledgement
    )
    server: FakeServer

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.where, self.query = parts.path, dict(parse_qsl(parts.query))
        self.words = [value for name, value in parse_qsl(parts.query) if name == "command"]
        length = int(self.headers.get("Content-Length") or 0)
        self.body = json.loads(self.rfile.read(length)) if length else None
        self.server.seen.append(copy.copy(self))  # the next request of this connection has the same handler
        self.server.answer(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def json(self, body: Object, status: int = 200, **headers: str) -> None:
        self.raw(json.dumps(body).encode(), status, **headers)

    def raw(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def fail(self, status: int, reason: str, message: str = "no", **headers: str) -> None:
        body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
        self.json(body, status, **headers)

    def stream(self) -> None:
        """Begins a body of chunks."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, kind: str, found: Object) -> None:
        self.chunk(json.dumps({"type": kind, "object": found}).encode() + b"\n")

    def finish_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """The connection breaks off here."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def upgrade(self, protocol: str = "v5.channel.k8s.io") -> None:
        """Opens the WebSocket."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", protocol)
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True

    def send_frame(self, payload: bytes, opcode: int = 2, final: bool = True) -> None:
        size = len(payload)
        head = bytes([(0x80 if final else 0) | opcode])
        if size < 126:
            head += bytes([size])
        else:
            head += b"\x7e" + size.to_bytes(2, "big") if size < 65536 else b"\x7f" + size.to_bytes(8, "big")
        self.wfile.write(head + payload)

    def receive_frame(self) -> tuple[int, bytes]:
        """(opcode, payload); (8, b"") at the end of the connection."""
        head = self.rfile.read(2)
        if len(head) < 2:
            return 8, b""
        size = head[1] & 0x7F
        if size >= 126:
            size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
        assert head[1] & 0x80, "a client's frame is masked"
        key = self.rfile.read(4)
        data = self.rfile.read(size)
        mask = (key * (size // 4 + 1))[:size]
        return head[0] & 0x0F, (int.from_bytes(data, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class FakeServer(ThreadingHTTPServer):
    """Answers by ``answer``, which a test sets; keeps every request in ``seen``."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.seen: list[Request] = []
        self.answer: Callable[[Request], None] = lambda request: request.json({})
        self._connections: list[socket.socket] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self._connections.append(connection)
        return connection, peer

    def handle_error(self, *_: object) -> None:
        """A client that went away is what many tests are about."""

    def turns(self, *answers: Callable[[Request], None]) -> None:
        """One answer a request, the last one for all that follow."""
        left = list(answers)
        self.answer = lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def kubeconfig(self, path: Path, user: Object | None = None, **cluster: Any) -> str:
        """Writes one for this server, with the contexts "here" (current) and "there"."""
        context = {"cluster": "fake", "user": "me"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "fake", "cluster": {"server": self.url, **cluster}}],
            "users": [{"name": "me", "user": user if user is not None else {"token": "secret"}}],
            "contexts": [
                {"name": "here", "context": {**context, "namespace": "mine"}},
                {"name": "there", "context": context},
            ],
        }
        path.write_text(json.dumps(config))
        return str(path)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()


def pod(name: str, version: int, uid: str = "u", **more: Any) -> Object:
    """An object as a list or a watch brings it."""
    metadata = {"name": name, "namespace": "mine", "resourceVersion": str(version), "uid": f"{uid}-{name}"}
    return {"metadata": {**metadata, "managedFields": [{"manager": "x"}]}, **more}


def pods(version: int, *items: Object, following: str = "") -> Object:
    """A list."""
    metadata = {"resourceVersion": str(version), "continue": following}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}
