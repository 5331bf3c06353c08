"""Nodes by kind: equal shapes are one kind, whatever their names and states."""

from __future__ import annotations

from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.node_classes import node_classes

BIG = Partition(name="big", nodes=("n1", "n2", "n3", "elsewhere"))
CLUSTER = Cluster(
    name="site",
    nodes=(
        Node(name="n1", cpus=8, features=("fast",)),
        Node(name="n2", cpus=8, features=("fast",), state="DOWN", address="127.0.0.2"),
        Node(name="n3", cpus=8, features=("fast",), gres=(Gres(name="gpu", type="a100", count=2),)),
        Node(name="n4", cpus=8, features=("slow",)),
    ),
    partitions=(BIG,),
)


def test_a_partition_s_nodes_by_kind() -> None:
    assert [(kind.name, names) for kind, names in node_classes(CLUSTER).of(BIG)] == [
        ("n1", ("n1", "n2")),
        ("n3", ("n3",)),
    ]


def test_names_that_exist_anywhere_in_the_cluster() -> None:
    found = node_classes(CLUSTER)
    assert found.features == {"fast", "slow"}
    assert found.gres == {"gpu"}
    assert found.nodes["n2"].state == "DOWN"


def test_a_changed_cluster_is_looked_at_again() -> None:
    changed = CLUSTER.replace(nodes=CLUSTER.nodes[:1])
    assert list(node_classes(changed).nodes) == ["n1"]
    assert list(node_classes(CLUSTER).nodes) == ["n1", "n2", "n3", "n4"]
    assert node_classes(changed) is node_classes(changed)
