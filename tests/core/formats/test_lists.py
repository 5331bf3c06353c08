"""Lists with commas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats.lists import (
    comma_list,
    expand_counts,
    expand_ranks,
    fold_counts,
    fold_ranks,
    split_outside_brackets,
)


@pytest.mark.parametrize(
    ("text", "words"), [(None, ()), ("", ()), (",", ()), ("a", ("a",)), (",a,,b c,", ("a", "b c"))]
)
def test_comma_list(text: str | None, words: tuple[str, ...]) -> None:
    assert comma_list(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [("", []), ("5,6", ["5", "6"]), ("5_[1,3],n[1-2]", ["5_[1,3]", "n[1-2]"]), (",a,,", ["a"]), ("a[1,2", ["a[1,2"])],
)
def test_split_outside_brackets(text: str, words: list[str]) -> None:
    assert split_outside_brackets(text) == words


def test_other_separators() -> None:
    assert split_outside_brackets("a b,[c d]\te", ", \t") == ["a", "b", "[c d]", "e"]


@pytest.mark.parametrize(
    ("counts", "text"), [([], ""), ([1], "1"), ([4, 1, 1], "4,1(x2)"), ([2, 2], "2(x2)"), ([1, 2, 1], "1,2,1")]
)
def test_counts_both_ways(counts: list[int], text: str) -> None:
    assert fold_counts(counts) == text
    assert expand_counts(text) == counts


@given(st.lists(st.integers(0, 5), max_size=40))
def test_expand_undoes_fold_of_counts(counts: list[int]) -> None:
    assert expand_counts(fold_counts(counts)) == counts


@pytest.mark.parametrize("text", ["a", "1,", "2(x", "2(x)", "(x2)", "2x2", "-1", "1(x99999999)", "²"])
def test_bad_counts(text: str) -> None:
    with pytest.raises(ValueError):
        expand_counts(text)


@pytest.mark.parametrize(
    ("ranks", "text"), [([], ""), ([7], "7"), ([0, 1, 2, 5], "0-2,5"), ([3, 1, 1], "1,3"), ([4, 5], "4-5")]
)
def test_fold_ranks(ranks: list[int], text: str) -> None:
    assert fold_ranks(ranks) == text


@given(st.sets(st.integers(0, 200)))
def test_expand_undoes_fold_of_ranks(ranks: set[int]) -> None:
    assert expand_ranks(fold_ranks(ranks)) == sorted(ranks)


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,", "*", "0-99999999999", "1-2-3"])
def test_bad_ranks(text: str) -> None:
    with pytest.raises(ValueError):
        expand_ranks(text)
