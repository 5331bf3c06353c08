"""Run folders: whole or not there, private, readable after any kill."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from shim.control.backends.base import Run
from shim.control.backends.local import runs
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.job.spec import RunNode, RunSpec

RUN = Run(cluster="local", job_id=7, restart=1)
SPEC = RunSpec(
    job=Job(job_id=7, restarts=1), cluster=Cluster(name="local"), nodes=(RunNode(name="node1", host="node1"),)
)


def test_a_folder_is_whole_private_and_known_by_its_name() -> None:
    runs.create(RUN, SPEC, {"A": "\udcff"}, b"#!/bin/sh\n")
    folder = Path(runs.folder(RUN))
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"spec.json": 0o600, "slurm_script": 0o700}
    assert len(runs.key(RUN)) == 32
    assert runs.existing() == [RUN]


def test_the_same_run_asked_for_again_keeps_its_key() -> None:
    runs.create(RUN, SPEC, {}, None)
    key = runs.key(RUN)
    runs.create(RUN, SPEC, {"other": "environment"}, None)
    assert runs.key(RUN) == key


def test_what_a_killed_controller_left_half_made_is_no_run_and_is_removed() -> None:
    runs.create(RUN, SPEC, {}, None)
    draft = Path(runs.folder(RUN)).parent / ".8.0.4711"
    draft.mkdir()
    (draft / "spec.json").write_text("{")
    assert runs.existing() == [RUN]
    assert not draft.exists()


def test_a_line_that_a_kill_cut_off_is_none() -> None:
    runs.create(RUN, SPEC, {}, None)
    journal = Path(runs.folder(RUN)) / "journal"
    assert runs.journal(RUN) == []
    journal.write_text('{"n": 1, "at": 5.0, "kind": "started"}\n{"n": 2, "at": 6.0, "kind": "en')
    assert [line["n"] for line in runs.journal(RUN)] == [1]
    assert runs.journal(RUN, 1) == []


def test_an_agent_lives_as_long_as_its_lock() -> None:
    runs.create(RUN, SPEC, {}, None)
    assert not runs.alive(RUN)
    lock = os.open(f"{runs.folder(RUN)}/journal", os.O_RDWR | os.O_CREAT, 0o600)
    assert not runs.alive(RUN)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert runs.alive(RUN)
    os.close(lock)
    assert not runs.alive(RUN)


def test_removing_twice_is_harmless() -> None:
    runs.create(RUN, SPEC, {}, None)
    runs.remove(RUN)
    runs.remove(RUN)
    assert runs.existing() == []


@pytest.mark.parametrize("name", ["journal.txt", "7", "x.1", "7.x"])
def test_other_files_in_the_folder_are_no_runs(name: str) -> None:
    runs.create(RUN, SPEC, {}, None)
    (Path(runs.folder(RUN)).parent / name).write_text("")
    assert runs.existing() == [RUN]


def test_without_a_descriptor_nobody_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_arguments: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", no_more)
    assert runs.alive(RUN)


def test_the_secret_is_in_the_spec_or_in_a_file_of_its_own() -> None:
    runs.create(RUN, SPEC, {}, None)
    key = runs.key(RUN)
    (Path(runs.folder(RUN)) / "key").write_text("ab" * 32)
    assert runs.key(RUN) == b"\xab" * 32 != key
    runs.remove(RUN)
    with pytest.raises(OSError):
        runs.key(RUN)


def test_what_a_job_made_in_its_folder_goes_with_it() -> None:
    runs.create(RUN, SPEC, {}, None)
    inside = Path(runs.folder(RUN)) / "folder"
    inside.mkdir()
    (inside / "file").write_text("text")
    runs.remove(RUN)
    assert not list(inside.parents[1].iterdir())
