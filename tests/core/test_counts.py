"""Counts per node: ``4,1(x2)``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.counts import expand_counts, fold_counts


@pytest.mark.parametrize(
    ("counts", "text"), [([], ""), ([1], "1"), ([4, 1, 1], "4,1(x2)"), ([2, 2], "2(x2)"), ([1, 2, 1], "1,2,1")]
)
def test_both_ways(counts: list[int], text: str) -> None:
    assert fold_counts(counts) == text
    assert expand_counts(text) == counts


@given(st.lists(st.integers(0, 5), max_size=40))
def test_expand_undoes_fold(counts: list[int]) -> None:
    assert expand_counts(fold_counts(counts)) == counts


@pytest.mark.parametrize("text", ["a", "1,", "2(x", "2(x)", "(x2)", "2x2", "-1", "1(x99999999)", "²"])
def test_bad_texts(text: str) -> None:
    with pytest.raises(ValueError):
        expand_counts(text)
