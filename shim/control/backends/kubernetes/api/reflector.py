"""What there is in a collection, kept current by list and watch: one thread, one connection, never a poll.

The thread reads and decodes; everything it finds is applied in the event loop, batch by batch, and it reads on only when the loop has
done so: ``objects`` needs no lock, and a slow controller slows the API server's stream, not its own memory.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.api.listing import Listed, Watch, list_all
from shim.control.backends.kubernetes.api.threads import tell

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0
Object = dict[str, Any]


class Reflector:
    """Keeps ``objects`` (by name; by "namespace/name" where ``path`` spans namespaces) as the server has them.

    Called in the event loop: ``on_event(kind, object)`` for each change, also for those that a list after an interruption shows (a deleted
    object comes as it was last seen; one that was made anew comes as DELETED and ADDED); ``on_synced()`` after every complete list;
    ``on_trouble(text)`` when the server cannot be asked, with None when it can again. ``trim`` may throw parts of an object away
    (in the thread, before anybody sees it); managedFields never come.
    """

    def __init__(
        self,
        access: Access,
        path: str,
        selector: str = "",
        *,
        on_event: Callable[[str, Object], None] = lambda kind, found: None,
        on_synced: Callable[[], None] = lambda: None,
        on_trouble: Callable[[str | None], None] = lambda text: None,
        trim: Callable[[Object], Object] = lambda found: found,
        fields: str = "",
        page: int = 500,
        patience: float = 180.0,
    ) -> None:
        """``fields``: a field selector. ``patience``: seconds after which the server ends a watch; a dead one is noticed 15 s later at the latest."""
        self.objects: dict[str, Object] = {}
        self._transport = access.transport
        self._path, self._selector, self._fields = path, selector, fields
        self._on_event, self._on_synced, self._on_trouble = on_event, on_synced, on_trouble
        self._trim, self._page, self._patience = trim, page, patience
        self._closed = threading.Event()
        self._applied = threading.Event()
        self._watch: Watch | None = None
        self._login = self._transport.login
        self._version = ""  # how far we have come; "": list first
        self._trouble: str | None = None
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="kubernetes-watch", daemon=True)

    def start(self) -> None:
        """Begins; in the event loop in which the callbacks are to be called."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """No callback comes after this; the connection is ended."""
        self._closed.set()
        self._applied.set()
        watch = self._watch
        if watch is not None:
            watch.interrupt()

    # In the thread.

    def _run(self) -> None:
        try:
            self._keep_up()
        except Exception as problem:  # a trim that fails, an object that is none: never silently deaf
            tell(
                self._loop, self._loop.call_exception_handler, {"message": f"watch {self._path}", "exception": problem}
            )
            self._apply(self._troubled, f"the watch has failed: {problem!r}")

    def _keep_up(self) -> None:
        failures = 0
        asked = 0.0  # seconds that the server wants us to wait
        while not self._closed.is_set():
            asked = 0.0
            try:
                failures = 0 if self._follow() else failures + 1
            except ApiError as error:
                failures += 1
                asked = error.retry_after or 0.0
                if error.gone:
                    self._version = ""
                # Once is no trouble: a watch that was cut off is taken up again.
                elif failures > 1 or error.status or error.reason == "Refused":
                    self._apply(self._troubled, error.message)
            if failures:
                most = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures, 10))
                self._closed.wait(max(asked, most * random.uniform(0.5, 1.0)))

    def _follow(self) -> bool:
        """Lists if need be, and watches until the stream ends; false when nothing came of it. Raises ApiError."""
        login = self._transport.login
        if not self._version or login is not self._login:
            # Also with a configuration read anew: that may be another cluster, whose versions mean something else.
            self._login = login
            listed = list_all(self._transport, self._path, self._selector, self._page, self._trim, self._fields)
            self._apply(self._listed, listed)
            self._version = listed.version
        seconds = int(self._patience * random.uniform(0.75, 1.0)) or 1
        watch = Watch(self._transport, self._path, self._selector, self._version, seconds, self._trim, self._fields)
        self._watch = watch
        try:
            if self._closed.is_set():
                return True
            self._apply(self._troubled, None)
            for batch in watch.batches():
                self._apply(self._changed, batch)
            return watch.lived
        except ApiError as error:
            if error.gone or not watch.lived:
                raise
            return True  # cut off after something had come
        finally:
            self._version = watch.version
            self._watch = None
            watch.close()

    def _apply(self, work: Callable[[Any], None], value: Any) -> None:
        """Has ``work(value)`` done in the event loop, and waits for it."""
        self._applied.clear()

        def run() -> None:
            try:
                if not self._closed.is_set():
                    work(value)
            finally:
                self._applied.set()

        if not tell(self._loop, run):
            self._closed.set()
        while not self._closed.is_set() and not self._applied.wait(5.0):
            if self._loop.is_closed():
                self._closed.set()

    # In the event loop.

    def _listed(self, listed: Listed) -> None:
        found = {self._key(one): one for one in listed.objects}
        for key in [key for key in self.objects if key not in found]:
            self._tell(DELETED, self.objects.pop(key))
        for key, one in found.items():
            self._put(key, one)
        self._on_synced()

    def _changed(self, batch: list[tuple[str, Object]]) -> None:
        for kind, one in batch:
            key = self._key(one)
            if kind != DELETED:
                self._put(key, one)
            elif key in self.objects:
                del self.objects[key]
                self._tell(DELETED, one)

    def _put(self, key: str, one: Object) -> None:
        before = self.objects.get(key)
        if before is not None and before["metadata"].get("uid") != one["metadata"].get("uid"):
            self._tell(DELETED, self.objects.pop(key))
            before = None
        if before is not None and before["metadata"].get("resourceVersion") == one["metadata"].get("resourceVersion"):
            return
        self.objects[key] = one
        self._tell(ADDED if before is None else MODIFIED, one)

    def _tell(self, kind: str, one: Object) -> None:
        try:
            self._on_event(kind, one)
        except Exception as problem:  # one object that is misunderstood must not hide the others that came with it
            self._loop.call_exception_handler({"message": f"{kind} {self._key(one)}", "exception": problem})

    def _troubled(self, text: str | None) -> None:
        if text != self._trouble:
            self._trouble = text
            self._on_trouble(text)

    def _key(self, one: Object) -> str:
        metadata = one["metadata"]
        space = metadata.get("namespace")
        return str(metadata["name"]) if not space or "/namespaces/" in self._path else f"{space}/{metadata['name']}"
