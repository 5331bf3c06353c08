"""Combinations of GPU options that contradict each other, in Slurm's words."""

from __future__ import annotations

from shim.core.errors import INVALID_GRES, RequestError
from shim.core.formats.tres import parse_gpus, parse_gres

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional, Set, Tuple

    from shim.core.model.request import JobRequest

_MIXED = "Invalid GRES specification (with and without type identification)"


def check_gpus(request: JobRequest) -> None:
    """Raises RequestError if the GPU options of ``request`` do not go together. What is not readable is not judged."""
    try:
        why = _contradiction(request)
    except ValueError:
        return
    if why is _MIXED:
        raise RequestError(f"error: {why}")
    if why:
        raise RequestError(f"error: {why}", f"error: {INVALID_GRES}")


def tasks_per_node(request: JobRequest) -> Optional[int]:
    """``--ntasks-per-node`` as it follows from GPUs of a node and of a task where the user does not say; else what he says."""
    if request.ntasks_per_node is not None or not request.gpus_per_task:
        return request.ntasks_per_node
    try:
        per_task, per_node = _count(request.gpus_per_task), _per_node(request)
    except ValueError:
        return None
    if not per_task or not per_node or per_node % per_task:
        return None
    return per_node // per_task


def nodes_of_gpus(request: JobRequest) -> Tuple[Optional[int], Optional[int]]:
    """The least and most nodes: of a range, what GPUs of the job and of a node come to; else what the user says."""
    least, most = request.min_nodes, request.max_nodes
    try:
        kinds = _kinds(request)
    except ValueError:
        return least, most
    for counts in kinds.values():
        per_job, per_node = counts.get("job", 0), counts.get("node", 0)
        if least and per_job and per_node:
            least = most = per_job // per_node
        elif per_job and most:
            most = min(most, per_job)  # a node without any is of no use
    return least, most


def _contradiction(request: JobRequest) -> str:
    """What slurmctld says first: of tasks by GPUs, of memory by GPUs, of each type of GPUs for itself, of types that are mixed."""
    kinds = _kinds(request)
    asked = {name for kind in kinds.values() for name in kind}
    why = _tasks_by_gpus(request, asked)
    if why:
        return why
    if request.mem_per_gpu and not asked and not request.ntasks_per_gpu:
        return f"Requested mem_per_tres=gres:gpu:{request.mem_per_gpu} but did not request any GPU."
    if request.cpus_per_gpu and request.cpus_per_task:
        kinds.setdefault("", {})
    for kind, counts in kinds.items():
        why = _of_kind(request, counts, by_cpus=not kind)
        if why:
            return why
    return _MIXED if "" in kinds and len(kinds) > 1 else ""


def _kinds(request: JobRequest) -> Dict[str, Dict[str, int]]:
    """How many GPUs of each type ("" for any) are asked for by job, node, socket and task."""
    kinds: Dict[str, Dict[str, int]] = {}
    per_node = [(kind, count) for name, kind, count in parse_gres(request.gres or "") if name == "gpu"]
    lists = (
        ("job", parse_gpus(request.gpus or "")),
        ("node", per_node),
        ("node", parse_gpus(request.gpus_per_node or "")),
        ("socket", parse_gpus(request.gpus_per_socket or "")),
        ("task", parse_gpus(request.gpus_per_task or "")),
    )
    for name, entries in lists:
        for kind, count in entries:
            if count:
                kinds.setdefault(kind, {})[name] = count
    return kinds


def _fixed_nodes(request: JobRequest) -> int:
    """The number of nodes of a request that leaves none open; 0 for others."""
    least, most = request.min_nodes or 0, request.max_nodes
    return least if most is None or most == least else 0


def _tasks_by_gpus(request: JobRequest, asked: Set[str]) -> str:
    if not request.ntasks_per_gpu or asked & {"job", "node", "socket"}:
        return ""
    if not (request.ntasks or _fixed_nodes(request)):
        return "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification"
    if (request.ntasks or 0) % request.ntasks_per_gpu:
        return "Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-gpu."
    return ""


def _of_kind(request: JobRequest, counts: Dict[str, int], by_cpus: bool) -> str:
    """The rules for one type of GPUs. ``by_cpus``: --cpus-per-gpu is about it."""
    per_job, per_node = counts.get("job", 0), counts.get("node", 0)
    per_socket, per_task = counts.get("socket", 0), counts.get("task", 0)
    if per_job and max(per_node, per_task, per_socket) > per_job:
        return "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"
    if per_node and max(per_task, per_socket) > per_node:
        return "Failed to ensure --gpus >= --gpus-per-task"
    if per_socket and not request.sockets_per_node:
        return "--gpus-per-socket option requires --sockets-per-node specification"
    if by_cpus and request.cpus_per_gpu and request.cpus_per_task:
        return "--cpus-per-gpu is mutually exclusive with --cpus-per-task"
    if per_job and per_node and per_job % per_node:
        return "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node"
    if per_job and per_node and request.min_nodes and not request.min_nodes <= per_job // per_node <= _most(request):
        return (
            f"Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({per_job // per_node})"
            f" doesn't fall between min_nodes ({request.min_nodes}) and max_nodes ({_most(request)}) boundaries."
        )
    return _of_sockets_and_tasks(request, per_job, per_node, per_socket, per_task)


def _of_sockets_and_tasks(request: JobRequest, per_job: int, per_node: int, per_socket: int, per_task: int) -> str:
    begin = "Failed to validate job spec"
    if per_node and per_socket and per_node % per_socket:
        return f"{begin}, --gres=gpu/--gpus-per-node not multiple of --gpus-per-socket."
    if per_node and per_socket and per_node // per_socket != request.sockets_per_node:
        return (
            f"{begin}. Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of sockets differ from"
            " --sockets-per-node."
        )
    tasks = request.ntasks or request.ntasks_per_node
    if request.cpus_per_task is None:
        tasks = tasks or _fixed_nodes(request)  # with -c nodes do not tell how many tasks there are
    if per_task and not (per_job or tasks):
        return f"{begin}. --gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
    if per_job and per_task and per_job % per_task:
        return f"{begin}, --gpus not multiple of --gpus-per-task"
    whole = request.ntasks or (request.ntasks_per_node or 0) * (request.min_nodes or 1)
    if per_job and per_task and whole and per_job // per_task != whole:
        return f"{begin}. Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks."
    if per_job and per_job < max(request.min_nodes or 1, _listed(request)):
        return f"{begin}, --gpus < -N"
    return ""


def _most(request: JobRequest) -> int:
    return request.max_nodes or 0xFFFFFFFE


def _listed(request: JobRequest) -> int:
    """How many nodes --nodelist names."""
    if not request.node_list:
        return 0
    from shim.core.formats import hostlist

    return len(set(hostlist.expand(request.node_list)))


def _count(text: Optional[str]) -> int:
    return sum(count for _, count in parse_gpus(text)) if text else 0


def _per_node(request: JobRequest) -> int:
    of_gres = sum(count for name, _, count in parse_gres(request.gres or "") if name == "gpu")
    return _count(request.gpus_per_node) or of_gres
