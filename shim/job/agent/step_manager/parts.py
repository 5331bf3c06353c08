"""The parts of a step: one, or for ``srun … : …`` and ``--het-group`` several, each a command of its own on nodes of its own.

In a heterogeneous job every part runs on one component; in a plain job the parts share its nodes out, one behind the other.
All together they are one step: its tasks are counted through, and it ends when all of them have ended.
"""

from __future__ import annotations

from shim.core.errors import ALREADY_DONE, ShimError, no_step
from shim.core.formats import hostlist
from shim.core.model.request import StepRequest
from shim.core.placement.steps import step_layout
from shim.job.steps.multiprog import programs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job
    from shim.core.placement.step_values import ShareUse, StepLayout
    from shim.job.spec import RunSpec

    Message = dict[str, Any]


class Wish:
    """What srun asks for one part. ``group``: the component that it is for, or its place among the parts."""

    __slots__ = ("environment", "group", "named", "request", "srun")

    def __init__(
        self,
        request: StepRequest,
        environment: Mapping[str, str],
        group: int = 0,
        named: bool = False,
        srun: str = "",
    ) -> None:
        self.srun = srun
        self.request = request
        self.environment = dict(environment)
        self.group = group
        self.named = named


class Part:
    """One part that has its nodes.

    ``job``: the component, or the plain job with the nodes that this part may use; ``indexes``: where those are among the run's.
    ``layout`` counts nodes as ``job`` does, and ranks through all parts; ``node`` is the first node's place in the step.
    ``component``: of a heterogeneous job; 0 in a plain one. ``suffix`` tells parts of one job apart in a step's id.
    """

    __slots__ = ("component", "environment", "indexes", "job", "layout", "node", "request", "srun", "suffix")

    def __init__(self, wish: Wish, job: Job, indexes: Sequence[int], layout: StepLayout) -> None:
        self.request = wish.request
        self.environment = wish.environment
        self.srun = wish.srun  # its "host:pid"
        self.job = job
        self.indexes = tuple(indexes)
        self.layout = layout
        self.component = job.het_offset
        self.node = 0
        self.suffix = ""

    @property
    def ranks(self) -> list[int]:
        """The ranks of its tasks."""
        return sorted(rank for own in self.layout.ranks for rank in own)

    @property
    def nodes(self) -> list[int]:
        """The run's indexes of the nodes that it uses."""
        return [self.indexes[index] for index in self.layout.nodes]

    @property
    def name(self) -> str:
        """The part's name as squeue -s shows it: the one that was given, or its command's."""
        argv = self.request.argv
        return self.request.name or (argv[0].rpartition("/")[2] if argv else "")

    @property
    def distribution(self) -> str:
        """How its tasks are spread, as Slurm names it: for an srun that is its own job in blocks unless it says otherwise."""
        told = self.request.distribution or self.job.request.kind != "run"
        return self.layout.distribution if told else "block"

    def details(self) -> Message:
        """What else the journal tells of the step's beginning, as far as there is anything to tell."""
        found = {
            "memory": sum(self.layout.memory),
            "gpus": sum(len(own) for own in self.layout.gpus),
            "limit": self.request.time_limit,
            "distribution": self.distribution,
            "srun": self.srun,
        }
        return {name: value for name, value in found.items() if value}

    def label(self, number: int) -> str:
        """The step's id in texts: ``7.0``; ``8.0`` on component 1 of job 7; ``7.0+1`` for the second part in a plain job."""
        return f"{self.job.job_id}.{number}{self.suffix}"


def wishes_of(message: Message) -> list[Wish]:
    """What an srun's ``step`` message asks for. KeyError, TypeError or ValueError: it is none."""
    asked = message.get("parts") or [message]
    found = []
    for one in asked:
        if not isinstance(one["environment"], dict):
            raise TypeError("an environment is a JSON object")
        request = StepRequest.from_dict(one["request"])
        srun = str(message.get("srun") or "")
        found.append(Wish(request, one["environment"], int(one.get("group", 0)), bool(one.get("named")), srun))
    return found


def lay_out(
    wishes: Sequence[Wish],
    spec: RunSpec,
    used: Sequence[ShareUse],
    gone: Mapping[int, object],
    given_up: Container[int] = (),
) -> list[Part]:
    """The parts beside the steps that hold ``used`` of the run's nodes. ShimError where there is no room; StepError tells whether
    there may be some later. ``gone``: components that were ended; ``given_up``: nodes
    that a plain job has no more.
    """
    if spec.components:
        _check_groups(wishes, len(spec.components) - 1)
        parts = [_on_component(wish, spec, used, gone) for wish in wishes]
    else:
        parts = _shared_out(wishes, spec, used, given_up)
    first = node = 0
    for part in parts:
        part.node = node
        if first:
            ranks = tuple(tuple(rank + first for rank in own) for own in part.layout.ranks)
            part.layout = part.layout.replace(ranks=ranks)
        first += part.layout.ntasks
        node += len(part.layout.nodes)
    return parts


def together(parts: Sequence[Part]) -> StepLayout:
    """The layout of the whole step over the run's nodes."""
    if len(parts) == 1 and parts[0].nodes == list(parts[0].layout.nodes):
        return parts[0].layout
    layouts = [part.layout for part in parts]
    return layouts[0].replace(
        nodes=tuple(index for part in parts for index in part.nodes),
        names=tuple(name for layout in layouts for name in layout.names),
        ranks=tuple(own for layout in layouts for own in layout.ranks),
        cpus=tuple(count for layout in layouts for count in layout.cpus),
        memory=tuple(size for layout in layouts for size in layout.memory),
        gpus=tuple(own for layout in layouts for own in layout.gpus),
        task_gpus=(),
        warnings=tuple(line for layout in layouts for line in layout.warnings),
    )


def _check_groups(wishes: Sequence[Wish], last: int) -> None:
    highest = max(wish.group for wish in wishes)
    if highest <= last:
        return
    if len(wishes) == 1:
        raise ShimError(f"error: Requested het-group offset exceeds highest hetjob index ({highest} > {last})")
    raise ShimError(
        f"error: Attempt to run a job step with het group value of {highest}, but the job allocation has maximum"
        f" value of {last}"
    )


def _on_component(wish: Wish, spec: RunSpec, used: Sequence[ShareUse], gone: Mapping[int, object]) -> Part:
    job = spec.components[wish.group]
    if wish.group in gone:
        raise ShimError(no_step(job.job_id, ALREADY_DONE))
    indexes = spec.nodes_of(wish.group)
    return Part(wish, job, indexes, _layout(wish.request, job, [used[index] for index in indexes], spec.cluster))


def _shared_out(
    wishes: Sequence[Wish], spec: RunSpec, used: Sequence[ShareUse], given_up: Container[int]
) -> list[Part]:
    """The parts of a step in a plain job: the only one may have all nodes, of several each takes some of those that are left."""
    job = spec.job
    here = [index for index in range(len(job.shares)) if index not in given_up]
    if len(here) < len(job.shares):
        job, used = job.replace(shares=tuple(job.shares[index] for index in here)), [used[index] for index in here]
    if len(wishes) == 1:
        _check_alone(wishes[0])
        return [Part(wishes[0], job, here, _layout(wishes[0].request, job, used, spec.cluster))]
    parts: list[Part] = []
    taken: list[int] = []
    for place, wish in enumerate(wishes):
        wanted = wish.request.min_nodes or 1
        if wish.request.ntasks:
            wanted = min(wanted, wish.request.ntasks)
        left = _left(wish.request, job, taken)
        if wish.request.node_list:
            wanted = max(wanted, len(left))
        if len(left) < wanted:
            raise ShimError(
                f"error: Allocation failure of {wanted} nodes: job size of {len(job.shares)}, already allocated"
                f" {len(taken)} nodes to previous components."
            )
        own = left[:wanted]
        taken += own
        request = wish.request.replace(min_nodes=wanted, max_nodes=wanted)
        narrowed = job.replace(shares=tuple(job.shares[index] for index in own))
        part = Part(
            wish,
            narrowed,
            [here[index] for index in own],
            _layout(request, narrowed, [used[index] for index in own], spec.cluster),
        )
        part.suffix = f"+{place}"
        parts.append(part)
    return parts


def _check_alone(wish: Wish) -> None:
    if wish.named and wish.group:
        raise ShimError(f"error: Requested het-group offset exceeds highest hetjob index ({wish.group} > 0)")
    if wish.named:
        raise ShimError("error: No directives to start application on any available hetjob components")


def _left(request: StepRequest, job: Job, taken: Sequence[int]) -> list[int]:
    """The nodes that a part may have: those that it names, else all that no part before it took."""
    free = [index for index in range(len(job.shares)) if index not in taken]
    if not request.node_list:
        return free
    names = hostlist.expand(request.node_list)
    had = [job.shares[index].name for index in taken]
    if any(name in had for name in names):
        raise ShimError(
            f"error: Requested nodelist {request.node_list} overlaps with excluded {hostlist.fold(had)}.",
            "error: Job not submitted.",
        )
    return [index for index in free if job.shares[index].name in names]


def _layout(request: StepRequest, job: Job, used: Sequence[ShareUse], cluster: Cluster) -> StepLayout:
    image = job.request.container_image
    if cluster.backend == "kubernetes" and request.container_image not in (None, image):
        raise ShimError(
            no_step(job.job_id, f"the job runs in the image {image};") + " sbatch --container-image chooses another one"
        )
    features = {node.name: node.features for node in cluster.nodes} if request.constraint else None
    layout = step_layout(request, job, used, features)
    command_lines(request, layout)  # refused now rather than after the step was made
    return layout


def command_lines(request: StepRequest, layout: StepLayout) -> list[Sequence[str]]:
    """The command line of each rank. Raises ShimError when a --multi-prog file has none for a task."""
    if request.multi_prog:
        return [*programs_of(request.multi_prog, layout.ntasks, request.argv[0] if request.argv else "")]
    return [request.argv] * layout.ntasks
