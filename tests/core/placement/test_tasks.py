"""Which rank runs where: the measured cases, and what must hold for any shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.placement.tasks import distribution_kind, spread, task_counts, task_layout


@pytest.mark.parametrize(
    ("cpus", "ntasks", "distribution", "expected"),
    [
        ([3, 1], 4, None, [[0, 1, 2], [3]]),
        ([4, 1], 5, "block", [[0, 1, 2, 3], [4]]),
        ([3, 1], 4, "cyclic", [[0, 2, 3], [1]]),
        ([4, 1], 5, "cyclic", [[0, 2, 3, 4], [1]]),
        ([4, 1, 1], 6, "cyclic:block", [[0, 3, 4, 5], [1], [2]]),
        ([3, 1], 4, "plane=2", [[0, 1, 3], [2]]),
        ([6, 1, 1], 8, "plane=2", [[0, 1, 4, 5, 6, 7], [2], [3]]),
        ([3, 3], 6, "plane=2", [[0, 1, 4], [2, 3, 5]]),
        ([3, 3], 4, None, [[0, 1], [2, 3]]),  # tasks are dealt round before they are numbered
        ([8, 8], 3, None, [[0, 1], [2]]),
        ([2, 2], 2, None, [[0], [1]]),
        ([3, 1], 6, None, [[0, 1, 2, 3], [4, 5]]),  # --overcommit
        ([3, 3], 10, None, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]),
        ([1], 10, None, [list(range(10))]),
        ([1, 0], 2, None, [[0], [1]]),  # -c 2 on a node with one CPU
    ],
)
def test_measured_layouts(cpus, ntasks, distribution, expected):
    assert [list(own) for own in task_layout(cpus, ntasks, distribution)] == expected


def test_arbitrary_follows_the_list():
    assert task_layout([1, 2], 3, "arbitrary", arbitrary=[1, 0, 1]) == ((1,), (0, 2))


def test_cap_limits_and_is_ignored_when_tasks_would_be_left_over():
    assert task_counts([8, 8, 8], 5, cap=2) == (2, 2, 1)
    assert task_counts([8, 8], 5, cap=2) == (3, 2)
    assert task_counts([1, 8], 4, cap=3) == (1, 3)
    assert task_counts([1, 1], 4, cap=2) == (2, 2)
    assert task_counts([3, 1], 5, cap=3) == (3, 2)
    assert task_counts([], 5) == ()


@pytest.mark.parametrize(
    ("cpus", "wanted", "least", "nodes", "expected"),
    [
        ([8, 8], 5, 1, 2, [4, 1]),  # one is left for the second node
        ([8, 8], 5, 1, 1, [5, 1]),
        ([8, 8, 8], 5, 1, 3, [3, 1, 1]),
        ([8, 8, 8], 15, 1, 1, [8, 7, 1]),
        ([8, 8, 8], 20, 1, 3, [8, 8, 4]),
        ([8, 8], 6, 3, 2, [5, 3]),
        ([2, 8], 6, 3, 2, [2, 4]),
        ([8, 8], 15, 3, 2, [8, 7]),
    ],
)
def test_the_cpus_that_tasks_may_have_of_each_node(cpus, wanted, least, nodes, expected):
    assert spread(cpus, wanted, least, nodes) == expected


def test_a_plane_has_at_least_one_task():
    assert task_layout([2, 2], 4, "plane=0") == task_layout([2, 2], 4, "plane=1") == ((0, 2), (1, 3))
    assert task_layout([2, 2], 4, "plane") == ((0, 2), (1, 3))


def test_a_list_that_names_nobody_is_dealt_in_blocks():
    assert task_layout([2, 2], 3, "arbitrary") == ((0, 1), (2,))


@pytest.mark.parametrize(
    ("distribution", "ntasks", "nodes", "expected"),
    [
        (None, 4, 2, "block"),
        (None, 2, 2, "cyclic"),
        ("*", 4, 2, "block"),
        ("block:cyclic", 2, 2, "block"),
        ("plane=4", 2, 2, "plane=4"),
        ("cyclic,Pack", 2, 1, "cyclic"),
    ],
)
def test_kind(distribution, ntasks, nodes, expected):
    assert distribution_kind(distribution, ntasks, nodes) == expected


@given(
    cpus=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    ntasks=st.integers(1, 40),
    distribution=st.sampled_from([None, "block", "cyclic", "plane=1", "plane=3", "plane=x", "*"]),
    cap=st.none() | st.integers(1, 9),
)
def test_every_rank_runs_exactly_once(cpus, ntasks, distribution, cap):
    ranks = task_layout(cpus, ntasks, distribution, cap=cap)
    assert len(ranks) == len(cpus)
    assert sorted(rank for own in ranks for rank in own) == list(range(ntasks))
    assert all(list(own) == sorted(own) for own in ranks)
    if cap is not None and ntasks <= cap * len(cpus):
        assert max(map(len, ranks)) <= cap
    elif cap is None and ntasks <= sum(cpus) and min(cpus) > 0:
        assert all(len(own) <= here for own, here in zip(ranks, cpus, strict=True))
