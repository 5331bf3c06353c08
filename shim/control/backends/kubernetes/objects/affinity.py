"""What a run's pods say of the nodes that they may be on. Pure.

Our scheduler orders: it lets a run go when there is room for it. The cluster's scheduler places. Hosts are named for a job only
where nothing else can say what it asked for: ``-w``, and what depends on which nodes are beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shim.control.backends.kubernetes.objects.gang_spec import Choices, Placement
from shim.control.backends.kubernetes.settings import Settings
from shim.core.placement import features
from shim.core.placement.resolve import resolve
from shim.job.spec import RunSpec

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.cluster.shape import Shape
    from shim.core.placement.resolve import ResolvedRequest

_MOST = 64  # alternatives of node labels: beyond them the chosen nodes are named


def placement(spec: RunSpec, settings: Settings, shape: Shape) -> Placement:
    """The placement of a job that our scheduler has chosen nodes for."""
    request = spec.job.request
    resolved = resolve(request)
    types = _gpu_types(resolved)
    choices = None if _needs_hosts(spec, types) else _choices(spec)
    # Nodes that only the configuration describes are places for a job, not machines, until a job names one.
    named = (request.node_list or (choices is None and shape.names_nodes)) and not _on_new_nodes(spec)
    kept_out = dict.fromkeys((*resolved.excluded, *spec.barred))
    gpu_type = types[0] if len(types) == 1 else ""
    return Placement(
        on=tuple(shape.hostname(share.name) for share in spec.job.shares) if named else (),
        not_on=() if named else tuple(shape.hostname(name) for name in kept_out),
        choices=() if named else choices or (),
        gpu_type=gpu_type if gpu_type in settings.gpu_types else "",
        alone=resolved.whole,
        tmp_disk=request.tmp_disk or 0,
    )


def _on_new_nodes(spec: RunSpec) -> bool:
    """Whether nodes are to be added for the job: nobody knows their names."""
    chosen = [spec.cluster.node(share.name) for share in spec.job.shares]
    return any(node is not None and node.cloud for node in chosen)


def _needs_hosts(spec: RunSpec, types: Sequence[str]) -> bool:
    """Whether no label says what the job asked for: neighbours, kinds of nodes by number, kinds that differ from pod to pod."""
    request = spec.job.request
    partition = spec.cluster.partition(spec.job.partition)
    capped = partition is not None and partition.max_cpus_per_node is not None
    counted = bool(features.parse(request.constraint).counts)
    return request.contiguous or counted or capped or len(types) > 1 or _whole_of_different(spec)


def _whole_of_different(spec: RunSpec) -> bool:
    # All pods ask for the same: whole nodes of different sizes can only be had by their names.
    shares = spec.job.shares
    return resolve(spec.job.request).whole and len({(one.cpus, one.memory, len(one.gpus)) for one in shares}) > 1


def _choices(spec: RunSpec) -> Choices | None:
    """The features wanted, as alternatives of which each is a set; None where there are too many."""
    wanted = features.parse(spec.job.request.constraint).choices
    chosen = [spec.cluster.node(share.name) for share in spec.job.shares]
    # ``[a|b]``: all nodes have the same one, which is that of the nodes that were chosen.
    expression = next(
        (
            one
            for one in wanted
            if all(node is not None and features.matches(one, frozenset(node.features)) for node in chosen)
        ),
        wanted[0],
    )
    return features.alternatives(expression, _MOST)


def _gpu_types(resolved: ResolvedRequest) -> list[str]:
    """The types that the job has named."""
    return sorted(
        {kind for demand in (resolved.node_gpus, resolved.job_gpus, resolved.task_gpus) for kind, _ in demand if kind}
    )
