"""Steps with several parts, and components that end alone, from the leader's side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.core.model.job import Job, NodeShare
from shim.job.spec import RunSpec
from shim.job.wire import STDOUT
from tests.job.agent.leader_scene import Peer, Scene
from tests.job.run_folder import spec_of

Maker = Callable[..., Scene]


def components_of(spec: RunSpec, *sizes: int, **limits: int | None) -> RunSpec:
    """The run of a job 7 with components 7, 8 … of so many nodes each."""
    jobs: list[Job] = []
    names = [node.name for node in spec.nodes]
    for offset, size in enumerate(sizes):
        own, names = names[:size], names[size:]
        jobs.append(
            spec.job.replace(
                job_id=7 + offset,
                het_job_id=7,
                het_offset=offset,
                het_size=len(sizes),
                request=spec.job.request.replace(name=f"part{offset}"),
                shares=tuple(NodeShare(name=name, cpus=4, host=name) for name in own),
            )
        )
    seconds = tuple(limits.get(f"limit{offset}") for offset in range(len(sizes)))
    return spec.replace(job=jobs[0], components=tuple(jobs), limits=seconds, limit=seconds[0])


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Maker]:
    made: list[Scene] = []

    def make(*sizes: int, script: bool = False, limits: dict[str, int] | None = None, **fields: Any) -> Scene:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        spec = spec_of(folder=str(folder), nodes=sum(sizes), script=script, **fields)
        if len(sizes) > 1:
            spec = components_of(spec, *sizes, **(limits or {}))
        made.append(Scene(folder, spec, script))
        made[-1].check_in()
        return made[-1]

    yield make
    for one in made:
        one.close()


def ask(run: Scene, *parts: dict[str, Any], launch: bool = True) -> Peer:
    """An srun that asks for a step of these parts (fields of the request; ``group``, ``named``)."""
    srun = run.peer("srun")
    asked = [
        {
            "group": part.get("group", place),
            "named": part.get("named", False),
            "environment": {"PATH": "/bin", "PART": str(place)},
            "request": {
                "argv": ["cmd"],
                **{name: value for name, value in part.items() if name not in ("group", "named")},
            },
        }
        for place, part in enumerate(parts)
    ]
    srun.say("step", parts=asked, sid=1)
    run.turn()
    if launch and srun.all("created"):
        here = {"to": "leader"}
        ends = {"stdin": here, "stdout": here, "stderr": here}
        srun.say("launch", **(ends if len(parts) == 1 else {"parts": [ends] * len(parts)}))
        run.turn()
    return srun


def environments(run: Scene, index: int) -> list[dict[str, str]]:
    """Of the tasks that a node was last told to launch."""
    launch = run.nodes[index].last("launch")
    return [{**launch["environment"], **task["environment"]} for task in launch["tasks"]]


def test_one_step_over_two_components(scene: Maker) -> None:
    run = scene(1, 2)
    srun = ask(run, {"argv": ["a"], "ntasks": 1}, {"argv": ["/bin/b", "x"], "ntasks": 3})
    created = srun.last("created")
    assert (created["ntasks"], created["nodes"], created["step"]) == (4, ["n1", "n2", "n3"], 0)
    parts = [(part["id"], list(part["ranks"])) for part in created["parts"]]
    assert parts == [("7.0", [0]), ("8.0", [1, 2, 3])]
    steps = [
        {name: value for name, value in line.items() if name not in ("n", "at", "kind")}
        for line in run.lines()
        if line["kind"] == "step"
    ]
    assert steps == [
        {"step": "0", "name": "a", "nodes": ["n1"], "tasks": 1, "cpus": 4, "distribution": "cyclic"},
        {
            "step": "0",
            "component": 1,
            "name": "b",
            "nodes": ["n2", "n3"],
            "tasks": 3,
            "cpus": 8,
            "distribution": "block",
        },
    ]
    assert [list(node.last("launch")["argv"]) for node in run.nodes] == [["a"], ["/bin/b", "x"], ["/bin/b", "x"]]
    first, second, third = environments(run, 0), environments(run, 1), environments(run, 2)
    assert [one["SLURM_PROCID"] for one in (*first, *second, *third)] == ["0", "1", "2", "3"]
    assert [one["SLURM_NODEID"] for one in (*first, *second, *third)] == ["0", "1", "1", "2"]
    assert [one["SLURM_LOCALID"] for one in second] == ["0", "1"]
    assert second[0]["SLURM_GTIDS"] == "1,2"
    assert [one["PART"] for one in (*first, *third)] == ["0", "1"]
    for one in (*first, *second, *third):
        assert (one["SLURM_JOB_ID"], one["SLURM_NTASKS"], one["SLURM_NNODES"]) == ("7", "4", "3")
        assert (one["SLURM_JOB_NODELIST"], one["SLURM_TASKS_PER_NODE"]) == ("n[1-3]", "1,2,1")
    assert (second[0]["SLURM_JOB_NAME"], first[0]["SLURM_JOB_NAME"]) == ("part1", "part0")
    run.nodes[2].say("exit", step=0, rank=3, status=512, text="", oom=False)
    run.end_tasks(0)
    ends = [line for line in run.lines() if line["kind"] == "step-end"]
    assert [(line.get("component"), line["status"], line["state"]) for line in ends] == [
        (None, 0, "COMPLETED"),
        (1, 512, "FAILED"),
    ]
    assert srun.last("ended")["status"] == 512


def test_one_component_alone(scene: Maker) -> None:
    run = scene(1, 2)
    srun = ask(run, {"group": 1, "named": True, "ntasks": 2})
    assert srun.last("created")["parts"][0]["id"] == "8.0"
    (task, *_) = environments(run, 1)
    assert (task["SLURM_JOB_ID"], task["SLURM_JOB_NODELIST"], task["SLURM_NODEID"]) == ("7", "n[2-3]", "0")
    assert not run.nodes[0].all("launch")
    plain = run.srun(argv=["hostname"])
    assert plain.last("created")["nodes"] == ["n1"], "without a word the first component"
    assert plain.last("created")["step"] == 1, "one count for all components"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([{"group": 2, "named": True}], "Requested het-group offset exceeds highest hetjob index (2 > 1)"),
        (
            [{}, {}, {}],
            "Attempt to run a job step with het group value of 2, but the job allocation has maximum value of 1",
        ),
        ([{"group": 1, "named": True, "ntasks": 99}], "Unable to create step for job 8: More processors requested"),
    ],
)
def test_components_that_are_not_there(scene: Maker, parts: list[dict[str, Any]], why: str) -> None:
    refused = ask(scene(1, 1), *parts).last("refused")
    assert refused["lines"][0].startswith(f"error: {why}")


def test_a_part_without_room_keeps_the_whole_step_waiting(scene: Maker) -> None:
    run = scene(1, 1)
    ask(run, {"group": 1, "named": True, "argv": ["busy"]})
    waiting = ask(run, {}, {})
    assert waiting.all("busy")
    assert not waiting.all("created")
    run.end_tasks(0)
    assert waiting.last("created")["step"] == 1


def test_output_and_files_are_each_parts_own(scene: Maker) -> None:
    run = scene(1, 1)
    srun = ask(run, {"stdout": "out.%j"}, {"stdout": "log.%j", "stderr": "e.%t", "label": True})
    assert [part["files"] for part in srun.last("created")["parts"]] == [
        {"stdout": "out.7", "stderr": "out.7"},
        {"stdout": "log.8", "stderr": ["e.1"]},
    ]
    run.nodes[1].mine.send_data(0, 1, STDOUT, b"hello\n")
    run.turn()
    assert (0, 1, STDOUT, b"hello\n") in srun.data


def test_every_part_is_told_of_the_end(scene: Maker) -> None:
    run = scene(1, 1)
    controller = run.watch()
    srun = ask(run, {}, {})
    run.order(controller, 1, "end", step="0", state="CANCELLED", uid=5)
    assert [message["part"] for message in srun.all("aborted")] == [0, 1]
    assert [node.last("say")["line"].split(" ON ")[0] for node in run.nodes] == [
        "slurmstepd: error: *** STEP 7.0",
        "slurmstepd: error: *** STEP 8.0",
    ]
    assert [node.last("signal")["signal"] for node in run.nodes] == [9, 9]


def test_one_parts_end(scene: Maker) -> None:
    run = scene(1, 1)
    controller = run.watch()
    srun = ask(run, {}, {})
    run.order(controller, 1, "signal", signal=10, scope="steps", component=1)
    run.order(controller, 2, "end", step="0", state="CANCELLED", uid=5, component=1)
    assert not run.nodes[0].all("signal")
    assert [message["signal"] for message in run.nodes[1].all("signal")] == [10, 9]
    assert [message["part"] for message in srun.all("aborted")] == [1]


def test_a_component_ends_alone(scene: Maker) -> None:
    run = scene(1, 2)
    controller = run.watch()
    srun = ask(run, {}, {"ntasks": 2})
    run.order(controller, 1, "end", state="CANCELLED", uid=5, component=1)
    assert run.line("part-ending") == {"component": 1, "state": "CANCELLED"}
    assert [bool(node.all("stop")) for node in run.nodes] == [False, True, True]
    assert [message["part"] for message in srun.all("aborted")] == [1]
    for index in (1, 2):
        run.nodes[index].say("exit", step=0, rank=index, status=15, text="", oom=False)
        run.nodes[index].say("drained", step=0)
    run.nodes[1].say("stopped")
    run.turn()
    assert not [line for line in run.lines() if line["kind"] == "part-ended"], "one of its nodes is not clear yet"
    run.nodes[2].say("stopped")
    run.turn()
    assert run.line("part-ended") == {"component": 1, "state": "CANCELLED", "status": 0, "reason": "None", "uid": 5}
    # Agents of nodes that have stopped leave; the run goes on.
    for index in (1, 2):
        run.nodes[index].mine.finish()
    run.turn()
    assert run.leader.outcome is None
    refused = ask(run, {"group": 1, "named": True})
    assert refused.last("refused")["lines"] == [
        "error: Unable to create step for job 8: Job/step already completing or completed"
    ]
    run.nodes[0].say("exit", step=0, rank=0, status=0, text="", oom=False)
    run.nodes[0].say("drained", step=0)
    run.turn()
    assert srun.all("ended"), "the step is over when the part that was left is"
    run.order(controller, 2, "release", status=0)
    run.nodes[0].say("stopped")
    run.turn()
    assert run.line("ended")["state"] == "COMPLETED"


def test_a_component_is_ended_once(scene: Maker) -> None:
    run = scene(1, 1)
    controller = run.watch()
    for number in (1, 2):
        run.order(controller, number, "end", state="CANCELLED", uid=5, component=1)
    assert len([line for line in run.lines() if line["kind"] == "part-ending"]) == 1
    run.order(controller, 3, "end", state="CANCELLED", uid=5)
    run.all_stopped()
    assert run.line("ended")["state"] == "CANCELLED"


def test_a_components_own_limit(scene: Maker) -> None:
    run = scene(1, 1, script=True, limits={"limit0": 100, "limit1": 10})
    run.advance(9)
    assert not run.nodes[1].all("stop")
    run.advance(2)
    assert run.line("part-ending") == {"component": 1, "state": "TIMEOUT"}
    run.nodes[1].say("stopped")
    run.turn()
    assert run.line("part-ended")["reason"] == "TimeLimit"
    assert run.leader.outcome is None
    run.advance(100)
    assert run.line("ending")["state"] == "TIMEOUT"


def test_a_components_limit_is_changed_and_stands_still(scene: Maker) -> None:
    run = scene(1, 1, limits={"limit1": 10})
    controller = run.watch()
    run.order(controller, 1, "limit", seconds=50, component=1)
    run.advance(20)
    run.order(controller, 2, "suspend")
    run.advance(100)
    run.order(controller, 3, "resume")
    run.advance(25)
    assert not run.nodes[1].all("stop")
    run.advance(10)
    assert run.nodes[1].all("stop")


def test_parts_of_a_plain_job_share_its_nodes_out(scene: Maker) -> None:
    run = scene(3)
    srun = ask(run, {"argv": ["a"], "ntasks": 1}, {"argv": ["b"], "ntasks": 2})
    created = srun.last("created")
    assert created["nodes"] == ["n1", "n2"]
    assert [part["id"] for part in created["parts"]] == ["7.0+0", "7.0+1"]
    assert [line["step"] for line in run.lines() if line["kind"] == "step"] == ["0+0", "0+1"]
    (task, *_) = environments(run, 1)
    assert (task["SLURM_JOB_NODELIST"], task["SLURM_NODEID"], task["SLURM_PROCID"]) == ("n[1-2]", "1", "1")
    assert not run.nodes[2].all("launch")
    run.end_tasks(0)
    named = ask(run, {"node_list": "n3", "ntasks": 1}, {"min_nodes": 2, "max_nodes": 2})
    assert named.last("created")["nodes"] == ["n3", "n1", "n2"]


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        (
            [{}, {}, {}],
            [
                "error: Allocation failure of 1 nodes: job size of 2, already allocated 2 nodes to previous components.",
            ],
        ),
        (
            [{}, {"node_list": "n1"}],
            ["error: Requested nodelist n1 overlaps with excluded n1.", "error: Job not submitted."],
        ),
        ([{"named": True}], ["error: No directives to start application on any available hetjob components"]),
        (
            [{"named": True, "group": 1}],
            ["error: Requested het-group offset exceeds highest hetjob index (1 > 0)"],
        ),
    ],
)
def test_what_a_plain_job_has_not(scene: Maker, parts: list[dict[str, Any]], lines: list[str]) -> None:
    assert ask(scene(2), *parts).last("refused")["lines"] == lines
