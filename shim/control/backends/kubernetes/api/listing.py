"""A collection read in pages, and its changes as a stream: the blocking half of a reflector."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from shim.control.backends.kubernetes.api.errors import NO_CONNECTION, ApiError, from_status, object_of
from shim.control.backends.kubernetes.api.transport import Transport, answered

Object = dict[str, Any]
_LIST_LIMIT = 60.0  # seconds without a byte of a page
_GRACE = 15.0  # seconds a server may be late in ending a watch
_LASTED = 5.0  # seconds; proxies cut off what is silent for half a minute or more
_LONGEST_LINE = 16 * 1024 * 1024  # an object is 1.5 MiB at most, as etcd has it


class Listed:
    """A whole collection as of one version."""

    def __init__(self, objects: list[Object], version: str) -> None:
        self.objects = objects
        self.version = version


def list_all(
    transport: Transport, path: str, selector: str, page: int, trim: Callable[[Object], Object], fields: str = ""
) -> Listed:
    """All objects, ``page`` at a time. Raises ApiError (410: the pages took too long: begin again)."""
    objects: list[Object] = []
    following = ""
    while True:
        query = {"labelSelector": selector, "fieldSelector": fields, "limit": page, "continue": following}
        told = transport.send("GET", path, query, None, {}, _LIST_LIMIT)
        answer = _decode(told)
        kind = {"apiVersion": answer.get("apiVersion"), "kind": str(answer.get("kind", "")).removesuffix("List")}
        # The items of a list do not say what they are; those of a watch do.
        objects.extend(trim({**kind, **_lean(one)}) for one in answer.get("items") or [])
        metadata = answer.get("metadata") or {}
        following = metadata.get("continue") or ""
        if not following:
            return Listed(objects, str(metadata.get("resourceVersion") or ""))


class Watch:
    """The changes after ``version``, until the server ends the stream after ``seconds``. Made in a thread; raises ApiError."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        selector: str,
        version: str,
        seconds: int,
        trim: Callable[[Object], Object],
        fields: str = "",
    ) -> None:
        self.version = version  # how far it has come; also without a change, by the server's bookmarks
        self._trim = trim
        self._hear = transport.hear
        self._begun = time.monotonic()
        self._heard = False
        self._interrupted = False
        query = {
            "watch": True,
            "allowWatchBookmarks": True,
            "labelSelector": selector,
            "fieldSelector": fields,
            "resourceVersion": version,
            "timeoutSeconds": seconds,
        }
        self._response = transport.open("GET", path, query, None, {}, seconds + _GRACE)

    @property
    def lived(self) -> bool:
        """Something has come, or it has lasted: not a stream that ends as soon as it begins."""
        return self._heard or time.monotonic() - self._begun > _LASTED

    def batches(self) -> Iterator[list[tuple[str, Object]]]:
        """(ADDED, MODIFIED or DELETED, object) as they come; all that come together as one list."""
        rest = b""
        while True:
            data = self._read()
            if not data:
                return  # a line that was cut off comes again: the version has not moved
            rest += data
            *lines, rest = rest.split(b"\n")
            if len(rest) > _LONGEST_LINE:
                raise ApiError(NO_CONNECTION, "Connection", "a line of a watch without end")
            batch: list[tuple[str, Object]] = []
            for line in lines:
                if line.strip():
                    self._event(_decode(line), batch)
            if batch:
                yield batch

    def _event(self, event: Object, batch: list[tuple[str, Object]]) -> None:
        kind, found = event.get("type"), event.get("object")
        if not isinstance(found, dict):
            raise ApiError(NO_CONNECTION, "Connection", "a watch event without an object")
        if kind == "ERROR":
            raise from_status(found, int(found.get("code") or 500))
        version = str(found["metadata"].get("resourceVersion") or "")
        if kind != "BOOKMARK":
            batch.append((str(kind), self._trim(_lean(found))))
        self.version = version or self.version
        self._heard = True

    def _read(self) -> bytes:
        try:
            data = answered(lambda: self._response.read1(65536))
        except (ApiError, ValueError):
            if self._interrupted:
                return b""
            raise
        if data:
            self._hear()
        return data

    def interrupt(self) -> None:
        """From another thread: ``batches`` ends now."""
        self._interrupted = True
        try:
            self._response.shutdown()
        except (OSError, ValueError, RuntimeError):
            pass  # it has ended by itself

    def close(self) -> None:
        """Closes the connection."""
        self._response.close()


def _lean(found: Object) -> Object:
    # A third of an object, of no use to anybody but the server.
    found["metadata"].pop("managedFields", None)
    return found


_decoding = threading.Lock()
_decoders = 0


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without garbage collection: a large answer makes only new objects, and looking through them all again costs three times more."""
    global _decoders
    with _decoding:
        _decoders += 1
        gc.disable()
    try:
        yield
    finally:
        with _decoding:
            _decoders -= 1
            if not _decoders:
                gc.enable()


def _decode(told: bytes) -> Object:
    with _no_collection():
        return object_of(told)
