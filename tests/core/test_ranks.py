"""Sets of ranks: ``0-2,5``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.ranks import expand_ranks, fold_ranks


@pytest.mark.parametrize(
    ("ranks", "text"), [([], ""), ([7], "7"), ([0, 1, 2, 5], "0-2,5"), ([3, 1, 1], "1,3"), ([4, 5], "4-5")]
)
def test_fold(ranks: list[int], text: str) -> None:
    assert fold_ranks(ranks) == text


@given(st.sets(st.integers(0, 200)))
def test_expand_undoes_fold(ranks: set[int]) -> None:
    assert expand_ranks(fold_ranks(ranks)) == sorted(ranks)


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,", "*", "0-99999999999", "1-2-3"])
def test_bad_texts(text: str) -> None:
    with pytest.raises(ValueError):
        expand_ranks(text)
