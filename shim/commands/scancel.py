"""scancel: ends or signals jobs, array tasks and steps. One call to the controller for all that is meant."""

from __future__ import annotations

import os
import sys

from shim.commands import output, site_view
from shim.commands.job_ids import JobId, narrowed, parse_job_id
from shim.control import site
from shim.control.index.query import JobQuery
from shim.core.errors import ALREADY_DONE, INVALID_JOB_ID, ShimError, plain
from shim.core.formats.lists import comma_list, split_outside_brackets
from shim.core.model import states
from shim.core.options.query_options import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Dict, List, Tuple

    from shim.core.model.job import Job
    from shim.core.options.query_options import Values
    from shim.core.routing import ClusterRef

    Ids = List[Tuple[str, JobId]]
    from typing import Any


_PROGRAM = "scancel"
# What is left of Slurm's error numbers in an exit code, by how their texts begin.
_CODES = {
    "Access/permission": 210,
    "Operation not permitted on individual component": 60,
    "Not a valid federated job": 191,
}
_NO_STEP = 225
_KILL = 9
# A job that has ended, or never existed, is no failure; only -v reports it.
_HARMLESS = (INVALID_JOB_ID, ALREADY_DONE)
_NOT_FEDERATED = "Not a valid federated job"
# Slurm takes every state's name, and compares it with all of what it knows of a job: of those that are ending or being made ready the
# base state is a part of that, so their names select nothing.
_SELECTABLE = (states.PENDING, states.RUNNING, states.SUSPENDED)
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


def main(argv: list[str]) -> int:
    """Runs scancel; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    site_view.refuse_options(_PROGRAM, values)
    _signal(values.get("signal"))
    _state(values.get("state"))
    if "me" in values:
        values["user"] = str(os.getuid())
    _uid(values.get("user"))
    clusters = site_view.chosen_clusters(values.get("clusters"))
    ids = _ids(words)
    if len(values.get("verbose", "")) > 2:
        from shim.commands import verbose_options

        output.say(_PROGRAM, *verbose_options.scancel(values, ids))
    filtered = any(values.get(option) for option, _ in _FILTERS)
    if not ids and not filtered:
        raise ShimError("error: No job identification provided")
    real = site_view.real_clusters(clusters)
    if real:
        return _everywhere(argv, values, ids, clusters, real)
    return _here(values, ids, clusters)


def _everywhere(
    argv: list[str], values: Values, ids: list[tuple[str, JobId]], clusters: list[str], real: list[ClusterRef]
) -> int:
    """Some of the clusters are real Slurms: each ends its own jobs."""
    filtered = any(values.get(option) for option, _ in _FILTERS)
    ours, theirs = _divided(ids, real, named=bool(clusters), filtered=filtered)
    names = [name for name in clusters if name not in {ref.name for ref in real}]
    here = bool(names) or (not clusters and (bool(ours) or not ids) and len(real) < len(site.cluster_refs()))
    code = _here(values, ours, names) if here else 0
    if not theirs:
        return code
    interactive = "interactive" in values
    return _cancel_there(argv, real, theirs, alone=not here, interactive=interactive) or code


def _here(values: Values, ids: list[tuple[str, JobId]], clusters: list[str]) -> int:
    """What is for the clusters whose jobs run from here."""
    number = _signal(values.get("signal"))
    state = _state(values.get("state"))
    uid = _uid(values.get("user"))
    filtered = any(values.get(option) for option, _ in _FILTERS)
    unknown = 0
    if filtered or "interactive" in values:
        targets, unknown = _selected(values, ids, state, uid, clusters)
    else:
        targets = [target for word, one in ids for target in _targets_of(word, one)]
    if clusters:
        targets = [target.on(cluster) for cluster in clusters for target in targets]
    return (_cancel(targets, values, number) if targets else 0) or (1 if unknown else 0)


def _ids(words: list[str]) -> list[tuple[str, JobId]]:
    """The ids on the command line. ShimError for the first that is none: then nothing is cancelled."""
    found = []
    for word in words:
        for one in split_outside_brackets(word) or [word]:  # a word that holds no id is none itself
            parsed = parse_job_id(one)
            if parsed is None or (parsed.step is not None and not parsed.step.isdigit()):
                raise ShimError(f"error: Invalid job id {one}")
            found.append((one, parsed))
    return found


def _cancel(targets: list[Target], values: Values, number: int | None) -> int:
    """Sends the request to the controller and reports what failed; the exit code."""
    from shim.control import client

    scope = _scope(values, number)
    if values.get("sibling"):
        reply: dict[str, Any] = {"results": _not_federated(targets)}
    else:
        fields: dict[str, Any] = {"targets": targets, "signal": number, "scope": scope, "uid": os.getuid()}
        reply = client.call("cancel", fields)
    # To signal parts of jobs Slurm looks for all that are named first, and tells of those that it does not find.
    looks = number is not None or scope == "batch" or any(target["step"] is not None for target in targets)
    found, missed = [], []
    for target, result in zip(targets, reply["results"]):
        if looks and result["error"] in _HARMLESS:
            missed.append(target)
        else:
            found.append((target, result))
    if "quiet" not in values:
        output.say(_PROGRAM, *[_failed(target, INVALID_JOB_ID) for target in missed])
    if "verbose" in values:
        _tell([target for target, _ in found], values, number)
    code = 1 if missed else 0
    for target, result in found:
        error = result["error"]
        harmless = not error or error in _HARMLESS
        if not harmless:
            code = next((known for words, known in _CODES.items() if error.startswith(words)), 1)
        if error and "quiet" not in values and ("verbose" in values or not harmless):
            output.say(_PROGRAM, _failed(target, error))
        if result.get("gone"):
            # So Slurm says it, whatever -Q says, and without the step.
            code = _NO_STEP
            output.say(_PROGRAM, f"error: Kill job error on job step id {_name(target, step=False)}: {INVALID_JOB_ID}")
    site_view.warn_deferred(_PROGRAM, reply.get("ordered") or ())
    return code


def _failed(target: Target, error: str) -> str:
    what = "job id" if target["step"] is None else "job step id"
    return f"error: Kill job error on {what} {_name(target)}: {error}"


def _tell(targets: list[Target], values: Values, number: int | None) -> None:
    """-v: what each of them gets."""
    word = "full " if "full" in values else "batch " if "batch" in values else ""
    what = "Terminating" if number is None else f"Signal {number} to"
    output.say(_PROGRAM, *dict.fromkeys(f"{what} {target.called(word)}" for target in targets))


def _scope(values: Values, number: int | None) -> str:
    """Whom it is for. A signal to all (--full) is for the batch shell as well; to be killed first is the shell's own fate."""
    if "batch" in values and ("full" not in values or number in (None, _KILL)):
        return "batch"
    return "full" if "full" in values else "default"


def _name(target: Target, step: bool = True) -> str:
    name = f"{target['job_id']}" if target["task"] is None else f"{target['job_id']}_{target['task']}"
    name += f"+{target['het']}" if "het" in target else ""
    return name if target["step"] is None or not step else f"{name}.{target['step']}"


def _signal(text: str | None) -> int | None:
    if text is None:
        return None
    from shim.core.formats.signals import parse_signal

    try:
        return parse_signal(text)
    except ValueError:
        raise ShimError(plain(f"Unknown job signal: {text}")) from None


def _state(text: str | None) -> str | None:
    if text is None:
        return None
    state = states.state_of(text)
    if state is None:
        raise ShimError(
            plain(f"Invalid job state specified: {text}"),
            plain("Valid job states are PENDING, RUNNING, and SUSPENDED"),
        )
    return state


def _uid(name: str | None) -> int | None:
    if not name:
        return None
    uid = site_view.uid_of(name)
    if uid is None:
        raise ShimError(f"error: Invalid user name: {name}")
    return uid


def _divided(ids: Ids, refs: Sequence[ClusterRef], *, named: bool, filtered: bool) -> Tuple[Ids, Dict[str, List[str]]]:
    """The ids of our jobs; and for each real Slurm, by its name, the ids of its jobs.

    ``named``: -M says that all of them are for each. ``filtered``: filters look for jobs, everywhere unless ids say where.
    """

    from shim.commands import real_slurm

    words = [word for word, _ in ids]
    if named or (filtered and not ids):
        return ids, {ref.name: words for ref in refs}
    found = real_slurm.owners_of((one.job_id for _, one in ids), refs, _PROGRAM)
    ours = [(word, one) for word, one in ids if found[one.job_id] is None]
    theirs: Dict[str, List[str]] = {}
    for word, one in ids:
        ref = found[one.job_id]
        if ref is not None:
            theirs.setdefault(ref.name, []).append(word)
    return ours, theirs


def _cancel_there(
    argv: Sequence[str], refs: Sequence[ClusterRef], theirs: Dict[str, List[str]], *, alone: bool, interactive: bool
) -> int:
    """Runs the real scancel commands; the exit code. ``alone``: nothing else remains to be done, so a single command replaces this process."""
    from shim.commands import real_slurm
    from shim.core.options.to_argv import to_query_argv

    options, _ = to_query_argv(_PROGRAM, argv, ("clusters",))
    meant = [ref for ref in refs if ref.name in theirs]
    if alone and len(meant) == 1:
        real_slurm.become(_PROGRAM, meant[0], [*options, *theirs[meant[0].name]])
    if interactive:
        codes = [real_slurm.run(_PROGRAM, ref, [*options, *theirs[ref.name]]) for ref in meant]
        return next((code for code in codes if code), 0)
    from shim.control.backends.slurm.questions import Question

    return real_slurm.run_all(_PROGRAM, [Question(ref, _PROGRAM, [*options, *theirs[ref.name]]) for ref in meant])


class Target(dict):  # type: ignore[type-arg]
    """One target of the call, with the name that messages use for it."""

    def __init__(
        self, label: str, job_id: int, task: int | None = None, step: str | None = None, het: int | None = None
    ) -> None:
        super().__init__(job_id=job_id, task=task, step=step, **({} if het is None else {"het": het}))
        self.label = label

    def called(self, scope: str = "") -> str:
        """The target in the words of messages; ``scope``: the part of a job that is meant, followed by a blank."""
        return f"{scope}job {self.label}" if self["step"] is None else f"step {self.label}"

    def on(self, cluster: str) -> Target:
        """The same target, restricted to one cluster."""
        found = Target(self.label, self["job_id"], self["task"], self["step"], self.get("het"))
        found["cluster"] = cluster
        return found


def _targets_of(label: str, one: JobId) -> list[Target]:
    """The targets of an id as it was written: the tasks of ``5_[1-3]`` one by one."""
    indexes = one.indexes()
    if indexes is None:
        return [Target(label, one.job_id, step=one.step, het=one.het)]
    return [Target(label, one.job_id, index, one.step) for index in sorted(indexes)]


def _selected(
    values: Values, ids: list[tuple[str, JobId]], state: str | None, uid: int | None, clusters: list[str]
) -> tuple[list[Target], int]:
    """What the filters leave of the jobs that have not ended, and how many ids are unknown; asks about each with -i."""
    reader = site_view.open_index(_PROGRAM)
    wanted = [one for _, one in ids]
    query = JobQuery(
        job_ids=tuple(one.job_id for one in wanted),
        users=() if uid is None else (uid,),
        names=comma_list(values.get("name")),
        partitions=comma_list(values.get("partition")),
    )
    known = reader.jobs(query) if reader is not None else []
    whole = {job.key: job for job in known}
    found: list[Job] = []
    for job in known:
        part = narrowed(job, wanted) if wanted else job
        if part is not None and _fits(part, values, state) and (not clusters or part.cluster in clusters):
            found.append(part)
    unknown = _told_unknown(values, ids, reader.jobs(JobQuery(job_ids=query.job_ids)) if reader and ids else [])
    words = "".join(f"{word}={shown} " for word, shown in filters(values))
    if not found and words and "verbose" in values:
        output.say(_PROGRAM, f"error: No active jobs match ALL job filters, including: {words}")
    chosen = {job.key: _steps_of(job, wanted) for job in found}
    if "interactive" in values:
        chosen = {job.key: [step for step in chosen[job.key] if _confirmed(job, step)] for job in found}
    if values.get("name") or values.get("partition"):
        whole = {}  # what the index left out may belong to the same arrays
    return _targets([job for job in found if chosen[job.key]], whole, chosen), unknown


def filters(values: Values) -> list[tuple[str, str]]:
    """The filters that were given, in Slurm's words and order."""
    said = [(word, values.get(option) or "") for option, word in _FILTERS]
    return [(word, states.state_of(text) or text if word == "state" else text) for word, text in said if text]


def _told_unknown(values: Values, ids: list[tuple[str, JobId]], found: list[Job]) -> int:
    """Reports the ids that no job has, before the user is asked to confirm; their number."""
    unknown = [(word, one) for word, one in ids if not any(narrowed(job, [one]) is not None for job in found)]
    if "quiet" not in values:
        for word, one in unknown:
            what = "job id" if one.step is None else "job step id"
            output.say(_PROGRAM, f"error: Kill job error on {what} {word}: {_HARMLESS[0]}")
    return len(unknown)


def _not_federated(targets: list[Target]) -> list[dict[str, str]]:
    """The results for targets of --sibling: jobs here have no siblings on other clusters, so Slurm's error for each."""
    reader = site_view.open_index(_PROGRAM)
    found = reader.jobs(JobQuery(job_ids=tuple(target["job_id"] for target in targets))) if reader is not None else []
    alive = {number for job in found for number in (job.job_id, job.array_job_id)}
    return [{"error": _NOT_FEDERATED if target["job_id"] in alive else _HARMLESS[0]} for target in targets]


def _steps_of(job: Job, wanted: list[JobId]) -> list[str | None]:
    """The steps that ids name of this job; None: the job itself."""
    return list(dict.fromkeys(one.step for one in wanted if narrowed(job, [one]) is not None)) or [None]


def _targets(found: list[Job], whole: dict[int, Job], chosen: dict[int, list[str | None]]) -> list[Target]:
    """The call's targets for these records: an array's rest is named task by task unless it is all that is left of it.

    ``whole``: every record there is, as far as that is known, by key; ``chosen``: the steps that are meant.
    """
    targets: list[Target] = []
    leaders = {job.het_job_id for job in found if not job.het_offset}
    for job in found:
        if job.het_offset and job.het_job_id in leaders:
            continue  # meant with its leader
        label = job.array_label
        steps = [(step, label if step is None else f"{label}.{step}") for step in chosen[job.key]]
        if job.array_task_id is not None:
            targets += [Target(name, job.array_job_id, job.array_task_id, step) for step, name in steps]
        elif job.array_tasks is None:
            targets += [Target(name, job.job_id, None, step) for step, name in steps]
        elif job == whole.get(job.key) and not any(
            other.array_job_id == job.array_job_id for key, other in whole.items() if key != job.key
        ):
            targets.append(Target(label, job.array_job_id))
        else:
            one = JobId(job_id=job.array_job_id, tasks=job.array_tasks)
            targets += _targets_of(label, one)
    return targets


def _fits(job: Job, values: Values, state: str | None) -> bool:
    request = job.request
    for option, value in (
        ("account", request.account),
        ("qos", request.qos),
        ("reservation", request.reservation),
        ("wckey", request.wckey),
    ):
        if values.get(option) and value not in comma_list(values[option]):
            return False
    if state is not None and not (job.state == state and state in _SELECTABLE):
        return False
    nodes = values.get("nodelist")
    if nodes:
        from shim.core.formats import hostlist

        try:
            names = set(hostlist.expand(nodes))
        except hostlist.HostlistError:
            return False
        return any(share.name in names for share in job.shares if not share.planned)
    return True


def _confirmed(job: Job, step: str | None) -> bool:
    """The user's answer; the end of the input means no."""
    if sys.stdin is None:
        return False
    what = f"job_id={job.array_label}" if step is None else f"step_id={job.array_label}.{step}"
    while True:
        sys.stdout.write(f"Cancel {what} name={job.name} partition={job.partition} [y/n]? ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer or answer[:1] in "nN":
            return False
        if answer[:1] in "yY":
            return True
