"""--constraint: reading, matching, refusing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.placement import features as grammar
from shim.core.placement.features import FeatureError, matches, parse


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
        ("a & b", "ab", False),  # a blank is part of a name
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
    assert parse("[a|b]&c").choices == ("(a)&c", "(b)&c")
    assert parse("c&[a|(b&d)]").choices == ("c&(a)", "c&((b&d))")
    assert parse("a|").choices == ("a",)
    assert parse("(a)b").names == ("a",)
    assert parse('"a&b"').choices == ("a&b",)
    assert parse('"a').names == ('"a',)
    assert parse("a*2&[b|c]").counts == (("a", 2), ("b", 1), ("c", 1))


@pytest.mark.parametrize(
    "text",
    [
        "&",
        "a&&",
        "|a",
        "(a",
        "a)",
        "a*x",
        "a*0",
        "*2",
        "[a|&b]",
        "[]",
        "((a))",
        "[a][b]",
        "[a*2|b]",
        "[a&b]",
        "[a|b]*2",
        "(a*2|b)",
    ],
)
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


@given(st.text("ab&|(),c", max_size=12))
def test_alternatives_are_the_nodes_that_match(expression):
    try:
        grammar.matches(expression, frozenset())
    except FeatureError:
        return
    sets = grammar.alternatives(expression, 1000)
    assert sets is not None
    for count in range(4):
        for names in itertools.combinations("abc", count):
            have = frozenset(names)
            assert grammar.matches(expression, have) == (not sets or any(have.issuperset(one) for one in sets))


def test_more_alternatives_than_wanted():
    assert grammar.alternatives("(a|b)&(c|d)", 4) == (("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"))
    assert grammar.alternatives("(a|b)&(c|d)", 3) is None
    assert grammar.alternatives("a&b|a", 4) == (("a",),)
    assert grammar.alternatives("", 4) == ()
