"""What a job has changed in its copies of the working directory goes out at its end, or when it is asked for."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from shim.core.stage_out import Manifest
from shim.job import stage_out
from shim.job.loop import Loop
from shim.job.pod.changes import LeaderChanges
from shim.job.spec import Returns
from tests.job.pod.pods import Controller, Pods

Maker = Callable[..., Pods]
RETURNS = Returns(bytes=1 << 20, files=1000, wait=600)


def _packed(**files: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


def _ask(one: Controller, after: dict[str, int] | None = None) -> Callable[[], bool]:
    """Takes whatever is told, once; whether all of it is there."""
    asked = set[str]()

    def all_here() -> bool:
        for told in one.all("changes"):
            if told["stream"] not in asked:
                asked.add(told["stream"])
                one.send("output", stream=told["stream"], after=(after or {}).get(told["stream"], 0))
        return all(
            len(one.files.get(told["stream"], b"")) + (after or {}).get(told["stream"], 0) == told["bytes"]
            for told in one.all("changes")
        )

    return all_here


def _contents(archive: bytes) -> dict[str, bytes]:
    file = io.BytesIO(archive)
    manifest: Manifest = stage_out.read_manifest(file)
    return {entry.path: file.read(entry.size) for entry in manifest.entries if entry.kind == stage_out.FILE}


def _by_node(one: Controller) -> dict[int, dict[str, bytes]]:
    return {told["node"]: _contents(one.files[told["stream"]]) for told in one.all("changes")}


def test_every_node_s_changes_go_out_before_the_end_is_told(pods: Maker) -> None:
    job = pods(
        nodes=2,
        staged=True,
        returns=RETURNS,
        script="",
    )
    job.script = f"""#!/bin/sh
echo more >> old
srun -N2 -n2 sh -c 'test $SLURM_PROCID = 0 || cd {job.root(1)}/work; echo $SLURM_PROCID > rank.$SLURM_PROCID'
"""
    job.archive = _packed(old="old\n", same="same\n")
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    all_here = _ask(one)
    one.until(lambda: "ended" in one.kinds(), "the end")
    assert len(one.all("changes")) == 2
    one.until(all_here, "the files")
    assert _by_node(one) == {0: {"old": b"old\nmore\n", "rank.0": b"0\n"}, 1: {"rank.1": b"1\n"}}
    one.send("forget")
    assert [job.ended(0), job.ended(1)] == [0, 0]
    one.close()


def test_the_first_pod_stays_until_somebody_comes_for_its_files(pods: Maker) -> None:
    job = pods(staged=True, returns=RETURNS, script="#!/bin/sh\nyes | head -c 300000 > big\n")
    job.archive = _packed()
    job.start_all()
    job.line("ended")
    first = Controller(job)
    first.credit = False
    first.send("watch", after=0, files=True)
    all_here = _ask(first)
    first.until(lambda: first.all("changes") and all_here(), "all of it, which is not credited")
    first.close()
    assert job.processes[0].poll() is None
    second = Controller(job)
    second.send("watch", after=0, files=True)
    second.until(lambda: second.all("changes"), "what there is")
    told = second.all("changes")[0]
    second.until(_ask(second, {told["stream"]: 100000}), "the rest")
    assert (first.files[told["stream"]][:100000] + second.files[told["stream"]]) == first.files[told["stream"]]
    second.send("forget")
    assert job.ended() == 0
    assert "lost" not in job.termination()
    second.close()


def test_files_that_nobody_has_fetched_are_said_to_be_lost(pods: Maker) -> None:
    job = pods(staged=True, returns=RETURNS.replace(wait=1), script="#!/bin/sh\necho x > new\n")
    job.archive = _packed()
    job.start_all()
    assert job.ended() == 0
    assert "1 file (2 bytes) of the job were not fetched in time: they are lost with its pods: new" in job.termination()


def test_a_node_that_is_done_before_the_others_has_its_files_sent(pods: Maker) -> None:
    job = pods(nodes=2, staged=True, returns=RETURNS, script="")
    # What ignores a TERM keeps the first node busy for kill_wait, while the second one has sent its files and is gone.
    job.script = f"""#!/bin/sh
srun -N2 -n2 sh -c 'test $SLURM_PROCID = 0 || cd {job.root(1)}/work; echo $SLURM_PROCID > rank.$SLURM_PROCID'
trap '' TERM
echo > ready
while :; do sleep 0.2; done
"""
    job.archive = _packed()
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    one.until(lambda: (job.work_dir / "ready").exists(), "the step is over")
    one.send("order", order={"number": 1, "kind": "end", "state": "CANCELLED", "uid": 0})
    assert job.ended(1) == 0
    all_here = _ask(one)
    one.until(lambda: "ended" in one.kinds() and all_here(), "the files")
    assert _by_node(one)[1] == {"rank.1": b"1\n"}
    assert "detail" not in job.line("ended")
    one.send("forget")
    job.ended()
    one.close()


def test_a_node_that_is_lost_with_its_files_is_named(pods: Maker) -> None:
    job = pods(nodes=2, staged=True, returns=RETURNS, script="#!/bin/sh\necho 1 > first\nwhile :; do sleep 0.2; done\n")
    job.archive = _packed()
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    one.until(lambda: (job.work_dir / "first").exists(), "the script runs")
    job.processes[1].kill()
    all_here = _ask(one)
    one.until(lambda: "ended" in one.kinds() and all_here(), "the end")
    assert _by_node(one) == {0: {"first": b"1\n"}}
    ended = job.line("ended")
    assert (ended["state"], ended["detail"]) == (
        "NODE_FAIL",
        "files of slurm-7-1 are lost: the first node did not get them in time",
    )
    one.send("forget")
    job.ended()
    one.close()


class _Silent:
    """A leader of three nodes, of which the last two are reached and say nothing."""

    started, over = True, False
    node_names = ("n0", "n1", "n2")
    node_links: dict[int, Any] = {0: None, 1: None, 2: None}


def test_nodes_that_do_not_send_in_time_are_named(tmp_path: Path) -> None:
    loop = Loop()
    got = list[str]()

    class Nothing:
        def find(self, streamed: object, then: Callable[[object], None]) -> None:
            then(None)

    leader: Any = _Silent()
    changes = LeaderChanges(loop, leader, str(tmp_path), cast(Any, Nothing()), lambda: (), lambda *found: None)
    changes.patience = 0.0
    changes.gather(lambda: got.append(changes.lost), last=True)
    while not got:
        loop.run_once(0.1)
    assert got == ["files of n1, n2 are lost: the first node did not get them in time"]
    loop.close()


def test_nothing_changed_is_nothing_to_wait_for(pods: Maker) -> None:
    job = pods(staged=True, returns=RETURNS, script="#!/bin/sh\ntouch old\n")
    job.archive = _packed(old="as before")
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    one.until(lambda: "ended" in one.kinds(), "the end")
    all_here = _ask(one)
    one.until(all_here, "that there is nothing but the script's output, which comes otherwise")
    assert _by_node(one) == {0: {}}
    one.send("forget")
    assert job.ended() == 0
    one.close()


def test_a_job_that_runs_sends_what_there_is(pods: Maker) -> None:
    job = pods(
        staged=True,
        returns=RETURNS,
        script="#!/bin/sh\necho one > part\nwhile [ ! -e go ]; do sleep 0.1; done\necho two > part\n",
    )
    job.archive = _packed()
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    one.until(lambda: (job.work_dir / "part").exists(), "the script runs")
    one.send("gather", number=3)
    all_here = _ask(one)
    one.until(lambda: one.all("gathered") and all_here(), "what there is")
    assert one.all("gathered") == [{"do": "gathered", "number": 3}]
    assert _by_node(one) == {0: {"part": b"one\n"}}
    (job.work_dir / "go").touch()
    one.until(lambda: "ended" in one.kinds() and all_here(), "the rest")
    assert _by_node(one) == {0: {"part": b"two\n", "go": b""}}
    one.send("forget")
    assert job.ended() == 0
    one.close()


def test_a_pod_that_is_taken_away_sends_what_there_is(pods: Maker) -> None:
    job = pods(staged=True, returns=RETURNS, script="#!/bin/sh\necho one > part\nsleep 100\n")
    job.archive = _packed()
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    one.until(lambda: (job.work_dir / "part").exists(), "the script runs")
    job.processes[0].terminate()
    all_here = _ask(one)
    one.until(lambda: "ended" in one.kinds() and all_here(), "the files")
    assert _by_node(one) == {0: {"part": b"one\n"}}
    one.send("forget")
    assert job.ended() == 143
    one.close()


def test_names_that_are_no_text_and_links(pods: Maker) -> None:
    job = pods(
        staged=True,
        returns=RETURNS,
        script="#!/bin/sh\nprintf x > \"$(printf 'a\\nb\\377')\"\nln -s a there\nln -s /etc out\nmkfifo pipe\nmkdir .git; touch .git/x\n",
    )
    job.archive = _packed()
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    all_here = _ask(one)
    one.until(lambda: "ended" in one.kinds() and all_here(), "the files")
    file = io.BytesIO(one.files[one.all("changes")[0]["stream"]])
    manifest = stage_out.read_manifest(file)
    found: dict[str, Any] = {entry.path: entry.target or entry.kind for entry in manifest.entries}
    assert found == {"a\nb\udcff": "file", "there": "a", "slurm-7.out": "streamed"}
    assert sorted(left.path for left in manifest.left) == ["out", "pipe"]
    one.send("forget")
    assert job.ended() == 0
    one.close()
