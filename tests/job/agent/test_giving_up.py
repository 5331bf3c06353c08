"""Nodes that a running job gives up, from the leader's side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.job.agent.leader_scene import Scene
from tests.job.run_folder import spec_of

Maker = Callable[..., Scene]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Scene]:
    """A run on n1, n2 and n3."""
    scene = Scene(tmp_path, spec_of(folder=str(tmp_path), nodes=3, script=False), False)
    scene.check_in()
    yield scene
    scene.close()


def kinds(run: Scene) -> list[str]:
    return [line["kind"] for line in run.lines()]


def test_tasks_there_are_killed_and_the_step_goes_on(run: Scene) -> None:
    srun = run.srun(ntasks=3)
    run.order(run.watch(), 1, "resize", nodes=["n1", "n2"])
    assert run.nodes[2].last("stop")["grace"] == 0
    assert [node.all("stop") for node in run.nodes[:2]] == [[], []]
    assert "resized" not in kinds(run)
    run.nodes[2].say("exit", step=0, rank=2, status=9, text="", oom=False)
    run.nodes[2].say("drained", step=0)
    run.nodes[2].say("stopped")
    run.turn()
    assert srun.last("exit")["status"] == 9
    assert run.line("resized")["nodes"] == ["n1", "n2"]
    run.nodes[2].mine.close()
    run.turn()
    assert kinds(run)[-1] == "resized", "its agent has left: that is no lost node"
    for rank in (0, 1):
        run.nodes[rank].say("exit", step=0, rank=rank, status=0, text="", oom=False)
        run.nodes[rank].say("drained", step=0)
    run.turn()
    assert run.line("step-end")["status"] == 9


def test_later_steps_have_the_nodes_that_are_left(run: Scene) -> None:
    run.order(run.watch(), 1, "resize", nodes=["n1", "n3"])
    assert run.srun(ntasks=2, node_list="n2").last("refused")["lines"] == [
        "error: Unable to create step for job 7: Requested node configuration is not available"
    ]
    srun = run.srun(min_nodes=3, nodes_inherited=True)
    created = srun.last("created")
    assert created["nodes"] == ["n1", "n3"]
    assert list(created["notes"]) == [
        "error: SLURM_JOB_NUM_NODES environment variable conflicts with allocated node count (3 != 2)."
    ]
    launch = run.nodes[2].last("launch")
    own = {**launch["environment"], **launch["tasks"][0]["environment"]}
    assert (own["SLURM_NODEID"], own["SLURM_NNODES"], own["SLURM_JOB_NODELIST"]) == ("1", "2", "n[1,3]")
    assert run.nodes[1].all("launch") == []


def test_an_agent_that_dies_while_its_node_is_given_up_is_no_lost_node(run: Scene) -> None:
    run.order(run.watch(), 1, "resize", nodes=["n1"])
    run.nodes[1].say("stopped")
    run.nodes[2].mine.close()
    run.turn()
    assert run.line("resized")["nodes"] == ["n1"]
    assert "ending" not in kinds(run)
