"""From configuration to clusters: the words of a cluster's table become nodes and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shim import SLURM_VERSION
from shim.control import slurm_conf
from shim.control.config import Config, ConfigError
from shim.control.config_words import CLUSTER, PARTITION, Word, given
from shim.control.id_ranges import numbered
from shim.control.machine import Machine
from shim.core.formats import hostlist
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.options.grammar import VERSIONS


def clusters(config: Config, machine: Machine, isolation: str) -> tuple[Cluster, ...]:
    """All configured clusters, the default one first. ``isolation``: how local nodes get their names."""
    for name in config.clusters:
        if name == "all" or not _is_name(name):
            raise ConfigError(f'error: clusters.{name}: "{name}" cannot be the name of a cluster')
    made = [_cluster(name, words, machine, isolation) for name, words in config.clusters.items()]
    for cluster in made:
        for node in cluster.nodes:
            if not _is_name(node.name):
                raise ConfigError(f'error: clusters.{cluster.name}: "{node.name}" cannot be the name of a node')
    if config.nobodys:
        made = [cluster.replace(elastic=True) for cluster in made]
    version = VERSIONS[config.slurm_version.value]
    if version != SLURM_VERSION:
        made = [cluster.replace(settings={**cluster.settings, "slurm_version": version}) for cluster in made]
    operators = config.operators.value
    if operators is not None:
        made = [cluster.replace(operators=operators) for cluster in made]
    made = [cluster.replace(retention=config.retention.value) for cluster in made]
    return numbered(sorted(made, key=lambda cluster: cluster.name != config.default.value))


def _is_name(text: str) -> bool:
    """Whether a host or a file may be called so, and no program takes it for an option or another folder."""
    return text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum() and text[0] not in "-."


def _value(words: Mapping[str, Any], table: tuple[Word, ...], name: str) -> Any:
    if name in words:
        return words[name].value
    return next(word.default for word in table if word.name == name)


def _beside_slurm_conf(cluster: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that words given beside ``slurm_conf`` set. ConfigError for a word whose part slurm.conf has taken."""
    may = {word.name for word in CLUSTER if word.limit or word.with_slurm_conf}
    for word in words:
        if word not in may:
            raise ConfigError(f'error: clusters.{cluster}: "{word}" cannot stand beside "slurm_conf", which says it')
    return given(words, CLUSTER)


def _cluster(name: str, words: Mapping[str, Any], machine: Machine, isolation: str) -> Cluster:
    def get(word: str) -> Any:
        return _value(words, CLUSTER, word)

    backend = get("backend")
    if backend == "kubernetes":
        return _kubernetes(name, words, machine)
    if backend == "slurm":
        return _real(name, words)
    if get("isolation") != "auto":
        isolation = get("isolation")
    settings = {"isolation": isolation, "requeue_delay": str(get("requeue_delay"))}
    _check_backend(name, words, backend)
    if get("slurm_conf"):
        found = slurm_conf.read(get("slurm_conf"), name).replace(backend=backend, settings=settings)
        return found.replace(**_beside_slurm_conf(name, words))
    nodes = _nodes(words, machine, isolation)
    return Cluster(
        name=name,
        backend=backend,
        nodes=nodes,
        partitions=_partitions(name, words, nodes),
        settings={**settings, "share": _share(words)},
        **_limits(words),
    )


def _limits(words: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the limits set; 0 for a first job id that is settled later."""
    return {"first_job_id": 0, **given(words, CLUSTER)}


def _share(words: Mapping[str, Any]) -> str:
    """What the nodes have in common: "machine", "devices" (its GPUs, where none are pretended) or "" for nothing."""
    if _value(words, CLUSTER, "share") == "machine":
        return "machine"
    return "" if "gpus" in words or any("gpus" in entry for entry in words.get("node", ())) else "devices"


def _kubernetes(name: str, words: Mapping[str, Any], machine: Machine) -> Cluster:
    """The cluster as far as it is configured: nodes that are not described are read from its API by the backend."""
    from shim.control.backends.kubernetes import settings

    _check_backend(name, words, "kubernetes")
    described = bool(_value(words, CLUSTER, "cpus")) and bool(_value(words, CLUSTER, "memory"))
    nodes = _nodes(words, machine, "none") if described else ()
    partitions = _partitions(name, words, nodes)
    own = {word: value.value for word, value in words.items() if hasattr(value, "value")}
    return Cluster(
        name=name,
        backend="kubernetes",
        nodes=nodes,
        partitions=tuple(_with_settings(one, words.get("partitions", {}).get(one.name, {})) for one in partitions),
        settings={"requeue_delay": str(_value(words, CLUSTER, "requeue_delay")), **settings.texts(own)},
        **_limits(words),
    )


def _real(name: str, words: Mapping[str, Any]) -> Cluster:
    """A real Slurm: where its commands are, and the names of its partitions as far as they are listed here."""
    from shim.control.backends.slurm import programs

    _check_backend(name, words, "slurm")
    own = {word: str(_value(words, CLUSTER, word)) for word in ("bin", "conf")}
    for word, path in own.items():
        if path and not path.startswith("/"):
            raise ConfigError(f'error: {words[word].origin}: clusters.{name}: {word} "{path}" must be an absolute path')
    return Cluster(
        name=name,
        backend="slurm",
        partitions=tuple(Partition(name=one) for one in words.get("partitions", {})),
        first_job_id=_value(words, CLUSTER, "first_job_id") or 0,
        settings={
            **own,
            "real_name": programs.cluster_name(own["conf"]),
            "timeout": str(_value(words, CLUSTER, "timeout")),
            "skypilot_env": "1" if _value(words, CLUSTER, "skypilot_env") else "",
        },
    )


def _with_settings(partition: Partition, words: Mapping[str, Any]) -> Partition:
    from shim.control.backends.kubernetes import settings

    return partition.replace(settings=settings.texts({word: setting.value for word, setting in words.items()}))


def _check_backend(name: str, words: Mapping[str, Any], backend: str) -> None:
    """Refuses words that mean nothing for the backend: they would be passed over."""
    tables = [(CLUSTER, words, name)]
    tables += [(PARTITION, table, f"{name}.partitions.{one}") for one, table in words.get("partitions", {}).items()]
    for known, table, where in tables:
        fits = {word.name: backend in word.backends for word in known}
        for word, setting in table.items():
            if not fits[word]:
                origin = getattr(setting, "origin", "configuration")
                raise ConfigError(f'error: {origin}: clusters.{where}: "{word}" is not for the {backend} backend')


def _nodes(words: Mapping[str, Any], machine: Machine, isolation: str) -> tuple[Node, ...]:
    names = _names(words, isolation)
    special: dict[str, dict[str, Any]] = {}
    for entry in words.get("node", ()):
        if "names" not in entry:
            raise ConfigError('error: every table of "node" needs "names"')
        for name in hostlist.expand(entry["names"].value):
            if name not in names:
                raise ConfigError(
                    f'error: {entry["names"].origin}: "{name}" is no node; nodes are {hostlist.fold(names)}'
                )
            special.setdefault(name, {}).update(entry)
    return tuple(
        _node(name, index, {**words, **special.get(name, {})}, machine) for index, name in enumerate(names, start=1)
    )


def _names(words: Mapping[str, Any], isolation: str) -> list[str]:
    if isolation == "addresses":
        return [f"127.0.0.{number}" for number in range(1, _value(words, CLUSTER, "nodes") + 1)]
    given = _value(words, CLUSTER, "node_names")
    if given:
        return hostlist.expand(given)
    return [f"node{number}" for number in range(1, _value(words, CLUSTER, "nodes") + 1)]


def _node(name: str, number: int, words: Mapping[str, Any], machine: Machine) -> Node:
    def get(word: str) -> Any:
        return _value(words, CLUSTER, word)

    cpus = get("cpus") or machine.cpus
    sockets = get("sockets") or (machine.sockets if not get("cpus") else 1)
    threads = get("threads_per_core")
    if cpus % (sockets * threads):
        raise ConfigError(f"error: node {name}: {cpus} CPUs are no multiple of {sockets} sockets x {threads} threads")
    gpus = get("gpus")
    if gpus is None:
        gpus = (("", machine.gpus),) if machine.gpus else ()
    return Node(
        name=name,
        address=f"127.0.{number // 250}.{number % 250}",
        cpus=cpus,
        sockets=sockets,
        cores_per_socket=cpus // sockets // threads,
        threads_per_core=threads,
        memory=get("memory") or machine.memory,
        tmp_disk=get("tmp_disk") or (0 if get("cpus") else machine.tmp_disk),
        gres=tuple(Gres(name="gpu", type=kind, count=count) for kind, count in gpus if count),
        features=tuple(get("features")),
    )


def _partitions(cluster: str, words: Mapping[str, Any], nodes: tuple[Node, ...]) -> tuple[Partition, ...]:
    names = tuple(node.name for node in nodes)
    tables = words.get("partitions") or {"debug": {}}
    made = [_partition(name, table, names) for name, table in tables.items()]
    defaults = [partition.name for partition in made if partition.default]
    if len(defaults) > 1:
        raise ConfigError(f"error: cluster {cluster}: only one partition may be the default, not {', '.join(defaults)}")
    if not defaults and len(made) == 1:
        made = [made[0].replace(default=True)]
    return tuple(made)


def _partition(name: str, table: Mapping[str, Any], nodes: tuple[str, ...]) -> Partition:
    named = _value(table, PARTITION, "nodes")
    own = tuple(hostlist.expand(named)) if named else nodes
    for node in own:
        if node not in nodes:
            raise ConfigError(f'error: partition {name}: "{node}" is no node; nodes are {hostlist.fold(nodes)}')
    return Partition(name=name, nodes=own, **given(table, PARTITION))
