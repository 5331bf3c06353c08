"""Steps from the leader's side: numbers, waiting, launches, ends, bytes on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.core.jsonlite import dumps
from shim.job.agent.step_manager.manager import LAST_WORDS
from shim.job.wire import ALL_RANKS, MAX_FRAME, WINDOW, WireError
from tests.job.agent.leader_scene import Scene
from tests.job.run_folder import spec_of

Maker = Callable[..., Scene]
BUSY = "Requested nodes are busy"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Maker]:
    made: list[Scene] = []

    def make(script: bool = False, **fields: Any) -> Scene:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Scene(folder, spec_of(script=script, folder=str(folder), **fields), script))
        made[-1].check_in()
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_step_from_its_request_to_its_end(scene: Maker) -> None:
    run = scene(nodes=2, cpus=4)
    srun = run.srun(launch=False, argv=["/bin/echo", "hi"], ntasks=3, work_dir="/w", umask=0o027)
    created = srun.last("created")
    assert (created["job_id"], created["step"], created["name"], created["ntasks"]) == (7, 0, "echo", 3)
    assert created["nodes"] == ["n1", "n2"]
    assert [list(ranks) for ranks in created["ranks"]] == [[0, 1], [2]]
    assert created["kill_wait"] == 30
    begun = {"step": "0", "name": "echo", "nodes": ["n1", "n2"], "tasks": 3, "cpus": 8, "distribution": "block"}
    assert run.line("step") == begun
    assert not run.nodes[0].all("launch"), "nothing runs before srun has opened its files"
    run.launch(srun)
    launch = run.nodes[0].last("launch")
    assert list(launch["argv"]) == ["/bin/echo", "hi"]
    assert [(task["rank"], task["local"]) for task in launch["tasks"]] == [(0, 0), (1, 1)]
    assert (launch["work_dir"], launch["umask"], launch["ntasks"]) == ("/w", 0o027, 3)
    environment = {**launch["environment"], **launch["tasks"][1]["environment"]}
    assert environment["SLURM_PROCID"] == "1"
    assert environment["SLURM_STEP_ID"] == "0"
    assert environment["SLURM_STEP_NUM_TASKS"] == "3"
    run.nodes[1].say("exit", step=0, rank=2, status=512, text="", oom=False)
    run.turn()
    assert srun.last("exit") == {"do": "exit", "rank": 2, "node": "n2", "status": 512, "text": "", "oom": False}
    run.end_tasks(0)
    assert srun.last("ended") == {"do": "ended", "status": 512}
    assert run.line("step-end") == {"step": "0", "status": 512, "state": "FAILED", "cancelled_by": None}


def test_the_highest_status_is_the_jobs_derived_one(scene: Maker) -> None:
    run = scene()
    for number, status in enumerate((0, 4 << 8, 1 << 8)):
        run.srun()
        run.end_tasks(number, status)
    run.order(run.watch(), 1, "release", status=0)
    run.all_stopped()
    assert run.line("ended")["derived"] == 4 << 8


def test_a_step_waits_for_the_one_that_has_everything(scene: Maker) -> None:
    run = scene(cpus=4)
    first = run.srun(ntasks=1)
    second = run.srun(ntasks=1)
    assert second.got == [{"do": "busy", "job_id": 7, "why": BUSY}]
    run.end_tasks(0)
    assert first.all("ended")
    assert second.last("created")["step"] == 1


def test_exact_steps_run_beside_each_other(scene: Maker) -> None:
    run = scene(cpus=4)
    sruns = [run.srun(ntasks=2, exact=True) for _ in range(3)]
    assert [len(srun.all("created")) for srun in sruns] == [1, 1, 0]
    overlapping = run.srun(ntasks=1, overlap=True)
    assert overlapping.all("created")
    run.end_tasks(1)
    assert sruns[2].all("created")


def test_those_that_wait_come_in_order_and_a_small_one_is_not_held_up(scene: Maker) -> None:
    run = scene(cpus=4)
    run.srun(ntasks=2, exact=True)
    run.srun(ntasks=2, exact=True)
    whole = run.srun(ntasks=4)
    small = run.srun(ntasks=1, exact=True)
    run.end_tasks(0)
    assert not whole.all("created")
    assert small.all("created")


def test_what_can_never_run_is_refused(scene: Maker) -> None:
    run = scene(cpus=4)
    srun = run.srun(ntasks=9)
    assert srun.last("refused")["lines"] == [
        "error: Unable to create step for job 7: More processors requested than permitted"
    ]
    assert srun.closed


def test_an_immediate_step_does_not_wait(scene: Maker) -> None:
    run = scene()
    run.srun()
    srun = run.srun(immediate=1)
    assert srun.last("refused")["lines"] == [f"error: Unable to create step for job 7: {BUSY}"]


def test_a_multi_prog_step(scene: Maker) -> None:
    run = scene()
    programs = [["0", ["a", "%t"]], ["*", ["b", "%o"]]]
    run.srun(ntasks=3, multi_prog=programs, argv=["mp.conf"])
    assert [list(task["argv"]) for task in run.nodes[0].last("launch")["tasks"]] == [["a", "0"], ["b", "1"], ["b", "2"]]
    refused = run.srun(ntasks=3, overlap=True, multi_prog=[["0", ["a"]]], argv=["mp.conf"])
    assert refused.last("refused")["lines"] == ["error: Configuration file mp.conf invalid, no record for task id 1"]


def test_files_of_tasks_are_named_for_each(scene: Maker) -> None:
    run = scene(nodes=2)
    srun = run.srun(launch=False, ntasks=2, stdout="o-%t-%n-%s-%J-%3t", stderr="e-%j.%s")
    assert srun.last("created")["parts"][0]["files"] == {"stderr": "e-7.0"}
    srun.say(
        "launch",
        stdin={"to": "null"},
        stdout={"to": "file", "path": "o-%t-%n-%s-%J-%3t", "append": False},
        stderr={"to": "leader"},
    )
    run.turn()
    files = [task["stdout"]["path"] for node in run.nodes for task in node.last("launch")["tasks"]]
    assert files == ["o-0-0-0-7.0-000", "o-1-1-0-7.0-001"]


# Ends


def test_a_step_that_is_cancelled(scene: Maker) -> None:
    run = scene()
    srun = run.srun()
    run.order(run.watch(), 1, "end", step="0", uid=1001, state="CANCELLED")
    assert srun.last("aborted") == {"do": "aborted", "part": 0}
    said = run.nodes[0].last("say")
    assert said["step"] == 0
    assert said["line"].startswith("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 20")
    assert run.nodes[0].last("signal")["signal"] == 9
    run.end_tasks(0, 9)
    assert run.line("step-end") == {"step": "0", "status": 9, "state": "CANCELLED", "cancelled_by": 1001}
    assert "ending" not in [line["kind"] for line in run.lines()], "the job goes on"


@pytest.mark.parametrize(("signal", "said", "aborted"), [(10, 0, 0), (15, 1, 0), (9, 1, 1)])
def test_a_signal_that_ends_a_step_is_told_once(scene: Maker, signal: int, said: int, aborted: int) -> None:
    run = scene(nodes=2)
    srun = run.srun(ntasks=2)
    controller = run.watch()
    run.order(controller, 1, "signal", signal=signal, scope="steps")
    assert [len(node.all("say")) for node in run.nodes] == [said, 0], "its first node writes it"
    assert len(srun.all("aborted")) == aborted
    assert run.nodes[0].last("signal")["signal"] == signal
    run.order(controller, 2, "signal", signal=signal, scope="steps")
    assert len(run.nodes[0].all("say")) == said


def test_srun_ends_its_step_gently(scene: Maker) -> None:
    """-K: the task that failed gives the step's status, those it took along do not."""
    run = scene()
    srun = run.srun(ntasks=3)
    run.nodes[0].say("exit", step=0, rank=1, status=4 << 8, text="", oom=False)
    run.turn()
    srun.say("terminate")
    run.turn()
    assert [message["signal"] for message in run.nodes[0].all("signal")] == [18, 15]
    assert (len(run.nodes[0].all("say")), srun.all("aborted")) == (1, [])
    run.advance(31)
    assert run.nodes[0].last("signal")["signal"] == 9
    run.end_tasks(0, 15)
    assert run.line("step-end")["status"] == 4 << 8


def test_srun_ends_its_step_at_once(scene: Maker) -> None:
    run = scene()
    srun = run.srun()
    srun.say("abort")
    run.turn()
    assert [message["signal"] for message in run.nodes[0].all("signal")] == [9]


def test_an_srun_that_is_gone_takes_its_tasks_along(scene: Maker) -> None:
    run = scene()
    srun = run.srun()
    waiting = run.srun()
    gone = run.srun()
    gone.mine.close()
    srun.mine.close()
    run.turn()
    assert [message["signal"] for message in run.nodes[0].all("signal")] == [9]
    run.nodes[0].mine.send_data(0, 0, 1, b"x" * 100)
    run.end_tasks(0, 9)
    assert run.line("step-end")["state"] == "CANCELLED"
    assert waiting.last("created")["step"] == 1
    assert not gone.all("created")


def test_an_srun_that_goes_before_it_launches_gives_everything_back(scene: Maker) -> None:
    run = scene()
    srun = run.srun(launch=False)
    srun.mine.close()
    run.turn()
    assert run.line("step-end")["state"] == "COMPLETED"
    assert run.srun().all("created")


def test_a_steps_own_time_limit(scene: Maker) -> None:
    run = scene()
    run.srun(time_limit=1)
    run.advance(61)
    assert run.nodes[0].last("say")["line"].endswith(" DUE TO TIME LIMIT ***")
    assert [message["signal"] for message in run.nodes[0].all("signal")] == [18, 15]
    run.end_tasks(0, 15)
    assert run.line("step-end")["state"] == "TIMEOUT"


def test_a_steps_limit_can_be_changed_and_stands_while_the_job_is_suspended(scene: Maker) -> None:
    run = scene()
    run.srun(time_limit=1)
    assert {name: run.line("step")[name] for name in ("limit", "distribution")} == {
        "limit": 1,
        "distribution": "cyclic",
    }
    controller = run.watch()
    run.order(controller, 1, "suspend")
    run.advance(600)
    run.order(controller, 2, "resume")
    run.order(controller, 3, "limit", step="0", seconds=120)
    run.advance(100)
    assert 15 not in [message["signal"] for message in run.nodes[0].all("signal")]
    run.order(controller, 4, "limit", step="0", seconds=None)
    run.advance(1000)
    assert 15 not in [message["signal"] for message in run.nodes[0].all("signal")]
    run.order(controller, 5, "limit", step="0", seconds=60)
    run.advance(1)
    assert 15 in [message["signal"] for message in run.nodes[0].all("signal")]


def test_the_jobs_end_ends_its_steps(scene: Maker) -> None:
    run = scene(limit=60)
    srun = run.srun()
    waiting = run.srun()
    run.advance(61)
    assert run.nodes[0].last("say")["line"].endswith(" DUE TO TIME LIMIT ***")
    assert srun.all("aborted")
    over = ["error: Unable to create step for job 7: Job/step already completing or completed"]
    assert waiting.last("refused")["lines"] == over
    assert run.srun().last("refused")["lines"] == over
    srun.say("abort")
    run.turn()
    assert not run.nodes[0].all("signal"), "the tasks have the job's own KillWait"
    run.end_tasks(0, 15)
    run.all_stopped()
    assert srun.all("ended")
    kinds = [line["kind"] for line in run.lines()]
    assert kinds == ["started", "step", "ending", "step-end", "ended"]
    assert run.line("step-end") == {"step": "0", "status": 15, "state": "CANCELLED", "cancelled_by": None}


@pytest.mark.parametrize(
    ("status", "how"), [(0, "CANCELLED AT 20"), (4 << 8, "FAILED (non-zero exit code or other failure mode) ***")]
)
def test_tasks_that_outlive_the_script_have_the_jobs_kill_wait(scene: Maker, status: int, how: str) -> None:
    """The end of the script takes its srun along; what the tasks do on TERM goes on."""
    run = scene(script=True)
    srun = run.srun()
    run.batch_ends(status)
    srun.mine.close()
    run.turn()
    assert not run.nodes[0].all("signal")
    assert run.nodes[0].last("stop")["grace"] == 30
    assert f"*** STEP 7.0 ON n1 {how}" in run.nodes[0].last("say")["line"]
    run.end_tasks(0, 7 << 8)
    run.all_stopped()
    assert run.line("step-end")["status"] == 7 << 8


def test_tasks_whose_srun_is_killed_are_killed_and_told(scene: Maker) -> None:
    run = scene(script=True)
    run.srun().mine.close()
    run.turn()
    assert run.nodes[0].last("signal")["signal"] == 9
    assert "*** STEP 7.0 ON n1 CANCELLED AT" in run.nodes[0].last("say")["line"]


def test_a_step_that_did_not_report_ends_with_the_job(scene: Maker) -> None:
    run = scene()
    srun = run.srun(ntasks=2)
    run.order(run.watch(), 1, "release", status=0)
    run.all_stopped()
    assert {message["rank"] for message in srun.all("exit")} == {0, 1}
    assert srun.all("ended")
    assert run.line("ended")["state"] == "COMPLETED"


def test_an_srun_that_does_not_read_holds_the_end_up_for_a_while_only(scene: Maker) -> None:
    run = scene()
    run.srun()
    for _ in range(WINDOW // 65536 + 1):
        run.nodes[0].mine.send_data(0, 0, 1, b"x" * 65536)
    run.order(run.watch(), 1, "release", status=0)
    run.all_stopped()
    assert "ended" not in [line["kind"] for line in run.lines()]
    run.advance(LAST_WORDS + 1)
    assert run.line("ended")["state"] == "COMPLETED"


def test_a_lost_node_is_told_to_srun(scene: Maker) -> None:
    run = scene(nodes=2)
    srun = run.srun(ntasks=2)
    run.nodes[1].mine.close()
    run.turn()
    assert srun.last("note")["line"] == "error: Node failure on n2"
    assert srun.last("exit")["rank"] == 1


# Bytes


def test_output_goes_to_srun_within_its_credit(scene: Maker) -> None:
    run = scene()
    srun = run.srun()
    piece = b"x" * 65536
    for _ in range(20):
        run.nodes[0].mine.send_data(0, 0, 1, piece)
    run.turn()
    assert sum(len(data) for *_, data in srun.data) == WINDOW
    credited = sum(message["bytes"] for message in run.nodes[0].all("credit"))
    assert credited == WINDOW, "the node gets credit for what was passed on, no more"
    srun.say("credit", bytes=4 * len(piece), stream="out")
    run.turn()
    assert sum(len(data) for *_, data in srun.data) == 20 * len(piece)


def test_a_step_is_over_when_its_output_was_passed_on(scene: Maker) -> None:
    run = scene()
    srun = run.srun()
    for _ in range(WINDOW // 65536 + 1):
        run.nodes[0].mine.send_data(0, 0, 1, b"x" * 65536)
    run.end_tasks(0)
    assert not srun.all("ended")
    srun.say("credit", bytes=65536, stream="out")
    run.turn()
    assert srun.all("ended")
    assert srun.got[-1]["do"] == "ended"


def test_input_goes_to_all_nodes_and_credit_comes_from_the_slowest(scene: Maker) -> None:
    run = scene(nodes=2)
    srun = run.srun(ntasks=2)
    srun.mine.send_data(0, ALL_RANKS, 0, b"abc")
    srun.mine.send_data(0, ALL_RANKS, 0, b"")
    run.turn()
    assert [node.data for node in run.nodes] == [[(0, ALL_RANKS, 0, b"abc"), (0, ALL_RANKS, 0, b"")]] * 2
    run.nodes[0].say("credit", step=0, bytes=3, stream="in")
    run.turn()
    assert not srun.all("credit")
    run.nodes[1].say("credit", step=0, bytes=2, stream="in")
    run.turn()
    assert not srun.all("credit")
    run.nodes[1].say("credit", step=0, bytes=1, stream="in")
    run.turn()
    assert [message["bytes"] for message in srun.all("credit")] == [3]


def test_input_for_one_rank_goes_to_its_node(scene: Maker) -> None:
    run = scene(nodes=2)
    srun = run.srun(ntasks=2)
    srun.mine.send_data(0, 1, 0, b"abc")
    run.turn()
    assert run.nodes[0].data == []
    assert run.nodes[1].data == [(0, 1, 0, b"abc")]
    run.nodes[1].say("exit", step=0, rank=1, status=0, text="", oom=False)
    run.nodes[1].say("drained", step=0)
    run.turn()
    assert [message["bytes"] for message in srun.all("credit")] == [3], "a node without tasks holds no input"


def test_windows_and_signals_go_to_the_tasks(scene: Maker) -> None:
    run = scene()
    srun = run.srun()
    srun.say("window", rows=10, columns=20)
    srun.say("signal", signal=10)
    run.turn()
    assert run.nodes[0].last("window") == {"do": "window", "rows": 10, "columns": 20, "step": 0}
    assert run.nodes[0].last("signal")["signal"] == 10


def test_a_step_asked_for_before_the_barrier_opens_waits_silently(tmp_path: Path) -> None:
    run = Scene(tmp_path, spec_of(folder=str(tmp_path)))
    srun = run.srun(launch=False)
    assert srun.got == []
    run.check_in()
    assert srun.last("created")["step"] == 0
    run.close()


def test_the_tasks_of_a_node_fit_one_frame(scene: Maker) -> None:
    run = scene(nodes=2, cpus=4)
    run.srun(argv=["/bin/echo", "x" * 10_000], ntasks=8000, overcommit=True)
    launches = [node.last("launch") for node in run.nodes]
    assert sum(len(launch["tasks"]) for launch in launches) == 8000
    for launch in launches:
        assert len(dumps(launch)) < MAX_FRAME
        for task in (launch["tasks"][0], launch["tasks"][-1]):
            environment = {**launch["environment"], **task["environment"]}
            assert environment["SLURM_GTIDS"].split(",") == [str(one["rank"]) for one in launch["tasks"]]
            assert environment["SLURM_PROCID"] == str(task["rank"])


def test_a_launch_that_no_frame_holds_is_a_failed_execve(scene: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    run = scene(nodes=2, cpus=4)
    link = run.leader.steps.nodes[1]
    send = link.send

    def refuse(message: dict[str, Any]) -> None:
        if message["do"] == "launch":
            raise WireError("a frame of 2000000 bytes")
        send(message)

    monkeypatch.setattr(link, "send", refuse)
    srun = run.srun(argv=["cmd"], ntasks=2)
    failed = srun.last("exit")
    assert (failed["rank"], failed["node"], failed["status"]) == (1, "n2", 7 << 8)
    assert failed["text"] == "slurmstepd: error: execve(): cmd: Argument list too long"
    run.end_tasks(0)
    assert srun.last("ended")["status"] == 7 << 8
    assert run.srun(ntasks=1).all("created"), "its resources are free again"


def test_sruns_that_are_gone_are_forgotten(scene: Maker) -> None:
    run = scene(cpus=4)
    before = len(run.leader._peers._links)
    for number in range(3):
        srun = run.srun()
        run.end_tasks(number)
        assert srun.closed
    assert run.srun(ntasks=3, multi_prog=[["0", ["a"]]], argv=["mp.conf"]).all("refused")
    run.srun().mine.close()
    run.turn()
    assert len(run.leader._peers._links) == before
