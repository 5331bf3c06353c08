"""Signs of life between agents on different machines, with a clock that is set forward."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.job.agent.leader_scene import Peer, Scene
from tests.job.run_folder import spec_of


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Scene]:
    """Two nodes on different machines: 10 s between two beats, lost after 300."""
    spec = spec_of(nodes=2, script=True, folder=str(tmp_path))
    scene = Scene(tmp_path, spec.replace(listen="tcp:0", heartbeat=10, grace=300), script=True)
    yield scene
    scene.close()


def _kinds(run: Scene) -> list[str]:
    return [line["kind"] for line in run.lines()]


def _quiet(run: Scene, seconds: int, beats: bool) -> None:
    """Time in which the second node says at most that it lives."""
    for _ in range(seconds // 10):
        if beats:
            run.nodes[1].say("beat")
        run.advance(10)


def test_a_node_that_beats_stays_and_is_told_so(run: Scene) -> None:
    run.check_in()
    _quiet(run, 600, beats=True)
    assert _kinds(run) == ["started"]
    assert len(run.nodes[1].all("beat")) >= 59
    assert run.nodes[0].all("beat") == []  # the leader's own node is this process


def test_a_silent_node_is_suspect_at_once_and_can_come_back(run: Scene) -> None:
    run.check_in()
    _quiet(run, 50, beats=False)
    assert run.line("suspect")["host"] == "n2"
    run.nodes[1].say("beat")
    run.turn()
    assert run.line("recovered")["host"] == "n2"
    assert run.leader.outcome is None


def test_a_node_silent_for_the_grace_is_lost(run: Scene) -> None:
    run.check_in()
    _quiet(run, 290, beats=False)
    assert run.leader.outcome is None
    _quiet(run, 40, beats=False)
    assert run.nodes[1].closed
    assert run.line("ending")["state"] == "NODE_FAIL"
    run.nodes[0].say("stopped")
    run.turn()
    assert run.line("ended")["state"] == "NODE_FAIL"


def test_silence_before_the_start_leaves_no_line(run: Scene) -> None:
    run.nodes[1].say("check-in", index=1, pid=1, boot="b")
    run.turn()
    _quiet(run, 50, beats=False)
    assert run.lines() == []


def test_a_node_lost_before_the_start_may_come_back(run: Scene) -> None:
    run.nodes[1].say("check-in", index=1, pid=1, boot="b")
    run.turn()
    run.nodes[1].mine.close()
    run.turn()
    run.nodes[1] = Peer(run.loop)
    run.leader.add_node(run.nodes[1].theirs)
    run.check_in()
    assert _kinds(run) == ["started"]


def test_a_node_that_comes_after_the_start_is_refused(run: Scene) -> None:
    run.check_in()
    late = Peer(run.loop)
    run.leader.add_node(late.theirs)
    late.say("check-in", index=1, pid=1, boot="b")
    run.turn()
    assert late.last("refused")["why"] == "the run has started"
    assert late.closed
