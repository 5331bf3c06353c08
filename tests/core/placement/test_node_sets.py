"""The order in which nodes are taken: found at once where there are very many sets of neighbours, and the same."""

from __future__ import annotations

from typing import Any

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


OUT = (False, 1, 0, 1)  # a node that the job cannot have: it ends a set


def plain(*cpus: int, weight: int = 1) -> list[tuple[bool, int, int, int]]:
    return [(True, one, 0, weight) for one in cpus]


@pytest.mark.parametrize(
    ("made", "wanted", "most", "expected"),
    [
        # The smallest set that is just enough; then the rest in the cluster's order.
        ([*plain(2, 2), OUT, *plain(3, 1), OUT, *plain(4)], {"cpus": 4}, 1, "0 1 3 4 6"),
        ([*plain(2, 2, 2), OUT, *plain(4), OUT, *plain(3)], {"cpus": 4}, 1, "4 0 1 2 6"),
        (
            [*plain(1, 1), OUT, *plain(3, 3), OUT, *plain(2)],
            {"cpus": 7},
            1,
            "3 4 0 1 6",
        ),  # none is enough: the largest first
        ([*plain(1), OUT, *plain(4), OUT, *plain(3)], {"cpus": 5}, 1, "2 0 4"),  # one CPU is still wanted
        # Enough nodes, enough GPUs
        ([*plain(9), OUT, *plain(1, 1, 1)], {"cpus": 1, "min_nodes": 2}, 2, "2 3 4 0"),
        ([(True, 1, 4, 1), OUT, (True, 1, 1, 1), (True, 1, 2, 1), OUT, (True, 1, 5, 1)], {"gpus": 3}, 1, "0 2 3 5"),
        ([(True, 1, 2, 1), OUT, (True, 1, 3, 1), OUT, (True, 1, 4, 1)], {"gpus": 3}, 1, "2 0 4"),
        # Light nodes before heavy ones, whatever they hold; a weight ends a set
        ([*plain(8, weight=2), OUT, *plain(1)], {"cpus": 9}, 1, "2 0"),
        ([*plain(8, weight=2), *plain(1), *plain(1, 1, weight=2)], {"cpus": 4}, 1, "1 0 2 3"),
        ([*plain(1), *plain(1, 1, weight=2), OUT, *plain(2, weight=2)], {"cpus": 3}, 1, "0 1 2 4"),
        # From the node that is named on upwards, then down; its set comes before one that stands before it
        (plain(1, 1, 1, 1, 1), {"cpus": 9, "named": (2,)}, 1, "2 3 4 1 0"),
        ([*plain(1, 1), OUT, *plain(4, 4)], {"cpus": 9, "named": (0,)}, 1, "0 3 4 1"),
        ([*plain(1, 3), OUT, *plain(1, 1), OUT, *plain(2)], {"cpus": 9, "named": (3, 0)}, 1, "0 3 1 6 4"),
        ([*plain(2, 2), OUT, *plain(1)], {"cpus": 2, "named": (0, 1)}, 1, "0 1 3"),
        ([*plain(3), OUT, *plain(1, 1), OUT, *plain(2)], {"cpus": 9, "named": (2,)}, 1, "2 5 3 0"),
    ],
)
def test_the_order_in_which_nodes_are_taken(
    made: list[tuple[bool, int, int, int]], wanted: dict[str, Any], most: int, expected: str
) -> None:
    gpus = wanted.get("gpus", 0)
    resolved = ResolvedRequest(
        min_nodes=wanted.get("min_nodes", 1),
        cpus=wanted.get("cpus", 1),
        job_gpus=(("", gpus),) if gpus else (),
        required=tuple(f"n{place}" for place in wanted.get("named", ())),
    )
    assert " ".join(name[1:] for name in in_order(made, resolved, most)) == expected
