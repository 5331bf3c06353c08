"""The leader's parts: outcomes, time limit, what is told to whom."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from shim.core.model.states import CANCELLED, COMPLETED, FAILED, NODE_FAIL, OUT_OF_MEMORY, REQUEUED, TIMEOUT
from shim.job.agent.journal import Journal
from shim.job.agent.leader import record as record_module
from shim.job.agent.leader.outcome import ended_by, job_line, own_end, step_line, step_state, step_status
from shim.job.agent.leader.record import Record
from shim.job.agent.leader.time_limit import TimeLimit
from shim.job.link import Link, local_pair
from shim.job.loop import Loop


class Clock:
    """A clock that stands until it is set forward; ``loop.run_once(0)`` then does what is due."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("status", "oom", "expected"),
    [
        (0, False, (COMPLETED, 0, "None")),
        (3 << 8, False, (FAILED, 768, "NonZeroExitCode")),
        (9, False, (FAILED, 9, "JobLaunchFailure")),
        (53, False, (FAILED, 53, "JobLaunchFailure")),
        (9, True, (OUT_OF_MEMORY, 125, "OutOfMemory")),
    ],
)
def test_a_script_that_ends_by_itself(status: int, oom: bool, expected: tuple[str, int, str]) -> None:
    outcome = own_end(status, oom)
    assert (outcome.state, outcome.status, outcome.reason) == expected


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [(CANCELLED, 15, "None"), (TIMEOUT, 0, "TimeLimit"), (NODE_FAIL, 0, "NodeDown"), (REQUEUED, 0, "BeginTime")],
)
def test_a_job_that_is_ended(state: str, status: int, reason: str) -> None:
    outcome = ended_by(state)
    assert (outcome.status, outcome.reason) == (status, reason)


def test_the_lines_of_ended_jobs_and_steps() -> None:
    when = "2026-11-20T17:18:53"
    assert job_line(482, "n1", when, TIMEOUT) == (
        "slurmstepd: error: *** JOB 482 ON n1 CANCELLED AT 2026-11-20T17:18:53 DUE TO TIME LIMIT ***"
    )
    assert job_line(491, "n2", when, REQUEUED).endswith(" DUE TO JOB REQUEUE ***")
    assert step_line("45.0", "n1", when) == f"slurmstepd: error: *** STEP 45.0 ON n1 CANCELLED AT {when} ***"
    failed = "slurmstepd: error: *** STEP 45.0 ON n1 FAILED (non-zero exit code or other failure mode) ***"
    assert step_line("45.0", "n1", when, FAILED) == failed


@pytest.mark.parametrize(
    ("own", "killed", "status", "state"),
    [
        ([0, 0], [], 0, COMPLETED),
        ([0, 512, 256], [], 512, FAILED),
        ([1024], [15, 15], 1024, FAILED),  # -K: the one that failed counts, not those that it took along
        ([], [9], 9, CANCELLED),
        ([0, 11], [], 11, CANCELLED),
    ],
)
def test_a_steps_status(own: list[int], killed: list[int], status: int, state: str) -> None:
    assert step_status(own, killed) == status
    assert step_state(status) == state


def limit_of(seconds: int | None, lead: int | None = None) -> tuple[TimeLimit, Clock, Loop, list[tuple[str, float]]]:
    clock = Clock()
    loop = Loop(clock)
    seen: list[tuple[str, float]] = []
    limit = TimeLimit(
        loop,
        seconds,
        lead,
        lambda: seen.append(("lead", clock.now - 1000)),
        lambda: seen.append(("end", clock.now - 1000)),
    )
    return limit, clock, loop, seen


def advance(clock: Clock, loop: Loop, seconds: int) -> None:
    for _ in range(seconds):
        clock.now += 1
        loop.run_once(0)


def test_the_limit_is_reached_once() -> None:
    limit, clock, loop, seen = limit_of(60, lead=20)
    limit.begin()
    advance(clock, loop, 100)
    assert seen == [("lead", 40), ("end", 60)]
    loop.close()


def test_a_lead_longer_than_the_limit_is_due_when_the_script_had_time_to_set_its_trap() -> None:
    limit, clock, loop, seen = limit_of(10, lead=60)
    limit.begin()
    advance(clock, loop, 5)
    assert seen == [("lead", 2)]
    loop.close()


def test_no_limit() -> None:
    limit, clock, loop, seen = limit_of(None, lead=60)
    limit.begin()
    advance(clock, loop, 100)
    assert seen == []
    loop.close()


def test_a_suspension_does_not_count() -> None:
    limit, clock, loop, seen = limit_of(60)
    limit.begin()
    advance(clock, loop, 50)
    limit.pause()
    advance(clock, loop, 100)
    limit.begin()
    advance(clock, loop, 20)
    assert seen == [("end", 160)]
    loop.close()


def test_a_limit_that_changes_counts_from_the_start() -> None:
    limit, clock, loop, seen = limit_of(60)
    limit.begin()
    advance(clock, loop, 50)
    limit.change(80)
    advance(clock, loop, 25)
    assert seen == []
    limit.change(30)
    advance(clock, loop, 1)
    assert seen == [("end", 76)]
    limit.stop()
    loop.close()


class Watcher:
    """A controller's end of a link: the lines it was told."""

    def __init__(self, loop: Loop) -> None:
        self.link, self._mine = local_pair(loop)
        self.lines: list[dict[str, Any]] = []
        self._mine.on_message = lambda message: self.lines.append(message["line"])


def record_in(folder: Path, clock: Clock, calls: list[float]) -> tuple[Record, Loop]:
    loop = Loop(clock)
    return Record(Journal(str(folder / "journal"), clock), loop, lambda: calls.append(clock.now - 1000)), loop


def test_a_controller_gets_every_line_after_its_number(tmp_path: Path) -> None:
    clock = Clock()
    record, loop = record_in(tmp_path, clock, [])
    record.write("started")
    record.write("step", step="0")
    watcher = Watcher(loop)
    record.watch(watcher.link, 1)
    record.write("ended")
    loop.run_once(0)
    assert [line["n"] for line in watcher.lines] == [2, 3]
    record.close()
    loop.close()


@pytest.mark.parametrize("follows", [True, False])
def test_a_line_that_another_follows_is_told_with_it_or_a_little_later(tmp_path: Path, follows: bool) -> None:
    clock = Clock()
    record, loop = record_in(tmp_path, clock, [])
    watcher = Watcher(loop)
    record.watch(watcher.link, 0)
    record.write("ending", followed=True)
    loop.run_once(0)
    assert watcher.lines == []
    if follows:
        record.write("ended")
    clock.now += record_module.TOGETHER
    loop.run_once(0)
    loop.run_once(0)
    assert [line["kind"] for line in watcher.lines] == (["ending", "ended"] if follows else ["ending"])
    record.close()
    loop.close()


def test_an_action_comes_after_its_line_and_before_its_return(tmp_path: Path) -> None:
    record, loop = record_in(tmp_path, Clock(), [])
    seen: list[str] = []
    record.write("started", then=lambda: seen.append((tmp_path / "journal").read_text()))
    assert '"kind":"started"' in seen[0]
    record.close()
    loop.close()


def test_a_full_disk_holds_the_action_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    record, loop = record_in(tmp_path, clock, [])
    watcher = Watcher(loop)
    record.watch(watcher.link, 0)
    seen: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "flush", lambda self: False)
        record.write("started", then=lambda: seen.append("acted"))
        advance(clock, loop, 5)
        assert seen == []
        assert watcher.lines == []
    advance(clock, loop, 2)
    loop.run_once(0)
    assert seen == ["acted"]
    assert [line["kind"] for line in watcher.lines] == ["started"]
    record.close()
    loop.close()


def test_news_start_a_controller_when_none_is_there(tmp_path: Path) -> None:
    clock = Clock()
    calls: list[float] = []
    record, loop = record_in(tmp_path, clock, calls)
    unheard: list[float] = []
    record.on_unheard = lambda: unheard.append(clock.now)
    record.write("started")
    advance(clock, loop, 20)
    assert len(calls) > 2
    pauses = [after - before for before, after in itertools.pairwise(calls)]
    assert pauses == sorted(pauses)
    advance(clock, loop, 3000)
    assert len(calls) == record_module.CALLS
    assert len(unheard) == 1
    record.close()
    loop.close()


def test_nobody_is_called_for_a_run_whose_folder_is_gone(tmp_path: Path) -> None:
    clock = Clock()
    calls: list[float] = []
    record, loop = record_in(tmp_path, clock, calls)
    unheard: list[float] = []
    record.on_unheard = lambda: unheard.append(clock.now)
    record.write("ended")
    advance(clock, loop, 2)
    assert len(calls) == 1
    for path in tmp_path.rglob("journal"):
        path.unlink()
    advance(clock, loop, 20)
    assert len(calls) == 1
    assert len(unheard) == 1
    record.close()
    loop.close()


def test_a_controller_that_is_there_is_not_started(tmp_path: Path) -> None:
    clock = Clock()
    calls: list[float] = []
    record, loop = record_in(tmp_path, clock, calls)
    watcher = Watcher(loop)
    record.watch(watcher.link, 0)
    record.write("started")
    advance(clock, loop, 20)
    assert calls == []
    record.unwatch(watcher.link)
    record.write("ended")
    advance(clock, loop, 2)
    assert len(calls) == 1
    record.close()
    loop.close()


def test_links_have_identity() -> None:
    """Links are kept in sets and tables: two of them are never equal."""
    loop = Loop()
    one, other = local_pair(loop)
    assert isinstance(one, Link)
    assert len({one, other}) == 2
    loop.close()
