"""The documents of ``squeue --json`` and ``sinfo --json``: the layout of Slurm 22.05 (openapi/v0.0.38), field for field in its order.

What is never set here has the value that Slurm gives a field that is not set. None is null; "" a text that is not set.
"""

from __future__ import annotations

from shim.core.formats.sizes import show_memory
from shim.core.formats.tres import show_gpus_field
from shim.core.model import states
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render.job_fields import accrue_time, requeues
from shim.core.render.sinfo_fields import gres_text, gres_used

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.core.model.cluster import Cluster, Node
    from shim.core.model.job import Job, NodeShare
    from shim.core.render.node_state import NodeUse
    from shim.core.render.scontrol_node import Machine
    from shim.core.render.view import View

    Fields = dict[str, Any]

_YEAR = 365 * 24 * 3600
_SHOW_FLAGS = ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"]


def document(version: str, name: str, records: Iterable[Fields]) -> Fields:
    """The whole document: ``records`` under ``name`` (jobs, nodes)."""
    major, minor, micro = (int(word) for word in version.split(".")[:3])
    return {
        "meta": {
            "plugin": {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
            "Slurm": {"version": {"major": major, "micro": micro, "minor": minor}, "release": version},
        },
        "errors": [],
        name: list(records),
    }


def job_fields(job: Job, view: View) -> Fields:
    """A job record."""
    request = job.request
    shares = [share for share in job.shares if not share.planned]
    never_ran = job.state in states.TERMINAL and not shares
    amount, per_cpu = facts.min_memory(job, view)
    asked = request.mem_per_node is not None or bool(request.mem_per_cpu) or bool(amount)
    limit = facts.time_limit(job, view)
    heterogeneous = bool(job.het_job_id)
    files = facts.files_asked(job) if request.kind == "batch" else ("", "", "")
    return {
        "account": request.account or "",
        "accrue_time": int(accrue_time(job)) if not job.held else 0,
        "admin_comment": "",
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task_id,
        "array_max_tasks": _throttle(job),
        "array_task_string": job.array_tasks or "",
        "association_id": 0,
        "batch_features": request.extra.get("batch", ""),
        "batch_flag": request.kind == "batch",
        "batch_host": shares[0].name if shares else "",
        "flags": _flags(job),
        "burst_buffer": request.extra.get("bb", ""),
        "burst_buffer_state": "",
        "cluster": job.cluster,
        "cluster_features": request.extra.get("cluster-constraint", ""),
        "command": facts.command(job),
        "comment": job.comment or request.comment or "",
        "container": request.container.get("container", ""),
        "contiguous": request.contiguous,
        "core_spec": None,
        "thread_spec": None,
        "cores_per_socket": request.cores_per_socket,
        "billable_tres": float(job.cpus) if shares else None,
        "cpus_per_task": None,
        "cpu_frequency_minimum": None,
        "cpu_frequency_maximum": None,
        "cpu_frequency_governor": None,
        "cpus_per_tres": f"gres:gpu:{request.cpus_per_gpu}" if request.cpus_per_gpu else "",
        "deadline": request.deadline,
        "delay_boot": 0,
        "dependency": job.dependency,
        "derived_exit_code": job.derived_status,
        "eligible_time": int(facts.eligible_time(job)),
        "end_time": int(_end_time(job, view)),
        "excluded_nodes": request.exclude or "",
        "exit_code": job.exit_status,
        "features": request.constraint or "",
        "federation_origin": "",
        "federation_siblings_active": "",
        "federation_siblings_viable": "",
        "gres_detail": [facts.gres_held(share) for share in shares if share.gpus],
        "group_id": job.gid,
        "group_name": job.group,
        "job_id": job.job_id,
        **({"job_resources": _resources(job, shares, view)} if shares else {}),
        "job_state": job.shown_state,
        "last_sched_evaluation": int(job.last_sched or job.submit_time),
        "licenses": request.licenses or "",
        "max_cpus": 0,
        "max_nodes": request.max_nodes or 0,
        "mcs_label": "",
        "memory_per_tres": "" if request.mem_per_gpu is None else f"gres:gpu:{request.mem_per_gpu}",
        "name": job.name,
        "nodes": facts.nodelist(job),
        "nice": request.nice or None,
        "tasks_per_core": request.ntasks_per_core,
        "tasks_per_node": request.ntasks_per_node or 0,
        "tasks_per_socket": request.ntasks_per_socket,
        "tasks_per_board": 0,
        "cpus": None if never_ran else job.cpus,
        "node_count": facts.nodes_counted(job, view),
        "tasks": None if never_ran and request.ntasks is None and request.ntasks_per_node is None else job.tasks,
        "het_job_id": job.het_job_id,
        "het_job_id_set": facts.het_ids(job) if heterogeneous else "",
        "het_job_offset": job.het_offset,
        "partition": job.partition,
        "prefer": request.prefer or "",
        "memory_per_node": amount if asked and amount and not per_cpu else None,
        "memory_per_cpu": amount if asked and per_cpu else None,
        "minimum_cpus_per_node": facts.min_cpus_per_node(job),
        "minimum_tmp_disk_per_node": request.tmp_disk or 0,
        "preempt_time": 0,
        "pre_sus_time": int(facts.time_used(job, job.suspend_time)) if job.suspend_time and job.start_time else 0,
        "priority": job.priority,
        "profile": None,
        "qos": request.qos or "",
        "reboot": False,
        "required_nodes": request.node_list or "",
        "requeue": requeues(job, view),
        "resize_time": int(job.resize_time),
        "restart_cnt": job.restarts,
        "resv_name": request.reservation or "",
        "shared": _shared(job),
        "show_flags": list(_SHOW_FLAGS),
        "sockets_per_board": 0,
        "sockets_per_node": request.sockets_per_node,
        "start_time": int(job.start_time),
        "state_description": "",
        "state_reason": job.reason,
        "standard_error": files[1] if request.stderr is not None else "",
        "standard_input": files[2],
        "standard_output": files[0] if request.stdout is not None else "",
        "submit_time": int(job.submit_time),
        "suspend_time": int(job.suspend_time),
        "system_comment": job.system_comment,
        "time_limit": None if limit == INFINITE else limit,
        "time_minimum": request.time_min or 0,
        "threads_per_core": request.threads_per_core,
        "tres_bind": _prefixed("gpu:", request.extra.get("gpu-bind")),
        "tres_freq": _prefixed("gpu:", request.extra.get("gpu-freq")),
        "tres_per_job": show_gpus_field(request.gpus) or "",
        "tres_per_node": facts.tres_per_node(job),
        "tres_per_socket": show_gpus_field(request.gpus_per_socket) or "",
        "tres_per_task": show_gpus_field(request.gpus_per_task) or "",
        "tres_req_str": facts.tres(job.replace(shares=()), view),
        "tres_alloc_str": facts.tres(job, view) if shares else "",
        "user_id": job.uid,
        "user_name": job.user,
        "wckey": request.wckey or "",
        "current_working_directory": request.work_dir,
    }


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
        "SPREAD_JOB": request.spread_job,
        "USE_MIN_NODES": request.use_min_nodes,
        "TRES_STR_CALC": job.state in states.TERMINAL and bool(job.shares),
        "JOB_CPUS_SET": bool(request.cpus_per_task),
        "JOB_WAS_RUNNING": bool(job.shares) and job.state not in states.TERMINAL,
        "JOB_MEM_SET": bool(request.mem_per_node or request.mem_per_cpu),
    }
    return [name for name, is_set in found.items() if is_set]


def _shared(job: Job) -> str | None:
    word = facts.over_subscribe(job)
    return {"NO": "none", "YES": "shared", "USER": "user", "MCS": "mcs"}.get(word)


def _prefixed(prefix: str, text: str | None) -> str:
    return prefix + text if text else ""


def _resources(job: Job, shares: list[NodeShare], view: View) -> Fields:
    return {
        "nodes": facts.nodelist(job),
        "allocated_cores": sum(share.cpus for share in shares),
        "allocated_hosts": len(shares),
        "allocated_nodes": [
            {
                "sockets": _sockets(share, view.cluster.node(share.name) if view.cluster is not None else None),
                "nodename": share.name,
                "cpus_used": 0,
                "memory_used": 0,
                "memory_allocated": share.memory,
            }
            for share in shares
        ],
    }


def _sockets(share: NodeShare, node: Node | None) -> Fields:
    """The cores as ``scontrol -d`` counts them: a job's CPUs of a node begin at 0."""
    threads = max(node.threads_per_core, 1) if node else 1
    cores = max(node.cores_per_socket, 1) if node else share.cpus
    found: Fields = {}
    for core in range(-(-share.cpus // threads)):
        socket = found.setdefault(str(core // cores), {"cores": {}})
        socket["cores"][str(core % cores)] = "allocated"
    return found


def node_fields(cluster: Cluster, use: NodeUse, machine: Machine, now: float) -> Fields:
    """A node record."""
    node = use.node
    gpus = f",gres/gpu={node.gpus}" if node.gpus and cluster.accounting else ""
    used = [f"cpu={use.cpus}"] if use.cpus else []
    used += [f"mem={show_memory(use.memory)}"] if use.memory else []
    features = ",".join(node.features)
    state, *flags = use.complete.split("+")
    return {
        "architecture": machine.arch,
        "burstbuffer_network_address": "",
        "boards": 1,
        "boot_time": int(machine.boot_time),
        "comment": node.comment,
        "cores": node.cores_per_socket,
        "cpu_binding": 0,
        "cpu_load": None if machine.load is None else round(100 * machine.load),
        "extra": node.extra,
        "free_memory": machine.free_memory,
        "cpus": node.cpus,
        "last_busy": int(now if use.jobs else machine.boot_time),
        "features": features,
        "active_features": features,
        "gres": gres_text(node),
        "gres_drained": "N/A",
        "gres_used": gres_used(use),
        "mcs_label": "",
        "name": node.name,
        "next_state_after_reboot": "invalid",
        "address": node.address or node.name,
        "hostname": node.name,
        "state": state.lower(),
        "state_flags": flags,
        "next_state_after_reboot_flags": [],
        "operating_system": machine.system,
        "owner": None,
        "partitions": [one.name for one in cluster.partitions if node.name in one.nodes],
        "port": 6818,
        "real_memory": node.memory,
        "reason": node.reason,
        "reason_changed_at": int(node.reason_time),
        "reason_set_by_user": node.reason_user or None,
        "slurmd_start_time": int(machine.boot_time),
        "sockets": node.sockets,
        "threads": node.threads_per_core,
        "temporary_disk": node.tmp_disk,
        "weight": node.weight,
        "tres": f"cpu={node.cpus},mem={show_memory(node.memory)},billing={node.cpus}{gpus}",
        "slurmd_version": cluster.version,
        "alloc_memory": use.memory,
        "alloc_cpus": use.cpus,
        "idle_cpus": node.cpus - use.cpus,
        "tres_used": ",".join(used) or None,
        "tres_weighted": float(use.cpus),
    }
