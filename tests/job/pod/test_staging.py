"""The working directory that comes with a run."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable

import pytest

from shim.job.wire import CHUNK, STAGE, STDIN, WINDOW
from tests.job.pod.pods import Controller, Pods

Maker = Callable[..., Pods]
_SCRIPT = "#!/bin/sh\nsrun -N2 -l cat name data/deep\n"


def _tree(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _staged(pods: Maker, **fields: object) -> Pods:
    """Two pods whose working directory comes with the job."""
    return pods(nodes=2, script=_SCRIPT, staged=True, **fields)


class Push:
    """A controller that pushes an archive within its credit."""

    def __init__(self, job: Pods, archive: bytes) -> None:
        self.controller = Controller(job)
        self.archive = archive
        self.controller.send("stage", bytes=len(archive))
        self.at = 0

    def pump(self, end: int | None = None) -> None:
        """As far as credit (or ``end``) goes."""
        taken = sum(message["bytes"] for message in self.controller.all("credit"))
        end = len(self.archive) if end is None else end
        while self.at < min(end, taken + WINDOW):
            piece = self.archive[self.at : min(end, self.at + CHUNK)]
            self.controller.link.send_data(STAGE, 0, STDIN, piece)
            self.at += len(piece)

    def whole(self) -> None:
        def pushed() -> bool:
            self.pump()
            return bool(self.controller.all("staged"))

        self.controller.until(pushed, "the archive is there")


def test_an_archive_in_the_ticket_is_unpacked_in_every_pod(pods: Maker) -> None:
    job = _staged(pods)
    job.archive = _tree(name=b"hello\n", data__deep=b"deep\n")
    job.start_all()
    assert [job.ended(0), job.ended(1)] == [0, 0]
    assert sorted(job.out.read_text().splitlines()) == ["0: deep", "0: hello", "1: deep", "1: hello"]
    assert (job.root(1) / "work/data/deep").read_text() == "deep\n"


def test_a_large_archive_is_pushed_to_all(pods: Maker) -> None:
    job = _staged(pods)
    job.start_all()
    push = Push(job, _tree(name=b"hello\n", data__deep=b"deep\n", ballast=os.urandom(3_000_000)))
    push.whole()
    push.controller.close()
    assert [job.ended(0), job.ended(1)] == [0, 0]
    for index in range(2):
        assert (job.run_dir(index) / "stage.tar.gz").read_bytes() == push.archive
    assert (job.root(1) / "work/data/deep").read_text() == "deep\n"
    assert len(job.out.read_text().splitlines()) == 4


def test_a_push_that_was_cut_off_begins_again(pods: Maker) -> None:
    job = _staged(pods)
    job.start_all()
    archive = _tree(name=b"hello\n", data__deep=b"deep\n", ballast=os.urandom(500_000))
    first = Push(job, archive)
    first.pump(100_000)
    first.controller.until(lambda: first.controller.all("credit"), "a part of it has come")
    first.controller.close()
    second = Push(job, archive)
    second.whole()
    third = Push(job, archive)  # whole already: said at once
    third.controller.until(lambda: third.controller.all("staged"), "it is there")
    second.controller.close()
    third.controller.close()
    assert [job.ended(0), job.ended(1)] == [0, 0]


@pytest.mark.parametrize("pushed", [False, True])
def test_an_archive_that_means_harm_fails_the_job_before_it_starts(pods: Maker, pushed: bool) -> None:
    job = _staged(pods)
    hostile = _tree(**{"..__x": b"harm"})
    if not pushed:
        job.archive = hostile
    job.start_all()
    if pushed:
        push = Push(job, hostile)
        push.whole()
        push.controller.close()
    assert job.ended(0) == 1
    record = json.loads(job.termination())
    assert record["started"] is None
    assert (record["ended"]["state"], record["ended"]["reason"]) == ("FAILED", "JobLaunchFailure")
    assert "'../x': not a path within the working directory" in record["why"]
    assert job.ended(1) == 0


def test_the_folder_of_the_output_need_not_be_in_the_copy(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\necho from the script\n", staged=True)
    job.out = job.work_dir / "logs" / "today" / "7.out"
    job.spec = job.spec.replace(job=job.spec.job.replace(stdout=str(job.out), stderr=str(job.out)))
    job.archive = _tree(name=b"x")
    job.start_all()
    assert job.line("ended")["state"] == "COMPLETED"
    assert job.out.read_text() == "from the script\n"
