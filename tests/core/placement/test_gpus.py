"""GPUs of nodes: how often a demand fits, which ones are picked, and how a job's are divided among its nodes."""

from __future__ import annotations

import pytest

from shim.core.placement.gpus import capacity, pick, subtract, take_share

Demand = tuple[tuple[str, int], ...]
ANY = ""


@pytest.mark.parametrize(
    ("demand", "free", "times"),
    [
        ((), "aab", 0),
        (((ANY, 0),), "aab", 0),
        (((ANY, 1),), "aab", 3),
        (((ANY, 2),), "aab", 1),
        ((("a", 1),), "aab", 2),
        ((("b", 2),), "aab", 0),
        ((("a", 1), (ANY, 1)), "aab", 1),
        ((("a", 1), ("a", 1)), "aaab", 1),  # a type that is named twice
    ],
)
def test_how_often_a_demand_fits(demand: Demand, free: str, times: int) -> None:
    assert capacity(demand, free) == times


@pytest.mark.parametrize(
    ("demand", "picked"),
    [
        (((ANY, 2),), (0, 1)),
        ((("b", 1),), (2,)),
        (((ANY, 2), ("a", 1)), (0, 1, 2)),  # the named type first: "any" takes what is left
        (((ANY, 1), ("a", 2)), (0, 1, 2)),
        ((("b", 2),), None),
        (((ANY, 4),), None),
    ],
)
def test_which_gpus_are_picked(demand: Demand, picked: tuple[int, ...] | None) -> None:
    assert pick(demand, (0, 1, 2), dict(enumerate("aab"))) == picked


@pytest.mark.parametrize(
    ("left", "free", "after", "share"),
    [
        (((ANY, 4),), "aaaa", 1, ((ANY, 3),)),
        (((ANY, 4),), "aa", 1, ((ANY, 2),)),
        (((ANY, 2),), "aaaa", 2, ((ANY, 0),)),
        (((ANY, 1),), "aaaa", 2, ((ANY, 4),)),  # Slurm's count goes below zero
        ((("a", 4),), "aaaab", 1, (("a", 3),)),
        ((("a", 1),), "aab", 1, (("a", 1),)),  # a named type never goes below one
        ((("a", 0),), "aab", 1, (("a", 0),)),
        ((("a", 2), (ANY, 2)), "aab", 0, (("a", 2), (ANY, 1))),
    ],
)
def test_the_share_of_a_node(left: Demand, free: str, after: int, share: Demand) -> None:
    assert take_share(left, free, after) == share


def test_what_is_left_of_a_demand() -> None:
    assert subtract((("a", 3), (ANY, 2)), (("a", 1),)) == (("a", 2), (ANY, 2))
