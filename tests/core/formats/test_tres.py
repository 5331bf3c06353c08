"""Generic resources as asked for and as shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats import tres


@pytest.mark.parametrize(
    ("text", "entries", "shown"),
    [
        ("gpu", (("gpu", "", 1),), "gres:gpu"),
        ("gpu:2", (("gpu", "", 2),), "gres:gpu:2"),
        ("gpu:a100", (("gpu", "a100", 1),), "gres:gpu:a100"),
        ("gpu:a100:2", (("gpu", "a100", 2),), "gres:gpu:a100:2"),
        ("gres:gpu:1", (("gpu", "", 1),), "gres:gpu:1"),
        ("gpu:2,gpu:a100,gpu:1", (("gpu", "", 1), ("gpu", "a100", 1)), "gres:gpu:2,gres:gpu:a100,gres:gpu:1"),
        ("gpu:0", (("gpu", "", 0),), "gres:gpu:0"),
        ("gpu:abc", (("gpu", "abc", 1),), "gres:gpu:abc"),
        ("gpu:a100:2,shard:1K", (("gpu", "a100", 2), ("shard", "", 1024)), "gres:gpu:a100:2,gres:shard:1K"),
        ("none", (), ""),
        ("gpu: 2", (("gpu", "", 2),), "gres:gpu: 2"),
        ("gpu:a100=2", (("gpu", "a100=2", 1),), "gres:gpu:a100=2"),
        ("gpu:k", (("gpu", "k", 1),), "gres:gpu:k"),
        ("gpu:-1", (("gpu", "", 2**64 - 1),), "gres:gpu:-1"),
    ],
)
def test_gres(text: str, entries: tuple[tuple[str, str, int], ...], shown: str) -> None:
    assert tres.parse_gres(text) == entries
    normal = tres.normalize_gres(text)
    assert tres.parse_gres(normal) == entries
    assert tres.show_gres_field(text) == tres.show_gres_field(normal) == shown


@pytest.mark.parametrize("text", ["gpu=2", "gpu:", "gpu:a:b", "gpu:a:1:2", ":2", "gpu:a:-1", "gpu::1"])
def test_bad_gres(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Invalid generic resource"):
        tres.normalize_gres(text)


@pytest.mark.parametrize(
    ("text", "entries", "count", "shown"),
    [
        ("2", (("", 2),), 2, "gres:gpu:2"),
        ("a100:2", (("a100", 2),), 2, "gres:gpu:a100:2"),
        ("a100", (("a100", 1),), 1, "gres:gpu:a100"),
        ("a100:1,v100:2", (("a100", 1), ("v100", 2)), 3, "gres:gpu:a100:1,gres:gpu:v100:2"),
        ("0", (("", 0),), 0, "gres:gpu:0"),
    ],
)
def test_gpus(text: str, entries: tuple[tuple[str, int], ...], count: int, shown: str) -> None:
    assert tres.parse_gpus(text) == entries
    assert tres.gpu_count(text) == count
    assert tres.show_gpus_field(text) == shown


def test_nothing_asked() -> None:
    assert tres.gpu_count(None) == 0
    assert tres.show_gpus_field(None) == tres.show_gres_field(None) == ""


@pytest.mark.parametrize("text", ["a:b", "a100:", ":2", "a:b:1"])
def test_bad_gpus(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Invalid generic resource"):
        tres.parse_gpus(text)


def test_trackable_resources() -> None:
    assert tres.tres_text(2, 2000, 2, {"gpu": 4}) == "cpu=2,mem=2000M,node=2,billing=2,gres/gpu=4"
    assert tres.tres_text(32, 64000, 4, billing=1) == "cpu=32,mem=62.50G,node=4,billing=1"
    assert tres.tres_text(1, 0, 1, {"gpu": 0}) == "cpu=1,node=1,billing=1"


def test_a_unit_alone_is_no_type_of_nothing() -> None:
    with pytest.raises(ValueError, match=r"^Invalid Trackable RESource"):
        tres.parse_gres(":K")


@given(st.text(alphabet="gpures:,=0123K a", max_size=14))
def test_any_text_is_gres_or_a_value_error(text: str) -> None:
    try:
        entries = tres.parse_gres(text)
    except ValueError:
        return
    assert all(name and count >= 0 for name, _, count in entries if count), (
        "of what nothing is asked nobody looks at the name"
    )


def test_licenses() -> None:
    assert tres.parse_licenses("matlab:2,ansys") == (("matlab", 2), ("ansys", 1))
    assert tres.parse_licenses("a:600,b:,a:600") == (("a", 1200), ("b", 0))
    for text in ("a::", "a:b", ":1", "a:-1", "a=2"):
        with pytest.raises(ValueError, match=r"^Invalid license specification$"):
            tres.parse_licenses(text)


def test_units_of_a_count() -> None:
    for place, unit in enumerate("KMGTP", 1):
        assert tres.parse_gres(f"shard:3{unit}") == (("shard", "", 3 << 10 * place),)
        assert tres.parse_gres(f"shard:3{unit.lower()}") == (("shard", "", 3 << 10 * place),)


def test_a_count_that_cannot_be_read_is_kept_for_the_controller() -> None:
    assert tres.kept_gres("gres:gpu:1,none") == "gpu:1,none"
    assert tres.kept_gres("gpu:2x") == "gpu:2x"
    with pytest.raises(ValueError, match="Invalid generic resource"):
        tres.kept_gres("gpu=2")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", ""),
        ("gpu:1,shard", ""),
        ("tape", "Invalid generic resource (gres) specification"),
        ("tape:1", "Invalid generic resource (gres) specification"),
        ("gpu:1,tape:2x", "Invalid generic resource (gres) specification"),
        ("tape:0", ""),
        ("tape:0K", ""),
        ("tape:+0", "Invalid Trackable RESource (TRES) specification"),
        ("tape:+0,drum:1", "Invalid generic resource (gres) specification"),
    ],
)
def test_names_that_the_cluster_does_not_have(text: str, wrong: str) -> None:
    assert tres.unknown_gres(text, {"gpu", "shard"}) == wrong


def test_what_is_zero_is_left_out() -> None:
    assert tres.tres_text(0, 0, 0) == ""
    assert tres.tres_text(0, 0, 2) == "node=2"
    assert tres.tres_text(2, 1500, 0, {"gpu": 0, "shard": 3}, billing=7) == "cpu=2,mem=1500M,billing=7,gres/shard=3"


def test_no_licence_may_be_asked_for() -> None:
    assert tres.parse_licenses("matlab:0,ansys:2;matlab") == (("matlab", 1), ("ansys", 2))
    with pytest.raises(ValueError, match="Invalid license"):
        tres.parse_licenses("matlab:-1")


def test_none_of_a_type_is_a_request() -> None:
    assert tres.parse_gres("gpu:a100:0") == (("gpu", "a100", 0),)
