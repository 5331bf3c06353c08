"""Whole runs in pods that are played here: the archive, the container command, the way to the leader, the start, the end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.job.pod.pods import Controller, Pods
from tests.job.run_folder import KEY
from tests.support import wait_until

ODD = "{b'BASH_FUNC_module%%': b'() {  echo $*\\n}', b'a.b': b'\\xff'}"  # no names to a shell; no text
Maker = Callable[..., Pods]


def test_one_pod_runs_a_script(pods: Maker) -> None:
    job = pods(script='#!/bin/sh\necho "$IMAGE_SAYS from $(pwd)"\ncommand -v srun\nexit 3\n')
    job.start_all()
    assert job.ended() == 3
    assert job.out.read_text() == f"hello from {job.work_dir}\n{job.root(0)}/run/bin/srun\n"
    assert job.line("ended")["state"] == "FAILED"


def test_two_pods_meet_and_srun_reaches_both(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\nsrun -N2 -l sh -c 'echo $SLURMD_NODENAME'\n")
    job.start_all()
    assert [job.ended(0), job.ended(1)] == [0, 0]
    assert sorted(job.out.read_text().splitlines()) == ["0: slurm-7-0", "1: slurm-7-1"]
    assert "127.0.0.2\tslurm-7-1.slurm.test.svc.cluster.local\tslurm-7-1\n" in (job.root(0) / "hosts").read_text()
    assert "127.0.0.1\tslurm-7-0.slurm.test.svc.cluster.local\tslurm-7-0\n" in (job.root(1) / "hosts").read_text()


def test_pods_speak_to_each_other_in_secret(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\nsrun -N2 -l cat <name\n", encrypted=True)
    (job.work_dir / "name").write_text("told to all\n")
    job.dns.names[job.spec.leader.rstrip(".")] = "127.0.0.2"
    job.start_all()
    assert [job.ended(0), job.ended(1)] == [0, 0]
    assert sorted(job.out.read_text().splitlines()) == ["0: told to all", "1: told to all"]
    assert json.loads((job.run_dir(1) / "leader").read_text())["encrypted"]


def test_secrets_stay_in_the_secret_s_memory(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\nsrun -N1 cat $SHIM_RUN_DIR/key\n")
    job.start_all()
    assert job.ended() == 0
    names = ("key", "environment.json")
    assert [os.readlink(job.run_dir() / name) for name in names] == [f"{job.root(0)}/ticket/{name}" for name in names]
    for path in job.run_dir().rglob("*"):
        assert path.is_symlink() or KEY.hex() not in path.read_text(errors="replace"), path


def test_nobody_asks_the_question_that_programs_ask(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\ntrue\n")
    job.start_all()
    assert job.ended(0) == 0
    assert (1, False, False) not in [question[1:] for question in job.dns.asked]


def test_nothing_starts_before_the_last_pod_is_there(pods: Maker) -> None:
    job = pods(nodes=3, script="#!/bin/sh\ntrue\n")
    job.start(0)
    job.start(1)
    wait_until(lambda: (job.run_dir(1) / "leader").exists(), "the second pod has found the first")
    assert job.journal() == []
    job.start(2)
    assert job.ended(0) == 0
    assert [line["kind"] for line in job.journal()][:1] == ["started"]


def test_a_pod_that_goes_before_the_start_may_be_replaced(pods: Maker) -> None:
    job = pods(nodes=3, script="#!/bin/sh\ntrue\n")
    job.start(0)
    job.start(1)
    wait_until(lambda: (job.run_dir(1) / "leader").exists(), "the second pod has found the first")
    job.processes[1].send_signal(signal.SIGTERM)
    assert job.ended(1) == 143
    job.said(1)
    job.root(1).rename(job.folder / "gone")
    job.start(1, SHIM_POD_UID="another")
    job.start(2)
    assert job.ended(0) == 0


def test_a_pod_made_after_the_start_gets_no_part(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n")
    job.start_all()
    wait_until((job.run_dir(1) / "started").exists, "the second pod has started")
    job.root(1).rename(job.folder / "first")  # the real one goes on; another takes its place
    first = job.processes[1]
    late = job.start(1, SHIM_POD_UID="another")
    assert late.wait(60) == 1
    assert "the run has started" in job.termination(1)
    late.communicate()
    (job.work_dir / "go").touch()
    job.processes[1] = first
    assert [job.ended(0), job.ended(1)] == [0, 0]


def asks(controller: Controller) -> list[dict[str, Any]]:
    return [message["ask"] for message in controller.all("ask")]


def answer(controller: Controller, ask: dict[str, Any], granted: bool, asked: float | None = None) -> None:
    controller.send("answer", nonce=ask["nonce"], asked=ask["asked"] if asked is None else asked, granted=granted)


def test_a_gang_that_has_met_begins_when_it_is_granted_the_run(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\ntrue\n", record="uid-of-record", run=3)
    job.start_all()
    controller = Controller(job)
    try:
        controller.send("watch", after=0)
        controller.until(lambda: asks(controller), "it asks")
        ask = asks(controller)[-1]
        assert (ask["record"], ask["run"], len(ask["nonce"])) == ("uid-of-record", 3, 32)
        assert [(one["index"], one["pod"], one["node"]) for one in ask["members"]] == [
            (0, "uid-0", "node0"),
            (1, "uid-1", "node1"),
        ]
        assert all(one["boot"] for one in ask["members"])
        answer(controller, {**ask, "nonce": "another gang"}, True)
        answer(controller, ask, True, ask["asked"] - 31)  # it stands for what was asked half a minute ago
        controller.until(lambda: len(asks(controller)) > 2, "it asks again")
        assert job.journal() == []
        answer(controller, asks(controller)[-1], True)
        controller.until(lambda: "ended" in controller.kinds(), "it runs")
        assert job.line("ended")["state"] == "COMPLETED"
    finally:
        controller.close()


def test_a_gang_that_is_refused_leaves_and_says_that_it_has_not_begun(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\necho ran >> marks\n", record="uid-of-record")
    job.start_all()
    controller = Controller(job)
    try:
        controller.send("watch", after=0)
        controller.until(lambda: asks(controller), "it asks")
        nonce = asks(controller)[-1]["nonce"]
        answer(controller, asks(controller)[-1], False)
        controller.until(lambda: job.processes[0].poll() is not None, "it has left")
    finally:
        controller.close()
    found = json.loads(job.termination())
    assert (found["started"], found["nonces"], found["ended"]["state"]) == (None, [nonce], "NODE_FAIL")
    assert "not to begin here" in found["why"]
    assert not (job.work_dir / "marks").exists()


def test_another_gang_asks_with_another_nonce(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\ntrue\n", record="uid-of-record")
    job.start_all()
    controller = Controller(job)
    try:
        controller.send("watch", after=0)
        controller.until(lambda: asks(controller), "it asks")
        first = asks(controller)[-1]
        job.processes[1].send_signal(signal.SIGTERM)
        assert job.ended(1) == 143
        job.said(1)
        job.root(1).rename(job.folder / "gone")
        job.start(1, SHIM_POD_UID="another")
        controller.until(lambda: asks(controller)[-1]["nonce"] != first["nonce"], "the new gang asks")
        assert asks(controller)[-1]["members"][1]["pod"] == "another"
        answer(controller, first, True)  # for a gang that is no more
        controller.until(lambda: asks(controller)[-1]["asked"] > first["asked"] + 2, "it asks on")
        assert job.journal() == []
        answer(controller, asks(controller)[-1], True)
        controller.until(lambda: "ended" in controller.kinds(), "it runs")
    finally:
        controller.close()


def test_a_worker_without_its_leader_ends(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\nsrun -N2 sleep 1000\n")
    job.start_all()
    job.line("step")
    job.processes[0].kill()
    assert job.ended(1) == 1


def test_a_worker_whose_leader_falls_silent_ends(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\nsrun -N2 sleep 1000\n", heartbeat=1, grace=2)
    job.start_all()
    job.line("step")
    job.processes[0].send_signal(signal.SIGSTOP)
    try:
        assert job.ended(1) == 1
    finally:
        job.processes[0].send_signal(signal.SIGCONT)


def test_term_from_outside_ends_the_tasks_and_is_143(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\ntrap 'echo term; exit 0' TERM\nsleep 1000 & wait\n")
    job.start_all()
    job.line("started")
    wait_until(job.out.exists, "the script runs")
    job.processes[0].send_signal(signal.SIGTERM)
    assert job.ended() == 143
    assert job.line("ended")["state"] == "NODE_FAIL"


def test_code_that_is_not_the_right_one_is_not_run(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\ntrue\n")
    job.start(0, SHIM_AGENT_DIGEST="0" * 64)
    assert job.ended() == 126
    assert "not what this job was submitted with" in job.termination()
    assert not (job.root(0) / "run/code").exists()


def test_an_image_without_python_says_so(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\ntrue\n")
    job.start(0, "/nowhere/python3", PATH=str(job.folder))
    assert job.ended() == 127
    assert "the image has no python3" in job.termination()


def test_an_image_whose_python_is_too_old_says_so(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\ntrue\n")
    old = job.folder / "old"
    old.write_text(
        f"#!/bin/sh\nboot=$4\nshift 4\n"
        f'exec {sys.executable} -I -S -c "import sys\nsys.version_info = (3, 6, 8)\n$boot" "$@"\n'
    )
    old.chmod(0o755)
    job.start(0, str(old), "/nowhere/python3", sys.executable)
    assert job.ended() == 127
    assert "needs python3, version 3.9 or later" in job.termination()


def test_a_pod_that_is_deleted_ends_the_run_as_a_lost_node(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\nsrun sh -c 'echo here; exec sleep 1000'; echo over\n")
    job.start_all()
    job.line("step")
    wait_until(lambda: job.out.read_text().count("here") == 2, "both tasks run")
    job.processes[1].send_signal(signal.SIGTERM)
    assert job.ended(1) == 143
    assert job.line("ended")["state"] == "NODE_FAIL"
    assert "over" not in job.out.read_text()


def test_a_task_gets_the_scripts_environment_byte_for_byte(pods: Maker) -> None:
    given = f"os.environ.pop('LC_CTYPE', None); os.environb.update({ODD})"  # Python itself may set LC_CTYPE
    script = (
        f"#!{sys.executable} -IS\nimport os; {given}; os.execvp('srun', ['srun', 'cp', '/proc/self/environ', 'seen'])\n"
    )
    job = pods(script=script)
    job.start_all()
    assert job.ended() == 0
    seen = (job.work_dir / "seen").read_bytes().split(b"\0")
    assert {b"BASH_FUNC_module%%=() {  echo $*\n}", b"a.b=\xff"} <= set(seen)
    assert not [line for line in seen if line.startswith(b"LC_CTYPE")]


def complaint(job: Pods, index: int) -> str:
    """What the pod says of not finding the leader; it is ended."""
    out = job.processes[index].stdout
    assert out is not None
    found: bytes = out.readline()
    job.processes[index].send_signal(signal.SIGTERM)
    job.ended(index)
    job.said(index)
    return found.decode()


def test_a_pod_says_at_which_port_it_does_not_reach_the_first_one(pods: Maker) -> None:
    job = pods(nodes=2, script="#!/bin/sh\ntrue\n", complain=1)
    job.start(1)
    port = job.spec.listen.partition(":")[2]
    said = f"slurm-shim: slurm-7-1 cannot reach slurm-7-0 at 127.0.0.1 on TCP port {port}: Connection refused\n"
    assert complaint(job, 1) == said


@pytest.mark.parametrize("answers", [True, False])
def test_a_pod_says_that_it_does_not_find_the_first_ones_name(pods: Maker, answers: bool) -> None:
    job = pods(nodes=2, script="#!/bin/sh\ntrue\n", complain=1)
    job.dns.names.clear()
    if not answers:
        job.dns.close()
    job.start(1)
    why = "says that there is no such name" if answers else "does not answer (UDP port 53)"
    assert complaint(job, 1) == f"slurm-shim: slurm-7-1 does not find slurm-7-0: the DNS at 127.0.0.1 {why}\n"
