"""Why a job waits, or ended as it did, in a sentence or two, and what its user may do about it: for `shim why`."""

from __future__ import annotations

import os.path
import signal
from math import ceil

from shim.core.formats import hostlist
from shim.core.formats.dependency import Dependency
from shim.core.formats.times import show_elapsed, show_minutes, stamp
from shim.core.model import states
from shim.core.placement.resolve import resolve
from shim.core.render.node_state import uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job, Step
    from shim.core.model.usage import Usage

    # The records of a job that another job depends on; none for a job that is forgotten.
    Known = Callable[[int], Sequence[Job]]

NEVER = 300 * 86400  # seconds: a start that is expected later than that hangs on a job without a time limit
_HELD_UP = {
    "Priority": "Jobs before it in the queue wait for resources of the same partition.",
    "JobHeldUser": "Its user holds it: scontrol release {id} lets it go.",
    "job requeued in held state": "It was requeued and is held: scontrol release {id} lets it go.",
    "JobHeldAdmin": "An operator holds it; only an operator may release it (scontrol release {id}).",
    "PartitionDown": "Its partition {partition} is down: jobs wait until an operator sets it up again.",
    "PartitionInactive": "Its partition {partition} is inactive: jobs wait until an operator sets it up again.",
    "PartitionTimeLimit": "Its time limit ({limit}) is above what partition {partition} allows. It will never start as it is:"
    " scontrol update JobId={id} TimeLimit=… lowers it.",
    "PartitionNodeLimit": "It asks for {nodes} node(s), more than partition {partition} gives to a job. It will never start as it is.",
    "PartitionConfig": "Partition {partition} is not for its user, group or submit host, or has less than it asks for, however idle it is."
    " It will never start as it is.",
    "MaxMemPerLimit": "It asks for more memory of a node than partition {partition} allows. It will never start as it is.",
    "BadConstraints": "No nodes have all the features, or are in the list, that it asks for. It will never start as it is.",
    "Licenses": "Licences that it asks for ({licenses}) are in use.",
    "JobArrayTaskLimit": "As many tasks of its array run as the array allows at once (--array=…%N);"
    " scontrol update JobId={array} ArrayTaskThrottle=… changes that.",
    "DependencyNeverSatisfied": "What it depends on can come true no more. It will never start: scancel {id}, or scontrol update"
    " JobId={id} Dependency=….",
    "ReqNodeNotAvail": "Nodes that it asks for are out of service.",
}
_ENDS = {
    states.NODE_FAIL: "A node of it was lost, or its processes were killed from outside.",
    states.BOOT_FAIL: "Its nodes did not come up in time.",
    states.PREEMPTED: "It had to make room for another job.",
    states.DEADLINE: "It could not end before its --deadline.",
}
_SHOWN_SIZES, _SHOWN_JOBS = 4, 3  # at most, of what is free and of who holds the rest
_CODES = {
    126: "the shell found a command that it could not execute: is its file executable, and its interpreter there?",
    127: "the shell did not find a command: modules, PATH, or a missing interpreter in the first line of a program",
}


def waiting(job: Job, cluster: Cluster, running: Iterable[Job], known: Known, now: float) -> list[str]:
    """Why a pending job waits. ``running``: all that holds resources of its cluster."""
    reason = job.reason.partition(",")[0]
    if job.dependency or reason == "Dependency":
        lines = [f"It waits for {text}" for text in _depends(job, known)] or ["It waits for other jobs."]
        lines += [_HELD_UP[reason].format(**_words(job))] if reason == "DependencyNeverSatisfied" else []
    elif reason == "BeginTime":
        why = f"its entry of scrontab: {job.request.cron}" if job.request.cron else "--begin, or a requeue"
        lines = [f"It may not start before {stamp(job.request.begin or job.eligible_time)} ({why})."]
    elif reason in ("Resources", "None"):
        lines = _resources(job, cluster, running)
    else:
        lines = [_HELD_UP.get(reason, "").format(**_words(job)) or f"{job.reason}."]
    if reason.startswith("Nodes required") or reason == "ReqNodeNotAvail":
        lines = [f"Nodes that it needs are out of service: {_out_of_service(cluster)}."]
    if job.system_comment:
        lines.append(f"The cluster says: {job.system_comment}")
    if job.held:
        pass  # the scheduler does not look at it
    elif job.start_time > now + NEVER:
        lines.append("When it will start is not known: what is before it has no time limit.")
    elif job.start_time > now:
        lines.append(
            f"It is expected to start at {stamp(job.start_time)}, if the jobs before it use all of their time."
        )
    return lines


def active(job: Job, now: float) -> list[str]:
    """What is to know of a job that has nodes: what state it is in, and when its limit ends it."""
    if job.state == states.SUSPENDED:
        since = f" since {stamp(job.suspend_time)}" if job.suspend_time else ""
        used = max(0.0, job.end_time - job.suspend_time) if job.end_time > 0 and job.suspend_time else 0.0
        rest = f", and the {show_elapsed(used)} that are left of its time limit do not pass" if used else ""
        lines = [
            f"An operator has suspended it{since}: its processes are stopped on the nodes that it keeps{rest}.",
            f"scontrol resume {job.array_label} (of an operator) lets it go on; scancel {job.array_label} ends it.",
        ]
    elif job.state == states.STOPPED:
        lines = [
            f"Its processes are stopped by a signal, on the nodes that it keeps: scancel -s CONT {job.array_label} lets it go on."
        ]
    elif job.state == states.CONFIGURING:
        lines = ["Its nodes are being made ready; its script begins when all of them are there."]
    elif job.state == states.COMPLETING:
        lines = ["It is over: its last processes are being ended."]
    else:
        left = max(0.0, job.end_time - now)
        lines = [f"Its time limit ends it in {show_elapsed(left)}."] if job.end_time > 0 else []
    return [*lines, *([f"The cluster says: {job.system_comment}"] if job.system_comment else [])]


def ended(job: Job, steps: Sequence[Step], user: Callable[[int], str], cluster: Cluster) -> list[str]:
    """How a job ended, and what to do where it did not end well. ``user`` gives the name of a uid."""
    if job.state == states.COMPLETED:
        return ["It ended well: its script's exit code is 0.", *_steps(job, steps), *_comment(job)]
    if job.state == states.CANCELLED:
        who = f" by {user(job.cancelled_by)}" if job.cancelled_by is not None else ""
        return [f"It was cancelled{who}.", *_comment(job)]
    if job.state == states.TIMEOUT:
        return [
            f"It reached its time limit of {_limit(job)}. A longer one: sbatch --time=…; --signal=B:USR1@60 warns a script a minute before.",
            *_comment(job),
        ]
    if job.state == states.OUT_OF_MEMORY:
        seen = [job.usage, *(step.usage for step in steps)]
        return [f"It used more than {_memory(job, seen)}", *_comment(job)]
    if job.state in _ENDS:
        out = _out_of_service(cluster, [share.name for share in job.shares]) if job.state == states.NODE_FAIL else ""
        lines = [f"Out of service now: {out}."] if out else []
        return [_ENDS[job.state], *lines, *_comment(job)]
    killed = job.exit_status & 0x7F not in (0, states.LAUNCH_FAILURE)  # Slurm's reason for that is the same
    unstarted = job.reason in ("JobLaunchFailure", "OutputNotWritten")
    if not killed and (unstarted or (job.system_comment and not job.exit_status >> 8)):
        return _launch(job)
    short = any(step.state == states.OUT_OF_MEMORY for step in steps)
    return [*_status(job, short), *_steps(job, steps), *_comment(job)]


def _launch(job: Job) -> list[str]:
    lines = [job.system_comment or "Its script could not be started."]
    for path in (job.stdout, job.stderr):
        folder = os.path.dirname(path)
        if path and path in job.system_comment and "No such file" in job.system_comment:
            lines.append(f"Nobody makes the folder of -o and -e for a job: mkdir -p {folder}, then sbatch again.")
            break
    return lines


def _status(job: Job, short: bool) -> list[str]:
    """The script's exit code or signal. ``short``: a step of it had too little memory, which is why something in it was killed."""
    code, number = job.exit_status >> 8, job.exit_status & 0x7F
    if number:
        return [f"Its script was ended by signal {_signal(number)}."]
    if code > 128 and _signal(code - 128) != str(code - 128):
        text = f"a command in it was ended by signal {_signal(code - 128)}"
        return [f"Its script ended with exit code {code}: {text}{_KILLED if code == 137 and not short else ''}."]
    return [f"Its script ended with exit code {code}" + (f": {_CODES[code]}." if code in _CODES else ".")]


_KILLED = " (somebody's kill -9, or the machine's own memory ran out)"


def _steps(job: Job, steps: Sequence[Step]) -> list[str]:
    """The first of its steps that failed."""
    bad = [step for step in steps if step.step_id.isdigit() and step.state not in (states.COMPLETED, states.RUNNING)]
    if not bad:
        return []
    first = min(bad, key=lambda step: step.end_time or float("inf"))
    code, number = first.exit_status >> 8, first.exit_status & 0x7F
    how = f"signal {_signal(number)}" if number else f"exit code {code}"
    lines = [f"Step {first.step_id} ({first.name}) was the first that did not end well: {first.state}, {how}."]
    if first.state == states.OUT_OF_MEMORY:
        lines.append(f"That step used more than {_memory(job, [first.usage])}")
    return lines


def _memory(job: Job, seen: Sequence[Usage | None]) -> str:
    """What a job had of a node, the most that was ``seen`` of one of its tasks, and what to do: the end of a sentence."""
    most = max([used.memory.most for used in seen if used is not None and used.memory is not None], default=0)
    told = f" (the most that was seen of one task: {ceil(most / 1024)} MiB)" if most else ""
    given = max([share.memory for share in job.shares], default=0)
    if not given:
        return f"there was{told}: --mem=… asks for as much as it needs."
    return f"the {given} MiB of a node that it had{told}: --mem=… (or --mem-per-cpu=…) asks for more."


def _out_of_service(cluster: Cluster, names: Collection[str] | None = None) -> str:
    """The nodes, of these names or of all, that are down or drained, each with its reason."""
    out = [node for node in cluster.nodes if node.state and (names is None or node.name in names)]
    return ", ".join(f"{one.name} ({one.reason or one.state.lower()})" for one in out)


def _comment(job: Job) -> list[str]:
    return [job.system_comment] if job.system_comment else []


def _limit(job: Job) -> str:
    return show_minutes(job.time_limit)


def _signal(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _words(job: Job) -> dict[str, object]:
    return {
        "id": job.array_label,
        "array": job.array_job_id or job.job_id,
        "partition": job.partition,
        "limit": _limit(job),
        "nodes": job.nodes,
        "licenses": job.request.licenses or "",
    }


def _depends(job: Job, known: Known) -> list[str]:
    try:
        dependency = Dependency.parse(job.dependency or job.request.dependency or "")
    except ValueError:
        return []
    lines = []
    for condition in dependency.conditions:
        if not condition.job_id:
            lines.append(f"the other jobs of its user that are called {job.name} (singleton).")
            continue
        found = [one.state for one in known(condition.job_id)]
        there = ", ".join(
            f"{found.count(state)} × {state}" if len(found) > 1 else state for state in dict.fromkeys(found)
        )
        lines.append(f"{condition.text()}: job {condition.job_id} is {there or 'forgotten'}.")
    return lines


def _resources(job: Job, cluster: Cluster, running: Iterable[Job]) -> list[str]:
    """What the job asks for, what is free in its partition, and which jobs hold the rest."""
    partition = cluster.partition(job.partition.partition(",")[0])
    names = frozenset(partition.nodes if partition is not None else ())
    holders = [one for one in running if one.cluster == job.cluster and one.shares]
    lines = [f"It waits for {', '.join(_demands(job))} of partition {job.partition}."]
    free = _free(cluster, names, holders)
    if free:
        shown = [f"{hostlist.fold(found)}: {text}" for text, found in list(free.items())[:_SHOWN_SIZES]]
        lines.append("Free are " + "; ".join(shown) + (" …" if len(free) > _SHOWN_SIZES else "") + ".")
    here = [one for one in holders if names.intersection(share.name for share in one.shares)]
    if here:
        largest = sorted(here, key=lambda one: -_cpus(one))[:_SHOWN_JOBS]
        more = f" and {len(here) - _SHOWN_JOBS} more" if len(here) > _SHOWN_JOBS else ""
        lines.append(f"The rest is held by {', '.join(map(_holder, largest))}{more}.")
    others = _others(cluster, names)
    return [*lines, f"Programs that are no jobs here hold {others}."] if others else lines


def _others(cluster: Cluster, names: Collection[str]) -> str:
    """What of the nodes of these names is in use by what is no job of ours; "" for nothing."""
    used = [node for node in cluster.nodes if node.name in names and (node.others_cpus or node.others_gpus)]
    if not used:
        return ""
    gpus = sum(node.others_gpus for node in used)
    told = [f"{sum(node.others_cpus for node in used)} CPU(s)", *([f"{gpus} GPU(s)"] if gpus else [])]
    return f"{' '.join(told)} on {hostlist.fold_sorted([node.name for node in used])}"


def _demands(job: Job) -> list[str]:
    """What the job asks for, a phrase for each resource."""
    request = job.request
    memory = request.mem_per_node or (request.mem_per_cpu or 0) * resolve(request).min_cpus
    options = (("--gres", request.gres), ("--gpus", request.gpus))
    return [
        f"{job.nodes} node(s), {job.cpus} CPU(s)",
        *(f"{name} {text}" for name, text in options if text),
        *([f"{memory} MiB of each"] if memory else []),
    ]


def _free(cluster: Cluster, names: Collection[str], holders: Sequence[Job]) -> dict[str, list[str]]:
    """The nodes of these names that are in service, by what is free of them."""
    found: dict[str, list[str]] = {}
    for name, use in uses(cluster, holders).items():
        if name not in names or use.node.state:
            continue
        left = [f"{use.node.cpus - use.cpus} CPU(s)"]
        if use.node.gpus:
            left.append(f"{use.node.gpus - sum(map(len, use.gpus.values()))} GPU(s)")
        if use.memory:
            left.append(f"{use.node.memory - use.memory} MiB")
        found.setdefault(" ".join(left), []).append(name)
    return found


def _holder(job: Job) -> str:
    nodes = hostlist.fold_sorted([share.name for share in job.shares])
    return f"{job.array_label} of {job.user or job.uid} ({_cpus(job)} CPU(s) on {nodes})"


def _cpus(job: Job) -> int:
    return sum(share.cpus for share in job.shares)
