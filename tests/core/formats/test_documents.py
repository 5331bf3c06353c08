"""The text of --json and --yaml: what any reader of JSON and YAML makes of it is what was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats.documents import json_text, yaml_text

TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.text("ab:#'\"-?{}[],&*!|>%@`~ \\/01.", max_size=6) | st.sampled_from(
    ["null", "True", "~", "1:2", "a\nb", "\t"]
)
LONG_TEXT = st.text("ab  \n'\"\\\u00fc", min_size=60, max_size=200)  # folded
LEAF = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXT | PLAIN | LONG_TEXT
DATA = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc_", min_size=1), inner, max_size=4)
)
RECORDS = st.dictionaries(st.text("abc_", min_size=1), DATA, min_size=1, max_size=4)


@given(DATA)
def test_json_is_read_as_it_was_meant(data: Any) -> None:
    assert json.loads(json_text(data)) == data


def without_empty(data: Any) -> Any:
    """YAML has null for a text that is not set."""
    if isinstance(data, dict):
        return {name: without_empty(value) for name, value in data.items()}
    if isinstance(data, list):
        return [without_empty(value) for value in data]
    return None if data == "" else data


@given(RECORDS)
def test_yaml_is_read_as_it_was_meant(data: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text(data)) == without_empty(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, "{\n}"),
        ({"a": []}, '{\n  "a": [\n  ]\n}'),
        ({"a": [1, {"b": None}]}, '{\n  "a": [\n    1,\n    {\n      "b": null\n    }\n  ]\n}'),
        ({"a": 'x/y"\\\n\x01ü'}, '{\n  "a": "x\\/y\\"\\\\\\n\\u0001ü"\n}'),
        ({"a": 2.0, "b": True}, '{\n  "a": 2.0,\n  "b": true\n}'),
    ],
)
def test_json_is_laid_out_as_slurm_does(data: Any, expected: str) -> None:
    assert json_text(data) == expected


LONG = " ".join(map(str, range(10, 61)))
FOLDED = """10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29
    30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55
    56 57 58 59 60"""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *(
            (word, word)
            for word in ("x y", "-x", "?x", ":x", "~", "null", "true", "x,y", "a]", "a'b", "=", "a\\b", "x  y", "a:b")
        ),
        *(
            (word, f"'{word}'")
            for word in ("a: b", " lead", "trail ", "? x", "x:", "a #b", "#b", "---a", "... b", "-", "- a")
        ),
        *((word, f"'{word}'") for word in ("[a", "{b}", "&a", "*a", "!a", "|a", ">a", '"q', "%a", "@a", "`a")),
        ("'q", "'''q'"),
        ("a\nb", "'a\n\n    b'"),
        ("a\n", "'a\n\n    '"),
        ("a\n b", '"a\\n b"'),
        ("a \nb", '"a \\nb"'),
        ("tab\tx", '"tab\\tx"'),
        ("\u00fc", '"\\xFC"'),
        ('\u00e9"q', '"\\xE9\\"q"'),
        ("\u65e5\u672c", '"\\u65E5\\u672C"'),
        ("\U0001f600", '"\\U0001F600"'),
        (LONG, FOLDED),
        (LONG + ": x", f"'{FOLDED}: x'"),
        (LONG + " \u00fc", f'"{FOLDED} \\xFC"'),
        (LONG.replace(" ", "_") + " b", LONG.replace(" ", "_") + "\n    b"),
    ],
)
def test_a_text_is_written_as_slurm_writes_it(text: str, written: str) -> None:
    head = "%YAML 1.1\n--- !!map\n!!str jobs: !!seq\n- !!map\n  !!str comment: !!str "
    assert yaml_text({"jobs": [{"comment": text}]}) == f"{head}{written}\n..."


def test_yaml_is_laid_out_as_slurm_does() -> None:
    data = {
        "meta": {"n": 22},
        "none": [],
        "jobs": [{"name": "", "limit": None, "os": "Linux #1 @0", "parts": ["a"], "w": 2.0}],
    }
    assert yaml_text(data).splitlines() == [
        "%YAML 1.1",
        "--- !!map",
        "!!str meta: !!map",
        "  !!str n: !!int 22",
        "!!str none: !!seq []",
        "!!str jobs: !!seq",
        "- !!map",
        "  !!str name: !!null null",
        "  !!str limit: !!null null",
        "  !!str os: !!str 'Linux #1 @0'",
        "  !!str parts: !!seq",
        "  - !!str a",
        "  !!str w: !!float 2.000000",
        "...",
    ]
