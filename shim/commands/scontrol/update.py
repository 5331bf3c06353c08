"""``scontrol update``: which entity is meant, and the fields of a job."""

from __future__ import annotations

import os

from shim.commands import output, site_view
from shim.commands.job_ids import JobId, narrowed, parse_job_id
from shim.commands.scontrol.actions import call, report, targets
from shim.commands.scontrol.session import pairs
from shim.commands.scontrol.update_words import read_word
from shim.control.index.query import JobQuery
from shim.core.errors import INVALID_JOB_ID, ShimError, Unsupported, plain
from shim.core.formats.integers import leading_int
from shim.core.formats.lists import split_outside_brackets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.commands.scontrol.session import Session
    from shim.core.model.job import Job

# What the words of an update may name, with the fewest letters that are understood; of several the first wins.
_ENTITIES = (
    ("job", (("jobid", 1), ("jobname", 5))),
    ("step", (("stepid", 4),)),
    ("reservation", (("reservationname", 3),)),
    ("node", (("nodename", 3),)),
    ("partition", (("partitionname", 3),)),
    ("slurmctlddebug", (("slurmctlddebug", 2),)),
)
_SIZES = frozenset(("NumNodes", "NodeList", "ReqNodeList"))
_UNLIMITED = (1 << 32) - 1  # minutes, as Slurm words them in its errors


def update(session: Session, words: list[str]) -> int:
    """Changes what the words name; the exit code."""
    if not words:
        raise ShimError(plain("too few arguments for update keyword"))
    entity = entity_of(words)
    if entity == "job":
        return _job(session, words)
    if entity is None:
        raise ShimError(
            plain("No valid entity in update command"),
            plain('Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'),
        )
    if entity == "step":
        return _step(session, words)
    if entity in ("node", "partition"):
        from shim.commands.scontrol import update_site as site

        return site.node(session, words) if entity == "node" else site.partition(session, words)
    raise Unsupported(f"error: update of a {entity} is not supported here")


def entity_of(words: list[str]) -> str | None:
    """What an update is about: any of its words may name that."""
    tags = [word.partition("=")[0].lower() for word in words]
    for entity, names in _ENTITIES:
        for name, fewest in names:
            if any(len(tag) >= fewest and name.startswith(tag) for tag in tags):
                return entity
    return None


class _JobChanges:
    """The changes that an update asks for, collected word by word."""

    def __init__(self, cluster: str | None) -> None:
        self.cluster = cluster
        self.ids: str | None = None
        self.fields: dict[str, str] = {}

    def take(self, key: str, value: str | None, word: str) -> None:
        if value is None:
            raise ShimError(plain(f"Invalid input: {word}"), plain("Request aborted"))
        sign = key[-1:] if key[-1:] in ("+", "-") else ""
        name, value = read_word(key[:-1] if sign else key, value, word)
        if name == "TimeLimit":
            value = self._time_limit(sign, value)
        elif sign:
            raise ShimError(f"error: Option {word} does not accept [+|-]= syntax")
        if name == "JobId":
            self.ids = value
        elif name != "UserID":  # who may ask is decided by who asks
            self.fields[name] = value

    def _time_limit(self, sign: str, value: str) -> str:
        """``30``, or ``+30`` and ``-30`` for what is to be added and taken away."""
        if value[:1] in ("+", "-"):
            if sign:
                raise ShimError("error: Invalid syntax, variations of +=- are not accepted.")
            sign, value = value[:1], value[1:]
        minutes = _minutes("TimeLimit", value)
        if not sign:
            return value
        if self.ids is None:
            raise ShimError("error: JobId must precede TimeLimit increment or decrement")
        old = self._limit()
        if sign == "-" and 0 <= old < (minutes if minutes >= 0 else _UNLIMITED):
            more = minutes if minutes >= 0 else _UNLIMITED
            raise ShimError(f"error: TimeLimit decrement larger than current time limit ({more} > {old})")
        return sign + value

    def _limit(self) -> int:
        """The job's current time limit in minutes; negative without a limit."""
        jobs = _one_job(self.ids or "", self.cluster)
        if not jobs:
            raise _not_loaded(self.ids)
        return -1 if jobs[0].time_limit is None else jobs[0].time_limit


def _job(session: Session, words: list[str]) -> int:
    """``update jobid=33 timelimit=5 name=x``, ``update job 33 …``, ``update jobname=x …``."""
    asked = _JobChanges(session.cluster)
    for key, value, word in pairs(words):
        asked.take(key, value, word)
    if asked.ids is None:
        return _named(session, asked.fields)
    if not asked.fields:
        raise ShimError(plain("No changes specified"))
    resized = not _SIZES.isdisjoint(asked.fields)
    if resized:
        _check_alone(asked.ids, session.cluster)
    ids = split_outside_brackets(asked.ids)
    code = report("update", call("update", ids, {"fields": asked.fields}, session.cluster))
    if resized and not code:
        _write_resize(asked.ids, session.cluster)
    return code


def _one_job(ids: str, cluster: str | None) -> list[Job]:
    """The records of the single job that ``ids`` names. ShimError if the text is not a single job id."""
    one = parse_job_id(ids)
    if one is None or "[" in ids:
        raise ShimError(f"error: Invalid job ID {ids}")
    reader = site_view.open_index("scontrol")
    query = JobQuery(cluster=cluster or "", job_ids=(one.job_id,), active=False)
    known = reader.jobs(query) if reader is not None else []
    return [part for part in (narrowed(job, [one]) for job in known) if part is not None]


def _not_loaded(ids: str | None) -> ShimError:
    return ShimError(f"error: Could not load state information for job {ids}: {INVALID_JOB_ID}")


def _check_alone(ids: str, cluster: str | None) -> None:
    """Raises ShimError unless the job exists: sizes can be changed for a single job only."""
    if not _one_job(ids, cluster):
        raise _not_loaded(ids)


def _write_resize(ids: str, cluster: str | None) -> None:
    """In a job: scripts that bring a shell's variables up to date, for sh and csh."""
    if "SLURM_JOBID" not in os.environ:
        return
    jobs = _one_job(ids, cluster)
    if not jobs or not jobs[0].shares:
        output.say("", "slurm_allocation_lookup: Job is pending execution")
        return
    from shim.core.environ.job import resize_scripts

    for ending, text in resize_scripts(jobs[0], os.environ):
        name = f"slurm_job_{jobs[0].job_id}_resize.{ending}"
        try:
            if os.path.lexists(name):
                os.unlink(name)
            with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            output.say("", f"Could not create file {name}: {error.strerror}")
            return
    output.put(
        [
            "To reset Slurm environment variables, execute",
            f"  For bash or sh shells:  . ./slurm_job_{jobs[0].job_id}_resize.sh",
            f"  For csh shells:         source ./slurm_job_{jobs[0].job_id}_resize.csh",
        ]
    )


def _step(session: Session, words: list[str]) -> int:
    """``update stepid=33.0 timelimit=5``, ``+5``, ``-5``; of a whole job's steps without the dot."""
    target = minutes = None
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            lines = (f"Invalid input: {word}", "Request aborted", "slurm_update error: No error")
            raise ShimError(*map(plain, lines))
        if len(key) > 3 and "stepid".startswith(key.lower()):
            job, _, step = value.partition(".")
            one = parse_job_id(job)
            if one is None:
                raise ShimError(plain(f"Invalid StepID parameter: {word}"), plain("Request aborted"))
            step = step if step in ("", "batch", "extern", "interactive") else str(leading_int(step)[0] or 0)
            target = targets(one.replace(step=step or None), session.cluster)[0]
        elif len(key) > 1 and "timelimit".startswith(key.lower()):
            minutes = _step_limit(target, value)
        else:
            raise ShimError(plain(f"Update of this parameter is not supported: {word}"), plain("Request aborted"))
    if target is None or minutes is None:
        raise ShimError(plain("No changes specified"))
    from shim.control import client

    if minutes:  # Slurm takes 0 for no word of it
        client.call("update_step", {"target": target, "minutes": minutes})
    return 0


def _step_limit(target: dict[str, Any] | None, value: str) -> int:
    """The minutes that ``30``, ``+30`` or ``-30`` make of the limit of the step that was named before; below 0: none."""
    from shim.core.formats.times import parse_seconds_any

    sign, text = (value[:1], value[1:]) if value[:1] in ("+", "-") else ("", value)
    minutes = _minutes("TimeLimit", "" if text[:1] in ("+", "-") else text)
    if minutes < 0 and parse_seconds_any(text) == 0:
        minutes = 0  # of a job no limit
    if not sign:
        return minutes
    old = _limit_of_step(target)
    if sign == "-" and 0 <= old < (minutes if minutes >= 0 else _UNLIMITED):
        more = minutes if minutes >= 0 else _UNLIMITED
        raise ShimError(f"error: TimeLimit decrement larger than current time limit ({more} > {old})")
    if old < 0 or minutes < 0:
        return -1  # as of a job: what has no limit keeps none
    return old + minutes if sign == "+" else old - minutes


def _limit_of_step(target: dict[str, Any] | None) -> int:
    """The current limit in minutes; negative without one. Where there is no such step Slurm fails without a word."""
    if target is None or target["step"] is None:
        raise ShimError()
    wanted = JobId(job_id=target["job_id"], tasks=None if target["task"] is None else str(target["task"]))
    reader = site_view.open_index("scontrol")
    known = reader.jobs(JobQuery(job_ids=(wanted.job_id,), active=False)) if reader is not None else []
    jobs = [part for part in (narrowed(job, [wanted]) for job in known) if part is not None]
    if not jobs:
        name = f"{wanted.job_id}.{target['step']}"
        raise ShimError(f"error: Could not load state information for step {name}: {INVALID_JOB_ID}")
    for _job, step in site_view.running_steps(reader, jobs):
        if step.step_id == target["step"]:
            return -1 if step.time_limit is None else step.time_limit
    raise ShimError()


def _named(session: Session, fields: dict[str, str]) -> int:
    """Without an id the name says which of the caller's jobs are meant."""
    name = fields.pop("JobName", "") or fields.pop("Name", "")
    reader = site_view.open_index("scontrol")
    query = JobQuery(cluster=session.cluster or "", names=(name,), users=(os.getuid(),))
    ids = _ids(reader.jobs(query)) if reader is not None and name else []
    if not ids:
        raise ShimError(f"error: No jobs with name '{name}'")
    return report("update", call("update", ids, {"fields": fields}, session.cluster)) if fields else 0


def _ids(jobs: list[Job]) -> list[str]:
    return list(dict.fromkeys(str(job.array_job_id or job.het_job_id or job.job_id) for job in jobs))


def _minutes(name: str, value: str) -> int:
    from shim.core.formats.times import parse_minutes

    try:
        return parse_minutes(value)
    except ValueError:
        raise ShimError(f"error: Invalid {name} value") from None
