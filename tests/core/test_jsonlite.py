"""JSON without the json package: the same data, and ValueError for all that is not JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core import jsonlite

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(DATA)
def test_data_survives_and_json_agrees(data: object) -> None:
    text = jsonlite.dumps(data)
    assert jsonlite.loads(text) == data
    assert json.loads(text) == data
    assert jsonlite.loads(json.dumps(data, indent=2)) == data
    assert text.isascii() and "\n" not in text


def test_file_names_of_any_bytes_survive() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert jsonlite.loads(jsonlite.dumps({"path": name})) == {"path": name}


def test_bytes_are_utf8() -> None:
    assert jsonlite.loads(' {"a": "é"}\n'.encode()) == {"a": "é"}


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", "1 2", "NaN", "[Infinity]", '"a', "{'a': 1}", "nul", '{"a" 1}', "[" * 100_000]
)
def test_bad_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        jsonlite.loads(text)


@given(st.text(max_size=20))
def test_any_text_is_data_or_a_value_error(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = ValueError
    try:
        found = jsonlite.loads(text)
    except ValueError:
        found = ValueError
    if text.strip(" \t\n\r") not in ("NaN", "Infinity", "-Infinity"):
        assert found == expected


def test_what_json_has_not_is_refused() -> None:
    ring: list[object] = []
    ring.append(ring)
    for value in (float("nan"), float("inf"), ring):
        with pytest.raises(ValueError):
            jsonlite.dumps(value)
    with pytest.raises(TypeError):
        jsonlite.dumps(object())


def test_the_package_is_not_imported_and_bad_text_is_a_value_error_then_too() -> None:
    code = (
        "from shim.core import jsonlite\n"
        "assert jsonlite.loads(jsonlite.dumps([1, 'a', None])) == [1, 'a', None]\n"
        "assert 'json' not in sys.modules\n"
        "for bad in ('{', '[1,]', '\"a'):\n"
        "    try: jsonlite.loads(bad)\n"
        "    except ValueError: pass\n"
        "    else: raise SystemExit('accepted')\n"
    )
    start = f"import sys; sys.path[:] = {sys.path!r}\n"
    found = subprocess.run([sys.executable, "-I", "-S", "-c", start + code], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


def test_without_the_c_parts_the_package_does_the_same() -> None:
    scan, encode = jsonlite._package_parts()
    assert encode({"a": [1, None, "é"]}) == jsonlite.dumps({"a": [1, None, "é"]})
    assert scan('{"a":1}', 0) == ({"a": 1}, 7)
