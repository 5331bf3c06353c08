"""The order in which nodes are taken: found at once where there are very many sets of neighbours, and the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.model.cluster import Node
from shim.core.placement import select_nodes
from shim.core.placement.capacity import NodeFree
from shim.core.placement.resolve import ResolvedRequest

# Each node: whether the job can have it, its free CPUs and GPUs, its weight.
nodes = st.lists(
    st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 2), st.sampled_from((1, 1, 1, 2))),
    min_size=1,
    max_size=24,
)


def in_order(made: list[tuple[bool, int, int, int]], resolved: ResolvedRequest, most: int) -> list[str]:
    free = [
        NodeFree(node=Node(name=f"n{place}", weight=weight), cpus=cpus, memory=0, gpus=tuple(range(gpus)))
        for place, (_usable, cpus, gpus, weight) in enumerate(made)
    ]
    places = {one.node.name: place for place, one in enumerate(free)}
    usable = [one for one, (wanted, *_) in zip(free, made) if wanted]
    rooms = {one.node.name: one.cpus for one in usable}
    return [
        one.node.name for one in select_nodes.by_sets(usable, rooms, lambda one: places[one.node.name], resolved, most)
    ]


@given(nodes, st.integers(1, 40), st.integers(1, 12), st.integers(0, 4), st.integers(0, 8), st.booleans())
def test_the_best_set_found_at_once_is_the_best_of_all(
    made: list[tuple[bool, int, int, int]], cpus: int, fewest: int, more: int, gpus: int, named: bool
) -> None:
    required = tuple(f"n{place}" for place, one in enumerate(made) if one[0])[:1] if named else ()
    resolved = ResolvedRequest(min_nodes=fewest, cpus=cpus, job_gpus=(("", gpus),) if gpus else (), required=required)
    found = in_order(made, resolved, fewest + more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select_nodes._Largest, "best", lambda *_: None)
        assert found == in_order(made, resolved, fewest + more)
    assert sorted(found) == sorted(f"n{place}" for place, one in enumerate(made) if one[0])
