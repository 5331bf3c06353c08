"""What goes wrong when a cluster is spoken to. Imports nothing of the client packages: everybody may catch these."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

NO_CONNECTION = 0
_NOT_PERMITTED = re.compile(r' is forbidden: User ".*" cannot ')  # how every API server words it
_LONGEST = 2000  # characters of a server's message that are kept: a proxy's error page can be any length


class AccessError(Exception):
    """The cluster cannot be spoken to as things are: no kubeconfig, no such context, no credentials. The text is for the user."""


class NoContext(AccessError):
    """Nothing that was found here has the context that is wanted."""


class ApiError(Exception):
    """A request was refused, or got no answer.

    ``status``: HTTP's, 0 when there was no answer (then ``reason`` is "Timeout", "Refused" or "Connection" and nobody knows, except for
    "Refused", whether the server acted). ``reason`` is else Kubernetes' word (NotFound, AlreadyExists, Conflict, Forbidden, Expired …).
    ``retry_after``: seconds the server asks to wait.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """The same request may well succeed later."""
        return self.status in (NO_CONNECTION, 408, 429) or self.status >= 500

    @property
    def conflict(self) -> bool:
        """Somebody else was first: the object exists, or it has changed or been made anew since it was read."""
        return self.status == 409

    @property
    def gone(self) -> bool:
        """The asked version of a collection is no longer kept: list again."""
        return self.status == 410

    @property
    def missing(self) -> bool:
        """There is no such object (or no such resource)."""
        return self.status == 404

    @property
    def forbidden(self) -> bool:
        """The user may not; also an exceeded quota and what an admission rule refuses."""
        return self.status == 403

    @property
    def not_permitted(self) -> bool:
        """The user may not, whatever it is that is asked for."""
        return self.forbidden and self.reason == "Forbidden" and _NOT_PERMITTED.search(self.message) is not None


def from_status(status: Mapping[str, object], code: int, retry_after: float | None = None) -> ApiError:
    """The error that a Kubernetes ``Status`` object tells of."""
    details = status.get("details")
    if retry_after is None and isinstance(details, Mapping):
        retry_after = _seconds(details.get("retryAfterSeconds"))
    reason = str(status.get("reason") or f"HTTP {code}")
    return ApiError(code, reason, str(status.get("message") or reason)[:_LONGEST], retry_after)


def from_answer(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error of an HTTP answer; the body is a ``Status``, or whatever a proxy on the way says."""
    retry_after = _seconds(headers.get("Retry-After"))
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return from_status(status, code, retry_after)
    text = " ".join(body.decode("utf-8", "replace").split())
    return ApiError(code, f"HTTP {code}", f"HTTP {code}: {text}"[:_LONGEST] if text else f"HTTP {code}", retry_after)


def _seconds(value: object) -> float | None:
    # Retry-After may also be a date; the API server never sends one.
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return None


def object_of(told: bytes) -> dict[str, Any]:
    """An answer of the API server. Raises ApiError for what is no JSON object."""
    try:
        answer = json.loads(told)
    except ValueError as problem:
        raise ApiError(NO_CONNECTION, "Connection", f"the API server's answer is not JSON: {problem}") from problem
    if not isinstance(answer, dict):
        raise ApiError(NO_CONNECTION, "Connection", "the API server's answer is not an object")
    return answer
