"""The end of a run in pods: the output that goes out, the record that stays, and when the leader leaves."""

from __future__ import annotations

import json
from collections.abc import Callable

from shim.job.pod.echo import split
from shim.job.pod.ending import MOST, termination_record
from tests.job.pod.pods import Controller, Pods

Maker = Callable[..., Pods]


def test_the_containers_output_is_the_scripts(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\nfor i in $(seq 20000); do echo line $i; done\n", echo_output=True)
    job.start_all()
    assert job.said() == "".join(f"line {number}\n" for number in range(1, 20001))
    assert job.out.read_text() == "".join(f"line {number}\n" for number in range(1, 20001))


def test_nobody_who_asks_no_copy(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\necho hello\n")
    job.start_all()
    assert job.said() == ""


def test_both_streams_are_copied(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\necho out\necho err >&2\n", echo_output=True)
    job.spec = job.spec.replace(job=job.spec.job.replace(stderr=str(job.work_dir / "err.txt")))
    job.start_all()
    said = job.said().encode()
    *lines, last = said.decode().splitlines()
    assert sorted(lines) == ["err", "out"]
    assert last.startswith("slurm-shim: log ")
    assert split(said) == {"stdout": (0, b"out\n"), "stderr": (0, b"err\n")}


def test_a_controller_takes_the_output_and_comes_back_for_the_rest(pods: Maker) -> None:
    size = 3_000_000  # more than the credit of a connection
    job = pods(
        script=f"#!/bin/sh\nhead -c {size} /dev/zero | tr '\\0' x\nwhile [ ! -e go ]; do sleep 0.1; done\necho end\n"
    )
    job.start_all()
    first = Controller(job)
    first.send("output", stream="stdout", after=0)
    first.until(lambda: len(first.data[1]) >= 1_500_000, "half of the output")
    first.close()
    second = Controller(job)
    second.send("watch", after=0)
    second.send("output", stream="stdout", after=len(first.data[1]))
    second.send("output", stream="stderr", after=0)
    second.until(second.kinds, "it is there")  # a leader whom nobody watches leaves at the end
    (job.work_dir / "go").touch()
    second.until(lambda: len(second.all("output-end")) == 2, "the end of both streams")
    assert first.data[1] + second.data[1] == b"x" * size + b"end\n"
    assert second.data[2] == b""
    ends = {message["stream"]: message["size"] for message in second.all("output-end")}
    assert ends == {"stdout": size + 4, "stderr": 0}
    assert second.kinds()[-1] == "ended"
    assert job.processes[0].poll() is None  # it stays until the end is committed
    second.send("forget")
    second.until(lambda: job.processes[0].poll() is not None, "the leader's end")
    second.close()
    assert job.ended() == 0


def test_the_record_stays_when_the_pod_is_gone(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\nsrun true\nsrun sh -c 'exit 4'\nexit 3\n")
    job.start_all()
    assert job.ended() == 3
    record = json.loads(job.termination())
    assert record["started"] <= record["ended"]["at"]
    assert (record["ended"]["state"], record["ended"]["status"]) == ("FAILED", 3 << 8)
    assert [(step["name"], step["state"], step["status"]) for step in record["steps"]] == [
        ("true", "COMPLETED", 0),
        ("sh", "FAILED", 4 << 8),
    ]


def test_a_record_of_many_steps_is_cut_at_the_front() -> None:
    lines = [{"n": 1, "at": 5.0, "kind": "started"}]
    for number in range(1000):
        lines += [
            {"n": 0, "at": 6.0, "kind": "step", "step": str(number), "name": "schön"},
            {"n": 0, "at": 6.0, "kind": "step-end", "step": str(number), "status": 0},
        ]
    lines.append({"n": 0, "at": 7.0, "kind": "ended", "state": "COMPLETED"})
    text = termination_record(lines)
    record = json.loads(text)
    assert text.isascii() and len(text) <= MOST
    assert record["steps"][-1]["step"] == "999"
    assert record["left_out"] == 1000 - len(record["steps"])
    assert record["ended"]["state"] == "COMPLETED"
