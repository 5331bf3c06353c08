"""The verbs of scontrol that show or do one thing: version, help, ping, reconfigure, errnumstr, completing, listpids, wait_job, notify."""

from __future__ import annotations

import os

from shim.commands import output, site_view
from shim.commands.job_ids import parse_job_id
from shim.commands.scontrol.session import PROGRAM
from shim.control import paths
from shim.core.errors import (
    ACCESS_DENIED,
    ALREADY_DONE,
    DEPENDENCY_PROBLEM,
    INVALID_JOB_ID,
    INVALID_PARTITION_NAME,
    ShimError,
    plain,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.commands.job_ids import JobId

    Found = dict[int, dict[str, str]]  # pid -> its variables, and its parent

_HEAD = "PID      JOBID    STEPID   LOCALID GLOBALID"


def listpids(words: list[str]) -> int:
    """``listpids [JOB[.STEP] [NODE]]``: the processes of this user's jobs on this machine; the exit code.

    They are found by their environment: a process that has cleared it is not found.
    """
    if len(words) > 2:
        raise ShimError(plain("too many arguments for keyword:listpids"))
    wanted = words[0] if words and words[0] != "*" else ""
    one = parse_job_id(wanted) if wanted else None
    if wanted and one is None:
        raise ShimError(plain(f'"{wanted}" does not look like a {"stepid" if "." in wanted else "jobid"}'))
    if (
        one is not None and one.step is not None and not one.step.isdigit()
    ):  # steps without a number are none to scontrol
        output.say("", f'"{wanted}" does not look like a stepid')
        output.put([_HEAD])
        return 0
    node = words[1] if len(words) > 1 else ""
    known = _processes()
    found = {pid: own for pid, own in known.items() if _meant(own, one, node)}
    output.put([_HEAD])
    if not found:
        where = f"on node {node or '(null)'}"
        none = "No job steps exist on this node."
        what = f"{'StepId' if '.' in wanted else 'JobId'}={wanted} does not exist {where}." if wanted else none
        if wanted and "." not in wanted and any(_meant(own, None, node) for own in known.values()):
            what = f"There are no steps for job {wanted} {where}."
        output.say("", what)
        return 1
    output.put([_line(pid, own, found) for pid, own in sorted(found.items(), key=_order)])
    return 0


def _order(item: tuple[int, dict[str, str]]) -> tuple[int, int, int]:
    pid, own = item
    step = own.get("SLURM_STEP_ID", "")
    return int(own["SLURM_JOB_ID"]), int(step) if step.isdigit() else 1 << 32, pid


def _line(pid: int, own: dict[str, str], all_of_them: Found) -> str:
    step = own.get("SLURM_STEP_ID")
    parent = all_of_them.get(int(own["parent"]))
    first = parent is None or parent.get("SLURM_STEP_ID") != step
    local, rank = (own.get("SLURM_LOCALID", "0"), own.get("SLURM_PROCID", "0")) if first else ("-", "-")
    return f"{pid:<8} {own['SLURM_JOB_ID']:<8} {step or 'batch':<8} {local:<7} {rank:<8}"


def _meant(own: dict[str, str], one: JobId | None, node: str) -> bool:
    if node and own.get("SLURMD_NODENAME") != node:
        return False
    if one is None:
        return True
    step = own.get("SLURM_STEP_ID") or "batch"
    array = own.get("SLURM_ARRAY_JOB_ID"), own.get("SLURM_ARRAY_TASK_ID")
    is_job = array == (str(one.job_id), one.tasks) if one.tasks else own["SLURM_JOB_ID"] == str(one.job_id)
    return is_job and one.step in (None, step)


def _processes() -> Found:
    """The processes whose environment is that of a job of this state folder."""
    found: Found = {}
    here = f"{paths.HOST_VARIABLE}={paths.state_dir()}"
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = file.read().rpartition(b")")[2].split()[1].decode()
        except (OSError, IndexError):
            continue  # it has ended, or is somebody else's
        if here in words:
            own = dict(word.partition("=")[::2] for word in words if word.startswith("SLURM"))
            if own.get("SLURM_JOB_ID", "").isdigit():
                found[int(name)] = {**own, "parent": parent}
    return found


def _version(words: list[str]) -> int:
    site_view.print_help(PROGRAM, {"version": ""})
    return 0


def _help(words: list[str]) -> int:
    site_view.print_help(PROGRAM, {"help": ""})
    output.put(["", "Commands:", *(f"  {line}" for line in _COMMANDS.strip().split("\n"))])
    return 0


def _ping(words: list[str]) -> int:
    """Reports whether the controller answers; starts a controller if none runs, as other commands do."""
    from shim.control import client, paths

    host = paths.machine()
    try:
        client.call("ping")
    except ShimError:
        output.put([f"Slurmctld(primary) at {host} is DOWN"])
        return 1
    output.put([f"Slurmctld(primary) at {host} is UP"])
    return 0


def _reconfigure(words: list[str]) -> int:
    """Has the controller read the configuration again; prints on stderr which old settings stay in force for active jobs."""
    from shim.control import client

    if words:
        raise ShimError(plain("too many arguments for keyword:reconfigure"))
    kept = client.call("reconfigure")["kept"]
    output.say(PROGRAM, *[f"warning: {line}" for line in kept])
    return 0


def _errnumstr(words: list[str]) -> int:
    """The text of an error number: the C library's, and the commonest of Slurm's own."""
    if not words:
        raise ShimError(plain("one arguments required for keyword:errnumstr"))
    if not words[0].isdigit():
        raise ShimError(plain(f"Invalid error number: {words[0]}"))
    output.put([_ERRORS.get(int(words[0])) or os.strerror(int(words[0][:9]))])
    return 0


def _completing(words: list[str]) -> int:
    """Prints the jobs in state COMPLETING: since when, and for how long."""
    from shim.control.index.query import JobQuery
    from shim.core.formats.times import show_clock
    from shim.core.model import states
    from shim.core.render.job_facts import nodelist

    if words:
        raise ShimError(plain("too many arguments for keyword:completing"))
    reader = site_view.open_index(PROGRAM)
    if reader is None:
        return 0
    jobs = reader.jobs(JobQuery(states=(states.COMPLETING,)))
    became = reader.transitions([job.key for job in jobs])
    view = site_view.view()
    for job in jobs:
        since = next((time for _, time, state in reversed(became.get(job.key, [])) if state == states.COMPLETING), 0)
        lasts = show_clock(max(0, view.now - since) if since else 0)
        end = view.stamp(since, "Unknown")
        output.put([f"JobId={job.job_id} EndTime={end} CompletingTime={lasts} Nodes(COMPLETING)={nodelist(job)} "])
    return 0


def _wait_job(words: list[str]) -> int:
    """Reports whether the nodes of a job are ready: those of a running job always are."""
    from shim.control.index.query import JobQuery
    from shim.core.model import states

    if len(words) != 1:
        raise ShimError(plain(f"too {'many' if words else 'few'} arguments for keyword:wait_job"))
    one = parse_job_id(words[0])
    if one is None:
        raise ShimError(plain(f"Invalid job_id {words[0]}"))
    name = words[0].partition(".")[0]
    reader = site_view.open_index(PROGRAM)
    jobs = reader.jobs(JobQuery(job_ids=(one.job_id,), active=False)) if reader is not None else []
    if not jobs:
        raise ShimError(f"Problem running job {name}")
    if all(job.state not in (states.RUNNING, states.SUSPENDED, states.STOPPED) for job in jobs):
        raise ShimError(f"Job {name} no longer running")
    output.say(PROGRAM, f"Nodes are ready for job {name}")
    return 0


def _notify(words: list[str]) -> int:
    """``notify 33 some words``: they reach the error output of the job's script, or of its salloc or srun."""
    from shim.commands.scontrol.actions import targets
    from shim.control import client

    if len(words) < 2:
        raise ShimError(plain("too few arguments for keyword:notify"))
    one = parse_job_id(words[0])
    if one is None:
        raise ShimError(plain(f"Invalid job_id {words[0]}job notify failure: No error"))
    for target in targets(one, None):
        client.call("notify", {"target": target, "text": " ".join(words[1:])})
    return 0


_COMMANDS = """
show ENTITY [ID]               job, step, node, partition, config, licenses, hostnames, hostlist …
update job=ID FIELD=VALUE …    changes a job; TimeLimit+=30 and -=30 too
update stepid=ID TimeLimit=…   changes a step's limit
update nodename=LIST State=…   drain, down, resume, undrain; with Reason=…  (operators)
update partitionname=NAME …    State=up, down, drain, inactive; MaxTime=… …  (operators)
hold, uhold, release JOBS      keeps waiting jobs from starting; lets them go
suspend, resume, top JOBS      (operators)
requeue [incomplete] JOBS      queues batch jobs again; requeuehold [State=SpecialExit]: and holds them
notify JOB TEXT                a line for the error output of a job's script, or of its salloc or srun
write batch_script JOB [FILE]  the script of a job
listpids [JOB[.STEP] [NODE]]   the processes of jobs on this machine
wait_job JOB                   whether a job's nodes are ready
completing                     jobs that are ending
ping, reconfigure, version     of the controller
errnumstr NUMBER               the text of an error
all, hide, details, oneliner, verbose, quiet    as the options of these names
help, exit, quit, !!           this text; the end; the last command again
"""
_ERRORS = {
    2000: INVALID_PARTITION_NAME,
    2002: ACCESS_DENIED,
    2017: INVALID_JOB_ID,
    2021: ALREADY_DONE,
    2028: DEPENDENCY_PROBLEM,
}
VERBS: dict[str, Callable[[list[str]], int]] = {
    "version": _version,
    "help": _help,
    "ping": _ping,
    "reconfigure": _reconfigure,
    "errnumstr": _errnumstr,
    "completing": _completing,
    "listpids": listpids,
    "wait_job": _wait_job,
    "notify": _notify,
}
