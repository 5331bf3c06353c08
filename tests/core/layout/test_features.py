"""--constraint: reading, matching, refusing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.layout.features import FeatureError, matches, parse


@pytest.mark.parametrize(
    ("expression", "features", "expected"),
    [
        ("", "", True),
        ("a", "a", True),
        ("a", "b", False),
        ("a&b", "a", False),
        ("a&b", "ab", True),
        ("a,b", "a", False),
        ("a|b", "b", True),
        ("a|b&c", "a", False),  # from the left: (a|b)&c
        ("c&a|b", "b", True),
        ("a&(b|c)", "ac", True),
        (" a & b ", "ab", True),
    ],
)
def test_matches(expression, features, expected):
    assert matches(expression, frozenset(features)) is expected


def test_forms():
    assert parse(None).choices == ("",)
    assert parse("[a|b]").choices == ("a", "b")
    assert parse("a*2&b").counts == (("a", 2), ("b", 1))
    assert parse("a*2&b").choices == ("",)
    assert parse("[a*2&b*1]").choices == ("a|b",)
    assert parse("(a|b)&c").names == ("a", "b", "c")


@pytest.mark.parametrize("text", ["&", "a&&", "|a", "(a", "a)", "a*x", "a*0", "*2", "[a|&b]"])
def test_refused(text):
    with pytest.raises(FeatureError):
        parse(text)


@given(st.text(alphabet="ab&|()[]*2, ", max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        constraint = parse(text)
    except FeatureError:
        return
    assert all(matches(choice, frozenset("ab")) in (True, False) for choice in constraint.choices)
