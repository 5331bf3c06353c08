"""What a request needs, in the words of a SkyPilot task: ``num_nodes`` and ``resources``."""

from __future__ import annotations

from typing import Any

from shim.control import site
from shim.core.container import ContainerError, is_file, registry_names
from shim.core.errors import ShimError
from shim.core.model.request import JobRequest
from shim.core.options.grammar import Grammar
from shim.core.placement.gpus import total
from shim.core.placement.resolve import ResolvedRequest, resolve


def grammar() -> Grammar:
    """The options of this site, and those about containers in any case: a task has an image wherever it runs."""
    return (site.grammar() or Grammar()).replace(pyxis=True)


class Needs:
    """``num_nodes``, and ``resources`` of each node in SkyPilot's words. ``tasks``: of each node. ``cpus``: of each node, 1 where nobody asked."""

    def __init__(self, request: JobRequest, gpu: str | None = None) -> None:
        """``gpu``: the kind that GPUs are of which the request asks for without a type. ShimError for what no task could ask for."""
        resolved = resolve(request)
        self.num_nodes = max(1, resolved.min_nodes)
        self.tasks = _tasks(resolved, self.num_nodes)
        self.gpus = _gpus(resolved, self.num_nodes, max(self.tasks))
        self.cpus = _cpus(request, resolved, max(self.tasks), sum(self.gpus.values()))
        self.resources: dict[str, Any] = {}
        if self.gpus:
            self.resources["accelerators"] = _accelerators(self.gpus, gpu)
        if self.cpus > 1 or request.cpus_per_task or request.min_cpus:
            self.resources["cpus"] = f"{self.cpus}+"
        memory = _memory(request, self.cpus, sum(self.gpus.values()))
        if memory:
            self.resources["memory"] = f"{gibibytes(memory)}+"
        if request.tmp_disk:
            self.resources["disk_size"] = -(-request.tmp_disk // 1024)
        image = image_of(request)
        if image:
            self.resources["image_id"] = f"docker:{image}"


def gibibytes(mebibytes: int) -> str:
    """As SkyPilot has memory: a number of GiB, with a fraction where there is one."""
    return f"{mebibytes / 1024:.10f}".rstrip("0").rstrip(".")


def image_of(request: JobRequest) -> str:
    """The image of --container-image as registries name it; "" for none, and for a file, which no other machine has."""
    image = request.container.get("container-image", "") or request.container_image or ""
    if not image or is_file(image):
        return ""
    try:
        return registry_names(image)[:2][-1]  # the first of several is of this machine only
    except ContainerError as problem:
        raise ShimError(f"error: {problem}") from None


def _tasks(resolved: ResolvedRequest, nodes: int) -> list[int]:
    if resolved.ntasks is None:
        return [resolved.each_node or 1] * nodes
    each = resolved.tasks_per_node
    if each:
        return [max(0, min(each, resolved.ntasks - node * each)) for node in range(nodes)]
    return [resolved.ntasks // nodes + (node < resolved.ntasks % nodes) for node in range(nodes)]


def _gpus(resolved: ResolvedRequest, nodes: int, tasks: int) -> dict[str, int]:
    found: dict[str, int] = {}
    if total(resolved.node_gpus):
        found = dict(resolved.node_gpus)
    elif total(resolved.job_gpus):
        found = {kind: -(-count // nodes) for kind, count in resolved.job_gpus}
    else:
        found = {kind: count * tasks for kind, count in resolved.task_gpus}
    return {kind: count for kind, count in found.items() if count}


def _accelerators(gpus: dict[str, int], given: str | None) -> str:
    if len(gpus) > 1:
        raise ShimError(f"error: {', '.join(gpus)}: nodes of a SkyPilot task have GPUs of one kind")
    ((kind, count),) = gpus.items()
    if not (kind or given):
        raise ShimError("error: GPUs without a type: SkyPilot asks for a kind of GPU; --gpu H100 says which")
    return f"{kind or given}:{count}"


def _cpus(request: JobRequest, resolved: ResolvedRequest, tasks: int, gpus: int) -> int:
    by_gpus = (request.cpus_per_gpu or 0) * gpus
    return max(resolved.min_cpus, by_gpus, 1 if request.overcommit else tasks * request.task_cpus)


def _memory(request: JobRequest, cpus: int, gpus: int) -> int:
    """MiB of each node; 0 where nobody asked, and for --mem=0."""
    if request.mem_per_cpu:
        return request.mem_per_cpu * cpus
    if request.mem_per_gpu:
        return request.mem_per_gpu * gpus
    return request.mem_per_node or 0
