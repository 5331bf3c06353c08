"""The leader: barrier, batch script, limits, orders, ends. Nodes and controller are the test's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.core.model.request import SignalRequest
from shim.job.agent.leader.leader import Leader
from shim.job.wire import BATCH
from tests.job.agent.leader_scene import Scene
from tests.job.run_folder import spec_of

Maker = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Maker]:
    made: list[Scene] = []

    def make(script: bool = True, work: Path | None = None, **fields: Any) -> Scene:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Scene(folder, spec_of(script=script, folder=str(work or folder), **fields), script))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_nothing_starts_before_all_nodes_are_there(scene: Maker) -> None:
    run = scene(nodes=2)
    run.nodes[0].say("check-in", index=0, pid=1, boot="b")
    run.turn()
    assert run.lines() == []
    assert run.nodes[0].got == []
    run.nodes[1].say("check-in", index=1, pid=2, boot="b")
    run.turn()
    assert run.line("started") == {"hosts": ["n1", "n2"], "pid": os.getpid()}
    assert [message["do"] for message in run.nodes[0].got] == ["start", "launch"]
    assert [message["do"] for message in run.nodes[1].got] == ["start"]


def test_the_batch_script_is_launched_on_the_first_node(scene: Maker) -> None:
    run = scene(arguments=("a", "b"), umask=0o077, open_mode="a")
    run.check_in()
    launch = run.nodes[0].last("launch")
    assert launch["step"] == BATCH
    assert launch["tasks"][0]["argv"] == [f"{run.run_dir}/slurm_script", "a", "b"]
    assert launch["umask"] == 0o077
    assert launch["stdin"] == {"to": "null"}
    assert launch["stdout"] == {"to": "file", "path": run.spec.job.stdout, "append": True}
    assert launch["stderr"] == launch["stdout"]


@pytest.mark.parametrize("made", [0.5, 3])
def test_a_script_waits_a_while_for_the_folder_of_its_output(scene: Maker, tmp_path: Path, made: float) -> None:
    logs = tmp_path / "logs"
    run = scene(work=logs)
    run.check_in()
    assert (run.lines(), run.nodes[0].all("launch")) == ([], [])
    run.advance(made)
    logs.mkdir()
    run.advance(0.1)
    assert len(run.nodes[0].all("launch")) == 1


def test_a_job_that_is_ended_while_it_waits_for_a_folder(scene: Maker, tmp_path: Path) -> None:
    run = scene(work=tmp_path / "logs")
    controller = run.watch()
    run.check_in()
    run.order(controller, 1, "end", state="CANCELLED", uid=5)
    run.nodes[0].say("stopped")
    run.advance(3)
    assert run.line("ended")["state"] == "CANCELLED"
    assert run.nodes[0].all("launch") == []


def test_an_allocation_waits_for_no_folder(scene: Maker, tmp_path: Path) -> None:
    run = scene(script=False, work=tmp_path / "logs")
    run.check_in()
    assert run.line("started")


def test_nodes_that_never_come_fail_the_job(scene: Maker) -> None:
    run = scene(nodes=2)
    run.nodes[0].say("check-in", index=0, pid=1, boot="b")
    run.advance(run.spec.barrier + 1)
    assert run.nodes[0].last("stop")
    run.nodes[0].say("stopped")
    run.turn()
    assert run.line("ended")["state"] == "NODE_FAIL"
    assert "started" not in [line["kind"] for line in run.lines()]


@pytest.mark.parametrize(
    ("status", "oom", "state", "shown", "reason"),
    [
        (0, False, "COMPLETED", 0, "None"),
        (3 << 8, False, "FAILED", 768, "NonZeroExitCode"),
        (9, False, "FAILED", 9, "JobLaunchFailure"),
        (53, False, "FAILED", 53, "JobLaunchFailure"),
        (9, True, "OUT_OF_MEMORY", 125, "OutOfMemory"),
    ],
)
def test_the_scripts_end_is_the_jobs_end(
    scene: Maker, status: int, oom: bool, state: str, shown: int, reason: str
) -> None:
    run = scene(nodes=2)
    run.check_in()
    run.batch_ends(status, oom)
    assert [node.last("stop")["grace"] for node in run.nodes] == [30, 30]
    assert "ended" not in [line["kind"] for line in run.lines()]
    run.all_stopped()
    assert run.line("ended") == {"state": state, "status": shown, "derived": 0, "reason": reason, "uid": None}
    assert run.line("ending") == {"state": state}


@pytest.mark.parametrize("over_at_once", [True, False])
def test_the_start_of_a_script_is_told_with_its_end_or_a_little_later(scene: Maker, over_at_once: bool) -> None:
    run = scene()
    controller = run.watch()
    run.check_in()
    assert not controller.all("journal")
    if over_at_once:
        run.batch_ends()
        run.all_stopped()
    else:
        run.advance(1)
    told = [message["line"]["kind"] for message in controller.all("journal")]
    assert told == (["started", "ending", "ended"] if over_at_once else ["started"])


def test_the_start_of_an_allocation_is_told_at_once(scene: Maker) -> None:
    run = scene(script=False)
    controller = run.watch()
    run.check_in()
    assert [message["line"]["kind"] for message in controller.all("journal")] == ["started"]


def test_the_leader_goes_when_its_end_is_forgotten(scene: Maker) -> None:
    run = scene()
    run.check_in()
    controller = run.watch()
    controller.say("forget")
    run.turn()
    assert not run.done, "a run that has not ended is not forgotten"
    run.batch_ends()
    run.all_stopped()
    assert [message["line"]["kind"] for message in controller.all("journal")] == ["started", "ending", "ended"]
    assert not run.done
    controller.say("forget")
    run.turn()
    assert run.done


def test_the_time_limit(scene: Maker) -> None:
    run = scene(limit=60)
    Path(run.spec.job.stdout).write_text("out\n")
    run.check_in()
    run.advance(59)
    assert not run.nodes[0].all("stop")
    run.advance(2)
    assert run.nodes[0].last("stop")["grace"] == 30
    assert run.line("ending") == {"state": "TIMEOUT"}
    run.batch_ends(15)
    run.all_stopped()
    told = {"state": "TIMEOUT", "status": 15, "derived": 0, "reason": "TimeLimit", "uid": None}
    assert run.line("ended") == told
    line = Path(run.spec.job.stdout).read_text().splitlines()[1]
    assert line.startswith("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 20")
    assert line.endswith(" DUE TO TIME LIMIT ***")


@pytest.mark.parametrize("status", [15, 9 << 8, 0])
def test_a_script_s_own_end_at_the_limit_is_the_job_s(scene: Maker, status: int) -> None:
    run = scene(limit=60)
    run.check_in()
    run.advance(60)
    run.nodes[0].say("exit", step=BATCH, rank=0, status=status)
    run.nodes[0].say("stopped")
    run.turn()
    ended = run.line("ended")
    assert (ended["state"], ended["status"], ended.get("script")) == ("TIMEOUT", status, None)


def test_a_notice_reaches_the_scripts_error_output(scene: Maker) -> None:
    run = scene()
    Path(run.spec.job.stdout).write_text("out\n")
    run.check_in()
    run.order(run.watch(), 1, "notify", why="hello world")
    controller = run.watch()
    run.order(controller, 2, "notify")
    text = Path(run.spec.job.stdout).read_text()
    assert text == "out\nslurmstepd: error: hello world\nslurmstepd: error: \n"


def test_the_limit_can_be_changed(scene: Maker) -> None:
    run = scene(limit=60)
    run.check_in()
    controller = run.watch()
    run.order(controller, 1, "limit", seconds=100)
    run.advance(90)
    assert not run.nodes[0].all("stop")
    run.order(controller, 2, "limit", seconds=None)
    run.advance(90)
    assert not run.nodes[0].all("stop")


@pytest.mark.parametrize("batch", [True, False])
def test_the_signal_before_the_limit(scene: Maker, batch: bool) -> None:
    run = scene(limit=100, signal=SignalRequest(number=10, lead=60, batch=batch))
    run.check_in()
    run.srun()
    run.advance(39)
    assert not run.nodes[0].all("signal")
    run.advance(2)
    sent = run.nodes[0].last("signal")
    assert (sent["signal"], sent["step"]) == (10, BATCH if batch else 0)


def test_a_cancelled_job(scene: Maker) -> None:
    run = scene()
    Path(run.spec.job.stdout).touch()
    run.check_in()
    controller = run.watch()
    run.order(controller, 4, "end", state="CANCELLED", uid=1001)
    assert controller.last("done") == {"do": "done", "number": 4}
    run.batch_ends(15)
    run.all_stopped()
    assert run.line("ended") == {"state": "CANCELLED", "status": 15, "derived": 0, "reason": "None", "uid": 1001}
    assert Path(run.spec.job.stdout).read_text().count("*** JOB 7 ON n1 CANCELLED AT ") == 1


@pytest.mark.parametrize(
    ("state", "script", "told"),
    [
        ("CANCELLED", 7 << 8, (7 << 8, None)),
        ("CANCELLED", 0, (0, None)),
        ("CANCELLED", 9, (9, None)),
        ("REQUEUED", 7 << 8, (0, 7 << 8)),
    ],
)
def test_what_the_script_of_an_ended_job_makes_of_it(
    scene: Maker, state: str, script: int, told: tuple[int, int | None]
) -> None:
    run = scene()
    run.check_in()
    run.order(run.watch(), 4, "end", state=state, uid=1001)
    run.batch_ends(script)
    run.all_stopped()
    ended = run.line("ended")
    assert (ended["status"], ended.get("script")) == told


def test_an_order_is_obeyed_once(scene: Maker) -> None:
    run = scene()
    run.check_in()
    controller = run.watch()
    for _ in range(3):
        run.order(controller, 1, "signal", signal=10, scope="batch")
    assert len(run.nodes[0].all("signal")) == 1
    assert len(controller.all("done")) == 3


def test_a_requeued_job_says_so(scene: Maker) -> None:
    run = scene()
    Path(run.spec.job.stdout).touch()
    run.check_in()
    run.order(run.watch(), 1, "end", state="REQUEUED", uid=0)
    run.all_stopped()
    assert run.line("ended")["state"] == "REQUEUED"
    assert " DUE TO JOB REQUEUE ***" in Path(run.spec.job.stdout).read_text()


def test_a_job_that_is_ended_before_it_started(scene: Maker) -> None:
    run = scene(nodes=2)
    run.nodes[0].say("check-in", index=0, pid=1, boot="b")
    run.turn()
    run.order(run.watch(), 1, "end", state="CANCELLED", uid=0)
    run.nodes[0].say("stopped")
    run.turn()
    assert run.line("ended")["state"] == "CANCELLED"
    run.nodes[1].say("check-in", index=1, pid=1, boot="b")
    run.turn()
    assert not run.nodes[1].all("start")
    assert run.nodes[1].all("stop")


def test_scopes_of_signals(scene: Maker) -> None:
    run = scene()
    run.check_in()
    run.srun()
    controller = run.watch()
    run.order(controller, 1, "signal", signal=10, scope="steps")
    run.order(controller, 2, "signal", signal=12, scope="batch")
    run.order(controller, 3, "signal", signal=2, scope="all")
    run.order(controller, 4, "signal", signal=3, step="0")
    sent = [(message["signal"], message["step"], message.get("scope")) for message in run.nodes[0].all("signal")]
    assert sent == [(10, 0, None), (12, BATCH, "batch"), (2, 0, None), (2, BATCH, "all"), (3, 0, None)]


@pytest.mark.parametrize("scope", ["batch", "all"])
def test_a_signal_that_ends_the_script_is_told_once(scene: Maker, scope: str) -> None:
    run = scene()
    output = Path(run.spec.job.stdout)
    output.write_text("")
    run.check_in()
    controller = run.watch()
    run.order(controller, 1, "signal", signal=10, scope=scope)
    assert output.read_text() == ""
    run.order(controller, 2, "signal", signal=15, scope=scope)
    told = output.read_text()
    assert told.startswith("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT ")
    run.order(controller, 3, "signal", signal=15, scope=scope)
    run.order(controller, 4, "end", state="CANCELLED", uid=5)
    assert output.read_text() == told


def test_suspend_and_resume(scene: Maker) -> None:
    run = scene(limit=60)
    run.check_in()
    controller = run.watch()
    run.advance(50)
    run.order(controller, 1, "suspend")
    run.advance(100)
    run.order(controller, 2, "resume")
    run.advance(5)
    assert [message["signal"] for message in run.nodes[0].all("signal")] == [19, 18]
    assert not run.nodes[0].all("stop")
    run.advance(10)
    assert run.nodes[0].all("stop")


def test_a_lost_node_fails_the_job(scene: Maker) -> None:
    run = scene(nodes=3)
    run.check_in()
    run.nodes[1].mine.close()
    run.turn()
    assert run.line("ending") == {"state": "NODE_FAIL"}
    run.nodes[0].say("stopped")
    run.nodes[2].say("stopped")
    run.turn()
    assert run.line("ended")["state"] == "NODE_FAIL"


def test_a_node_lost_while_ending_does_not_hold_up_the_end(scene: Maker) -> None:
    run = scene(nodes=2)
    run.check_in()
    run.batch_ends()
    run.nodes[0].say("stopped")
    run.nodes[1].mine.close()
    run.turn()
    assert run.line("ended")["state"] == "COMPLETED"


def test_an_allocation_is_released(scene: Maker) -> None:
    run = scene(script=False)
    run.check_in()
    assert not run.nodes[0].all("launch")
    run.order(run.watch(), 1, "release", status=7 << 8)
    run.all_stopped()
    assert run.line("ended")["state"] == "FAILED"
    assert run.line("ended")["status"] == 7 << 8


def test_a_run_that_was_started_before_is_not_started_again(scene: Maker) -> None:
    run = scene()
    run.check_in()
    done: list[bool] = []
    again = Leader(run.spec, run.run_dir, b"k" * 32, run.loop)
    again.on_done = lambda: done.append(True)
    again.start()
    run.turn()
    assert done
    again.close()


def test_peers_that_make_no_sense_are_dropped(scene: Maker) -> None:
    run = scene()
    run.check_in()
    for role, message in (
        ("controller", {"do": "order", "order": {"number": 1, "kind": "nonsense"}}),
        ("controller", {"do": "watch", "after": "x"}),
        ("srun", {"do": "step", "request": {}}),
        ("srun", {"do": "step", "request": {}, "environment": 3}),
    ):
        peer = run.peer(role)
        peer.mine.send(message)
        run.turn()
        assert peer.closed, message
    stranger = run.peer("node")
    stranger.say("check-in", index=5, pid=1, boot="b")
    run.turn()
    assert stranger.closed
    run.batch_ends()
    run.all_stopped()
    assert run.line("ended")["state"] == "COMPLETED"


@pytest.mark.parametrize(
    "message", [{"do": "exit", "step": BATCH}, {"do": "exit", "step": 0, "rank": "x", "status": []}]
)
def test_a_node_that_talks_nonsense_is_a_lost_node(scene: Maker, message: dict[str, Any]) -> None:
    run = scene(nodes=2)
    run.check_in()
    run.srun(ntasks=2)
    run.nodes[1].say(**message)
    run.turn()
    assert run.nodes[1].closed
    assert run.line("ending")["state"] == "NODE_FAIL"


def test_a_run_that_is_over_lets_nobody_in_but_who_fetches_its_end(scene: Maker) -> None:
    it = scene(nodes=1, script=True)
    it.check_in()
    controller = it.watch()
    it.batch_ends()
    it.all_stopped()
    late = [it.peer(role) for role in ("node", "srun", "command")]
    for peer in late:
        peer.say("show")
    it.turn()
    assert [(peer.closed, peer.got) for peer in late] == [(True, [])] * 3
    assert it.watch().all("journal") == controller.all("journal") != []
