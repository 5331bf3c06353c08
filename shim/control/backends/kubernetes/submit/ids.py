"""Job ids for all who use a namespace: blocks of them, taken from one ConfigMap by compare-and-swap."""

from __future__ import annotations

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names

BLOCK = 20  # ids at a time: a few round trips saved, few ids passed over when a home is given up
_NEXT = "next"
_TRIES = 20


async def reserve(access: Access, namespace: str, first: int, count: int = BLOCK) -> tuple[range, str]:
    """``count`` ids, at least ``first``, that nobody else was or will be given; and the ``place``. Raises BackendError."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        for _ in range(_TRIES):
            try:
                found = await access.get(f"{path}/{names.IDS}")
            except ApiError as error:
                if not error.missing:
                    raise
                found = None
            begin = max(first, _next(found))
            try:
                if found is None:
                    made = await access.post(path, _counter(begin + count))
                else:
                    # With the resourceVersion that was read: whoever was quicker makes this a conflict.
                    made = await access.put(f"{path}/{names.IDS}", {**found, "data": {_NEXT: str(begin + count)}})
                return range(begin, begin + count), str(made["metadata"]["uid"])
            except ApiError as error:
                if not error.conflict:
                    raise
    except ApiError as error:
        text = f"no job id could be had from configmap {names.IDS} of namespace {namespace}: {error.message}"
        raise BackendError(text, transient=error.transient) from error
    raise BackendError(f"no job id could be had from configmap {names.IDS}: too many others ask", transient=True)


async def place(access: Access, namespace: str) -> str:
    """What tells this namespace, with its numbers, from any other, and from one that was restored. ApiError, BackendError."""
    try:
        found = await access.get(f"/api/v1/namespaces/{namespace}/configmaps/{names.IDS}")
    except ApiError as error:
        if not error.missing:
            raise
        return (await reserve(access, namespace, 1, 0))[1]
    return str(found["metadata"]["uid"])


def _counter(following: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.IDS, "labels": {names.MANAGED: names.MANAGER}},
        "data": {_NEXT: str(following)},
    }


def _next(found: dict[str, object] | None) -> int:
    data = (found or {}).get("data")
    try:
        return int(data[_NEXT]) if isinstance(data, dict) else 1
    except (KeyError, ValueError):
        raise BackendError(f'configmap {names.IDS}: no number in "{_NEXT}": {data!r}') from None
