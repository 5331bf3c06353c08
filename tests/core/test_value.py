"""Immutable values: construction, equality, and the plain form that the index and the wire carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest, SignalRequest
from shim.core.value import Value


class Part(Value):
    size: int
    names: tuple[str, ...] = ()


class Whole(Value):
    part: Part = Part(size=1)
    parts: tuple[Part, ...] = ()
    note: str | None = None
    words: dict[str, str] = {}
    _nested = {"part": Part, "parts": Part}


class Larger(Whole):
    more: int = 0


def test_construction() -> None:
    assert (Part(size=2).size, Part(size=2).names) == (2, ())
    with pytest.raises(TypeError, match="missing field 'size'"):
        Part()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unknown fields \['weight'\]"):
        Part(size=1, weight=2)  # type: ignore[call-arg]


def test_values_do_not_change() -> None:
    part = Part(size=2)
    with pytest.raises(AttributeError, match="immutable"):
        part.size = 3  # type: ignore[misc]
    assert part.replace(size=3) == Part(size=3)
    assert part == Part(size=2)
    with pytest.raises(TypeError, match="unknown fields"):
        part.replace(weight=1)


def test_equality_is_by_type_and_fields() -> None:
    assert Whole(note="a") == Whole(note="a")
    assert hash(Part(size=1)) == hash(Part(size=1))
    assert Whole() != Larger()
    assert repr(Whole(note="a")) == "Whole(note='a')"


def test_the_plain_form_leaves_defaults_out() -> None:
    assert Whole().to_dict() == {}
    assert Part(size=1).to_dict() == {"size": 1}
    whole = Larger(parts=(Part(size=1, names=("a",)), Part(size=2)), words={"k": "v"}, more=3)
    assert whole.to_dict() == {"parts": [{"size": 1, "names": ["a"]}, {"size": 2}], "words": {"k": "v"}, "more": 3}
    assert Larger.from_dict(whole.to_dict()) == whole


def test_reading_the_plain_form() -> None:
    assert Whole.from_dict({"note": "a", "written": "by a newer program"}) == Whole(note="a")
    assert Part.from_dict({"size": 1, "names": ["a", "b"]}) == Part(size=1, names=("a", "b"))
    assert Job.from_dict({"job_id": 1, "request": {"signal": None}}).request.signal is None
    with pytest.raises(TypeError, match="missing field 'size'"):
        Part.from_dict({"names": []})


@given(
    name=st.none() | st.text(),
    tasks=st.none() | st.integers(),
    arguments=st.lists(st.text(max_size=3), max_size=3),
    shares=st.lists(
        st.builds(
            lambda name, gpus: NodeShare(name=name, gpus=tuple(gpus)),
            st.text(max_size=3),
            st.lists(st.integers(), max_size=3),
        ),
        max_size=3,
    ),
    signal=st.none() | st.builds(lambda number: SignalRequest(number=number), st.integers()),
)
def test_a_job_survives_its_plain_form(
    name: str | None, tasks: int | None, arguments: list[str], shares: list[NodeShare], signal: SignalRequest | None
) -> None:
    request = JobRequest(name=name, ntasks=tasks, arguments=tuple(arguments), signal=signal)
    job = Job(job_id=7, request=request, shares=tuple(shares))
    assert Job.from_dict(job.to_dict()) == job
