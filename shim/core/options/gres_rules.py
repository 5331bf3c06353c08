"""Combinations of GPU options that contradict each other, in Slurm's words."""

from __future__ import annotations

from shim.core.errors import RequestError
from shim.core.tres import INVALID_GRES, parse_gpus, parse_gres

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

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
    try:
        per_job, per_node = _count(request.gpus), _per_node(request)
    except ValueError:
        per_job = per_node = 0
    if not (request.min_nodes and per_job and per_node):
        return request.min_nodes, request.max_nodes
    return per_job // per_node, per_job // per_node


def _contradiction(request: JobRequest) -> str:
    per_job, per_task, per_node = _count(request.gpus), _count(request.gpus_per_task), _per_node(request)
    tasks = request.ntasks or request.ntasks_per_node
    if request.cpus_per_gpu and request.cpus_per_task:
        return "--cpus-per-gpu is mutually exclusive with --cpus-per-task"
    per_socket = _count(request.gpus_per_socket)
    if request.mem_per_gpu and not (per_job or per_task or per_node or per_socket):
        return f"Requested mem_per_tres=gres:gpu:{request.mem_per_gpu} but did not request any GPU."
    if per_socket and not request.sockets_per_node:
        return "--gpus-per-socket option requires --sockets-per-node specification"
    if request.ntasks_per_gpu and not (per_job or per_task or per_node or request.ntasks or request.min_nodes):
        return "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification"
    if (
        request.ntasks_per_gpu
        and not (per_job or per_node or per_socket)
        and (request.ntasks or 0) % request.ntasks_per_gpu
    ):
        return "Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-gpu."
    if per_task and not (per_job or tasks or request.min_nodes):
        return "Failed to validate job spec. --gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
    if _mixed(request):
        return _MIXED
    if per_job and per_job < per_node:
        return "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"
    if 0 < (per_job or per_node * (request.min_nodes or 1)) < per_task:
        return "Failed to ensure --gpus >= --gpus-per-task"
    if per_job and per_node and per_job % per_node:
        return "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node"
    if per_job and per_node and request.min_nodes and not request.min_nodes <= per_job // per_node <= _most(request):
        return (
            f"Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({per_job // per_node})"
            f" doesn't fall between min_nodes ({request.min_nodes}) and max_nodes ({_most(request)}) boundaries."
        )
    if per_job and per_task and per_job % per_task:
        return "Failed to validate job spec, --gpus not multiple of --gpus-per-task"
    if per_job and per_task and request.ntasks and per_job // per_task != request.ntasks:
        return "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks."
    if per_job and per_job < max(request.min_nodes or 1, _listed(request)):
        return "Failed to validate job spec, --gpus < -N"
    return ""


def _most(request: JobRequest) -> int:
    return request.max_nodes or 0xFFFFFFFE


def _listed(request: JobRequest) -> int:
    """How many nodes --nodelist names."""
    if not request.node_list:
        return 0
    from shim.core import hostlist

    return len(set(hostlist.expand(request.node_list)))


def _mixed(request: JobRequest) -> bool:
    """Whether GPUs are asked for by type and without one, in one option or in several."""
    types = {kind for name, kind, count in parse_gres(request.gres or "") if name == "gpu" and count}
    for text in (request.gpus, request.gpus_per_node, request.gpus_per_socket, request.gpus_per_task):
        types.update(kind for kind, count in (parse_gpus(text) if text else ()) if count)
    return "" in types and len(types) > 1


def _count(text: Optional[str]) -> int:
    return sum(count for _, count in parse_gpus(text)) if text else 0


def _per_node(request: JobRequest) -> int:
    of_gres = sum(count for name, _, count in parse_gres(request.gres or "") if name == "gpu")
    return _count(request.gpus_per_node) or of_gres
