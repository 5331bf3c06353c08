"""One request to the API server, blocking: bytes out, bytes in, errors told apart. For threads; ``Access`` is the async face.

A request that was refused for its credentials (401: it has not been looked at) is repeated once with credentials read anew; the
configuration is also read again when no connection is possible and the file has changed since (a cluster that was made anew under the
same context: the one that was chosen first stays, whatever kubectl's current one is by then).
A server that begins knows no roles yet, and forbids for some seconds what it allowed before: right after a connection that failed a
refusal for want of permission is told as one that passes (503).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from shim.control.backends.kubernetes.api.errors import NO_CONNECTION, AccessError, ApiError, from_answer

if TYPE_CHECKING:
    import urllib3

    from shim.control.backends.kubernetes.api.login import Login

CONNECT_LIMIT = 10.0  # seconds to reach the server
_COLD = 30.0  # seconds after a connection that failed in which a server may not know yet who may do what
_FRESH = 5.0  # seconds a login is not made anew: every request of an expired user would run the plugin
Query = Mapping[str, object]
T = TypeVar("T")


class Transport:
    """The connection pool of one cluster. Thread-safe."""

    def __init__(self, load: Callable[[str | None], Login], context: str | None = None) -> None:
        """``load(context)``: reads the configuration, as ``login.load`` does."""
        self._load = load
        self._lock = threading.Lock()
        self._made = time.monotonic()
        self._heard = float("-inf")
        self._failed = float("-inf")
        self.login = load(context)

    def hear(self) -> None:
        """Something has come from the server."""
        self._heard = time.monotonic()

    def silence(self) -> float:
        """Seconds since something came from the server, an answer or a change that was watched for."""
        return time.monotonic() - self._heard

    def send(
        self, method: str, path: str, query: Query, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> bytes:
        """The body of the answer (2xx). Raises ApiError. ``timeout``: seconds without a byte."""
        response = self.open(method, path, query, body, headers, timeout)
        try:
            return answered(lambda: response.read())
        finally:
            response.release_conn()

    def open(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> urllib3.BaseHTTPResponse:
        """The answer (2xx) with its body still to be read, by ``read1``; the caller closes it. Raises ApiError."""
        try:
            response = self.authorised(lambda login: _request(login, method, path, query, body, headers, timeout))
        except ApiError as error:
            if NO_CONNECTION < error.status < 500:  # anything else may come from a proxy before a server that is gone
                self.hear()
            raise
        self.hear()
        return response

    def authorised(self, work: Callable[[Login], T]) -> T:
        """``work(login)``, and again with a new login if that may be what is missing. Raises ApiError."""
        try:
            return self._authorised(work)
        except ApiError as error:
            if error.status == NO_CONNECTION:
                self._failed = time.monotonic()
            elif error.not_permitted and time.monotonic() - self._failed < _COLD:
                raise ApiError(503, "ServiceUnavailable", error.message) from error
            raise

    def _authorised(self, work: Callable[[Login], T]) -> T:
        login = self.login
        try:
            return work(login)
        except ApiError as error:
            if not (error.status == 401 or (error.status == NO_CONNECTION and login.stale())):
                raise
            renewed = self._renew(login, error)
            if error.status == NO_CONNECTION and error.reason != "Refused":
                raise
        return work(renewed)

    def _renew(self, used: Login, error: ApiError) -> Login:
        with self._lock:
            if self.login is used:
                if time.monotonic() - self._made < _FRESH:
                    raise error
                try:
                    self.login = self._load(used.context)
                except AccessError as problem:
                    raise ApiError(error.status, error.reason, f"{error.message} ({problem})") from problem
                finally:
                    self._made = time.monotonic()
                used.close()
            return self.login

    def close(self) -> None:
        """Closes the idle connections; requests under way end by themselves."""
        self.login.close()


def address(path: str, query: Query) -> str:
    """The path with its query; None and empty values are left out, True and False in Kubernetes' spelling."""
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None and one != "":
                pairs.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return f"{path}?{urlencode(pairs)}" if pairs else path


def headers_for(login: Login) -> dict[str, str]:
    """What every request carries. Raises ApiError."""
    headers = {"Accept": "application/json, */*", "User-Agent": "slurm-shim"}
    try:
        credential = login.credential()
    except AccessError as problem:
        raise ApiError(401, "Unauthorized", str(problem)) from problem
    if credential:
        headers["Authorization"] = credential
    return headers


def _request(
    login: Login,
    method: str,
    path: str,
    query: Query,
    body: bytes | None,
    headers: Mapping[str, str],
    timeout: float,
) -> urllib3.BaseHTTPResponse:
    import urllib3

    every = {**headers_for(login), **headers}
    limits = urllib3.Timeout(connect=min(CONNECT_LIMIT, timeout), read=timeout)
    response = answered(
        lambda: login.pool.request(
            method,
            login.server + address(path, query),
            body=body,
            headers=every,
            timeout=limits,
            redirect=False,
            preload_content=False,
        )
    )
    if 200 <= response.status < 300:
        return response
    try:
        told = answered(lambda: response.read())
    finally:
        response.release_conn()
    raise from_answer(response.status, response.headers, told)


def answered(work: Callable[[], T]) -> T:
    """``work()`` with the many ways of a connection to fail told as ApiError."""
    from urllib3 import exceptions

    try:
        return work()
    except exceptions.NewConnectionError as problem:
        raise ApiError(NO_CONNECTION, "Refused", _reason(problem)) from problem
    except exceptions.ConnectTimeoutError as problem:
        raise ApiError(NO_CONNECTION, "Refused", "the API server does not answer") from problem
    except exceptions.TimeoutError as problem:
        raise ApiError(NO_CONNECTION, "Timeout", "the API server does not answer in time") from problem
    except (exceptions.HTTPError, OSError) as problem:
        raise ApiError(NO_CONNECTION, "Connection", _reason(problem)) from problem


def _reason(problem: Exception) -> str:
    # urllib3 puts the repr of its own objects before the text: "<…HTTPSConnection object at 0x…>: Failed to …".
    return "no connection to the API server: " + str(problem).rpartition(">: ")[2]
