"""A cluster that is kept comes back equal, through marshal too, and small."""

from __future__ import annotations

import marshal

from hypothesis import given
from hypothesis import strategies as st

from shim.control.kept_cluster import pack, unpack
from shim.core.model.cluster import Cluster, Gres, Node, Partition

NODES = st.lists(
    st.builds(
        Node,
        name=st.sampled_from(["?"]),
        cpus=st.sampled_from([1, 8]),
        weight=st.sampled_from([1, 5]),
        state=st.sampled_from(["", "DOWN"]),
        features=st.sampled_from([(), ("fast", "cpu")]),
        gres=st.sampled_from([(), (Gres(name="gpu", type="a100", count=2),)]),
    ),
    max_size=6,
)


@given(
    nodes=NODES,
    members=st.lists(st.lists(st.integers(0, 8), unique=True, max_size=4), max_size=4),
    licenses=st.sampled_from([(), (Gres(name="matlab", count=2),)]),
)
def test_any_cluster_comes_back_equal(nodes: list[Node], members: list[list[int]], licenses: tuple[Gres, ...]) -> None:
    cluster = Cluster(
        name="site",
        nodes=tuple(node.replace(name=f"n{n}", address=f"10.0.0.{n}") for n, node in enumerate(nodes)),
        partitions=tuple(
            Partition(
                name=f"p{number}", nodes=tuple(f"n{n}" for n in named), default=not number, max_time=number or None
            )
            for number, named in enumerate(members)
        ),
        licenses=licenses,
        accounting=False,
    )
    assert unpack(marshal.loads(marshal.dumps(pack(cluster)))) == cluster


def test_nodes_of_a_kind_and_equal_lists_are_kept_once() -> None:
    names = tuple(f"n{number}" for number in range(500))
    cluster = Cluster(
        name="large",
        nodes=tuple(Node(name=name, cpus=64, features=("fast",)) for name in names),
        partitions=tuple(Partition(name=f"p{number}", nodes=names) for number in range(20)),
    )
    packed = pack(cluster)
    assert packed["kinds"] == [{"cpus": 64, "features": ["fast"]}]
    assert len(packed["lists"]) == 1
    assert unpack(packed) == cluster
