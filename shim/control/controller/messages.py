"""The fields of each operation's message, and their types. A client that may connect may still send anything: it gets an error that says what is wrong."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from shim.control.controller.operations.targets import Target
from shim.control.index.query import JobQuery
from shim.core.errors import ShimError
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.model.usage import Usage
from shim.core.triggers import Trigger
from shim.core.value import NEEDS, Value

_MOST = 1 << 63  # what the index keeps of a number
_LONGEST = 1 << 20  # characters of a text that is no script and no variable


class Script(str):
    """A text of any length and any bytes (surrogate escapes), that may hold NUL."""


class Word(str):
    """A text that the index is asked for: no surrogate escapes."""


Texts = dict[str, Script]
_SUBMISSION = {
    "request": JobRequest,
    "components": list[JobRequest],
    "script": Script,
    "environment": Texts,
    "rlimits": dict[str, list[int]],
    "token": Word,
    "cluster": Word,
    "home": Word,
    "submit_host": str,
    "submit_line": Script,
    "sid": int,
    "keep": bool,
    "progress": bool,
    "test_only": bool,
}
_ENTRIES = types.GenericAlias(list, ({**_SUBMISSION, "first": int, "last": int},))
_TARGETS = {"targets": list[Target]}
_JOB = {"job_id": int, "cluster": Word, "task": int}
_NODE = {"State": str, "Reason": str, "Weight": int, "Features": str, "Comment": str, "Extra": str}
FIELDS: dict[str, dict[str, Any]] = {
    "submit": _SUBMISSION,
    "allocate": _SUBMISSION,
    "attach": {"job_id": int, "token": Word, "progress": bool},
    "release": {"job_id": int, "status": int},
    "wait": {**_JOB, "progress": bool},
    "reach": _JOB,
    "script": _JOB,
    "fetch": {**_JOB, "progress": bool},
    "stay": _JOB,
    "move": {**_JOB, "request": JobRequest},
    "move_out": {**_JOB, "to": str, "mark": str},
    "moved_out": {**_JOB, "to": str, "mark": str, "there": int},
    "listen": {"clusters": list[str]},
    "cancel": {**_TARGETS, "signal": int, "scope": str, "uid": int},
    "update": {**_TARGETS, "fields": dict[str, str]},
    "update_step": {"target": Target, "minutes": int},
    "notify": {"target": Target, "text": str},
    "change_nodes": {"name": str, "cluster": str, "fields": _NODE},
    "change_partition": {"name": str, "cluster": str, "fields": dict[str, Any]},
    "stats": {"reset": bool},
    "trigger": {"do": str, "trigger": Trigger, "id": int, "job_id": int, "uid": int},
    "crontab": {"do": str},
    "set_crontab": {"text": Script, "entries": _ENTRIES},
    "prune": {"days": int, "dry_run": bool},
    "look": {
        "question": Word,
        "query": JobQuery,
        "cluster": Word,
        "job_id": int,
        "step": Word,
        "runs": list[list[int]],
        "running": bool,
        "every_run": bool,
        "first": int,
        "end": int,
        "since": float,
        "gpus": bool,
    },
    "record": {"job": Job, "claim": bool},
    "seen": {"jobs": list[Job]},
    **dict.fromkeys(("hold", "release_job", "requeue", "requeuehold", "suspend", "resume", "top"), _TARGETS),
}
NEEDED = {
    "submit": ("request",),
    "allocate": ("request",),
    **dict.fromkeys(("attach", "release", "wait", "reach", "script", "fetch", "stay"), ("job_id",)),
    "move": ("job_id", "cluster"),
    "move_out": ("job_id", "cluster"),
    "moved_out": ("job_id", "there", "mark"),
    "update_step": ("target", "minutes"),
    "notify": ("target", "text"),
    "look": ("question",),
    "record": ("job",),
    "seen": ("jobs",),
}


def check(op: str, message: dict[str, Any]) -> None:
    """Raises ShimError for a message that is no request for ``op``. Fields that are null count as not given, others that are unknown do not count."""
    for name in NEEDED.get(op, ()):
        if message.get(name) is None:
            raise _malformed(op, name, "it is missing")
    for name, hint in FIELDS.get(op, {}).items():
        if message.get(name) is not None:
            problem = _problem(message[name], hint)
            if problem:
                raise _malformed(op, name, problem)


def _malformed(op: str, name: str, problem: str) -> ShimError:
    return ShimError(f"error: malformed message for {op}: {name}: {problem}")


def _problem(value: Any, hint: Any) -> str:
    """What is wrong with the value; "" for nothing."""
    if isinstance(hint, dict):
        return _fields(value, hint)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(value, get_args(hint))
    if origin is Literal:
        return "" if value in get_args(hint) else f"one of {get_args(hint)} is wanted"
    if origin in (list, tuple):
        return _items(value, get_args(hint))
    if origin is dict:
        return _texts(value, get_args(hint)[1])
    if isinstance(hint, type) and issubclass(hint, Value):
        return _record(value, hint)
    return _simple(value, hint)


def _simple(value: Any, hint: Any) -> str:
    if hint is Any or (hint is type(None) and value is None):
        return ""
    if hint is bool:
        return "" if isinstance(value, bool) else "true or false is wanted"
    if hint is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return "" if whole and -_MOST <= value < _MOST else "a whole number of 64 bits is wanted"
    if hint is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return "" if number and abs(value) < _MOST else "a number is wanted"
    if not isinstance(value, str):
        return "a text is wanted" if issubclass(hint, str) else "it is of no use"
    if hint is Script:
        return ""
    if hint is Word and not value.isprintable():
        return "plain text is wanted"
    return "the text is too long" if len(value) > _LONGEST else "a text holds no NUL" if "\0" in value else ""


def _one_of(value: Any, hints: tuple[Any, ...]) -> str:
    problems = [_problem(value, one) for one in hints]
    return "" if "" in problems else problems[0]


def _items(value: Any, hints: tuple[Any, ...]) -> str:
    if not isinstance(value, (list, tuple)):
        return "a list is wanted"
    if hints and hints[-1] is not Ellipsis and len(hints) > 1:
        if len(value) != len(hints):
            return f"a list of {len(hints)} is wanted"
        return next((found for one, hint in zip(value, hints) if (found := _problem(one, hint))), "")
    return next((found for one in value if (found := _problem(one, hints[0]))), "")


def _texts(value: Any, hint: Any) -> str:
    if not isinstance(value, dict):
        return "an object is wanted"
    return next((found for one in value.values() if (found := _problem(one, hint))), "")


def _fields(value: Any, hints: dict[str, Any]) -> str:
    if not isinstance(value, dict):
        return "an object is wanted"
    return _in_fields(value, hints)


def _record(value: Any, kind: type[Value]) -> str:
    if not isinstance(value, dict):
        return "an object is wanted"
    hints = _hints(kind)
    missing = [name for name, _put, default, _nested in kind._slots if default is NEEDS and name not in value]
    return f"{missing[0]} is missing" if missing else _in_fields(value, hints)


def _in_fields(value: dict[str, Any], hints: dict[str, Any]) -> str:
    for name, hint in hints.items():
        if name in value:
            problem = _problem(value[name], hint)
            if problem:
                return f"{name}: {problem}"
    return ""


@cache
def _hints(kind: type[Value]) -> dict[str, Any]:
    known = {
        "Any": Any,
        "Callable": Callable,
        "Usage": Usage,
    }  # that annotations name, and their modules load for types alone
    return {name: hint for name, hint in get_type_hints(kind, localns=known).items() if not name.startswith("_")}
