"""The GPUs of a step on each of its nodes.

A step that asks for none in particular takes all that the job has on its nodes; so two such steps never run at once.
"""

from __future__ import annotations

from shim.core.errors import INVALID_GRES, no_step
from shim.core.formats.integers import leading_int
from shim.core.placement import gpus
from shim.core.placement.step_values import StepError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.model.job import Job, NodeShare
    from shim.core.model.request import StepRequest
    from shim.core.placement.gpus import Demand

_MOST_TIMES, _MOST_BITS = 1024, 1024  # of a list of --gpu-bind: more tasks or GPUs has no node


class StepGpus:
    """What a step asks of its job's GPUs. One of the demands decides, or none: then the step takes all.

    A job's --gpus-per-node reaches srun as a variable, and as on Slurm decides before --gpus and --gpus-per-task of a step: it has
    all GPUs of its nodes, unless it says --gpus-per-node or --gres itself.
    """

    def __init__(self, step: StepRequest, job: Job) -> None:
        request = job.request
        self.binding = _binding(step)
        self.none = False
        self.node: Demand = ()
        self.total: Demand = ()
        self.limit: Demand = ()  # what --gpus says, also where it does not decide
        # Checked, and nothing is chosen by it: as on Slurm.
        self.socket: Demand = gpus.gpu_demand(step.gpus_per_socket)
        self.by_gpu = bool(step.cpus_per_gpu or step.mem_per_gpu)
        per_node = step.gpus_per_node if step.gres is None else None
        self.each: Demand = gpus.gpu_demand(step.gpus_per_task)  # there must be so many for a task in any case
        self.task: Demand = self.each if not per_node else ()
        self.alone = bool(step.gpus_per_task and not step.gpu_bind)  # a task alone on its node is not bound
        if step.gpus and step.gpus != request.gpus:  # else it is the job's own, from SLURM_GPUS
            self.limit = gpus.gpu_demand(step.gpus)
        if self.task:
            return
        if step.gres is not None:
            self.node = gpus.gres_demand(step.gres)[0]
            self.none = not self.node
        elif per_node:
            self.node = gpus.gpu_demand(per_node) if per_node != request.gpus_per_node else ()
            self.none = not gpus.total(gpus.gpu_demand(per_node))
        elif step.gpus and step.gpus != request.gpus:
            self.total = self.limit
            self.none = not self.total

    def counted(self, step: StepRequest, job: Job, nodes: int) -> int:
        """How many GPUs --ntasks-per-gpu counts its tasks by: those that are asked for by a number, else all of the job's."""
        for text, times in ((step.gpus_per_node, nodes), (step.gpus, 1)):
            if text:
                return gpus.total(gpus.gpu_demand(text)) * times
        return gpus.total(self.node) * nodes or sum(len(share.gpus) for share in job.shares)

    @property
    def everything(self) -> bool:
        """Whether the step takes all GPUs of its nodes."""
        return not (self.none or self.node or self.total or self.task)

    def check(self, job: Job, ntasks: int, least: int, most_nodes: int) -> None:
        """Raises StepError for what the job can never give to that many tasks and nodes, with Slurm's texts."""
        cannot = no_step(job.job_id, "")
        asked = (*self.node, *self.limit, *self.each, *self.socket)
        if not asked and not self.by_gpu:
            return
        types = [kind for share in job.shares for kind in (share.gpu_types or [""] * len(share.gpus))]
        if not types:
            raise StepError("error: Step requested GRES but job doesn't have GRES", cannot + INVALID_GRES)
        for kind, _ in asked:
            if kind and kind not in types:
                raise StepError(f"error: Step requested GRES (gpu:{kind}) not found in the job", cannot + INVALID_GRES)
        most = max(len(share.gpus) for share in job.shares)
        if gpus.total(self.node) > most:
            raise StepError(
                f"error: Step requested gres_per_node={gpus.show(self.node)} is more than the job's gres_per_node=gpu:{most}",
                cannot + INVALID_GRES,
            )
        total = gpus.total(self.limit)
        if total and total < least:
            raise StepError(
                f"error: Step requested gres={gpus.show(self.limit)} is less than the requested min nodes={least}",
                cannot + INVALID_GRES,
            )
        if total > min(len(types), most * most_nodes) or gpus.total(self.socket) > most:
            raise StepError(cannot + INVALID_GRES)
        if gpus.total(self.each) * ntasks > len(types):
            raise StepError(cannot + "Insufficient GRES available in allocation")

    def share_out(
        self, shares: Sequence[NodeShare], used: Sequence[Sequence[int]], tasks: Sequence[int]
    ) -> list[tuple[int, ...]] | None:
        """The indexes on each node, or None while other steps hold them. ``used``: the indexes that are taken."""
        chosen: list[tuple[int, ...]] = []
        left = self.total
        for position, (share, taken, count) in enumerate(zip(shares, used, tasks)):
            free = [index for index in share.gpus if index not in taken]
            if self.everything:
                if len(free) < len(share.gpus) or gpus.total(self.each) * count > len(free):
                    return None
                chosen.append(share.gpus)
                continue
            types = dict(zip(share.gpus, share.gpu_types or [""] * len(share.gpus)))
            demand = gpus.scale(self.task, count) if self.task else self.node
            if self.total:
                demand = gpus.take_share(left, [types[index] for index in free], len(shares) - position - 1)
                left = gpus.subtract(left, demand)
            own = gpus.pick(demand, free, types)
            if own is None:
                return None
            chosen.append(own)
        return None if gpus.total(left) else chosen

    def by_task(
        self, chosen: Sequence[tuple[int, ...]], tasks: Sequence[int]
    ) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The GPUs of each task of each node, where tasks have their own; else empty."""
        if not self.binding:
            return ()
        return tuple(
            (own,) if self.alone and count == 1 else tuple(_bound(self.binding, own, place) for place in range(count))
            for own, count in zip(chosen, tasks)
        )


def _binding(step: StepRequest) -> str:
    """Which GPUs of its node a task sees, as --gpu-bind words it; "" for all. Without the option it follows from others."""
    text = (step.gpu_bind or "").lower()
    if text.startswith("verbose,"):
        text = text[len("verbose,") :]
    if text:
        return text if text.partition(":")[1] else ""  # closest and none: nothing is known of sockets
    if step.gpus_per_task:
        return f"per_task:{gpus.total(gpus.gpu_demand(step.gpus_per_task))}"
    return f"single:{step.ntasks_per_gpu}" if step.ntasks_per_gpu else ""


def _bound(binding: str, own: tuple[int, ...], place: int) -> tuple[int, ...]:
    """The GPUs of a node that one of its tasks sees. A task for which the list has none sees the first GPU, as on Slurm."""
    way, _, rest = binding.partition(":")
    if way in ("map_gpu", "mask_gpu"):
        listed = _listed(rest, 16 if way == "mask_gpu" else 10)
        number = listed[place % len(listed)] if listed else 0
        mask = number if way == "mask_gpu" else 1 << min(number, _MOST_BITS)
        return tuple(index for at, index in enumerate(own) if mask >> at & 1) or own[:1]
    each = leading_int(rest)[0] or 0
    if way == "per_task":
        return own[place * each : (place + 1) * each] or own[:1]
    return (own[place // max(each, 1) % len(own)],) if own else ()


def _listed(text: str, base: int) -> list[int]:
    """The numbers of ``0*2,3``, each as often as its factor says; other words are left out."""
    found: list[int] = []
    for word in text.split(","):
        number, _, times = word.partition("*")
        try:
            value = int(number, base)
            found.extend([value] * min(int(times or 1), _MOST_TIMES) if value >= 0 else ())
        except ValueError:
            continue
    return found
