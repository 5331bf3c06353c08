"""The API server as the controller sees it: plain dicts in and out, asynchronous, paced, bounded.

A request is repeated here only where that is safe whatever it asks: what the server has refused unread (429; no connection), and reads.
Everything else is told to the caller, who knows what it wrote (a POST without an answer may have been obeyed).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from shim.control.backends.kubernetes.api.errors import NO_CONNECTION, AccessError, ApiError, object_of
from shim.control.backends.kubernetes.api.exec_stream import ExecStream, open_port, open_stream
from shim.control.backends.kubernetes.api.rate_limiter import Pace
from shim.control.backends.kubernetes.api.threads import in_thread
from shim.control.backends.kubernetes.api.transport import CONNECT_LIMIT, Query, Transport

__all__ = ["Access", "AccessError", "ApiError"]

TIMEOUT = 30.0  # seconds for a request with all its repetitions
_REPEATS = 4
_FIRST_PAUSE = 0.2  # seconds before the first of them; then twice as many each time
_PATCHES = {
    "merge": "application/merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
Object = dict[str, Any]


class Access:
    """One user in one cluster; made by ``load``. One event loop."""

    def __init__(self, transport: Transport, pace: Pace | None = None) -> None:
        self.transport = transport
        self._pace = pace or Pace()

    @classmethod
    async def load(cls, kubeconfig: str | None = None, context: str | None = None) -> Access:
        """As kubectl would find the cluster; see ``login.load``. Asks the cluster nothing. Raises AccessError."""

        def prepare() -> Transport:
            from shim.control.backends.kubernetes.api import login

            return Transport(lambda chosen: login.load(kubeconfig, chosen), context)

        return cls(await in_thread(prepare))

    @property
    def context(self) -> str:
        """The context's name; "" for the pod's service account."""
        return self.transport.login.context

    @property
    def kubeconfig(self) -> str:
        """The file(s) that the context was read from; "" for the pod's service account."""
        return self.transport.login.kubeconfig

    @property
    def current(self) -> tuple[str, str] | None:
        """kubectl's current context and its namespace; None if there is none."""
        return self.transport.login.current

    @property
    def namespace(self) -> str:
        """The context's namespace."""
        return self.transport.login.namespace

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.transport.login.server

    async def get(self, path: str, query: Query | None = None, *, timeout: float = TIMEOUT) -> Object:
        """An object or a list. Repeated while the server is unreachable or fails, within ``timeout`` seconds."""
        return await self._json("GET", path, query, None, timeout)

    async def post(self, path: str, body: Object, query: Query | None = None, *, timeout: float = TIMEOUT) -> Object:
        """Creates. An ApiError with status 0 and a reason other than "Refused": perhaps created all the same."""
        return await self._json("POST", path, query, body, timeout)

    async def put(self, path: str, body: Object, query: Query | None = None, *, timeout: float = TIMEOUT) -> Object:
        """Replaces; with metadata.resourceVersion only what was read (409 otherwise)."""
        return await self._json("PUT", path, query, body, timeout)

    async def patch(
        self,
        path: str,
        body: Object | Sequence[Object],
        query: Query | None = None,
        *,
        kind: str = "merge",
        force: bool = False,
        timeout: float = TIMEOUT,
    ) -> Object:
        """Changes a part. ``kind``: merge, apply (server-side, as field manager slurm-shim; ``force`` takes fields over), json, strategic."""
        extra: dict[str, object] = {"fieldManager": "slurm-shim"}
        if kind == "apply":
            extra["force"] = force
        return await self._json("PATCH", path, {**extra, **(query or {})}, body, timeout, _PATCHES[kind])

    async def delete(
        self,
        path: str,
        query: Query | None = None,
        *,
        propagation: str = "Background",
        grace: int | None = None,
        uid: str | None = None,
        version: str | None = None,
        timeout: float = TIMEOUT,
    ) -> Object:
        """Deletes. ``grace``: seconds for its pods (0: at once, by force); ``uid`` and ``version``: only this very object (409 otherwise)."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        conditions = {"uid": uid, "resourceVersion": version}
        if uid or version:
            body["preconditions"] = {name: value for name, value in conditions.items() if value}
        return await self._json("DELETE", path, query, body, timeout)

    async def can(
        self, verb: str, resource: str, group: str = "", *, namespace: str | None = None, subresource: str = ""
    ) -> bool:
        """May the user? In ``namespace``: the context's when None, all of them when ""."""
        asked = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace if namespace is None else namespace,
        }
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        review = {**kind, "spec": {"resourceAttributes": asked}}
        answer = await self.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        return bool(answer.get("status", {}).get("allowed"))

    async def log(self, namespace: str, pod: str, container: str, *, limit: int = 1024 * 1024) -> bytes:
        """What the container has printed so far, from its beginning, at most ``limit`` bytes; b"" before it is scheduled."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        return await self._bytes("GET", path, {"container": container, "limitBytes": limit}, None, {}, TIMEOUT)

    async def exec(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> ExecStream:
        """Starts a program in the container. Raises ApiError (404: no such pod; 400 or 500: it does not run there)."""
        return await self._paced(open_stream(self.transport, namespace, pod, container, command))

    async def forward(self, namespace: str, pod: str, port: int) -> ExecStream:
        """A connection to a TCP port of the pod, which is looked for only then: see ``open_port``. Raises ApiError (404: no such pod)."""
        return await self._paced(open_port(self.transport, namespace, pod, port))

    async def _paced(self, opening: Coroutine[Any, Any, ExecStream]) -> ExecStream:
        await self._pace.enter()
        try:
            return await opening
        except ApiError as error:
            if error.status == 429:
                self._pace.refused(error.retry_after)
            raise
        finally:
            opening.close()
            self._pace.leave()

    async def greet(self, timeout: float) -> None:
        """Asks what anybody may ask, once, not minding pace and turns. Raises ApiError (also for an answer that refuses)."""
        await in_thread(lambda: self.transport.send("GET", "/version", {}, None, {}, timeout))

    def unheard(self) -> float:
        """Seconds since something came from the server; infinite if nothing ever did."""
        return self.transport.silence()

    async def close(self) -> None:
        """Closes the idle connections."""
        await in_thread(self.transport.close)

    async def _json(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Object | Sequence[Object] | None,
        timeout: float,
        content: str = "application/json",
    ) -> Object:
        # Every JSON text is a YAML text: apply-patch+yaml needs nothing else.
        sent = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = {} if sent is None else {"Content-Type": content}
        return object_of(await self._bytes(method, path, query or {}, sent, headers, timeout))

    async def _bytes(
        self, method: str, path: str, query: Query, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> bytes:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        attempt = 0
        while True:
            try:
                async with asyncio.timeout_at(end):
                    await self._pace.enter()
            except TimeoutError:
                raise ApiError(429, "TooManyRequests", "the API server is busy") from None
            try:
                answer = await self._once(method, path, query, body, headers, max(1.0, end - loop.time()))
                self._pace.passed()
                return answer
            except ApiError as error:
                if error.status == 429:
                    self._pace.refused(error.retry_after)
                pause = self._pause(method, error, attempt)
                if pause is None or loop.time() + max(pause, error.retry_after or 0.0) >= end:
                    raise
            finally:
                self._pace.leave()
            if pause:
                attempt += 1
                await asyncio.sleep(pause)

    async def _once(
        self, method: str, path: str, query: Query, body: bytes | None, headers: Mapping[str, str], left: float
    ) -> bytes:
        send = self.transport.send
        # A server that sends a byte now and then would never time out by itself.
        try:
            async with asyncio.timeout(left + CONNECT_LIMIT):  # wait_for of Python 3.11 may lose a cancellation
                return await in_thread(lambda: send(method, path, query, body, headers, left))
        except TimeoutError:
            raise ApiError(NO_CONNECTION, "Timeout", "the API server does not answer in time") from None

    def _pause(self, method: str, error: ApiError, attempt: int) -> float | None:
        """Seconds until the request may be repeated (0: when the pace lets it); None: not by us."""
        if error.status == 429:
            return 0.0
        if attempt == _REPEATS:
            return None
        refused = error.status == NO_CONNECTION and error.reason == "Refused"
        if refused or (method == "GET" and error.transient):
            return max(error.retry_after or 0.0, _FIRST_PAUSE * float(2**attempt) * random.uniform(0.5, 1.0))
        return None
