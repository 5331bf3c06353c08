"""The text of ``--array`` as squeue shows it again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats.array_spec import ArraySpec, written_step


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0-3", "0-3"),
        ("1-7:2", "1,3,5,7"),
        ("0-3%2", "0-3%2"),
        ("7", "7"),
        ("0-1000", "0-1000"),
        ("1-3,7,9-11", "1-3,7,9-11"),
        ("1-3,2-5", "1-5"),
        ("1,1,2", "1-2"),
        ("0-10:3%1", "0,3,6,9%1"),
        ("3,1,2", "1-3"),
        ("1-40:2", "1-39:2"),
        ("0-10:2", "0,2,4,6,8,10"),
        ("0-11:2,12", "0-12:2"),
        ("0-20:5", "0,5,10,15,20"),
        ("100,200,300", "100,200,300"),
        ("1-10:3", "1,4,7,10"),
        ("0,2,4,6,9", "0,2,4,6,9"),
        ("01-03", "1-3"),
        ("0-3%", "0-3"),
        ("1-3%0", "1-3"),
        ("%2", "0%2"),
        ("0-3%2,5", "0-3,5%2"),
        ("1-2,4-5,3", "1-5"),
        ("0-20:10,10-30:10", "0,10,20,30"),
        ("0-20:4", "0-20:4"),
        ("5-15:2", "5,7,9,11,13,15"),  # they span ten, wherever they begin
        ("4-16:2", "4-16:2"),
        ("1,4", "1,4"),
        ("0-1000:1000", "0,1000"),
    ],
)
def test_normal_form(text: str, shown: str) -> None:
    spec = ArraySpec.parse(text)
    assert str(spec) == shown
    assert ArraySpec.parse(str(spec)) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "abc",
        "5-1",
        "10-0",
        "1-3:0",
        "-1",
        "1-",
        "0-3 %2",
        "0x10",
        "1001",
        "0-1001",
        "0-1000:1001",
        "1:2",
        "1-3:",
        "²",
        "1-[3]",
        "[1]2",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid job array specification"):
        ArraySpec.parse(text)


def test_facts_of_an_array() -> None:
    spec = ArraySpec.parse("5-7:2%1")
    assert (spec.first, spec.last, len(spec), spec.throttle) == (5, 7, 2, 1)
    assert (5 in spec, 6 in spec, 7 in spec) == (True, False, True)
    single = ArraySpec.parse("7")
    assert (single.first, single.last, len(single)) == (7, 7, 1)


@pytest.mark.parametrize(
    ("text", "step"), [("7", 1), ("1-9", 1), ("1,5,6", 1), ("2,6,10", 1), ("5-7:2%1", 2), ("1-9:4,3", 4)]
)
def test_the_step_is_the_one_that_was_written(text: str, step: int) -> None:
    assert written_step(text) == step


@pytest.mark.parametrize("text", ["[1-4]%2", "[1-4%2]"])
def test_brackets(text: str) -> None:
    assert str(ArraySpec.parse(text)) == "1-4%2"


def test_a_million_tasks_stay_one_run() -> None:
    spec = ArraySpec.parse("0-999999%3", max_size=1_000_001)
    assert (spec.runs, len(spec)) == (((0, 999999),), 1_000_000)
    assert spec.indexes == range(1_000_000)
    assert str(spec.without(0)) == "1-999999%3"
    less = spec.without(500)
    assert less is not None and (str(less), len(less)) == ("0-499,501-999999%3", 999_999)


def test_the_last_task_leaves_nothing() -> None:
    spec = ArraySpec.parse("7%2")
    assert spec.without(7) is None
    assert spec.without(3) == spec


@given(st.sets(st.integers(0, 300), min_size=1, max_size=60), st.integers(0, 5), st.data())
def test_a_spec_is_its_set(indexes: set[int], throttle: int, data: st.DataObject) -> None:
    spec = ArraySpec.of(indexes, throttle)
    assert list(spec) == sorted(indexes) == list(spec.indexes)
    assert len(spec) == len(indexes)
    assert ArraySpec.parse(str(spec)) == spec
    gone = data.draw(st.sampled_from(sorted(indexes)))
    rest = spec.without(gone)
    assert (list(rest) if rest else []) == sorted(indexes - {gone})
    assert ArraySpec.from_dict(spec.to_dict()) == spec


@given(st.text(alphabet="0123,-:% ", max_size=14))
def test_any_text_is_an_array_or_a_value_error(text: str) -> None:
    try:
        spec = ArraySpec.parse(text)
    except ValueError:
        return
    assert 0 <= spec.first <= spec.last <= 1000
