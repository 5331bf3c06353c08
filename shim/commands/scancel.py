"""scancel: ends or signals jobs, array tasks and steps. One call to the controller for all that is meant."""

from __future__ import annotations

import os

from shim.commands import elsewhere, reading
from shim.commands.job_ids import JobId, parse_job_id, split_ids
from shim.commands.scancel_select import FILTERS, HARMLESS, Wish, selected, wishes_of
from shim.control import site
from shim.core.errors import ShimError, plain
from shim.core.model import states
from shim.core.options.query import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.core.routing import Place

_PROGRAM = "scancel"
# What is left of Slurm's error numbers in an exit code, by how their texts begin.
_CODES = {"Access/permission": 210, "Operation not permitted on individual component": 60}


def main(argv: list[str]) -> int:
    """Runs scancel; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if reading.answered(_PROGRAM, values):
        return 0
    _signal(values.get("signal"))
    _state(values.get("state"))
    if "me" in values:
        values["user"] = _own_name()
    _uid(values.get("user"))
    clusters = reading.chosen_clusters(values.get("clusters"))
    ids = _ids(words)
    filtered = any(values.get(option) for option, _ in FILTERS)
    if not ids and not filtered:
        raise ShimError("error: No job identification provided")
    real = elsewhere.real(clusters)
    if real:
        return _everywhere(argv, values, ids, clusters, real)
    return _here(values, ids, clusters)


def _everywhere(
    argv: list[str], values: dict[str, str], ids: list[tuple[str, JobId]], clusters: list[str], real: list[Place]
) -> int:
    """Some of the clusters are real Slurms: each ends its own jobs."""
    from shim.commands import scancel_elsewhere

    filtered = any(values.get(option) for option, _ in FILTERS)
    ours, theirs = scancel_elsewhere.divided(ids, real, named=bool(clusters), filtered=filtered)
    names = [name for name in clusters if name not in {place.name for place in real}]
    here = bool(names) or (not clusters and (bool(ours) or not ids) and len(real) < len(site.places()))
    code = _here(values, ours, names) if here else 0
    if not theirs:
        return code
    interactive = "interactive" in values
    return scancel_elsewhere.cancel(argv, real, theirs, alone=not here, interactive=interactive) or code


def _here(values: dict[str, str], ids: list[tuple[str, JobId]], clusters: list[str]) -> int:
    """What is for the clusters whose jobs run from here."""
    number = _signal(values.get("signal"))
    state = _state(values.get("state"))
    uid = _uid(values.get("user"))
    filtered = any(values.get(option) for option, _ in FILTERS)
    if filtered or "interactive" in values:
        wishes = selected(values, ids, state, uid, clusters)
        if wishes is None:
            return 1
    else:
        wishes = [wish for word, one in ids for wish in wishes_of(word, one)]
    if clusters:
        wishes = [wish.on(cluster) for cluster in clusters for wish in wishes]
    return _cancel(wishes, values, number) if wishes else 0


def _ids(words: list[str]) -> list[tuple[str, JobId]]:
    """The ids on the command line. ShimError for the first that is none: then nothing is cancelled."""
    found = []
    for word in words:
        for one in split_ids(word):
            parsed = parse_job_id(one)
            if parsed is None or (parsed.step is not None and not parsed.step.isdigit()):
                raise ShimError(f"error: Invalid job id {one}")
            found.append((one, parsed))
        if not split_ids(word):
            raise ShimError(f"error: Invalid job id {word}")
    return found


def _cancel(wishes: list[Wish], values: dict[str, str], number: int | None) -> int:
    """Makes the call and tells what failed; the exit code."""
    from shim.control import client

    verbose = "verbose" in values
    scope = "batch" if "batch" in values else "full" if "full" in values else "default"
    if verbose and scope == "default" and number is None:
        labels = dict.fromkeys(wish.label for wish in wishes if wish["step"] is None)
        reading.complain(_PROGRAM, [f"Terminating job {label}" for label in labels])
    fields: dict[str, Any] = {"targets": wishes, "signal": number, "scope": scope, "uid": os.getuid()}
    reply = client.call("cancel", fields)
    code = 0
    for wish, result in zip(wishes, reply["results"]):
        error = result["error"]
        if not error:
            continue
        harmless = error in HARMLESS
        if not harmless:
            code = next((known for words, known in _CODES.items() if error.startswith(words)), 1)
        if "quiet" not in values and (verbose or not harmless):
            what = "job id" if wish["step"] is None else "job step id"
            reading.complain(_PROGRAM, [f"error: Kill job error on {what} {_name(wish)}: {error}"])
    reading.say_untold(_PROGRAM, reply.get("ordered") or ())
    return code


def _name(wish: Wish) -> str:
    name = f"{wish['job_id']}" if wish["task"] is None else f"{wish['job_id']}_{wish['task']}"
    name += f"+{wish['het']}" if "het" in wish else ""
    return name if wish["step"] is None else f"{name}.{wish['step']}"


def _signal(text: str | None) -> int | None:
    if text is None:
        return None
    from shim.core.signals import parse_signal

    try:
        return parse_signal(text)
    except ValueError:
        raise ShimError(plain(f"Unknown job signal: {text}")) from None


def _state(text: str | None) -> str | None:
    if not text:
        return None
    state = states.state_of(text)
    if state not in (states.PENDING, states.RUNNING, states.SUSPENDED):
        raise ShimError(
            plain(f"Invalid job state specified: {text}"),
            plain("Valid job states are PENDING, RUNNING, and SUSPENDED"),
        )
    return state


def _own_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _uid(name: str | None) -> int | None:
    if not name:
        return None
    uid = reading.uid_of(name)
    if uid is None:
        raise ShimError(f"error: Invalid user name: {name}")
    return uid
