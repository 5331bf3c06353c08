"""What the running jobs make of each node: its use and the state that sinfo and scontrol show."""

from __future__ import annotations

from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.core.model.cluster import Cluster, Node
    from shim.core.model.job import Job

# Slurm's numbers: base states, and flags on top of them. Their sum is the order of sinfo's lines.
DOWN, IDLE, ALLOCATED, MIXED = 1, 2, 3, 5
CLOUD, DRAIN, COMPLETING, POWERED_DOWN = 0x80, 0x200, 0x400, 0x1000

_LONG = {DOWN: "down", IDLE: "idle", ALLOCATED: "allocated", MIXED: "mixed"}
_SHORT = {DOWN: "down", IDLE: "idle", ALLOCATED: "alloc", MIXED: "mix"}


class NodeUse:
    """A node with what jobs hold of it. ``cpus`` never exceeds what the node has, though it may be overcommitted."""

    __slots__ = ("completing", "cpus", "gpus", "jobs", "memory", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.jobs = 0
        self.cpus = node.others_cpus
        self.memory = node.others_memory
        self.gpus: dict[str, list[int]] = {}  # type -> device indexes in use
        if node.others_gpus:
            self.gpus[node.gres[0].type] = list(range(node.gpus - node.others_gpus, node.gpus))
        self.completing = False

    @property
    def base(self) -> int:
        """DOWN, IDLE, MIXED or ALLOCATED."""
        if self.node.state.startswith("DOWN"):
            return DOWN
        if not self.jobs and not self.cpus and not self.node.others_gpus:
            return IDLE
        return ALLOCATED if self.cpus >= self.node.cpus else MIXED

    @property
    def draining(self) -> bool:
        """Whether an administrator takes the node out of service."""
        return self.node.state.endswith("DRAIN")

    @property
    def number(self) -> int:
        """The state as Slurm's number."""
        return (
            self.base + DRAIN * self.draining + COMPLETING * self.completing + (CLOUD + POWERED_DOWN) * self.node.cloud
        )

    def _named(self, names: dict[int, str], drained: str, draining: str, completing: str) -> str:
        base = self.base
        if self.node.cloud:
            return names[base] + "~"
        if self.draining:
            return drained if base in (IDLE, DOWN) and not self.completing else draining
        if self.completing and base != ALLOCATED and base != DOWN:
            return completing
        return names[base]

    @property
    def long(self) -> str:
        """``mixed``, ``draining`` …: sinfo's ``%T``."""
        return self._named(_LONG, "drained", "draining", "completing")

    @property
    def short(self) -> str:
        """``mix``, ``drng`` …: sinfo's ``%t``."""
        return self._named(_SHORT, "drain", "drng", "comp")

    @property
    def complete(self) -> str:
        """``MIXED+DRAIN``: scontrol's State."""
        return (
            _LONG[self.base].upper()
            + "+CLOUD" * self.node.cloud  # in Slurm's order
            + "+DRAIN" * self.draining
            + "+COMPLETING" * self.completing
            + "+POWERED_DOWN" * self.node.cloud
        )

    def is_in(self, word: str) -> bool:
        """Whether ``sinfo -t word`` means this node."""
        busy = self.base in (ALLOCATED, MIXED) or self.completing
        checks = {
            "down": self.base == DOWN,
            "idle": self.base == IDLE and not self.draining and not self.completing,
            "alloc": self.base == ALLOCATED,
            "mix": self.base == MIXED,
            "drain": self.draining,
            "drained": self.draining and not busy,
            "draining": self.draining and busy,
            "comp": self.completing,
            "cloud": self.node.cloud,
            "powered_down": self.node.cloud,
        }
        aliases = {"allocated": "alloc", "mixed": "mix", "drng": "draining", "completing": "comp"}
        return checks.get(aliases.get(word, word), False)


# Words that ``sinfo -t`` takes; those that no node here can be in match nothing.
_WORDS = (
    "unknown unk down idle allocated alloc ? mixed mix future futr fut drain drained draining drng no_respond reserved resv"
    " perfctrs npc cloud completing comp powering_down powered_down power_down powering_up fail failg failing maint"
    " reboot reboot^ planned plnd blocked error"
)
STATE_WORDS = frozenset(_WORDS.split())
VALID_STATES = (
    "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,completing,"
    "powering_down,powered_down,power_down,powering_up,fail,maint,reboot,reboot^,unknown"
)


def uses(cluster: Cluster, jobs: Iterable[Job]) -> dict[str, NodeUse]:
    """Each node of the cluster by name, with what these jobs hold of it; of nodes that are one machine, of the machine."""
    found = {node.name: NodeUse(node) for node in cluster.nodes}
    held = 0
    for job in jobs:
        if job.state not in states.ALLOCATED or job.cluster != cluster.name:
            continue
        for share in job.shares:
            use = found.get(share.name)
            if use is None or share.planned:
                continue
            if job.state == states.COMPLETING:
                use.completing = True
                continue
            use.jobs += 1
            held += share.cpus
            use.cpus = min(use.node.cpus, use.cpus + share.cpus)
            use.memory += share.memory
            for at, index in enumerate(share.gpus):
                kind = share.gpu_types[at] if at < len(share.gpu_types) else ""
                use.gpus.setdefault(kind, []).append(index)
    if cluster.one_machine:  # what jobs hold of one node is held of all of them
        for use in found.values():
            use.cpus = min(use.node.cpus, held)
    return found
