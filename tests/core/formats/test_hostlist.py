"""Lists of node names in Slurm's notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats import hostlist
from shim.core.formats.hostlist import HostlistError


def test_a_list_in_order_keeps_its_brackets_and_what_comes_twice() -> None:
    for text, shown in (
        ("a[1-2][3-4]", "a1[3-4],a2[3-4]"),
        ("b[1-2][3-4],a[1-2]", "a[1-2],b1[3-4],b2[3-4]"),
        ("a[1-2][3-4],a25", "a25,a1[3-4],a2[3-4]"),
        ("a[1,1][2,2]", "a1[2,2,2,2]"),
        ("n3,n1,n2,n2", "n[1-2,2-3]"),
        ("n10,n9,n1x2", "n[9-10],n1x2"),
        ("n10,n9,n01,n1", "n[1,9,01,10]"),
    ):
        assert hostlist.refold(text, in_order=True) == shown


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3],x[08-11],y", ["n1", "n2", "n3", "x08", "x09", "x10", "x11", "y"]),
        ("n[1,3],n1", ["n1", "n3", "n1"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("127.0.0.[1-2]", ["127.0.0.1", "127.0.0.2"]),
        ("[1-2]", ["1", "2"]),
        ("a, b\tc\nd,,", ["a", "b", "c", "d"]),
        ("n[60000-60002]", ["n60000", "n60001", "n60002"]),
        (
            "n[1-2]m[1-2]p[1-2]",
            [f"n{a}m{b}p{c}" for b in "12" for a in "12" for c in "12"],
        ),  # the first before the second
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert hostlist.expand(text) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("n1,n2,n3,n7,m2", "n[1-3,7],m2"),
        ("n01,n02,n10", "n[01-02,10]"),
        ("n3,n1,n2", "n[3,1-2]"),
        ("n1,n1,n2", "n[1,1-2]"),
        ("n9,n10", "n[9-10]"),
        ("n09,n10", "n[09-10]"),
        ("n099,n100,n101", "n[099-101]"),
        ("n1", "n1"),
        ("y,y", "y,y"),
        ("a1b,a2b", "a1b,a2b"),
        ("1,2,3", "[1-3]"),
        ("127.0.0.1,127.0.0.2", "127.0.0.1,127.0.0.2"),
        ("127.0.1,127.0.2", "127.0.[1-2]"),
        ("a.0.0.1,a.0.0.2", "a.0.0.[1-2]"),
        ("n,n1", "n,n1"),
        ("n1,n,n2", "n1,n,n2"),
    ],
)
def test_fold_keeps_order_and_duplicates(names: str, text: str) -> None:
    assert hostlist.fold(names.split(",")) == text


def test_as_many_names_as_a_list_may_stand_for() -> None:
    assert len(hostlist.expand("n[0-65535]")) == len(hostlist.expand("n[0-65534],m")) == 65536
    assert hostlist.expand("n[4294967295-4294967296]") == ["n4294967295", "n4294967296"]


def test_fold_sorted_is_natural_and_unique() -> None:
    assert hostlist.fold_sorted(["n3", "n10", "n1", "n2", "n3"]) == "n[1-3,10]"
    assert hostlist.natural_sorted(["n10", "n9", "m1", "n9-x"]) == ["m1", "n9", "n9-x", "n10"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("n[1-2]-[a-b]", "_parse_single_range: Invalid range: `a-b'"),
        ("n[3-1]", "_parse_single_range: Invalid range: `3-1'"),
        ("n[]", "_parse_single_range: Invalid range: `'"),
        ("n[1-100000]", "_parse_single_range: Too many hosts in range `1-100000'"),
        ("n[1-300]m[1-300]", "Too many hosts in range 'n[1-300]m[1-300]'"),
        ("n[0-65535],m", "Too many hosts in range 'm'"),
        ("n[0-65536]", "_parse_single_range: Too many hosts in range `0-65536'"),
        ("n[1-b]", "_parse_single_range: Invalid range: `1-b'"),
        ("n[b-1]", "_parse_single_range: Invalid range: `b-1'"),
    ],
)
def test_bad_lists_say_what_slurm_says(text: str, cause: str) -> None:
    with pytest.raises(HostlistError) as caught:
        hostlist.expand(text)
    assert caught.value.lines == (f"error: {cause}", f"\0Invalid hostlist: {text}")


def test_letters_after_a_bracket_are_refused() -> None:
    for text in ("a[1-2]b", "a,r[1-2]n[1-2]-ib"):
        with pytest.raises(HostlistError) as caught:
            hostlist.expand(text)
        assert caught.value.lines == (f"\0Invalid hostlist: {text}",)


NAME = st.from_regex(r"[a-z]{1,3}[0-9]{0,4}(-[a-z][0-9]{1,2})?", fullmatch=True) | st.from_regex(
    r"[0-9]{1,3}(\.[0-9]{1,3}){3}", fullmatch=True
)


@given(st.lists(NAME, max_size=30))
def test_expand_undoes_fold(names: list[str]) -> None:
    assert hostlist.expand(hostlist.fold(names)) == names
    assert hostlist.expand(hostlist.fold_sorted(names)) == hostlist.natural_sorted(set(names))


@given(st.text(alphabet="n12[],- \t0a", max_size=25))
def test_any_text_is_a_list_or_a_hostlist_error(text: str) -> None:
    try:
        names = hostlist.expand(text)
    except HostlistError as error:
        assert error.lines[-1] == f"\0Invalid hostlist: {text}"
    else:
        assert not any(set(name) & set(", \t") for name in names if "[" not in text)


# Given to the real scontrol: some thousand texts of these letters, of which these are the kinds.
@pytest.mark.parametrize(
    ("text", "names", "folded"),
    [
        ("a],b", ["a]", "b"], "a],b"),
        ("a]b,c[1-2]", ["a]b", "c1", "c2"], "a]b,c[1-2]"),
        ("a]b[1-2]", ["a]b1", "a]b2"], "a]b[1-2]"),
        ("b]1,b]2", ["b]1", "b]2"], "b][1-2]"),
        ("n[1", ["n]"], "n]"),
        ("[a", ["a"], "a"),
        ("[a[-,2,", ["[a]", "2"], "[a],2"),
        ("[2-a,[1-2]", ["[2-a,1", "[2-a,2"], "[2-a,[1-2]"),
        ("[b]-a[,", ["[b]-a]"], "[b]-a]"),
        ("][b,2]", ["]]", "2]"], "]],2]"),
        ("[2-[1-2],]]", ["[2-1", "[2-2", "]]"], "[2-[1-2],]]"),
        ("1[1-2],2[1-2]", ["11", "12", "21", "22"], "1[1-2],2[1-2]"),
        (
            "[1-2][1-2][1-2]",
            ["111", "112", "211", "212", "121", "122", "221", "222"],
            "11[1-2],21[1-2],12[1-2],22[1-2]",
        ),
    ],
)
def test_brackets_that_belong_to_no_other_are_letters(text: str, names: list[str], folded: str) -> None:
    assert hostlist.expand(text) == names
    assert hostlist.refold(text) == folded


def test_nodes_are_not_made_by_names_with_brackets() -> None:
    assert hostlist.plain_names("n[1-2]") == ["n1", "n2"]
    for text in ("n1]", "n[1"):
        with pytest.raises(HostlistError):
            hostlist.plain_names(text)


def test_of_leading_brackets_the_last_varies_slowest() -> None:
    assert hostlist.expand("a[1-2]b[1-2]c[1-2]") == [
        *("a1b1c1", "a1b1c2", "a2b1c1", "a2b1c2"),
        *("a1b2c1", "a1b2c2", "a2b2c1", "a2b2c2"),
    ]
    assert hostlist.expand("rack[1-2]n[1-2]") == ["rack1n1", "rack1n2", "rack2n1", "rack2n2"]
    assert hostlist.expand("a[1-2][3-4]") == ["a13", "a14", "a23", "a24"]
