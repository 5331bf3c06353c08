"""`shim why`: what keeps a job waiting, or how it ended, against a written index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shim.admin.why import last_lines
from shim.control import site
from shim.core.model.job import Job, Step
from shim.core.model.usage import Spread, Usage
from tests import reference
from tests.commands.conftest import World
from tests.reference import NOW, job, running


def why(world: World, one: Job, *others: Job, steps: tuple[Step, ...] = ()) -> list[str]:
    """What is said about the job with these others in the index, without its first line."""
    world.index([one, *others], {one.job_id: steps} if steps else None)
    found = world.run("shim", "why", one.array_label)
    assert (found.code, found.err) == (0, "")
    first, *rest = found.lines
    assert first.startswith(f"Job {one.array_label} ({one.name}) of ")
    return [line.strip() for line in rest]


def ended(state: str, status: int = 0, **fields: Any) -> Job:
    return running(7, state=state, exit_status=status, end_time=NOW - 2, stdout="", **fields)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("Priority", "Jobs before it in the queue wait"),
        ("JobHeldUser", "scontrol release 7 lets it go"),
        ("JobHeldAdmin", "An operator holds it"),
        ("BeginTime", "It may not start before 2026-11-20T18:36:03"),
        ("PartitionTimeLimit", "above what partition debug allows. It will never start"),
        ("PartitionDown", "partition debug is down"),
        ("JobArrayTaskLimit", "ArrayTaskThrottle"),
        ("AnythingElse", "AnythingElse."),
    ],
)
def test_what_keeps_a_job_waiting(world: World, reason: str, text: str) -> None:
    lines = why(world, job(7, reason=reason, eligible_time=NOW + 3600))
    assert len(lines) == 1
    assert text in lines[0]


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (
            {"state": "SUSPENDED", "suspend_time": NOW - 60, "end_time": NOW + 540},
            [
                "suspended it since",
                "the 10:00 that are left of its time limit do not pass",
                "scontrol resume 7",
                "scancel 7",
            ],
        ),
        ({"state": "STOPPED"}, ["scancel -s CONT 7"]),
        ({"state": "CONFIGURING"}, ["being made ready"]),
        ({"state": "COMPLETING"}, ["last processes are being ended"]),
    ],
)
def test_a_job_with_nodes_that_does_not_run(world: World, fields: dict[str, Any], texts: list[str]) -> None:
    lines = "\n".join(why(world, running(7, stdout="", **fields)))
    assert all(text in lines for text in texts), lines
    assert "Its time limit ends it" not in lines


def test_a_recurring_job_waits_for_its_entrys_time(world: World) -> None:
    one = job(7, reason="BeginTime", start_time=0)
    recurring = one.replace(request=one.request.replace(cron="0 0 * * *", begin=int(NOW) + 60))
    assert why(world, recurring) == ["It may not start before 2026-11-20T17:37:03 (its entry of scrontab: 0 0 * * *)."]


def test_a_job_that_was_requeued_and_is_held(world: World) -> None:
    held = job(7, reason="job requeued in held state", held="user", start_time=NOW + 60)
    assert why(world, held) == ["It was requeued and is held: scontrol release 7 lets it go."]


def test_who_has_the_resources(world: World) -> None:
    others = [running(number, f"n{number}", 8 if number < 4 else 6) for number in range(1, 5)]
    lines = why(world, job(7, reason="Resources", start_time=NOW + 60, cpus=16, nodes=2), *others)
    assert lines[0] == "It waits for 2 node(s), 16 CPU(s) of partition debug."
    assert "n[1-3]: 0 CPU(s)" in lines[1]
    assert "n4: 2 CPU(s)" in lines[1]
    assert "1 of " in lines[2]
    assert lines[2].endswith("and 1 more.")
    assert lines[3].startswith("It is expected to start at 2026-11-20T17:37:03")


def test_what_programs_of_others_hold_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer to a shared cluster saw a free CPU too few, and no job that had it."""
    cluster = site.cluster()
    nodes = (cluster.nodes[0].replace(others_cpus=3), cluster.nodes[1].replace(others_cpus=2), *cluster.nodes[2:])
    monkeypatch.setattr("shim.commands.site_view.recorded", lambda _: cluster.replace(nodes=nodes))
    lines = why(world, job(7, reason="Resources", start_time=NOW + 400 * 86400, cpus=99, nodes=2))
    assert lines[2:] == [
        "Programs that are no jobs here hold 5 CPU(s) on n[1-2].",
        "When it will start is not known: what is before it has no time limit.",
    ]


def test_what_a_job_depends_on_is_told_with_its_state(world: World) -> None:
    waits = job(7, reason="Dependency", dependency="afterok:3(unfulfilled),afterany:99(unfulfilled)")
    assert why(world, waits, running(3)) == [
        "It waits for afterok:3: job 3 is RUNNING.",
        "It waits for afterany:99: job 99 is forgotten.",
    ]


def test_a_dependency_that_can_come_true_no_more_is_called_that(world: World) -> None:
    waits = job(7, reason="DependencyNeverSatisfied", dependency="afterok:3(failed)")
    first, second = why(world, waits, ended("FAILED", 256).replace(job_id=3))
    assert first == "It waits for afterok:3: job 3 is FAILED."
    assert "It will never start: scancel 7" in second


def test_the_array_is_named_whose_throttle_is_to_change(world: World) -> None:
    array = job(7, reason="JobArrayTaskLimit", array_job_id=7, array_task_id=2)
    assert "scontrol update JobId=7 ArrayTaskThrottle=" in why(world, array)[0]


def test_a_node_out_of_service_is_named_with_its_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known = reference.cluster()
    nodes = tuple(one.replace(state="DOWN", reason="fan") if one.name == "n2" else one for one in known.nodes)
    monkeypatch.setattr(site, "clusters", lambda: (known.replace(nodes=nodes),))
    lines = why(world, job(7, reason="ReqNodeNotAvail, UnavailableNodes:n2"))
    assert lines == ["Nodes that it needs are out of service: n2 (fan)."]


def step(number: int, state: str, status: int, memory: int = 0) -> Step:
    usage = Usage(memory=Spread(total=2 * memory, most=memory)) if memory else None
    return Step(
        job_id=7, step_id=str(number), name="train", state=state, exit_status=status, end_time=NOW - 3, usage=usage
    )


def test_a_step_that_ran_out_of_memory_is_told_with_figures(world: World) -> None:
    lines = why(world, ended("FAILED", 137 << 8), steps=(step(0, "OUT_OF_MEMORY", 9, 1_200_000),))
    assert lines == [
        "Its script ended with exit code 137: a command in it was ended by signal 9 (SIGKILL).",
        "Step 0 (train) was the first that did not end well: OUT_OF_MEMORY, signal 9 (SIGKILL).",
        "That step used more than the 1000 MiB of a node that it had (the most that was seen of one task: 1172 MiB):"
        " --mem=… (or --mem-per-cpu=…) asks for more.",
    ]


def test_a_job_out_of_memory_is_told_with_what_it_used(world: World) -> None:
    used = Usage(memory=Spread(total=2_048_000, most=2_048_000))
    (line,) = why(world, ended("OUT_OF_MEMORY", 9, usage=used))
    assert line.startswith(
        "It used more than the 1000 MiB of a node that it had (the most that was seen of one task: 2000 MiB)"
    )


def test_a_failed_step_of_a_script_that_ended_well_is_named(world: World) -> None:
    lines = why(world, ended("COMPLETED"), steps=(step(0, "COMPLETED", 0), step(1, "FAILED", 5 << 8)))
    assert lines == [
        "It ended well: its script's exit code is 0.",
        "Step 1 (train) was the first that did not end well: FAILED, exit code 5.",
    ]


def test_a_lost_node_is_named_while_it_is_out_of_service(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known = reference.cluster()
    nodes = tuple(one.replace(state="DOWN", reason="fan") if one.name in ("n1", "n2") else one for one in known.nodes)
    monkeypatch.setattr(site, "clusters", lambda: (known.replace(nodes=nodes),))
    lines = why(world, ended("NODE_FAIL"))
    assert lines == [
        "A node of it was lost, or its processes were killed from outside.",
        "Out of service now: n1 (fan).",
    ]


def test_the_tasks_of_an_array_are_told_in_their_order(world: World) -> None:
    fields = {"state": "FAILED", "exit_status": 256, "end_time": NOW - 2, "stdout": "", "array_job_id": 7}
    tasks = [running(number, **fields, array_task_id=task) for number, task in ((7, 1), (8, 0))]
    world.index([*tasks, job(9, array_job_id=7, array_tasks="2-5")])
    lines = world.run("shim", "why", "7").lines
    assert [line.split()[1] for line in lines if line.startswith("Job ")] == ["7_0", "7_1", "7_[2-5]"]


@pytest.mark.parametrize(
    ("one", "texts"),
    [
        (ended("COMPLETED"), ["It ended well"]),
        (ended("COMPLETED", system_comment="not come back: big"), ["It ended well", "not come back: big"]),
        (ended("FAILED", 3 << 8), ["exit code 3."]),
        (ended("FAILED", 3 << 8).replace(stdout="/dev/null"), ["exit code 3."]),  # nothing is said of a file
        (ended("FAILED", 127 << 8), ["exit code 127: the shell did not find a command"]),
        (ended("FAILED", 137 << 8), ["ended by signal 9 (SIGKILL)"]),
        (ended("FAILED", 9, reason="JobLaunchFailure"), ["Its script was ended by signal 9 (SIGKILL)."]),
        (ended("FAILED", 11), ["Its script was ended by signal 11 (SIGSEGV)."]),
        (ended("TIMEOUT", 15, time_limit=90), ["its time limit of 1:30:00"]),
        (ended("OUT_OF_MEMORY", 9), ["It used more than the 1000 MiB of a node that it had: --mem="]),
        (ended("CANCELLED", 15, cancelled_by=0), ["It was cancelled by root."]),
        (ended("NODE_FAIL", system_comment="node n1 does not answer"), ["A node of it was lost", "n1 does not answer"]),
        (
            ended(
                "FAILED",
                53,
                reason="JobLaunchFailure",
                system_comment="Could not open stdout file /x/logs/a.out: No such file or directory",
            ).replace(stdout="/x/logs/a.out"),
            [
                "Could not open stdout file /x/logs/a.out",
                "mkdir -p /x/logs, then sbatch again",
                "/x/logs/a.out is not there.",
            ],
        ),
    ],
)
def test_how_a_job_ended(world: World, one: Job, texts: list[str]) -> None:
    lines = why(world, one)
    assert len(lines) == len(texts)
    for line, text in zip(lines, texts, strict=True):
        assert text in line


def test_the_step_that_failed_first_and_the_last_lines(world: World, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(100)) + b"\x1b[31mbad \xff\n")
    steps = (
        Step(job_id=7, step_id="0", name="prepare", state="COMPLETED", end_time=NOW - 9),
        Step(job_id=7, step_id="2", name="late", state="FAILED", exit_status=256, end_time=NOW - 3),
        Step(job_id=7, step_id="1", name="train", state="FAILED", exit_status=512, end_time=NOW - 5),
    )
    lines = why(world, ended("FAILED", 256).replace(stdout=str(log), stderr=str(log)), steps=steps)
    assert lines[:3] == [
        "Its script ended with exit code 1.",
        "Step 1 (train) was the first that did not end well: FAILED, exit code 2.",
        f"Last lines of {log}:",
    ]
    assert lines[3:12] == [f"line {number}" for number in range(91, 100)]
    assert lines[12].startswith("\\x1b[31mbad")
    assert len(lines) == 13


def test_ids_that_are_none(busy: World) -> None:
    unknown = busy.run("shim", "why", "4711")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("shim: error: no job 4711 in the index")
    assert '"x" is no job id' in busy.run("shim", "why", "x").err


def test_every_job_of_the_queue_is_told(busy: World) -> None:
    for one in reference.queue():
        found = busy.run("shim", "why", str(one.job_id))
        assert found.code == 0, found.err
        assert found.out.count("\n") >= 1


def test_a_progress_bar_is_what_it_was_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"one\r\n 10%\r 50%\r100%\nlast")
    assert last_lines(str(path), 10) == ["one", "100%", "last"]
    assert last_lines(str(path), 1) == ["last"]
    path.write_bytes(b"")
    assert last_lines(str(path), 10) == []
