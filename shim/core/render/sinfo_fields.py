"""Every column that sinfo knows: ``-o`` letters and ``-O`` names, with their headers. An item is a Row."""

from __future__ import annotations

from shim.core.formats import hostlist, times
from shim.core.formats.lists import fold_ranks
from shim.core.render.columns import by_letter, by_name
from shim.core.render.node_state import DOWN, IDLE
from shim.core.render.view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.core.model.cluster import Cluster, Node
    from shim.core.render.columns import Field, Known
    from shim.core.render.node_state import NodeUse
    from shim.core.render.sinfo_rows import Row

    Show = Callable[[Row, View], str]


class NodeView(View):
    """A view that also knows the load and the free memory (MiB) of the machine behind the nodes; None = unknown."""

    __slots__ = ("free_memory", "load")

    def __init__(
        self, now: float, cluster: Callable[[], Cluster], form: str | None, load: float | None, free_memory: int | None
    ) -> None:
        super().__init__(now, cluster, form)
        self.load = load
        self.free_memory = free_memory


def _constant(text: str, empty: str | None = None) -> Show:
    return lambda row, view: text if row.uses or empty is None else empty


def _version(row: Row, view: View) -> str:
    return view.cluster.version if row.uses and view.cluster is not None else ""


def _smallest(of: Callable[[Node], int]) -> Show:
    """The value all nodes share, or the smallest with a plus."""

    def show(row: Row, view: View) -> str:
        values = [of(use.node) for use in row.uses] or [0]
        least = min(values)
        return f"{least}+" if max(values) > least else str(least)

    return show


def _first(of: Callable[[NodeUse], str], empty: str) -> Show:
    return lambda row, view: (of(row.uses[0]) if row.uses else "") or empty


def _reason_time(row: Row, view: View) -> str:
    return view.stamp(row.uses[0].node.reason_time if row.uses else 0, "Unknown")


def _reason_user(use: NodeUse) -> str:
    return f"{use.node.reason_user}({use.node.reason_uid})" if use.node.reason_user else ""


def _nodes(row: Row) -> tuple[int, int, int]:
    """How many nodes are allocated, idle, other."""
    allocated = sum(1 for use in row.uses if use.base not in (DOWN, IDLE))
    idle = sum(1 for use in row.uses if use.base == IDLE and not use.draining)
    return allocated, idle, len(row.uses) - allocated - idle


def _node_counts(row: Row, view: View) -> str:
    allocated, idle, other = _nodes(row)
    return f"{allocated}/{idle}/{other}/{len(row.uses)}"


def _cpu_counts(row: Row, view: View) -> str:
    allocated = idle = other = 0
    for use in row.uses:
        allocated += use.cpus
        rest = use.node.cpus - use.cpus
        if use.base == DOWN or use.draining:
            other += rest
        else:
            idle += rest
    return f"{allocated}/{idle}/{other}/{allocated + idle + other}"


def _limit(minutes: int | None, missing: str) -> str:
    return missing if minutes is None or minutes < 0 else times.show_minutes(minutes)


def _size(row: Row, view: View) -> str:
    partition = row.partition
    most = "infinite" if partition.max_nodes is None else str(partition.max_nodes)
    least = partition.min_nodes or 1
    return most if most == str(least) else f"{least}-{most}"


def gres_text(node: Node) -> str:
    """``gpu:a100:4,shard:2``; "" for none."""
    return ",".join(
        f"{gres.name}:{gres.type}:{gres.count}" if gres.type else f"{gres.name}:{gres.count}" for gres in node.gres
    )


def gres_used(use: NodeUse) -> str:
    """``gpu:a100:1(IDX:0)``: what jobs hold of the node's GPUs; "" for a node without."""
    words = []
    for gres in use.node.gres:
        held = sorted(use.gpus.get(gres.type, ())) if gres.name == "gpu" else []
        if gres.type:
            words.append(f"{gres.name}:{gres.type}:{len(held)}(IDX:{fold_ranks(held) if held else 'N/A'})")
        else:
            words.append(f"{gres.name}:{len(held)}")
    return ",".join(words)


def _load(row: Row, view: View) -> str:
    load = getattr(view, "load", None)
    if not row.uses:
        return "0.00"
    return "N/A" if load is None else f"{load:.2f}"


def _free(row: Row, view: View) -> str:
    free = getattr(view, "free_memory", None)
    if not row.uses:
        return "0"
    return "N/A" if free is None else str(free)


_sockets = _smallest(lambda node: node.sockets)
_cores = _smallest(lambda node: node.cores_per_socket)
_threads = _smallest(lambda node: node.threads_per_core)

_COLUMNS: tuple[Field[Row], ...] = (
    (
        "a",
        "available",
        "AVAIL",
        lambda row, view: {"INACTIVE": "inact"}.get(row.partition.state, row.partition.state.lower()),
    ),
    ("b", "features_act", "ACTIVE_FEATURES", _first(lambda use: ",".join(use.node.features), "(null)")),
    ("c", "cpus", "CPUS", _smallest(lambda node: node.cpus)),
    ("d", "disk", "TMP_DISK", _smallest(lambda node: node.tmp_disk)),
    ("e", "freemem", "FREE_MEM", _free),
    ("f", "features", "AVAIL_FEATURES", _first(lambda use: ",".join(use.node.features), "(null)")),
    ("g", "groups", "GROUPS", lambda row, view: row.partition.allow_groups.replace("ALL", "all")),
    ("h", "oversubscribe share", "OVERSUBSCRIBE", lambda row, view: row.partition.oversubscribe),
    ("l", "time", "TIMELIMIT", lambda row, view: _limit(row.partition.max_time, "infinite")),
    ("m", "memory", "MEMORY", _smallest(lambda node: node.memory)),
    ("n", "nodehost", "HOSTNAMES", _first(lambda use: use.node.name, "")),
    ("o", "nodeaddr", "NODE_ADDR", _first(lambda use: use.node.address or use.node.name, "")),
    ("p", "prioritytier", "PRIO_TIER", lambda row, view: str(row.partition.priority_tier)),
    ("r", "root", "ROOT", lambda row, view: "yes" if row.partition.root_only else "no"),
    ("s", "size", "JOB_SIZE", _size),
    ("t", "statecompact", "STATE", _first(lambda use: use.short, "n/a")),
    ("u", "user", "USER", _first(lambda use: use.node.reason_user, "Unknown")),
    ("v", "version", "VERSION", _version),
    ("w", "weight", "WEIGHT", _smallest(lambda node: node.weight)),
    (
        "z",
        "socketcorethread",
        "S:C:T",
        lambda row, view: ":".join(show(row, view) for show in (_sockets, _cores, _threads)),
    ),
    ("A", "nodeai", "NODES(A/I)", lambda row, view: "{}/{}".format(*_nodes(row))),
    ("B", "maxcpuspernode", "MAX_CPUS_PER_NODE", _constant("UNLIMITED")),
    ("C", "cpusstate", "CPUS(A/I/O/T)", _cpu_counts),
    ("D", "nodes", "NODES", lambda row, view: str(len(row.uses))),
    ("E", "reason", "REASON", _first(lambda use: use.node.reason, "none")),
    ("F", "nodeaiot", "NODES(A/I/O/T)", _node_counts),
    ("G", "gres", "GRES", _first(lambda use: gres_text(use.node), "(null)")),
    ("H", "timestamp", "TIMESTAMP", _reason_time),
    ("I", "priorityjobfactor", "PRIO_JOB_FACTOR", _constant("1")),
    ("L", "defaulttime", "DEFAULTTIME", lambda row, view: _limit(row.partition.default_time, "n/a")),
    ("M", "preemptmode", "PREEMPT_MODE", _constant("OFF")),
    ("N", "nodelist", "NODELIST", lambda row, view: hostlist.fold_sorted(use.node.name for use in row.uses)),
    ("O", "cpusload", "CPU_LOAD", _load),
    ("P", "partition", "PARTITION", lambda row, view: row.partition.name + "*" * row.partition.default),
    ("R", "partitionname", "PARTITION", lambda row, view: row.partition.name),
    ("S", "allocnodes", "ALLOCNODES", lambda row, view: row.partition.alloc_nodes.replace("ALL", "all")),
    ("T", "statelong", "STATE", _first(lambda use: use.long, "n/a")),
    ("U", "userlong", "USER", _first(_reason_user, "Unknown")),
    ("V", "cluster", "CLUSTER", _constant("N/A")),
    ("X", "sockets", "SOCKETS", _sockets),
    ("Y", "cores", "CORES", _cores),
    ("Z", "threads", "THREADS", _threads),
    ("", "allocmem", "ALLOCMEM", lambda row, view: str(sum(use.memory for use in row.uses))),
    ("", "comment", "COMMENT", _first(lambda use: use.node.comment, "(null)")),
    ("", "extra", "EXTRA", _first(lambda use: use.node.extra, "(null)")),
    ("", "gresused", "GRES_USED", _first(gres_used, "(null)")),
    ("", "port", "PORT", _constant("0")),
    ("", "statecomplete", "STATECOMPLETE", _first(lambda use: use.complete.lower(), "n/a")),
)
LETTERS = by_letter(_COLUMNS)


def partition_in(width: int) -> Show:
    """A partition's name in a column: the default one keeps its mark where the name is cut."""
    return lambda row, view: row.partition.name[: width - 1] + "*" if row.partition.default else row.partition.name


def names() -> Known[Row]:
    """Every ``-O`` name."""
    return by_name(_COLUMNS)


# Columns by name that decide what a row may hold, as the letter that decides the same.
NAME_LETTERS = {name: letter for letter, text, _, _ in _COLUMNS if letter for name in text.split()}
NAME_LETTERS.update(statecomplete="T", gresused="G")
