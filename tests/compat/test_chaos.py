"""What a run of faults at random counts as a fault."""

from compat.chaos import verdict


def test_each_accepted_job_comes_to_its_end_and_each_run_begins_once() -> None:
    marks = {"s 1 0": 1, "s 1 1": 1, "e 1": 1}  # the second run of a job is another one
    assert not any(verdict({"1"}, marks).values())


def test_a_job_that_only_began_is_unfinished_and_one_without_marks_lost() -> None:
    found = verdict({"1", "2"}, {"s 1 0": 1})
    assert (found["unfinished"], found["lost"]) == (["1"], ["2"])


def test_a_run_that_began_twice_and_a_refused_job_that_ran_are_told() -> None:
    found = verdict({"1"}, {"s 1 0": 2, "e 1": 2, "s 2 0": 1})
    assert (found["twice"], found["refused but ran"]) == (["s 1 0"], ["2"])
