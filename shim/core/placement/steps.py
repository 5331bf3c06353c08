"""Where a step runs inside its job: the rules of srun in an allocation.

A step takes every CPU, all memory and all GPUs of its nodes unless it says less (--exact, --exclusive or -c for CPUs,
--mem, --gres); --overlap takes nothing. Nodes without a running step are preferred.
"""

from __future__ import annotations

from shim.core.errors import (
    MEMORY_NOT_AVAILABLE,
    NODE_CONFIG_UNAVAILABLE,
    NODES_BUSY,
    TOO_MANY_CPUS,
    fewer_nodes,
    no_step,
    tasks_per_node_ignored,
)
from shim.core.formats import hostlist
from shim.core.placement.step_gpus import StepGpus
from shim.core.placement.step_values import ShareUse, StepError, StepLayout
from shim.core.placement.tasks import PACKS, distribution_kind, task_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shim.core.model.job import Job
    from shim.core.model.request import StepRequest


def step_layout(
    step: StepRequest, job: Job, used: Sequence[ShareUse], nodes: Mapping[str, Sequence[str]] | None = None
) -> StepLayout:
    """The layout of ``step`` in ``job`` while other steps use ``used`` (one value per share of the job). ``nodes``: what features
    those have, by name.

    Raises StepError: ``retry`` is set when the step fits as soon as other steps have ended.
    """
    wanted = step.min_nodes or 0
    if step.nodes_inherited and min(wanted, step.ntasks or wanted) > len(job.shares):
        return _in_what_is_left(step, job, used, nodes)
    plan = _Plan(step, job, nodes or {})
    layout = plan.lay_out(used)
    if layout is not None:
        return layout
    if plan.lay_out([ShareUse()] * len(job.shares)) is not None:
        raise StepError(plan.cannot + NODES_BUSY, retry=True)
    raise StepError(plan.cannot + (NODE_CONFIG_UNAVAILABLE if step.exclude else TOO_MANY_CPUS))


def _in_what_is_left(
    step: StepRequest, job: Job, used: Sequence[ShareUse], nodes: Mapping[str, Sequence[str]] | None
) -> StepLayout:
    """The layout where the environment still counts nodes that the job has given up."""
    have = len(job.shares)
    line = f"error: SLURM_JOB_NUM_NODES environment variable conflicts with allocated node count ({step.min_nodes} != {have})."
    try:
        layout = step_layout(step.replace(min_nodes=have, max_nodes=None, nodes_inherited=False), job, used, nodes)
    except StepError as error:
        raise StepError(line, *error.lines, retry=error.retry) from None
    return layout.replace(warnings=(line, *layout.warnings))


class _Plan:
    """The numbers of one request in one job, checked against what the job has at all."""

    def __init__(self, step: StepRequest, job: Job, features: Mapping[str, Sequence[str]]) -> None:
        self.step = step
        self.job = job
        self.shares = job.shares
        self.cannot = no_step(job.job_id, "")
        self.warnings: list[str] = []
        self.exact = step.exact or step.exclusive or (step.cpus_per_task is not None and not step.overcommit)
        self.cpus_per_task = step.cpus_per_task or 1
        self.named = self.indexes(step.node_list)
        self.required = sorted(set(self.named))
        self.arbitrary = self.named if (step.distribution or "").startswith("arbitrary") else []
        self.excluded = self.without()
        self.gpus = StepGpus(step, job)
        self.ntasks, self.least, self.most = self.size()
        self.per_node = self.tasks_per_node()
        self.allowed = self.with_features(self.allowed_nodes(), features)
        self.gpus.check(job, self.ntasks, self.least, self.most)
        self.check_cpus_and_memory()

    def indexes(self, text: str | None) -> list[int]:
        """The shares that a node list names. Raises StepError for a node that the job has not."""
        places = {}
        for index, share in enumerate(self.shares):
            places[share.name] = index
            places[share.host or share.name] = index
        names = hostlist.expand(text) if text else []
        if any(name not in places for name in names):
            raise StepError(self.cannot + NODE_CONFIG_UNAVAILABLE)
        return [places[name] for name in names]

    def size(self) -> tuple[int, int, int]:
        """How many tasks, on how many nodes at least and at most."""
        step = self.step
        have = len(self.shares)
        asked = step.min_nodes
        wanted = asked and min(asked, step.ntasks or asked)
        if wanted and wanted > have and not step.nodes_inherited:
            fewer = [fewer_nodes(wanted, asked)] if wanted != asked else []
            raise StepError(*fewer, *self.too_few(have - len(self.excluded), wanted))
        if self.arbitrary and step.ntasks not in (None, len(self.arbitrary)):
            if self.job.request.kind == "run":  # srun got this allocation for itself: the controller looks first
                raise StepError(self.cannot + "Unspecified error")
            raise StepError(
                f"error: You asked for {step.ntasks} tasks but hostlist specified {len(self.arbitrary)} nodes"
            )
        if self.arbitrary:
            return step.ntasks or len(self.arbitrary), len(self.required), len(self.required)
        least = asked if asked is not None else max(have - (step.relative or 0), 1)
        ntasks = step.ntasks
        if ntasks is None:
            if step.ntasks_per_node:
                ntasks = step.ntasks_per_node * least
            elif step.cpus_per_task:  # as many as all nodes of the job have CPUs for, also for a step on some of them
                ntasks = max(sum(share.cpus // step.cpus_per_task for share in self.shares), least)
            else:
                ntasks = self.tasks_of_gpus(least) or least
        elif step.ntasks_per_gpu and self.job.request.kind != "run":
            ntasks = max(ntasks, self.tasks_of_gpus(least))
        if ntasks < least:
            if asked is not None:
                self.warnings.append(fewer_nodes(ntasks, least))
            return ntasks, max(ntasks, len(self.required)), max(ntasks, len(self.required))
        least = max(least, len(self.required))
        most = step.max_nodes if step.max_nodes is not None and asked is not None else least
        return ntasks, least, max(least, min(most, have, ntasks))

    def without(self) -> frozenset[int]:
        """The nodes of the job that -x names. Raises StepError where it leaves none, or names one that is asked for."""
        names = frozenset(hostlist.expand(self.step.exclude)) if self.step.exclude else frozenset()
        found = [at for at, share in enumerate(self.shares) if share.name in names or self.host(at) in names]
        for at in self.required:
            if at in found:
                raise StepError(
                    f"error: Requested node {self.host(at)} is also in the excluded list.", "error: Job not submitted."
                )
        if len(found) == len(self.shares):
            raise StepError("error: Hostlist is empty!  Can't run job.")
        return frozenset(found)

    def too_few(self, have: int, wanted: int) -> list[str]:
        """The lines for more nodes than are there."""
        lines = [f"error: Only allocated {have} nodes asked for {wanted}"]
        return [*lines, "error: Are required nodes explicitly excluded?"] if self.step.exclude else lines

    def tasks_of_gpus(self, nodes: int) -> int:
        """As many as --ntasks-per-gpu says; 0 where it says nothing."""
        return (self.step.ntasks_per_gpu or 0) * self.gpus.counted(self.step, self.job, nodes)

    def tasks_per_node(self) -> int | None:
        """--ntasks-per-node as a limit; dropped with srun's warning when it does not agree with tasks and nodes."""
        per_node = self.step.ntasks_per_node
        named = self.step.min_nodes is not None  # also by SLURM_JOB_NUM_NODES
        if not per_node or not named or self.ntasks <= per_node or self.ntasks // max(self.least, 1) == per_node:
            return per_node or None
        self.warnings.append(tasks_per_node_ignored(per_node, self.ntasks, self.least))
        return None

    def allowed_nodes(self) -> list[int]:
        """The nodes that -x and -r leave."""
        have = len(self.shares)
        left = range(have)
        relative = self.step.relative
        if relative is not None:
            if relative + self.least > have:
                option = "SLURM_JOB_NUM_NODES" if self.step.min_nodes == have else "--nodes"
                raise StepError(
                    f"error: --relative and {option} option incompatible with count of allocated nodes "
                    f"({relative}+{self.least}>{have})"
                )
            left = range(relative, relative + self.least)
        allowed = [index for index in left if index not in self.excluded]
        if len(allowed) < self.least:
            raise StepError(*self.too_few(len(allowed), self.least))
        return allowed

    def with_features(self, allowed: list[int], features: Mapping[str, Sequence[str]]) -> list[int]:
        """Those that have what -C names. Too few: the step waits, as for nodes that are busy (they might get the feature)."""
        if not self.step.constraint:
            return allowed
        from shim.core.placement.features import FeatureError, matches, parse

        found: list[int] = []
        try:
            for choice in parse(self.step.constraint).choices:
                own = [at for at in allowed if matches(choice, frozenset(features.get(self.shares[at].name, ())))]
                found = max(found, own, key=len)
        except FeatureError:
            found = []  # no node can have such features; Slurm lets the step wait
        if len(found) < self.least:
            raise StepError(self.cannot + NODES_BUSY, retry=True)
        return found

    def host(self, index: int) -> str:
        return self.shares[index].host or self.shares[index].name

    def check_cpus_and_memory(self) -> None:
        """What no node of the job has is refused at once."""
        if not self.step.overcommit and self.ntasks * self.cpus_per_task > sum(share.cpus for share in self.shares):
            raise StepError(self.cannot + TOO_MANY_CPUS)
        limited = [share.memory for share in self.shares if share.memory]
        wanted = max(self.step.mem_per_node or 0, (self.step.mem_per_cpu or 0) * self.cpus_per_task)
        if limited and wanted > max(limited):
            raise StepError(self.cannot + MEMORY_NOT_AVAILABLE)

    def lay_out(self, used: Sequence[ShareUse]) -> StepLayout | None:
        """The layout beside the steps that hold ``used``, or None when there is not enough left."""
        room = {index: self.room(index, used[index]) for index in self.allowed}
        if any(not room.get(index) for index in self.required):
            return None
        others = [index for index in self.allowed if room[index] and index not in self.required]
        idle_first = sorted(others, key=lambda index: used[index].steps > 0)
        roomy = sorted(others, key=lambda index: -room[index])
        for order in (idle_first, roomy):
            pool = [*self.required, *order]
            for number in range(self.least, min(self.most, len(pool)) + 1):
                layout = self.on(sorted(pool[:number]), room, used)
                if layout is not None:
                    return layout
        return None

    def room(self, index: int, use: ShareUse) -> int:
        """The CPUs of a node that the step may use now."""
        cpus = self.shares[index].cpus
        if self.step.overlap:
            return cpus
        if not self.exact:
            return 0 if use.cpus else cpus
        return max(0, cpus - use.cpus)

    def on(self, nodes: Sequence[int], room: dict[int, int], used: Sequence[ShareUse]) -> StepLayout | None:
        """The layout on exactly these nodes, or None when they have too little left."""
        step = self.step
        cpus = [room[index] for index in nodes]
        if not step.overcommit and sum(cpus) < self.ntasks * self.cpus_per_task:
            return None
        rooms = [max(1, count // self.cpus_per_task) for count in cpus]
        arbitrary = [list(nodes).index(index) for index in self.arbitrary]
        ranks = task_layout(rooms, self.ntasks, step.distribution, cap=self.per_node, arbitrary=arbitrary)
        tasks = [len(own) for own in ranks]
        if self.exact:
            cpus = [min(here, count * self.cpus_per_task) for here, count in zip(cpus, tasks)]
        memory = [self.memory(index, count) for index, count in zip(nodes, cpus)]
        shares = [self.shares[index] for index in nodes]
        taken = [() if step.overlap else used[index].gpus for index in nodes]
        chosen = self.gpus.share_out(shares, taken, tasks)
        if chosen is None:
            return None
        if not step.overlap and any(
            share.memory and need > share.memory - used[index].memory
            for index, share, need in zip(nodes, shares, memory)
        ):
            return None
        distribution, plane = self.distribution(len(nodes))
        return StepLayout(
            nodes=tuple(nodes),
            names=tuple(self.host(index) for index in nodes),
            ranks=ranks,
            cpus=tuple(cpus),
            memory=tuple(memory),
            gpus=tuple(chosen),
            task_gpus=self.gpus.by_task(chosen, tasks),
            gpu_binding=self.gpus.binding,
            distribution=distribution,
            plane_size=plane,
            overlap=step.overlap,
            warnings=tuple(self.warnings),
        )

    def memory(self, index: int, cpus: int) -> int:
        """MiB of the step on a node; 0 where the job's memory is not counted."""
        share = self.shares[index]
        if not share.memory:
            return 0
        if self.step.mem_per_node:
            return self.step.mem_per_node
        if self.step.mem_per_cpu:
            return self.step.mem_per_cpu * cpus
        if self.exact and self.step.mem_per_node is None and self.job.request.mem_per_node is None:
            return min(share.memory, share.memory * cpus // share.cpus)  # the job's memory is per CPU
        return share.memory

    def distribution(self, nodes: int) -> tuple[str, int | None]:
        """SLURM_DISTRIBUTION (``-m block:cyclic`` and ``cyclic,pack`` stay as given) and SLURM_DIST_PLANESIZE."""
        kind = distribution_kind(self.step.distribution, self.ntasks, nodes)
        name, _, size = kind.partition("=")
        given = self.step.distribution or ""
        if given in PACKS:
            name = f"{name},{given}"
        elif ":" in given or "," in given:
            name = given
        return name, (int(size) if size.isdigit() else None)
