"""The partition records of ``scontrol show partition --json``, which only the newer layout has."""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.formats.tres import tres_text
from shim.core.model.request import INFINITE
from shim.core.render.openapi.layout import Field, group, itself, number, plain, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.core.model.cluster import Cluster, Partition
    from shim.core.render.openapi.layout import Kind, Record

_OF_CPUS = 1 << 63  # marks an amount of memory as that of a CPU
_FORCED = 0x8000  # marks a number of jobs that share whether they want to or not


class _Partition:
    """A partition as it is shown, and what several fields are made of."""

    def __init__(self, cluster: Cluster, partition: Partition) -> None:
        self.cluster = cluster
        self.partition = partition
        self.nodes = [node for node in cluster.nodes if node.name in partition.nodes]
        self.cpus = sum(node.cpus for node in self.nodes)
        word, _, jobs = partition.oversubscribe.upper().partition(":")
        self.forced = word == "FORCE"
        self.sharing = int(jobs) if jobs.isdecimal() else {"NO": 1, "EXCLUSIVE": 0}.get(word, 4)


def partition_record(cluster: Cluster, partition: Partition) -> Record:
    """A partition's record."""
    return record(PARTITION, _Partition(cluster, partition), newer=True)


def _unless_all(text: str) -> str:
    return "" if text.upper() == "ALL" else text


def _nested(*fields: Field) -> tuple[Kind, Callable[[_Partition], _Partition]]:
    return group(*fields), itself


def _tres(one: _Partition) -> str:
    memory, gpus = sum(node.memory for node in one.nodes), sum(node.gpus for node in one.nodes)
    return tres_text(one.cpus, memory, len(one.nodes), {"gpu": gpus})


def _memory(per_cpu: int | None, per_node: int | None) -> int:
    """The amount as Slurm keeps it, with its mark."""
    return per_cpu | _OF_CPUS if per_cpu is not None else per_node or 0


def _or_infinite(value: int | None) -> int:
    return INFINITE if value is None else value


_DEFAULTS = (
    Field("memory_per_cpu", plain, lambda one: _memory(one.partition.def_mem_per_cpu, one.partition.def_mem_per_node)),
    Field("partition_memory_per_cpu", number, lambda one: one.partition.def_mem_per_cpu),
    Field("partition_memory_per_node", number, lambda one: one.partition.def_mem_per_node),
    Field("time", number, lambda one: one.partition.default_time),
    Field("job", plain, ""),
)
_SHARING = (
    Field("jobs", plain, lambda one: one.sharing),
    Field("flags", plain, lambda one: ["force"] if one.forced else []),
)
_MAXIMUMS = (
    Field("cpus_per_node", number, lambda one: _or_infinite(one.partition.max_cpus_per_node)),
    Field("cpus_per_socket", number, INFINITE),
    Field("memory_per_cpu", plain, lambda one: _memory(one.partition.max_mem_per_cpu, one.partition.max_mem_per_node)),
    Field("partition_memory_per_cpu", number, lambda one: one.partition.max_mem_per_cpu),
    Field("partition_memory_per_node", number, lambda one: one.partition.max_mem_per_node),
    Field("nodes", number, lambda one: _or_infinite(one.partition.max_nodes)),
    Field("shares", plain, lambda one: one.sharing | (_FORCED if one.forced else 0)),
    Field("oversubscribe", *_nested(*_SHARING)),
    Field("time", number, lambda one: _or_infinite(one.partition.max_time)),
    Field("over_time_limit", number, lambda one: one.cluster.over_time or None),
)
PARTITION = (
    Field(
        "nodes",
        *_nested(
            Field("allowed_allocation", plain, lambda one: _unless_all(one.partition.alloc_nodes)),
            Field("configured", plain, lambda one: hostlist.fold(one.partition.nodes)),
            Field("total", plain, lambda one: len(one.nodes)),
        ),
    ),
    Field(
        "accounts",
        *_nested(
            Field("allowed", plain, lambda one: _unless_all(one.partition.allow_accounts)),
            Field("deny", plain, lambda one: one.partition.deny_accounts),
        ),
    ),
    Field("groups", *_nested(Field("allowed", plain, lambda one: _unless_all(one.partition.allow_groups)))),
    Field(
        "qos",
        *_nested(
            Field("allowed", plain, lambda one: _unless_all(one.partition.allow_qos)),
            Field("deny", plain, lambda one: one.partition.deny_qos),
            Field("assigned", plain, ""),
        ),
    ),
    Field("alternate", plain, ""),
    Field("tres", *_nested(Field("billing_weights", plain, ""), Field("configured", plain, _tres))),
    Field("cluster", plain, lambda one: one.cluster.name),
    Field("select_type", plain, []),
    Field("cpus", *_nested(Field("task_binding", plain, 0), Field("total", plain, lambda one: one.cpus))),
    Field("defaults", *_nested(*_DEFAULTS)),
    Field("grace_time", plain, 0),
    Field("maximums", *_nested(*_MAXIMUMS)),
    Field("minimums", *_nested(Field("nodes", plain, lambda one: one.partition.min_nodes))),
    Field("name", plain, lambda one: one.partition.name),
    Field("node_sets", plain, ""),
    Field(
        "priority",
        *_nested(Field("job_factor", plain, 1), Field("tier", plain, lambda one: one.partition.priority_tier)),
    ),
    Field("timeouts", *_nested(Field("resume", number, None), Field("suspend", number, None))),
    Field("topology", plain, ""),
    Field("partition", *_nested(Field("state", plain, lambda one: [one.partition.state.upper()]))),
    Field("suspend_time", number, None),
)
