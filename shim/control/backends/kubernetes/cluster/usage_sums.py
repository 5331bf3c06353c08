"""What all pods of a cluster request of its nodes, kept as sums: a pod that changes costs what it changes, however many there are.

Of each pod a few numbers are kept. Pods of our own jobs are told apart, for the index counts what its jobs hold; and the pods of a
node's daemons, since nobody is ever offered what they take. Pods that are being deleted count until they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from shim.control.backends.kubernetes.objects import names, quantities
from shim.core.model.cluster import NO_END, Others
from shim.core.value import Value

_ENDED = ("Succeeded", "Failed")
_MINUTE = 60.0  # to which ends are rounded: sums of many pods stay few


class Use(Value):
    """What is requested of a node. CPUs in thousandths, memory in MiB."""

    cpus: int = 0
    memory: int = 0
    gpus: int = 0

    def plus(self, other: Use) -> Use:
        """Both."""
        return Use(cpus=self.cpus + other.cpus, memory=self.memory + other.memory, gpus=self.gpus + other.gpus)

    def minus(self, other: Use) -> Use:
        """What is left without the other."""
        return Use(cpus=self.cpus - other.cpus, memory=self.memory - other.memory, gpus=self.gpus - other.gpus)


class Held(Value):
    """What one pod holds. ``until``: as in ``Others``. ``daemon``: it is on the node as long as the node is there."""

    node: str
    use: Use
    until: float = 0.0
    priority: int = 0
    daemon: bool = False
    _nested = {"use": Use}


class Sums:
    """The sums by node. ``ours(metadata)`` names the run that a pod of ours belongs to."""

    def __init__(self, ours: Callable[[Mapping[str, Any]], Any] = lambda metadata: None) -> None:
        self._ours = ours
        self._held: dict[str, Held] = {}
        self._own: dict[str, tuple[Any, Held]] = {}  # pods of our runs
        self._daemons: dict[str, Use] = {}
        self._others: dict[str, dict[tuple[float, int], Use]] = {}

    def put(self, pod: Mapping[str, Any]) -> None:
        """A pod, as ``trim`` left it, is there, or is another one now."""
        key = _key(pod)
        self.drop(pod)
        held: Held | None = pod["held"]
        if held is None:
            return
        run = self._ours(pod["metadata"])
        if run is not None:
            self._own[key] = (run, held)
        else:
            self._held[key] = held
            self._add(held)

    def drop(self, pod: Mapping[str, Any]) -> None:
        """The pod is gone."""
        key = _key(pod)
        self._own.pop(key, None)
        held = self._held.pop(key, None)
        if held is None:
            return
        if held.daemon:
            self._daemons[held.node] = self._daemons[held.node].minus(held.use)
            return
        parts = self._others[held.node]
        left = parts[held.until, held.priority].minus(held.use)
        if left == Use():
            del parts[held.until, held.priority]
        else:
            parts[held.until, held.priority] = left

    def _add(self, held: Held) -> None:
        if held.daemon:
            self._daemons[held.node] = self._daemons.get(held.node, Use()).plus(held.use)
        else:
            _count(self._others.setdefault(held.node, {}), held)

    def daemons(self, node: str) -> Use:
        """What the daemons of the node request."""
        return self._daemons.get(node, Use())

    def by_node(self, counted: Callable[[Any], bool]) -> dict[str, dict[tuple[float, int], Use]]:
        """What others request of each node, by end and priority; also runs of ours that ``counted(run)`` says the index does not count."""
        strays = [held for run, held in self._own.values() if not counted(run)]
        if not strays:
            return self._others
        found = {node: dict(parts) for node, parts in self._others.items()}
        for held in strays:
            _count(found.setdefault(held.node, {}), held)
        return found


def _count(parts: dict[tuple[float, int], Use], held: Held) -> None:
    parts[held.until, held.priority] = parts.get((held.until, held.priority), Use()).plus(held.use)


def summed(pods: Iterable[Mapping[str, Any]], gpu: str) -> Sums:
    """The sums of these pods, none of which is ours."""
    made = Sums()
    for pod in pods:
        made.put(trim(pod, gpu))
    return made


def trim(pod: Mapping[str, Any], gpu: str) -> dict[str, Any]:
    """What is kept of a pod: who it is, and in ``held`` what it holds (None: nothing)."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata}
    if labels.get(names.MANAGED) == names.MANAGER:
        kept["labels"] = {name: text for name, text in labels.items() if name.startswith(names.DOMAIN)}
    return {"metadata": kept, "held": _held(pod, gpu)}


def _held(pod: Mapping[str, Any], gpu: str) -> Held | None:
    spec, status = pod["spec"], pod.get("status") or {}
    node = spec.get("nodeName") or status.get("nominatedNodeName")
    if not node or status.get("phase") in _ENDED:
        return None
    owners = pod["metadata"].get("ownerReferences") or ()
    return Held(
        node=node,
        use=requests(pod, gpu),
        until=_until(pod),
        priority=int(spec.get("priority") or 0),
        daemon=any(one.get("kind") in ("DaemonSet", "Node") for one in owners),
    )


def _until(pod: Mapping[str, Any]) -> float:
    """When the pod ends at the latest; ``NO_END`` for one that will end, nobody knows when; 0 for one that is there for good."""
    spec, metadata = pod["spec"], pod["metadata"]
    limit = (metadata.get("annotations") or {}).get(names.LIMIT) or spec.get("activeDeadlineSeconds")
    began = (pod.get("status") or {}).get("startTime") or metadata.get("creationTimestamp")
    if limit and began:
        end = _seconds(str(began)) + int(limit)
        return -(-end // _MINUTE) * _MINUTE
    return 0.0 if spec.get("restartPolicy", "Always") == "Always" else NO_END


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def requests(pod: Mapping[str, Any], gpu: str) -> Use:
    """What the scheduler reserves for a pod: the larger of its containers together and of each init container."""
    spec = pod["spec"]
    own = (spec.get("resources") or {}).get("requests") or {}
    together, largest = Use(), Use()
    for one in spec.get("initContainers") or ():
        use = _container(one, gpu)
        if one.get("restartPolicy") == "Always":  # a sidecar: it stays
            together = together.plus(use)
            largest = _most(largest, together)
        else:
            largest = _most(largest, together.plus(use))
    for one in spec.get("containers") or ():
        together = together.plus(_container(one, gpu))
    found = _most(together, largest).plus(_of(spec.get("overhead") or {}, gpu))
    stated = _of(own, gpu)
    return found.replace(cpus=stated.cpus or found.cpus, memory=stated.memory or found.memory)


def others(parts: Mapping[tuple[float, int], Use], scale: int, *, by_priority: bool) -> tuple[Others, ...]:
    """The parts as a node shows them: ``scale`` per cent of a CPU are one of its CPUs."""
    found: dict[tuple[float, int], Use] = {}
    for (until, priority), use in parts.items():
        key = (until, priority if by_priority else 0)
        found[key] = found.get(key, Use()).plus(use)
    return tuple(
        Others(until=until, priority=priority, cpus=-(-use.cpus * 100 // scale), memory=use.memory, gpus=use.gpus)
        for (until, priority), use in sorted(found.items())
    )


def _container(container: Mapping[str, Any], gpu: str) -> Use:
    resources = container.get("resources") or {}
    return _of({**(resources.get("limits") or {}), **(resources.get("requests") or {})} if resources else {}, gpu)


def _of(table: Mapping[str, Any], gpu: str) -> Use:
    return Use(
        cpus=quantities.millis(table.get("cpu", 0)),
        memory=quantities.mebibytes(table.get("memory", 0)),
        gpus=int(quantities.parse(table.get(gpu, 0))),
    )


def _most(one: Use, other: Use) -> Use:
    return Use(cpus=max(one.cpus, other.cpus), memory=max(one.memory, other.memory), gpus=max(one.gpus, other.gpus))


def _key(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
