"""Every field of a job that squeue knows, a row each: its ``-o`` letter, its ``-O`` names, its header, and its text, of the job and the view."""

from __future__ import annotations

from shim.core.formats import times
from shim.core.formats.tres import show_gpus_field
from shim.core.model import states
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render.columns import by_letter, by_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.core.model.job import Job
    from shim.core.render.columns import Field, Known
    from shim.core.render.view import View

    Show = Callable[[Job, View], str]


def _constant(text: str) -> Show:
    """A field that has nothing to tell here."""
    return lambda job, view: text


def _request(name: str, missing: str = "(null)") -> Show:
    """A field of the request as the user wrote it."""

    def show(job: Job, view: View) -> str:
        value = getattr(job.request, name)
        return missing if value is None or value == "" else str(value)

    return show


def _end(job: Job, view: View) -> str:
    if facts.time_limit(job, view) == INFINITE and job.state in states.ALLOCATED - {states.COMPLETING}:
        return "NONE"
    return view.stamp(facts.end_time(job, view))


def _time_left(job: Job, view: View) -> str:
    limit = facts.time_limit(job, view)
    if limit < 0:
        return times.show_minutes(limit)
    left = limit * 60 - facts.time_used(job, view.now)
    return times.show_elapsed(max(0, left))


def _memory(job: Job, view: View) -> str:
    amount = facts.min_memory(job, view)[0]
    if view.noconvert and amount:
        return f"{amount}M"
    return show_memory(amount)


def show_memory(mib: int) -> str:
    """Memory in MiB as Slurm prints it (imported when needed: few listings show it)."""
    from shim.core.formats.sizes import show_memory as show

    return show(mib)


def _array_task(job: Job, view: View) -> str:
    if job.array_task_id is not None:
        return str(job.array_task_id)
    return facts.array_tasks(job.array_tasks) if job.array_tasks is not None else "N/A"


def _req_nodes(text: str | None) -> str:
    from shim.core.formats import hostlist

    if not text:
        return ""
    try:
        return hostlist.fold(hostlist.expand(text))
    except ValueError:
        return text


def _pending_seconds(job: Job, view: View) -> str:
    until = job.start_time if job.start_time and job.state != states.PENDING else view.now
    return str(max(0, int(until) - int(job.submit_time)))


_sockets = _request("sockets_per_node", "*")
_cores = _request("cores_per_socket", "*")
_threads = _request("threads_per_core", "*")


def _het(show: Callable[[Job], object]) -> Show:
    return lambda job, view: str(show(job)) if job.het_job_id else "N/A"


def accrue_time(job: Job) -> float:
    """Since when the job's age counts: from its eligibility on. A job that started without queueing has no such time."""
    return job.eligible_time if job.request.kind == "batch" else 0


def requeues(job: Job, view: View) -> bool:
    """Whether the job may be put back into the queue: as asked, else the cluster's rule."""
    if job.request.requeue is not None:
        return job.request.requeue
    cluster = view.cluster
    return cluster is None or cluster.requeue


def _gpus(text: str | None) -> str:
    return show_gpus_field(text) or "N/A"


def _per_gpu(value: int | None) -> str:
    return "N/A" if value is None else f"gres:gpu:{value}"


_COLUMNS: tuple[Field[Job], ...] = (
    ("a", "account", "ACCOUNT", _request("account")),
    ("b", "tres-per-node gres", "TRES_PER_NODE", lambda job, view: facts.tres_per_node(job) or "N/A"),
    ("c", "mincpus", "MIN_CPUS", lambda job, view: str(facts.min_cpus_per_node(job))),
    ("d", "mintmpdisk", "MIN_TMP_DISK", _request("tmp_disk", "0")),
    ("e", "endtime", "END_TIME", _end),
    ("f", "feature", "FEATURES", _request("constraint")),
    ("g", "groupname", "GROUP", lambda job, view: job.group or str(job.gid)),
    ("h", "oversubscribe shared", "OVER_SUBSCRIBE", lambda job, view: facts.over_subscribe(job)),
    ("i", "jobarrayid", "JOBID", lambda job, view: facts.label(job)),
    ("j", "name", "NAME", lambda job, view: job.name),
    ("k", "comment", "COMMENT", lambda job, view: facts.or_null(job.comment or job.request.comment)),
    ("l", "timelimit", "TIME_LIMIT", lambda job, view: times.show_minutes(facts.time_limit(job, view))),
    ("m", "minmemory", "MIN_MEMORY", _memory),
    ("n", "reqnodes", "REQ_NODES", lambda job, view: _req_nodes(job.request.node_list)),
    ("o", "command", "COMMAND", lambda job, view: facts.or_null(facts.command(job))),
    ("p", "priority", "PRIORITY", lambda job, view: f"{job.priority / 4294967295:16.14f}"),
    ("q", "qos", "QOS", _request("qos")),
    ("r", "reason", "REASON", lambda job, view: job.reason),
    ("s", "selectjobinfo", "", _constant("")),
    ("t", "statecompact", "ST", lambda job, view: states.CODES.get(job.shown_state, job.shown_state)),
    ("u", "username", "USER", lambda job, view: job.user or str(job.uid)),
    ("v", "reservation", "RESERVATION", _request("reservation")),
    ("w", "wckey", "WCKEY", _request("wckey")),
    ("x", "", "EXC_NODES", lambda job, view: _req_nodes(job.request.exclude)),
    ("y", "nice", "NICE", lambda job, view: str(job.request.nice)),
    ("z", "sct", "S:C:T", lambda job, view: ":".join(show(job, view) for show in (_sockets, _cores, _threads))),
    ("A", "jobid", "JOBID", lambda job, view: str(job.job_id)),
    ("B", "batchhost", "EXEC_HOST", lambda job, view: job.shares[0].name if facts.nodelist(job) else "n/a"),
    ("C", "numcpus", "CPUS", lambda job, view: str(job.cpus)),
    ("D", "numnodes", "NODES", lambda job, view: str(facts.nodes_counted(job, view))),
    ("E", "dependency", "DEPENDENCY", lambda job, view: facts.or_null(job.dependency)),
    ("F", "arrayjobid", "ARRAY_JOB_ID", lambda job, view: str(job.array_job_id or job.job_id)),
    ("G", "groupid", "GROUP", lambda job, view: str(job.gid)),
    ("H", "sockets", "SOCKETS_PER_NODE", _sockets),
    ("I", "cores", "CORES_PER_SOCKET", _cores),
    ("J", "threads", "THREADS_PER_CORE", _threads),
    ("K", "arraytaskid", "ARRAY_TASK_ID", _array_task),
    ("L", "timeleft", "TIME_LEFT", _time_left),
    ("M", "timeused", "TIME", lambda job, view: times.show_elapsed(facts.time_used(job, view.now))),
    ("N", "nodelist", "NODELIST", lambda job, view: facts.nodelist(job)),
    ("O", "contiguous", "CONTIGUOUS", lambda job, view: str(int(job.request.contiguous))),
    ("P", "partition", "PARTITION", lambda job, view: job.partition),
    ("Q", "prioritylong", "PRIORITY", lambda job, view: str(job.priority)),
    ("R", "reasonlist", "NODELIST(REASON)", lambda job, view: facts.nodes_or_reason(job)),
    ("S", "starttime", "START_TIME", lambda job, view: view.stamp(job.start_time)),
    ("T", "state", "STATE", lambda job, view: job.shown_state),
    ("U", "userid", "UID", lambda job, view: str(job.uid)),
    ("V", "submittime", "SUBMIT_TIME", lambda job, view: view.stamp(job.submit_time)),
    ("W", "licenses", "LICENSES", _request("licenses")),
    ("X", "corespec", "CORE_SPEC", _constant("N/A")),
    ("Y", "schednodes", "SCHEDNODES", _constant("(null)")),
    ("Z", "workdir", "WORK_DIR", _request("work_dir")),
    ("", "accruetime", "ACCRUE_TIME", lambda job, view: view.stamp(accrue_time(job))),
    ("", "allocnodes", "ALLOC_NODES", lambda job, view: job.submit_host or "localhost"),
    ("", "allocsid", "ALLOC_SID", lambda job, view: str(job.alloc_sid)),
    ("", "batchflag", "BATCH_FLAG", lambda job, view: str(int(job.request.kind == "batch"))),
    ("", "cluster", "CLUSTER", lambda job, view: job.cluster),
    ("", "cpus-per-task cpuspertask", "CPUS_PER_TASK", _request("cpus_per_task", "1")),
    ("", "deadline", "DEADLINE", lambda job, view: view.stamp(job.request.deadline)),
    ("", "delayboot", "DELAY_BOOT", _constant("0:00")),
    ("", "derivedec", "DERIVED_EC", lambda job, view: str(job.derived_status)),
    ("", "eligibletime", "ELIGIBLE_TIME", lambda job, view: view.stamp(facts.eligible_time(job))),
    ("", "exit_code", "EXIT_CODE", lambda job, view: str(job.exit_status)),
    ("", "hetjobid packjobid", "HET_JOB_ID", _het(lambda job: job.het_job_id)),
    ("", "hetjobidset packjobidset", "HET_JOB_ID_SET", _het(facts.het_ids)),
    ("", "hetjoboffset packjoboffset", "HET_JOB_OFFSET", _het(lambda job: job.het_offset)),
    ("", "lastschedeval", "LAST_SCHED_EVAL", lambda job, view: view.stamp(job.last_sched)),
    ("", "maxcpus", "MAX_CPUS", lambda job, view: str(job.cpus)),
    ("", "maxnodes", "MAX_NODES", lambda job, view: str(job.request.max_nodes or job.nodes)),
    ("", "mintime", "TIME_MIN", lambda job, view: times.show_minutes(job.request.time_min or 0)),
    ("", "ntpercore", "NTASKS_PER_CORE", _request("ntasks_per_core", "N/A")),
    ("", "ntpernode", "NTASKS_PER_NODE", _request("ntasks_per_node", "0")),
    ("", "ntpersocket", "NTASKS_PER_SOCKET", _request("ntasks_per_socket", "N/A")),
    ("", "numtasks", "TASKS", lambda job, view: str(job.tasks)),
    ("", "pendingtime", "PENDING_TIME", _pending_seconds),
    ("", "prefer", "PREFER", _request("prefer")),
    ("", "reqswitch", "REQ_SWITCH", lambda job, view: facts.switches(job)[0]),
    ("", "requeue", "REQUEUE", lambda job, view: str(int(requeues(job, view)))),
    ("", "restartcnt", "RESTART_COUNT", lambda job, view: str(job.restarts)),
    ("", "stderr", "STDERR", lambda job, view: facts.files_asked(job)[1]),
    ("", "stdin", "STDIN", lambda job, view: facts.files_asked(job)[2]),
    ("", "stdout", "STDOUT", lambda job, view: facts.files_asked(job)[0]),
    ("", "resizetime", "RESIZE_TIME", lambda job, view: "INVALID" if job.resize_time else "N/A"),  # so in Slurm
    ("", "wait4switch", "WAIT4SWITCH", lambda job, view: times.show_elapsed(facts.switches(job)[1])),
    ("", "system_comment", "SYSTEM_COMMENT", lambda job, view: facts.or_null(job.system_comment)),
    ("", "tres-alloc tres", "TRES_ALLOC", lambda job, view: facts.tres(job, view)),
    ("", "tres-per-job", "TRES_PER_JOB", lambda job, view: _gpus(job.request.gpus)),
    ("", "tres-per-socket", "TRES_PER_SOCKET", lambda job, view: _gpus(job.request.gpus_per_socket)),
    ("", "tres-per-task", "TRES_PER_TASK", lambda job, view: _gpus(job.request.gpus_per_task)),
    ("", "cpus-per-tres", "CPUS_PER_TRES", lambda job, view: _per_gpu(job.request.cpus_per_gpu)),
    ("", "mem-per-tres", "MEM_PER_TRES", lambda job, view: _per_gpu(job.request.mem_per_gpu)),
    # What is not there: federations, burst buffers, power.
    ("", "admin_comment", "ADMIN_COMMENT", _constant("(null)")),
    ("", "associd", "ASSOC_ID", _constant("0")),
    ("", "boardspernode", "BOARDS_PER_NODE", _constant("0")),
    ("", "burstbuffer", "BURST_BUFFER", _constant("(null)")),
    ("", "burstbufferstate", "BURST_BUFFER_STATE", _constant("(null)")),
    ("", "clusterfeature", "CLUSTER_FEATURES", _constant("(null)")),
    ("", "container", "CONTAINER", _constant("(null)")),
    ("", "mcslabel", "MCSLABEL", _constant("(null)")),
    ("", "network", "NETWORK", _constant("(null)")),
    ("", "ntperboard", "NTASKS_PER_BOARD", _constant("0")),
    ("", "origin", "ORIGIN", _constant("NA")),
    ("", "originraw", "ORIGIN_RAW", _constant("NA")),
    ("", "preempttime", "PREEMPT_TIME", _constant("N/A")),
    ("", "profile", "PROFILE", _constant("NotSet")),
    ("", "reboot", "REBOOT", _constant("0")),
    ("", "siblingsactive", "ACTIVE_SIBLINGS", _constant("NA")),
    ("", "siblingsactiveraw", "ACTIVE_SIBLINGS_RAW", _constant("NA")),
    ("", "siblingsviable", "VIABLE_SIBLINGS", _constant("NA")),
    ("", "siblingsviableraw", "VIALBLE_SIBLINGS_RAW", _constant("NA")),
    ("", "sperboard", "SOCKETS_PER_BOARD", _constant("0")),
    ("", "tres-bind", "TRES_BIND", _constant("N/A")),
    ("", "tres-freq", "TRES_FREQ", _constant("N/A")),
)
LETTERS = by_letter(_COLUMNS)


def names() -> Known[Job]:
    """Every ``-O`` name. Built when asked for: the default listing needs the letters alone."""
    return by_name(_COLUMNS)
