"""Dependencies: what ``--dependency`` takes, and squeue's ``%E`` as the parents go on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats.dependency import NEVER, SATISFIED, TYPES, WAITING, Condition, Dependency, judge, unfulfilled
from shim.core.model.job import Job

NOW = 1000


def task(index: int | None, state: str, start: float = 0, rest: str | None = None) -> Job:
    return Job(job_id=9, array_job_id=9, array_task_id=index, array_tasks=rest, state=state, start_time=start)


WORLD: dict[int, list[Job]] = {
    1: [Job(job_id=1, state="PENDING")],
    2: [Job(job_id=2, state="RUNNING", start_time=NOW - 240)],
    3: [Job(job_id=3, state="COMPLETED", start_time=1)],
    4: [Job(job_id=4, state="FAILED", start_time=1, exit_status=256)],
    5: [Job(job_id=5, state="CANCELLED")],
    6: [Job(job_id=6, state="COMPLETING", start_time=1)],
    # An array: one task done, one failed, the rest waiting; and one that is all over.
    8: [task(0, "COMPLETED", 1), task(1, "FAILED", 1), task(None, "PENDING", rest="2-3")],
    9: [task(0, "COMPLETED", 1), task(1, "FAILED", 1), task(2, "COMPLETED", 1)],
}


def lookup(job_id: int, index: int | None) -> Sequence[Job] | None:
    jobs = WORLD.get(job_id)
    if jobs is None or index is None:
        return jobs
    return [job for job in jobs if job.array_task_id == index or (job.array_tasks and index in (2, 3))]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("afterok:1", "afterok:1(unfulfilled)"),
        ("afterok:1:8", "afterok:1(unfulfilled),afterok:8_*(unfulfilled)"),
        ("afterok:1,afterany:8", "afterok:1(unfulfilled),afterany:8_*(unfulfilled)"),
        ("afterok:1?afterany:8", "afterok:1(unfulfilled)?afterany:8_*(unfulfilled)"),
        ("after:1+5:8", "after:1+5(unfulfilled),after:8_*+5(unfulfilled)"),
        ("after:1+5:8+7", "after:1+5(unfulfilled),after:8_*+7(unfulfilled)"),
        ("afterok:8_1", "afterok:8_1(unfulfilled)"),
        ("afterok:8_9", "afterok:8_9(unfulfilled)"),
        ("afterok:8_*", "afterok:8_*(unfulfilled)"),
        ("singleton,afterok:1", "singleton(unfulfilled),afterok:1(unfulfilled)"),
        ("1", "afterany:1(unfulfilled)"),
        ("1,8", "afterany:1(unfulfilled),afterany:8_*(unfulfilled)"),
        ("AFTEROK:1,afterok:1", "afterok:1(unfulfilled)"),
        ("afterok:1,afterok:8?afterok:1", "afterok:1(unfulfilled)?afterok:8_*(unfulfilled)"),
        ("afterburstbuffer:1", "afterburstbuffer:1(unfulfilled)"),
    ],
)
def test_right_after_submission(text: str, shown: str) -> None:
    dependency = Dependency.parse(text)
    assert unfulfilled(dependency, lookup) == shown
    assert Dependency.parse(str(dependency)) == dependency
    assert Dependency.from_dict(dependency.to_dict()) == dependency


@pytest.mark.parametrize(
    "text",
    [
        "",
        "afterok",
        "afterok:",
        "afterok:1,",
        ",",
        "1:2",
        "foo:1",
        "afterok:abc",
        "afterok:0",
        "-1",
        "singleton:1",
    ]
    + ["after:1+x", "afterok:1_x", "1+"],
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Job dependency problem$"):
        Dependency.parse(text)


def test_expand_is_not_supported() -> None:
    with pytest.raises(ValueError, match=r"^Requested operation not supported on this system$"):
        Dependency.parse("expand:3")


@pytest.mark.parametrize(
    ("text", "state", "left"),
    [
        ("afterok:1", WAITING, "afterok:1(unfulfilled)"),
        ("afterok:2", WAITING, "afterok:2(unfulfilled)"),
        ("afterok:3", SATISFIED, ""),
        ("afterok:4", NEVER, "afterok:4(failed)"),
        ("afterok:5", NEVER, "afterok:5(failed)"),
        ("afterok:6", WAITING, "afterok:6(unfulfilled)"),
        ("afternotok:3", NEVER, "afternotok:3(failed)"),
        ("afternotok:4", SATISFIED, ""),
        ("afterany:4", SATISFIED, ""),
        ("afterany:2", WAITING, "afterany:2(unfulfilled)"),
        ("after:1", WAITING, "after:1(unfulfilled)"),
        ("after:2", SATISFIED, ""),
        ("after:2+4", SATISFIED, ""),
        ("after:2+5", WAITING, "after:2+5(unfulfilled)"),
        ("after:5+5", SATISFIED, ""),
        ("afterok:8", WAITING, "afterok:8_*(unfulfilled)"),
        ("afterok:9", NEVER, "afterok:9_*(failed)"),
        ("afterok:9_0", SATISFIED, ""),
        ("afterok:9_1", NEVER, "afterok:9_1(failed)"),
        ("afterok:8_2", WAITING, "afterok:8_2(unfulfilled)"),
        ("afterany:9", SATISFIED, ""),
        ("afternotok:9", SATISFIED, ""),
        ("afterok:99999,afternotok:99998,after:99997", SATISFIED, ""),
        ("afterok:3,afterany:1", WAITING, "afterany:1(unfulfilled)"),
        ("afterok:4,afterany:1", NEVER, "afterok:4(failed),afterany:1(unfulfilled)"),
        ("afterok:4?afterok:3", SATISFIED, ""),
        ("afterok:4?afterok:1", WAITING, "afterok:4(failed)?afterok:1(unfulfilled)"),
        ("afterok:4?afterok:5", NEVER, "afterok:4(failed)?afterok:5(failed)"),
        ("afterok:99999(failed)", NEVER, "afterok:99999(failed)"),
    ],
)
def test_as_parents_go_on(text: str, state: str, left: str) -> None:
    assert judge(Dependency.parse(text), lookup, NOW) == (state, left)
    if left:
        # What is left is kept as text and judged again later, perhaps when the parents are forgotten.
        assert judge(Dependency.parse(left), lookup, NOW) == (state, left)


@pytest.mark.parametrize(("index", "state"), [(0, SATISFIED), (1, NEVER), (2, SATISFIED)])
def test_aftercorr_goes_task_by_task(index: int, state: str) -> None:
    assert judge(Dependency.parse("aftercorr:9"), lookup, NOW, task=index)[0] == state


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("after:2+4", SATISFIED),  # it has run for just four minutes
        ("after:2+5", WAITING),
        ("after:3+16", SATISFIED),  # it has ended, and counts from its start
        ("after:3+17", WAITING),
        ("after:5+99", SATISFIED),  # it never ran
        ("after:8", WAITING),  # of an array every task
        ("after:9", SATISFIED),
    ],
)
def test_after_counts_from_the_start(text: str, state: str) -> None:
    assert judge(Dependency.parse(text), lookup, NOW)[0] == state


def test_afterok_of_an_array_does_not_go_task_by_task() -> None:
    assert judge(Dependency.parse("afterok:9"), lookup, NOW, task=0)[0] == NEVER
    assert judge(Dependency.parse("aftercorr:9_1"), lookup, NOW, task=0)[0] == NEVER


def test_singleton_that_nobody_looks_for_is_satisfied() -> None:
    assert judge(Dependency.parse("singleton"), lookup, NOW) == (SATISFIED, "")


def test_aftercorr_of_a_waiting_task() -> None:
    assert judge(Dependency.parse("aftercorr:8"), lookup, NOW, task=3) == (WAITING, "aftercorr:8_*(unfulfilled)")


def test_singleton_asks_for_jobs_of_the_name() -> None:
    dependency = Dependency.parse("singleton")
    assert judge(dependency, lookup, NOW, singleton_blocked=lambda: True) == (WAITING, "singleton(unfulfilled)")
    assert judge(dependency, lookup, NOW, singleton_blocked=lambda: False) == (SATISFIED, "")


def test_ids_are_read_as_c_reads_them() -> None:
    """Measured: a sign is taken, and what has more than 32 bits is cut."""
    assert str(Dependency.parse("afterok:-1")) == "afterok:4294967295"
    assert str(Dependency.parse("afterok:99999999999")) == "afterok:1215752191"


CONDITIONS = st.one_of(
    st.just(Condition(type="singleton")),
    st.builds(
        Condition,
        type=st.sampled_from([kind for kind in TYPES if kind != "singleton"]),
        job_id=st.integers(1, 0xFFFFFFFF),
        minutes=st.integers(0, 10**6),
    ),
    st.builds(Condition, type=st.just("aftercorr"), job_id=st.integers(1, 10**6), task=st.integers(0, 10**6)),
    st.builds(Condition, type=st.just("afterok"), job_id=st.integers(1, 10**6), whole_array=st.just(True)),
)


@given(st.lists(CONDITIONS, min_size=1, max_size=5, unique=True), st.booleans())
def test_dependencies_round_trip(conditions: list[Condition], any_of: bool) -> None:
    wanted = Dependency(conditions=tuple(conditions), any_of=any_of and len(conditions) > 1)
    assert Dependency.parse(str(wanted)) == wanted


@given(st.text(alphabet="afteroknyNP:_*+,?()1269 ", max_size=24))
def test_any_text_is_a_dependency_or_a_value_error(text: str) -> None:
    try:
        dependency = Dependency.parse(text)
    except ValueError:
        return
    assert Dependency.parse(str(dependency)) == dependency
    assert judge(dependency, lookup, NOW)[0] in (SATISFIED, WAITING, NEVER)
