"""Run folders: whole or not there, private, readable after any kill."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.control.backends.base import Run
from shim.control.backends.local import runs
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.job.agent.lock import take_lock
from shim.job.spec import RunNode, RunSpec

RUN = Run(cluster="local", job_id=7, restart=1)
OLD = Run(cluster="local", job_id=6)
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


def _used(*changes: Callable[[Path], object]) -> str:
    """A folder that a run has left, and what its job did to it."""
    runs.create(OLD, SPEC, {"A": "old" * 1000}, b"#!/bin/old\n" * 9)
    folder = Path(runs.folder(OLD))
    (folder / "journal").write_text('{"n": 1, "at": 5.0, "kind": "started"}\n')
    for change in changes:
        change(folder)
    return runs.put_away(OLD)


@pytest.mark.parametrize("script", [b"#!/bin/sh\n", None])
def test_a_used_folder_is_as_a_new_one(script: bytes | None) -> None:
    runs.create(Run(cluster="local", job_id=8), SPEC, {"A": "new"}, script)
    new = Path(runs.folder(Run(cluster="local", job_id=8)))
    old_key = []
    used = _used(lambda folder: old_key.append(runs.read_key(str(folder))))
    inode = os.stat(used).st_ino
    assert runs.create(RUN, SPEC, {"A": "new"}, script, used)
    folder = Path(runs.folder(RUN))
    assert folder.stat().st_ino == inode
    assert (folder / "journal").read_bytes() == b""
    (folder / "journal").unlink()
    assert sorted(os.listdir(folder)) == sorted(os.listdir(new))
    given = [json.loads((path / "spec.json").read_text()) for path in (folder, new)]
    assert bytes.fromhex(given[0].pop("key")) != old_key[0] and given[1].pop("key")
    assert given[0] == given[1]
    if script is not None:
        assert (folder / "slurm_script").read_bytes() == script
        assert (folder / "slurm_script").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "agent.0.log").write_text("text"),
        lambda folder: (folder / "inside").mkdir(),
        lambda folder: (folder / "journal").unlink(),
    ],
    ids=["a file more", "a folder", "no journal"],
)
def test_a_used_folder_that_is_not_fit_is_removed(change: Callable[[Path], object]) -> None:
    assert runs.create(RUN, SPEC, {}, b"#!/bin/sh\n", _used(change))
    folder = Path(runs.folder(RUN))
    assert sorted(os.listdir(folder)) == ["slurm_script", "spec.json"]
    assert os.listdir(folder.parent) == [folder.name]


def test_what_a_job_has_made_of_its_script_is_left_alone(tmp_path: Path) -> None:
    kept, own = tmp_path / "kept", tmp_path / "own"
    own.write_text("mine")
    own.chmod(0o700)
    used = _used(lambda folder: os.link(folder / "slurm_script", kept))
    runs.create(RUN, SPEC, {}, b"#!/bin/sh\n", used)
    assert kept.read_bytes() == b"#!/bin/old\n" * 9
    runs.remove(RUN)

    def linked(folder: Path) -> None:
        (folder / "slurm_script").unlink()
        (folder / "slurm_script").symlink_to(own)

    runs.create(RUN, SPEC, {}, b"#!/bin/sh\n", _used(linked))
    script = Path(runs.folder(RUN)) / "slurm_script"
    assert own.read_text() == "mine"
    assert not script.is_symlink() and script.read_bytes() == b"#!/bin/sh\n"


def test_a_used_folder_whose_leader_has_not_let_go_of_it_is_not_taken_for_a_run_that_lives() -> None:
    used = _used()
    lock = os.open(f"{used}/journal", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs.create(RUN, SPEC, {}, b"#!/bin/sh\n", used)
        assert not runs.alive(RUN)
        assert runs.journal(RUN) == []
    finally:
        os.close(lock)


def test_a_used_folder_goes_when_the_run_has_one() -> None:
    used = _used()
    runs.create(RUN, SPEC, {}, None)
    assert not runs.create(RUN, SPEC, {}, None, used)
    assert os.listdir(Path(used).parent) == [Path(runs.folder(RUN)).name]


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


def test_a_run_that_nobody_has_begun_can_be_taken_back_and_nobody_begins_it_then() -> None:
    runs.create(RUN, SPEC, {}, None)
    folder = runs.folder(RUN)
    late = os.open(f"{folder}/journal", os.O_RDWR | os.O_CREAT)  # an agent that is about to ask for its lock
    try:
        assert runs.withdraw(RUN)
        assert not os.path.exists(folder)
        with pytest.raises(FileNotFoundError):
            take_lock(folder, 0)
        runs.create(RUN, SPEC, {}, None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", lambda *_: os.dup(late))
            assert take_lock(folder, 0) is None
        assert not runs.alive(RUN)
        assert runs.withdraw(RUN) and runs.withdraw(RUN)
    finally:
        os.close(late)


@pytest.mark.parametrize("ended", [False, True], ids=["lives", "has ended"])
def test_a_run_that_has_begun_is_not_taken_back(ended: bool) -> None:
    runs.create(RUN, SPEC, {}, None)
    lock = take_lock(runs.folder(RUN), 0)
    assert lock is not None
    if ended:
        os.write(lock, b'{"n": 1, "kind": "started"}\n')
        os.close(lock)
    assert not runs.withdraw(RUN)
    assert os.path.isdir(runs.folder(RUN))
    if not ended:
        os.close(lock)


def test_a_run_of_which_nothing_can_be_told_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    runs.create(RUN, SPEC, {}, None)

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refused)
        assert not runs.withdraw(RUN)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        assert not runs.withdraw(RUN)
    assert os.path.isdir(runs.folder(RUN))


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
