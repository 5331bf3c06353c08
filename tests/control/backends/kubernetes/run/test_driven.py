"""The real driver, backend and ask under random faults: nothing is launched twice, no accepted job is lost, everything ends and nothing is left."""

from __future__ import annotations

import pytest

from tests.control.backends.kubernetes.run.driven.plants import FOCUS, PLANTS
from tests.control.backends.kubernetes.run.driven.plays import AnsweredLate, HeardLate, JobGone, Play, SameName
from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule
from tests.control.backends.kubernetes.run.driven.wide import WideSchedule
from tests.control.backends.kubernetes.run.things import Violation

SCHEDULES = 400
ENOUGH = 500  # the rarest of them breaks one schedule in thirty
PLAYS = [
    (JobGone, "register on the Job"),
    (AnsweredLate, "answered from the watch"),
    (HeardLate, "no limit of 30 seconds"),
    (SameName, "deletes without uids"),
]
BROKE_ONCE = (9574, 1006699)  # found by search.py
BROKE_ON_ONE_HOST = (8, 936, 1695, 1802, 2378, 2665)


@pytest.mark.parametrize("made", [DrivenSchedule, WideSchedule])
@pytest.mark.parametrize("part", range(4))
def test_the_invariant_holds_with_the_real_driver(part: int, made: type[DrivenSchedule]) -> None:
    launches = again = 0
    for seed in range(part * SCHEDULES // 4, (part + 1) * SCHEDULES // 4):
        schedule = made(seed)
        try:
            schedule.run()
        except Violation as found:
            told = "\n".join(schedule.cluster.told[-80:])
            raise AssertionError(f"seed {seed}: {found}\n{told}") from found
        launches += len(schedule.cluster.launches)
        again += sum(run > 0 for _, run in schedule.cluster.granted)
    assert launches > SCHEDULES / 8  # the faults are not so many that nothing happens any more
    assert again > SCHEDULES / 16


@pytest.mark.parametrize("seed", BROKE_ONCE)
def test_a_schedule_that_broke_once_ends(seed: int) -> None:
    DrivenSchedule(seed).run()


@pytest.mark.parametrize("seed", BROKE_ON_ONE_HOST)
def test_two_indexes_of_one_host_do_not_make_a_jobs_record_once_more(seed: int) -> None:
    DrivenSchedule(seed, one_host=True).run()


@pytest.mark.parametrize("play, plant", PLAYS, ids=[plant for _, plant in PLAYS])
def test_what_luck_hardly_ever_puts_together_breaks_nothing_unless_its_rule_is_left_out(
    play: type[Play], plant: str
) -> None:
    play().run()
    with PLANTS[plant](), pytest.raises(Violation):
        play().run()


@pytest.mark.parametrize("name", sorted(PLANTS.keys() - {plant for _, plant in PLAYS}))
def test_a_fault_that_is_built_in_is_found(name: str) -> None:
    with PLANTS[name]():
        for seed in range(ENOUGH):
            try:
                DrivenSchedule(seed, FOCUS.get(name, ())).run()
            except Violation:
                return
    pytest.fail(f"{ENOUGH} schedules, and nothing was noticed")
