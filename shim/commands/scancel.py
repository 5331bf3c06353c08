"""scancel: ends or signals jobs, array tasks and steps. One call to the controller for all that is meant."""

from __future__ import annotations

import os
import sys

from shim.commands import elsewhere, reading
from shim.commands.job_ids import JobId, narrowed, parse_job_id, split_ids
from shim.control import site
from shim.control.index.query import JobQuery
from shim.core.errors import ShimError, plain
from shim.core.model import states
from shim.core.options.query import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.core.model.job import Job
    from shim.core.routing import Place

_PROGRAM = "scancel"
# What is left of Slurm's error numbers in an exit code, by how their texts begin.
_CODES = {"Access/permission": 210, "Operation not permitted on individual component": 60}
# What happened already, or was never there, is no failure; only -v tells.
_HARMLESS = ("Invalid job id specified", "Job/step already completing or completed")
# Filters in the order in which Slurm lists them, with its words for them.
_FILTERS = (
    ("account", "account"),
    ("name", "job_name"),
    ("nodelist", "nodelist"),
    ("partition", "partition"),
    ("qos", "qos"),
    ("reservation", "reservation"),
    ("state", "state"),
    ("user", "user_name"),
    ("wckey", "wckey"),
)


class Wish(dict):  # type: ignore[type-arg]
    """One target of the call, with the name that messages use for it."""

    def __init__(
        self, label: str, job_id: int, task: int | None = None, step: str | None = None, het: int | None = None
    ) -> None:
        super().__init__(job_id=job_id, task=task, step=step, **({} if het is None else {"het": het}))
        self.label = label

    def on(self, cluster: str) -> Wish:
        """The same of one cluster only."""
        found = Wish(self.label, self["job_id"], self["task"], self["step"], self.get("het"))
        found["cluster"] = cluster
        return found


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
    filtered = any(values.get(option) for option, _ in _FILTERS)
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

    filtered = any(values.get(option) for option, _ in _FILTERS)
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
    filtered = any(values.get(option) for option, _ in _FILTERS)
    if filtered or "interactive" in values:
        wishes = _selected(values, ids, state, uid, clusters)
        if wishes is None:
            return 1
    else:
        wishes = [wish for word, one in ids for wish in _wishes(word, one)]
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


def _wishes(label: str, one: JobId) -> list[Wish]:
    indexes = one.indexes()
    if indexes is None:
        return [Wish(label, one.job_id, step=one.step, het=one.het)]
    return [Wish(label, one.job_id, index, one.step) for index in sorted(indexes)]


def _selected(
    values: dict[str, str], ids: list[tuple[str, JobId]], state: str | None, uid: int | None, clusters: list[str]
) -> list[Wish] | None:
    """What the filters leave of the jobs that have not ended; asks about each with -i. None after an unknown id."""
    reader = reading.open_index(_PROGRAM)
    wanted = [one for _, one in ids]
    query = JobQuery(
        job_ids=tuple(one.job_id for one in wanted),
        users=() if uid is None else (uid,),
        names=_words(values.get("name")),
        partitions=_words(values.get("partition")),
    )
    known = reader.jobs(query) if reader is not None else []
    whole = {job.key: job for job in known}
    found: list[Job] = []
    for job in known:
        part = narrowed(job, wanted) if wanted else job
        if part is not None and _fits(part, values, state) and (not clusters or part.cluster in clusters):
            found.append(part)
    if wanted and not found and "interactive" in values:
        reading.complain(_PROGRAM, [f"error: Kill job error on job id {word}: {_HARMLESS[0]}" for word, _ in ids])
        return None
    if not found and "verbose" in values:
        said = dict(values)
        if "me" in values:
            said["user"] = str(os.getuid())  # Slurm names who asks by number
        words = "".join(f"{word}={said[option]} " for option, word in _FILTERS if said.get(option))
        reading.complain(_PROGRAM, [f"error: No active jobs match ALL job filters, including: {words}"])
    if "interactive" in values:
        found = [job for job in found if _confirmed(job)]
    steps = {one.step for one in wanted}
    if values.get("name") or values.get("partition"):
        whole = {}  # what the index left out may belong to the same arrays
    return _targets(found, whole, steps if steps != {None} else set())


def _targets(found: list[Job], whole: dict[int, Job], steps: set[str | None]) -> list[Wish]:
    """The call's targets for these records: an array's rest is named task by task unless it is all that is left of it.

    ``whole``: every record there is, as far as that is known, by key.
    """
    wishes: list[Wish] = []
    leaders = {job.het_job_id for job in found if not job.het_offset}
    for job in found:
        if job.het_offset and job.het_job_id in leaders:
            continue  # meant with its leader
        chosen: list[str | None] = [*steps] or [None]
        if job.array_task_id is not None:
            wishes += [Wish(job.array_label, job.array_job_id, job.array_task_id, step) for step in chosen]
        elif job.array_tasks is None:
            wishes += [Wish(str(job.job_id), job.job_id, None, step) for step in chosen]
        elif job == whole.get(job.key) and not any(
            other.array_job_id == job.array_job_id for key, other in whole.items() if key != job.key
        ):
            wishes.append(Wish(str(job.array_job_id), job.array_job_id))
        else:
            one = JobId(job_id=job.array_job_id, tasks=job.array_tasks)
            wishes += _wishes(job.array_label, one)
    return wishes


def _fits(job: Job, values: dict[str, str], state: str | None) -> bool:
    request = job.request
    for option, value in (
        ("account", request.account),
        ("qos", request.qos),
        ("reservation", request.reservation),
        ("wckey", request.wckey),
    ):
        if values.get(option) and value not in _words(values[option]):
            return False
    if state is not None and job.state != state:
        return False
    nodes = values.get("nodelist")
    if nodes:
        from shim.core import hostlist

        try:
            names = set(hostlist.expand(nodes))
        except hostlist.HostlistError:
            return False
        return any(share.name in names for share in job.shares)
    return True


def _confirmed(job: Job) -> bool:
    """The user's answer; the end of the input means no."""
    if sys.stdin is None:
        return False
    while True:
        sys.stdout.write(f"Cancel job_id={job.array_label} name={job.name} partition={job.partition} [y/n]? ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer or answer[:1] in "nN":
            return False
        if answer[:1] in "yY":
            return True


def _cancel(wishes: list[Wish], values: dict[str, str], number: int | None) -> int:
    """Makes the call and tells what failed; the exit code."""
    from shim.control import client

    verbose = "verbose" in values
    scope = "batch" if "batch" in values else "full" if "full" in values else "default"
    if verbose and scope == "default" and number is None:
        labels = dict.fromkeys(wish.label for wish in wishes if wish["step"] is None)
        reading.complain(_PROGRAM, [f"Terminating job {label}" for label in labels])
    fields: dict[str, Any] = {"targets": wishes, "signal": number, "scope": scope, "uid": os.getuid()}
    results = client.call("cancel", fields)["results"]
    code = 0
    for wish, result in zip(wishes, results):
        error = result["error"]
        if not error:
            continue
        harmless = error in _HARMLESS
        if not harmless:
            code = next((known for words, known in _CODES.items() if error.startswith(words)), 1)
        if "quiet" not in values and (verbose or not harmless):
            what = "job id" if wish["step"] is None else "job step id"
            reading.complain(_PROGRAM, [f"error: Kill job error on {what} {_name(wish)}: {error}"])
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


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word) if text else ()
