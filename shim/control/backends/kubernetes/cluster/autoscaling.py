"""The nodes that a cluster which adds nodes may get: places for jobs until their pods make the autoscaler act. Pure.

They stand beside those that are there, as Slurm's CLOUD nodes do: jobs take them when nothing else is free, and leave them for the real ones
that their pods are placed on. Their number is the bound on how much may be asked for at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shim.control.backends.kubernetes.settings import Settings
from shim.core.errors import ShimError
from shim.core.formats import sizes, tres
from shim.core.model.cluster import Gres, Node

_LAST = 1000  # the weight of nodes that are taken when no other is free
# Of a node of which nothing is known: what no machine lacks. Who knows better says it (autoscale_node).
_WORDS = ("cpus", "memory", "gpus", "features")
_CPUS, _MEMORY, _DISK, _GPUS = 256, 4 << 20, 16 << 20, 16


def nodes(partition: str, settings: Settings, there: Sequence[Node]) -> list[Node]:
    """The nodes that the partition may get, ``autoscale_nodes`` of each kind: as described, else as those that are there."""
    described = [_described(one, settings) for one in _tables(settings)]
    found: list[Node] = []
    for kind in described or _kinds(there) or [_unknown(settings)]:
        for _ in range(settings.autoscale_nodes):
            found.append(kind.replace(name=f"{partition}-cloud-{len(found) + 1}"))
    return found


def check(settings: Settings) -> None:
    """Raises ShimError for a description of nodes that cannot be read."""
    for words in _tables(settings):
        try:
            strange = [name for name in words if name not in _WORDS]
            if strange:
                raise ValueError(f'"{strange[0]}" is unknown; known are {", ".join(_WORDS)}')
            _described(words, settings)
        except (TypeError, ValueError, AttributeError) as error:
            raise ShimError(f"error: bad autoscale_node {json.dumps(words)}: {error}") from None


def _tables(settings: Settings) -> Sequence[Mapping[str, Any]]:
    given = settings.autoscale_node
    return (given,) if isinstance(given, Mapping) else tuple(given)


def _described(words: Mapping[str, Any], settings: Settings) -> Node:
    """A node as the configuration describes it."""
    gres = [
        Gres(name="gpu", type=kind, count=count) for kind, count in tres.parse_gpus(str(words.get("gpus", ""))) if count
    ]
    cpus = int(words.get("cpus", _CPUS))
    return _cloud(
        Node(
            name="",
            cpus=cpus,
            cores_per_socket=cpus,
            memory=sizes.parse_memory(str(words["memory"])) if "memory" in words else _MEMORY,
            tmp_disk=_DISK,
            gres=tuple(gres),
            features=tuple(words.get("features", settings.node_features)),
        )
    )


def _kinds(there: Sequence[Node]) -> list[Node]:
    """One of each kind that is there: with the least that one of the kind has."""
    found: dict[tuple[object, ...], Node] = {}
    for node in there:
        key = (node.gres, node.features, node.cpus)
        known = found.get(key, node)
        found[key] = node.replace(memory=min(known.memory, node.memory), tmp_disk=min(known.tmp_disk, node.tmp_disk))
    return [_cloud(node) for node in found.values()]


def _unknown(settings: Settings) -> Node:
    types = list(settings.gpu_types) or [""]
    return _cloud(
        Node(
            name="",
            cpus=_CPUS,
            cores_per_socket=_CPUS,
            memory=_MEMORY,
            tmp_disk=_DISK,
            gres=tuple(Gres(name="gpu", type=kind, count=_GPUS) for kind in types),
            features=tuple(settings.node_features),
        )
    )


def _cloud(node: Node) -> Node:
    return node.replace(
        weight=_LAST,
        cloud=True,
        address="",
        state="",
        reason="",
        others_cpus=0,
        others_memory=0,
        others_gpus=0,
        others=(),
    )
