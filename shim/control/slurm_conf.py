"""The shape of an existing Slurm cluster, read from its ``slurm.conf``: nodes, partitions, licences, limits.

The grammar is slurm.conf's: ``Key=Value`` words, keys in any case, ``#`` comments, ``\\`` at a line's end continues it, ``Include``.
What does not shape a cluster (daemons, plugins, ports) is left out: it has no meaning here. gres.conf adds nothing that a
node's ``Gres=`` does not say, and is not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from shim.control.config_words import CLUSTER, PARTITION, Word, read_licenses
from shim.core.errors import ShimError
from shim.core.formats import hostlist, sizes, times, tres
from shim.core.formats.lists import comma_list, split_outside_brackets
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.job import capped

_DEPTH = 8  # of Include


class SlurmConfError(ShimError):
    """slurm.conf cannot be read; says file, line and value."""


class Line:
    """One logical line: its words as (key in lower case, value), and where it stands."""

    __slots__ = ("place", "words")

    def __init__(self, words: dict[str, str], place: str) -> None:
        self.words = words
        self.place = place

    def number(self, key: str, default: int) -> int:
        """The value of ``key`` as a number."""
        text = self.words.get(key)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise SlurmConfError(f'error: {self.place}: {key}="{text}": a number is wanted') from None

    def limit(self, key: str) -> int | None:
        """The value of ``key`` as a number; None for no limit, or not given."""
        if self.words.get(key, "UNLIMITED").upper() in ("UNLIMITED", "INFINITE"):
            return None
        return self.number(key, 1)

    def size(self, key: str, default: int | None) -> int | None:
        """The value of ``key`` as MiB."""
        text = self.words.get(key)
        if text is None:
            return default
        try:
            return sizes.parse_memory(text)
        except ValueError:
            raise SlurmConfError(f'error: {self.place}: {key}="{text}": a size is wanted') from None

    def minutes(self, key: str) -> int | None:
        """The value of ``key`` as minutes; None for unlimited or not given."""
        text = self.words.get(key)
        if text is None or text.upper() in ("NONE", "DEFAULT"):
            return None
        try:
            found = times.parse_minutes(text)
        except ValueError:
            raise SlurmConfError(f'error: {self.place}: {key}="{text}": a time is wanted') from None
        return None if found < 0 else found

    def flag(self, key: str) -> bool:
        """Whether ``key`` says yes."""
        return self.words.get(key, "").upper() in ("YES", "Y", "TRUE", "ANY", "ALL", "1")


def read(path: str, name: str) -> Cluster:
    """The cluster that ``slurm.conf`` at ``path`` describes, called ``name``. Raises SlurmConfError."""
    general: dict[str, str] = {}
    nodes: dict[str, Node] = {}
    partitions: list[Line] = []
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    sets: dict[str, Line] = {}
    for line in _lines(path, 0):
        first = next(iter(line.words))
        if first in defaults:
            if line.words[first].upper() == "DEFAULT":
                defaults[first].update(line.words)
                continue
            line.words = {**defaults[first], **line.words}
        if first == "nodename":
            nodes.update((node.name, node) for node in _nodes(line))
        elif first == "partitionname":
            partitions.append(line)
        elif first == "nodeset":
            sets[line.words[first]] = line
        elif first == "downnodes":
            for host in hostlist.plain_names(line.words[first]):
                if host in nodes:
                    nodes[host] = nodes[host].replace(state="DOWN", reason=line.words.get("reason", ""))
        else:
            general.update(line.words)
    return _cluster(name, Line(general, path), nodes, partitions, sets)


def files(path: str) -> list[str]:
    """The file and all that it includes. Raises SlurmConfError."""
    seen: list[str] = []
    for _line in _lines(path, 0, seen):
        pass
    return seen


def _lines(path: str, depth: int, seen: list[str] | None = None) -> Iterator[Line]:
    try:
        text = capped.as_text(capped.kept(path))
    except OSError as problem:
        raise SlurmConfError(f"error: slurm_conf: {path}: {problem.strerror}") from problem
    if seen is not None:
        seen.append(path)
    started, pending = 0, ""
    for number, raw in enumerate(text.split("\n"), start=1):
        if not pending:
            started = number
        body = raw.split("#", 1)[0].rstrip()
        if body.endswith("\\"):
            pending += body[:-1] + " "
            continue
        line, pending = (pending + body).strip(), ""
        if line[:8].lower() == "include ":
            if depth >= _DEPTH:
                raise SlurmConfError(f"error: {path}: line {started}: files include each other")
            yield from _lines(os.path.join(os.path.dirname(path), line[8:].strip()), depth + 1, seen)
        elif line:
            yield Line(_words(line, f"{path}: line {started}"), f"{path}: line {started}")


def _words(line: str, place: str) -> dict[str, str]:
    words: dict[str, str] = {}
    rest = line
    while rest:
        key, equals, rest = rest.partition("=")
        if not equals or not key.strip():
            raise SlurmConfError(f'error: {place}: "{key.strip()}" is no Key=Value')
        if rest.startswith('"'):
            value, _, rest = rest[1:].partition('"')
        else:
            parts = rest.split(None, 1)
            value, rest = (parts + ["", ""])[:2] if rest and not rest[0].isspace() else ("", rest)
        words[key.strip().lower()] = value
        rest = rest.strip()
    return words


def _nodes(line: Line) -> Iterator[Node]:
    sockets = line.number("sockets", line.number("boards", 1) * line.number("socketsperboard", 1))
    threads = line.number("threadspercore", 1)
    cores = line.number("corespersocket", 0)
    cpus = line.number("cpus", line.number("procs", sockets * max(1, cores) * threads))
    if not cores:
        cores = max(1, cpus // (sockets * threads))
    gres = tuple(
        Gres(name=kind, type=variant, count=count)
        for kind, variant, count in tres.parse_gres(line.words.get("gres", ""))
    )
    state = line.words.get("state", "").upper()
    for name in hostlist.plain_names(line.words["nodename"]):
        yield Node(
            name=name,
            cpus=cpus,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            memory=line.size("realmemory", 1) or 1,
            tmp_disk=line.size("tmpdisk", 0) or 0,
            weight=line.number("weight", 1),
            gres=gres,
            features=comma_list(line.words.get("feature", line.words.get("features", ""))),
            state="DOWN" if state.startswith("DOWN") else "DRAIN" if state.startswith("DRAIN") else "",
            reason=line.words.get("reason", ""),
        )


def _limits(line: Line, table: tuple[Word, ...]) -> dict[str, Any]:
    """The fields that words of the configuration may set as well, from what slurm.conf says under their names."""
    words = [word for word in table if word.limit and word.slurm.lower() in line.words]
    return {word.name: _read(line, word) for word in words}


def _read(line: Line, word: Word) -> Any:
    key = word.slurm.lower()
    if word.type == "int" and word.default is not None:
        return line.number(key, 0)
    return _READERS[word.type](line, key)


def _licenses(line: Line, key: str) -> tuple[Gres, ...]:
    try:
        return read_licenses(line.words[key])
    except ValueError:
        raise SlurmConfError(f'error: {line.place}: {key}="{line.words[key]}": licences are wanted') from None


_READERS: dict[str, Callable[[Line, str], Any]] = {
    "int": Line.limit,
    "memory": lambda line, key: line.size(key, None),
    "minutes": Line.minutes,
    "bool": Line.flag,
    "licenses": _licenses,
    "str": lambda line, key: line.words[key],
    "hosts": lambda line, key: line.words[key],
}


def _cluster(
    name: str, general: Line, nodes: dict[str, Node], partitions: list[Line], sets: dict[str, Line]
) -> Cluster:
    known = dict.fromkeys(kind.strip() for kind in general.words.get("grestypes", "").split(","))
    for node in nodes.values():
        for gres in node.gres:
            if gres.name not in known:
                raise SlurmConfError(f'error: {general.place}: node {node.name}: "{gres.name}" is not in GresTypes')
    addressed = tuple(
        node.replace(address=f"127.0.{number // 250}.{number % 250}") for number, node in enumerate(nodes.values(), 1)
    )
    limits = {"first_job_id": 0, **_limits(general, CLUSTER)}
    # JobRequeue is a number there, and other kinds of MPI start their tasks as none does.
    limits["requeue"] = general.number("jobrequeue", 1) != 0
    limits["mpi_default"] = "pmi2" if general.words.get("mpidefault", "").lower() == "pmi2" else "none"
    return Cluster(
        name=name,
        nodes=addressed,
        partitions=tuple(_partition(line, nodes, sets) for line in partitions),
        **limits,
        def_mem_per_node=general.size("defmempernode", None),
        counts_memory="memory" in general.words.get("selecttypeparameters", "cr_core_memory").lower(),
        enforce_in_all=general.words.get("enforcepartlimits", "").upper() != "ANY",
        gres_types=tuple(kind for kind in known if kind),
        accounting=general.words.get("accountingstoragetype", "none").rpartition("/")[2].lower() != "none",
        over_time=0
        if general.words.get("overtimelimit", "").upper() == "UNLIMITED"
        else general.number("overtimelimit", 0),
    )


def _partition(line: Line, nodes: dict[str, Node], sets: dict[str, Line]) -> Partition:
    names: list[str] = []
    for word in _node_words(line.words.get("nodes", ""), sets, nodes):
        if word.upper() == "ALL":
            names.extend(nodes)
        else:
            names.extend(hostlist.expand(word))
    for node in names:
        if node not in nodes:
            raise SlurmConfError(f'error: {line.place}: partition {line.words["partitionname"]}: no node "{node}"')
    limits = {"priority_tier": line.number("priority", 1), **_limits(line, PARTITION)}
    return Partition(
        name=line.words["partitionname"],
        nodes=tuple(dict.fromkeys(names)),
        **{**limits, "state": line.words.get("state", "UP").upper()},
        def_mem_per_node=line.size("defmempernode", None),
        max_mem_per_node=line.size("maxmempernode", None),
        oversubscribe=line.words.get("oversubscribe", line.words.get("shared", "NO")).upper(),
        allow_groups=line.words.get("allowgroups", "ALL"),
        allow_accounts=line.words.get("allowaccounts", "ALL"),
        deny_accounts=line.words.get("denyaccounts", ""),
        allow_qos=line.words.get("allowqos", "ALL"),
        deny_qos=line.words.get("denyqos", ""),
        hidden=line.flag("hidden"),
        root_only=line.flag("rootonly"),
        disable_root_jobs=line.flag("disablerootjobs"),
        req_resv=line.flag("reqresv"),
        max_cpus_per_node=line.limit("maxcpuspernode"),
        lln=line.flag("lln"),
    )


def _node_words(text: str, sets: dict[str, Line], nodes: dict[str, Node]) -> Iterator[str]:
    """The hostlist words of a partition's ``Nodes=``, node sets replaced by their nodes: those named, and those with a feature."""
    for word in split_outside_brackets(text, hostlist.SEPARATORS):
        if word not in sets:
            yield word
            continue
        yield from split_outside_brackets(sets[word].words.get("nodes", ""), hostlist.SEPARATORS)
        feature = sets[word].words.get("feature")
        if feature is not None:
            yield from (name for name, node in nodes.items() if feature in node.features)
