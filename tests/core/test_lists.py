"""Lists with commas."""

from __future__ import annotations

import pytest

from shim.core.lists import comma_list, split_outside_brackets


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
