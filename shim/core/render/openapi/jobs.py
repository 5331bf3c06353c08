"""The job records of ``squeue --json``, and of ``scontrol show job --json`` in the newer layout.

What is never set here has the value that Slurm gives a field that is not set. "" is a text that is not set.
"""

from __future__ import annotations

from shim.core.formats.tres import show_gpus_field
from shim.core.model import states
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render.job_fields import accrue_time, requeues
from shim.core.render.openapi.layout import NEW, OLD, Field, count, number, plain, raw_status, record, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Node
    from shim.core.model.job import Job, NodeShare
    from shim.core.render.openapi.layout import Record
    from shim.core.render.view import View

_YEAR = 365 * 24 * 3600
_SHOW_FLAGS = ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"]


class _Job:
    """A job as it is shown, and what several fields are made of."""

    def __init__(self, job: Job, view: View) -> None:
        self.job = job
        self.view = view
        self.request = job.request
        self.shares = [share for share in job.shares if not share.planned]
        self.never_ran = job.state in states.TERMINAL and not self.shares
        self.files = facts.files_asked(job) if job.request.kind == "batch" else ("", "", "")

    @property
    def paths(self) -> tuple[str, str, str]:
        """Output, error and input as they are."""
        return facts.files(self.job) if self.request.kind == "batch" else ("", "", "")

    def memory(self, *, per_cpu: bool) -> int | None:
        """MiB of each CPU or of each node, whichever of them was asked for."""
        amount, of_cpus = facts.min_memory(self.job, self.view)
        if of_cpus != per_cpu:
            return None
        asked = self.request.mem_per_node is not None or bool(self.request.mem_per_cpu) or bool(amount)
        return amount if asked and (amount or per_cpu) else None


def job_record(job: Job, view: View, *, newer: bool) -> Record:
    """A job's record."""
    one = _Job(job, view)
    found = record(JOB, one, newer)
    if not one.shares:
        del found["job_resources"]
    return found


def _end_time(job: Job, view: View) -> float:
    """A job without a limit ends in a year."""
    endless = job.state == states.RUNNING and facts.time_limit(job, view) == INFINITE
    return job.start_time + _YEAR if endless else facts.end_time(job, view)


def _throttle(job: Job) -> int:
    throttle = (job.array_tasks or "").partition("%")[2]
    return int(throttle) if throttle.isdecimal() else 0


def _flags(job: Job) -> list[str]:
    request = job.request
    found = {
        "KILL_INV_DEP": request.kill_on_invalid_dep is True,
        "NO_KILL_INV_DEP": request.kill_on_invalid_dep is False,
        "CRON_JOB": bool(request.cron),
        "SPREAD_JOB": request.spread_job,
        "USE_MIN_NODES": request.use_min_nodes,
        "TRES_STR_CALC": job.state in states.TERMINAL and bool(job.shares),
        "JOB_CPUS_SET": bool(request.cpus_per_task),
        "JOB_WAS_RUNNING": bool(job.shares) and job.state not in states.TERMINAL,
        "JOB_MEM_SET": bool(request.mem_per_node or request.mem_per_cpu),
    }
    return [name for name, is_set in found.items() if is_set]


# What the flags are called in the newer layout.
_RENAMED = {
    "KILL_INV_DEP": "KILL_INVALID_DEPENDENCY",
    "NO_KILL_INV_DEP": "NO_KILL_INVALID_DEPENDENCY",
    "USE_MIN_NODES": "PREFER_MINIMUM_NODE_COUNT",
    "TRES_STR_CALC": "SKIP_TRES_STRING_ACCOUNTING",
    "JOB_CPUS_SET": "EXACT_CPU_COUNT_REQUESTED",
    "JOB_MEM_SET": "EXACT_MEMORY_REQUESTED",
}
_MAILS = {"NONE": (), "ALL": ("BEGIN", "END", "FAIL", "REQUEUE", "INVALID_DEPENDENCY", "STAGE_OUT")}
_MAIL_NAMES = {
    "INVALID_DEPEND": "INVALID_DEPENDENCY",
    "TIME_LIMIT": "TIME=100%",
    "TIME_LIMIT_90": "TIME=90%",
    "TIME_LIMIT_80": "TIME=80%",
    "TIME_LIMIT_50": "TIME=50%",
}


def _newer_flags(job: Job) -> list[str]:
    return [_RENAMED.get(name, name) for name in _flags(job)]


def _mails(types: str | None) -> list[str]:
    words = [word.strip().upper() for word in (types or "").split(",") if word.strip()]
    return list(dict.fromkeys(name for word in words for name in _MAILS.get(word, (_MAIL_NAMES.get(word, word),))))


def all_states(job: Job) -> list[str]:
    """The state that the newer layout knows, with the marks upon it: RUNNING, CONFIGURING."""
    state = job.shown_state
    if state in (states.CONFIGURING, states.STOPPED):
        return [states.RUNNING, state]
    if state == states.COMPLETING:
        return [states.FAILED if job.exit_status else states.COMPLETED, state]
    return [states.PENDING, state] if state in (states.REQUEUED, "SPECIAL_EXIT") else [state]


def _sharing(job: Job) -> list[str]:
    word = _shared(job)
    return [{"shared": "oversubscribe"}.get(word, word)] if word is not None else []


def _shared(job: Job) -> str | None:
    word = facts.over_subscribe(job)
    return {"NO": "none", "YES": "shared", "USER": "user", "MCS": "mcs"}.get(word)


def _prefixed(prefix: str, text: str | None) -> str:
    return prefix + text if text else ""


def _resources(one: _Job) -> Record:
    cluster = one.view.cluster
    return {
        "nodes": facts.nodelist(one.job),
        "allocated_cores": sum(share.cpus for share in one.shares),
        "allocated_hosts": len(one.shares),
        "allocated_nodes": [
            {
                "sockets": _sockets(share, cluster.node(share.name) if cluster is not None else None),
                "nodename": share.name,
                "cpus_used": 0,
                "memory_used": 0,
                "memory_allocated": share.memory,
            }
            for share in one.shares
        ],
    }


def _allocation(one: _Job) -> Record:
    """What a job holds, node by node, in the newer layout."""
    cluster = one.view.cluster
    nodes = [(share, cluster.node(share.name) if cluster is not None else None) for share in one.shares]
    return {
        "select_type": ["CPU", "MEMORY"],
        "nodes": {
            "count": len(nodes),
            "select_type": ["AVAILABLE" if one.request.exclusive is None else "ONE_ROW"],
            "list": facts.nodelist(one.job),
            "whole": one.request.exclusive is not None,
            "allocation": [
                {
                    "index": index,
                    "name": share.name,
                    "cpus": {"count": share.cpus, "used": 0},
                    "memory": {"used": 0, "allocated": share.memory},
                    "sockets": _listed_sockets(share, node),
                }
                for index, (share, node) in enumerate(nodes)
            ],
        },
        "cpus": sum(share.cpus for share in one.shares),
        "threads_per_core": number(one.request.threads_per_core, newer=True),
    }


def _listed_sockets(share: NodeShare, node: Node | None) -> list[Record]:
    return [
        {
            "index": int(socket),
            "cores": [{"index": int(core), "status": ["ALLOCATED"]} for core in found["cores"]],
        }
        for socket, found in _sockets(share, node).items()
    ]


def _sockets(share: NodeShare, node: Node | None) -> Record:
    """The cores as ``scontrol -d`` counts them: a job's CPUs of a node begin at 0."""
    threads = max(node.threads_per_core, 1) if node else 1
    cores = max(node.cores_per_socket, 1) if node else share.cpus
    found: Record = {}
    for core in range(-(-share.cpus // threads)):
        socket = found.setdefault(str(core // cores), {"cores": {}})
        socket["cores"][str(core % cores)] = "allocated"
    return found


# In the order of the layouts, which differ in places.
JOB = (
    Field("account", text, lambda one: one.request.account or ""),
    Field("accrue_time", number, lambda one: int(accrue_time(one.job)) if not one.job.held else 0),
    Field("admin_comment", text, ""),
    Field("allocating_node", text, lambda one: one.job.submit_host, NEW),
    Field("array_job_id", number, lambda one: one.job.array_job_id),
    Field("array_task_id", number, lambda one: one.job.array_task_id),
    Field("array_max_tasks", number, lambda one: _throttle(one.job)),
    Field("array_task_string", text, lambda one: one.job.array_tasks or ""),
    Field("association_id", plain, 0),
    Field("batch_features", text, lambda one: one.request.extra.get("batch", "")),
    Field("batch_flag", plain, lambda one: one.request.kind == "batch"),
    Field("batch_host", text, lambda one: one.shares[0].name if one.shares else ""),
    Field("flags", plain, lambda one: _flags(one.job), OLD),
    Field("flags", plain, lambda one: _newer_flags(one.job), NEW),
    Field("burst_buffer", text, lambda one: one.request.extra.get("bb", "")),
    Field("burst_buffer_state", text, ""),
    Field("cluster", text, lambda one: one.job.cluster),
    Field("cluster_features", text, lambda one: one.request.extra.get("cluster-constraint", "")),
    Field("command", text, lambda one: facts.command(one.job)),
    Field("comment", text, lambda one: one.job.comment or one.request.comment or ""),
    Field("container", text, lambda one: one.request.container.get("container", "")),
    Field("container_id", text, None, NEW),
    Field("contiguous", plain, lambda one: one.request.contiguous),
    Field("core_spec", count, None),
    Field("thread_spec", count, None),
    Field("cores_per_socket", number, lambda one: one.request.cores_per_socket),
    Field("billable_tres", number, lambda one: float(one.job.cpus) if one.shares else None),
    Field("cpus_per_task", text, None, OLD),
    Field("cpus_per_task", number, lambda one: one.request.cpus_per_task or 1, NEW),
    Field("cpu_frequency_minimum", number, None),
    Field("cpu_frequency_maximum", number, None),
    Field("cpu_frequency_governor", number, None),
    Field(
        "cpus_per_tres", text, lambda one: f"gres:gpu:{one.request.cpus_per_gpu}" if one.request.cpus_per_gpu else ""
    ),
    Field("cron", text, None, NEW),
    Field("deadline", number, lambda one: one.request.deadline),
    Field("delay_boot", number, 0),
    Field("dependency", text, lambda one: one.job.dependency),
    Field("derived_exit_code", raw_status, lambda one: one.job.derived_status),
    Field("eligible_time", number, lambda one: int(facts.eligible_time(one.job))),
    Field("end_time", number, lambda one: int(_end_time(one.job, one.view))),
    Field("excluded_nodes", text, lambda one: one.request.exclude or ""),
    Field("exit_code", raw_status, lambda one: one.job.exit_status),
    Field("extra", text, None, NEW),
    Field("failed_node", text, None, NEW),
    Field("features", text, lambda one: one.request.constraint or ""),
    Field("federation_origin", text, ""),
    Field("federation_siblings_active", text, ""),
    Field("federation_siblings_viable", text, ""),
    Field("gres_detail", plain, lambda one: [facts.gres_held(share) for share in one.shares if share.gpus]),
    Field("group_id", plain, lambda one: one.job.gid),
    Field("group_name", text, lambda one: one.job.group),
    Field("het_job_id", number, lambda one: one.job.het_job_id, NEW),
    Field("het_job_id_set", text, lambda one: facts.het_ids(one.job) if one.job.het_job_id else "", NEW),
    Field("het_job_offset", number, lambda one: one.job.het_offset, NEW),
    Field("job_id", plain, lambda one: one.job.job_id),
    Field("job_resources", plain, _resources, OLD),
    Field("job_state", text, lambda one: one.job.shown_state, OLD),
    Field("job_resources", plain, _allocation, NEW),
    Field("job_size_str", plain, [], NEW),
    Field("job_state", plain, lambda one: all_states(one.job), NEW),
    Field("last_sched_evaluation", number, lambda one: int(one.job.last_sched or one.job.submit_time)),
    Field("licenses", text, lambda one: one.request.licenses or ""),
    Field("licenses_allocated", text, lambda one: one.request.licenses if one.shares else "", NEW),
    Field("mail_type", plain, lambda one: _mails(one.request.mail_type), NEW),
    Field("mail_user", text, lambda one: one.request.mail_user, NEW),
    Field("max_cpus", number, 0),
    Field("max_nodes", number, lambda one: one.request.max_nodes or 0),
    Field("mcs_label", text, ""),
    Field(
        "memory_per_tres",
        text,
        lambda one: "" if one.request.mem_per_gpu is None else f"gres:gpu:{one.request.mem_per_gpu}",
    ),
    Field("name", text, lambda one: one.job.name),
    Field("network", text, None, NEW),
    Field("nodes", text, lambda one: facts.nodelist(one.job)),
    Field("nice", count, lambda one: one.request.nice or None),
    Field("tasks_per_core", number, lambda one: one.request.ntasks_per_core),
    Field("tasks_per_tres", number, None, NEW),
    Field("tasks_per_node", number, lambda one: one.request.ntasks_per_node or 0),
    Field("tasks_per_socket", number, lambda one: one.request.ntasks_per_socket),
    Field("tasks_per_board", number, 0),
    Field("cpus", number, lambda one: None if one.never_ran else one.job.cpus),
    Field("node_count", number, lambda one: facts.nodes_counted(one.job, one.view)),
    Field(
        "tasks",
        number,
        lambda one: (
            None
            if one.never_ran and one.request.ntasks is None and one.request.ntasks_per_node is None
            else one.job.tasks
        ),
    ),
    Field("het_job_id", number, lambda one: one.job.het_job_id, OLD),
    Field("het_job_id_set", text, lambda one: facts.het_ids(one.job) if one.job.het_job_id else "", OLD),
    Field("het_job_offset", number, lambda one: one.job.het_offset, OLD),
    Field("partition", text, lambda one: one.job.partition),
    Field("prefer", text, lambda one: one.request.prefer or ""),
    Field("memory_per_node", number, lambda one: one.memory(per_cpu=False), OLD),
    Field("memory_per_cpu", number, lambda one: one.memory(per_cpu=True), OLD),
    Field("memory_per_cpu", number, lambda one: one.memory(per_cpu=True), NEW),
    Field("memory_per_node", number, lambda one: one.memory(per_cpu=False), NEW),
    Field("minimum_cpus_per_node", number, lambda one: facts.min_cpus_per_node(one.job)),
    Field("minimum_tmp_disk_per_node", number, lambda one: one.request.tmp_disk or 0),
    Field("preempt_time", number, 0, OLD),
    Field(
        "pre_sus_time",
        number,
        lambda one: (
            int(facts.time_used(one.job, one.job.suspend_time)) if one.job.suspend_time and one.job.start_time else 0
        ),
        OLD,
    ),
    Field("power", plain, {"flags": []}, NEW),
    Field("preempt_time", number, 0, NEW),
    Field("preemptable_time", number, 0, NEW),
    Field(
        "pre_sus_time",
        number,
        lambda one: (
            int(facts.time_used(one.job, one.job.suspend_time)) if one.job.suspend_time and one.job.start_time else 0
        ),
        NEW,
    ),
    Field("hold", plain, lambda one: bool(one.job.held), NEW),
    Field("priority", number, lambda one: one.job.priority),
    Field("profile", text, None, OLD),
    Field("priority_by_partition", plain, [], NEW),
    Field("profile", plain, ["NOT_SET"], NEW),
    Field("qos", text, lambda one: one.request.qos or ""),
    Field("reboot", plain, False),
    Field("required_nodes", text, lambda one: one.request.node_list or ""),
    Field("required_switches", plain, lambda one: int(facts.switches(one.job)[0]), NEW),
    Field("requeue", plain, lambda one: requeues(one.job, one.view)),
    Field("resize_time", number, lambda one: int(one.job.resize_time)),
    Field("restart_cnt", plain, lambda one: one.job.restarts),
    Field("resv_name", text, lambda one: one.request.reservation or ""),
    Field("shared", text, lambda one: _shared(one.job), OLD),
    Field("show_flags", plain, lambda one: list(_SHOW_FLAGS), OLD),
    Field("scheduled_nodes", text, None, NEW),
    Field("segment_size", plain, 0, NEW),
    Field("selinux_context", text, None, NEW),
    Field("shared", plain, lambda one: _sharing(one.job), NEW),
    Field("sockets_per_board", plain, 0),
    Field("sockets_per_node", number, lambda one: one.request.sockets_per_node),
    Field("start_time", number, lambda one: int(one.job.start_time)),
    Field("state_description", text, ""),
    Field("state_reason", text, lambda one: one.job.reason),
    Field("standard_error", text, lambda one: one.files[1] if one.request.stderr is not None else "", OLD),
    Field("standard_input", text, lambda one: one.files[2], OLD),
    Field("standard_output", text, lambda one: one.files[0] if one.request.stdout is not None else "", OLD),
    Field("standard_input", plain, lambda one: one.files[2], NEW),
    Field("standard_output", plain, lambda one: one.files[0], NEW),
    Field("standard_error", plain, lambda one: one.files[1], NEW),
    Field("stdin_expanded", plain, lambda one: one.paths[2], NEW),
    Field("stdout_expanded", plain, lambda one: one.paths[0], NEW),
    Field("stderr_expanded", plain, lambda one: one.paths[1], NEW),
    Field("submit_time", number, lambda one: int(one.job.submit_time)),
    Field("suspend_time", number, lambda one: int(one.job.suspend_time)),
    Field("system_comment", text, lambda one: one.job.system_comment),
    Field("time_limit", number, lambda one: facts.time_limit(one.job, one.view)),
    Field("time_minimum", number, lambda one: one.request.time_min or 0),
    Field("threads_per_core", number, lambda one: one.request.threads_per_core),
    Field("tres_bind", text, lambda one: _prefixed("gpu:", one.request.extra.get("gpu-bind"))),
    Field("tres_freq", text, lambda one: _prefixed("gpu:", one.request.extra.get("gpu-freq"))),
    Field("tres_per_job", text, lambda one: show_gpus_field(one.request.gpus) or ""),
    Field("tres_per_node", text, lambda one: facts.tres_per_node(one.job)),
    Field("tres_per_socket", text, lambda one: show_gpus_field(one.request.gpus_per_socket) or ""),
    Field("tres_per_task", text, lambda one: show_gpus_field(one.request.gpus_per_task) or ""),
    Field("tres_req_str", text, lambda one: facts.tres(one.job.replace(shares=()), one.view)),
    Field("tres_alloc_str", text, lambda one: facts.tres(one.job, one.view) if one.shares else ""),
    Field("user_id", plain, lambda one: one.job.uid),
    Field("user_name", text, lambda one: one.job.user),
    Field("maximum_switch_wait_time", plain, lambda one: facts.switches(one.job)[1], NEW),
    Field("wckey", text, lambda one: one.request.wckey or ""),
    Field("current_working_directory", text, lambda one: one.request.work_dir),
)
