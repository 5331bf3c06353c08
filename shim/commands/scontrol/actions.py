"""The verbs of scontrol that change jobs: hold, release, requeue, suspend, resume, top; and write. Each is a single request to the controller."""

from __future__ import annotations

import os
import sys

from shim.commands import output, site_view
from shim.commands.job_ids import JobId, parse_job_id
from shim.control.index.query import JobQuery
from shim.core.errors import INVALID_JOB_ID, ShimError, plain
from shim.core.formats.lists import split_outside_brackets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.commands.scontrol.session import Session

_OPERATIONS = {"holdu": "hold", "uhold": "hold", "release": "release_job"}
_SUMMED_UP = ("hold", "release_job")  # these end with a line of their own after a failure


def act(session: Session, verb: str, words: list[str]) -> int:
    """Does ``verb`` to what the words name; the exit code."""
    if verb == "write":
        return _write(words)
    if not words:
        raise ShimError(plain(f"too few arguments for keyword:{verb}"))
    operation = _OPERATIONS.get(verb, verb)
    fields: dict[str, Any] = {"user_hold": True} if verb in ("holdu", "uhold") else {}
    if verb in ("requeue", "requeuehold"):
        words = _how_requeued(verb, words, fields)
        if not words:
            return 0
    if verb == "top" and len(words) > 1:
        raise ShimError(plain("too many arguments for keyword:top"))
    names = _names(words)
    if names is not None:
        words = _jobs_named(names, session.cluster)
        if not words:
            raise ShimError(plain("slurm_suspend error: No error"))
    return report(operation, call(operation, _listed(words), fields, session.cluster))


def _how_requeued(verb: str, words: list[str], fields: dict[str, Any]) -> list[str]:
    """The words behind ``incomplete`` and ``State=SpecialExit``, which go into the request's fields."""
    rest = list(words)
    while rest:
        first = rest[0].lower()
        if first == "incomplete":
            fields["incomplete"] = True
        elif first == "state=specialexit":
            fields["special"] = verb == "requeuehold"
        else:
            break
        rest.pop(0)
    return rest


def _listed(words: list[str]) -> list[str]:
    """The ids in ``33,34``, ``33 34``, ``job=33``, ``JobId=33``."""
    found: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        found.extend(split_outside_brackets(value if equals and key.lower() in ("job", "jobid") else word))
    return found


def _names(words: list[str]) -> list[str] | None:
    """The names in ``jobname=a,b``; None where ids are given."""
    key, equals, value = words[0].partition("=")
    return value.split(",") if equals and key.lower() in ("jobname", "name") else None


def _jobs_named(names: list[str], cluster: str | None) -> list[str]:
    """Ids of the caller's waiting jobs of these names; an array once."""
    reader = site_view.open_index("scontrol")
    if reader is None:
        return []
    jobs = reader.jobs(JobQuery(cluster=cluster or "", names=tuple(names), states=("PENDING",), users=(os.getuid(),)))
    return list(dict.fromkeys(str(job.array_job_id or job.het_job_id or job.job_id) for job in jobs))


def call(operation: str, words: list[str], fields: dict[str, Any], cluster: str | None) -> list[tuple[str, str | None]]:
    """Sends the operation for these ids; each id as it was given, with its error or None. Malformed ids are not sent."""
    from shim.control import client

    parsed = [(word, parse_job_id(word)) for word in words]
    asked = [target for _, one in parsed if one is not None for target in targets(one, cluster)]
    reply = client.call(operation, {"targets": asked, **fields}) if asked else {"results": []}
    results = iter(reply["results"])
    found: list[tuple[str, str | None]] = []
    for word, one in parsed:
        told = [next(results) for _ in targets(one, cluster)] if one is not None else [{"error": INVALID_JOB_ID}]
        output.say("scontrol", *dict.fromkeys(str(result["why"]) for result in told if result.get("why")))
        found.append((word, next((result["error"] for result in told if result["error"]), None)))
    site_view.warn_deferred("scontrol", reply.get("ordered") or ())
    return found


def targets(one: JobId, cluster: str | None) -> list[dict[str, Any]]:
    """The targets of a request for this id: each task of ``5_[1-3]`` is a target."""
    indexes = one.indexes()
    tasks: list[int | None] = [None] if indexes is None else [*sorted(indexes)]
    own: dict[str, Any] = {} if cluster is None else {"cluster": cluster}
    if one.het is not None:
        own["het"] = one.het
    return [{"job_id": one.job_id, "task": task, "step": one.step, **own} for task in tasks]


def report(operation: str, results: list[tuple[str, str | None]]) -> int:
    """Prints Slurm's lines for the ids that failed; 1 if any failed."""
    failed = [(word, error) for word, error in results if error]
    for word, error in failed:
        output.say("", f"{error} for job {word}")
    if failed and operation in _SUMMED_UP:
        output.say("", f"slurm_suspend error: {failed[-1][1]}")
    return 1 if failed else 0


def _write(words: list[str]) -> int:
    """``write batch_script ID [FILE|-]``: Slurm's exit code is 0 also for an id that is none."""
    if not words:
        raise ShimError(plain("too few arguments for keyword:write"))
    what, equals, value = words[0].partition("=")
    if len(what) < 5 or not "batch_script".startswith(what.lower()):
        raise ShimError(plain(f"invalid write argument:{words[0]}"))
    words = [value, *words[1:]] if equals else words[1:]
    if not words:
        return 0
    one = parse_job_id(words[0])
    script = None
    if one is not None:
        from shim.control import client, paths

        try:
            script = client.call("script", {"job_id": one.job_id})["script"]
        except (client.Unreachable, paths.NotOurs):
            raise
        except ShimError:
            script = None
    if script is None:
        output.say("", f"job script retrieval failed: {INVALID_JOB_ID}")
        return 0
    if words[1:] == ["-"]:
        sys.stdout.write(script)
        return 0
    name = words[1] if len(words) > 1 else f"slurm-{words[0]}.sh"
    try:
        with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "wb") as file:
            file.write(script.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise ShimError(f"error: failed to open file `{name}`: {error.strerror}") from None
    output.put([f"batch script for job {words[0]} written to {name}"])
    return 0
