"""Files of a job in pods come to their places here: whole, never over what somebody changed, never out of the folder."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.run.stage_out import (
    COPY,
    Destination,
    arrived,
    copy_for,
    prune,
    remains,
    spool_of,
)
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.stage_out import FILE, LINK, Entry, Manifest
from shim.job import stage_out
from shim.job.pod.unpack import unpack_parts
from shim.job.stage_out import Broken


class Place:
    """A working directory here, and the copy in a pod of job 7."""

    def __init__(self, folder: Path, job_id: int = 7) -> None:
        self.here, self.pod = folder / "here", folder / f"pod{job_id}"
        self.run, self.packed = folder / f"run{job_id}", folder / "packed.tar.gz"
        for one in (self.here, self.run):
            one.mkdir(exist_ok=True)
        self.to = Destination(
            job_id=job_id, restart=0, root=str(self.here), folder=str(self.run), spool=str(folder / f"spool{job_id}")
        )
        self.before: dict[str, stage_out.Stat] = {}

    def submit(self) -> None:
        with tarfile.open(self.packed, "w:gz") as archive:
            archive.add(self.here, "", filter=lambda info: info)
        os.link(self.packed, self.run / COPY)
        with open(self.run / COPY, "rb") as file:
            unpack_parts(file, str(self.pod))
        self.before = stage_out.scan(str(self.pod))

    def comes(self, node: int = 0, number: int = 1, cut: int = 0, most: int = 1 << 30, files: int = 100000) -> str:
        """The archive of what has changed in the pod, as it comes here."""
        now = stage_out.scan(str(self.pod))
        found = stage_out.changes(str(self.pod), self.before, now, lambda paths: {})
        archive = stage_out.Archive(stage_out.choose(found, most, files), str(self.pod))
        path = self.run / f"changes.{number}.{node}"
        content = b"".join(iter_of(archive))
        path.write_bytes(content[: len(content) - cut])
        archive.close()
        return str(path)

    def tree(self) -> dict[str, str]:
        """What is here, links as they are."""
        found = {}
        for root, folders, files in os.walk(os.fsencode(self.here)):
            for name in files + [one for one in folders if os.path.islink(os.path.join(root, one))]:
                path = os.path.join(root, name)
                text = os.readlink(path) if os.path.islink(path) else Path(os.fsdecode(path)).read_bytes()
                found[os.fsdecode(os.path.relpath(path, os.fsencode(self.here)))] = text.decode("utf-8", "replace")
        return found


def iter_of(archive: stage_out.Archive) -> Iterator[bytes]:
    at = 0
    while piece := archive.read(at, 5000):
        yield piece
        at += len(piece)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_was_made_and_changed_is_in_its_place(place: Place) -> None:
    (place.here / "kept").write_text("kept")
    (place.here / "changed").write_text("before")
    (place.here / "removed").write_text("still here")
    place.submit()
    (place.pod / "changed").write_text("after!")
    (place.pod / "removed").unlink()
    (place.pod / "deep/er").mkdir(parents=True)
    (place.pod / "deep/er/\udcff\n x").write_text("odd")
    (place.pod / "deep/link").symlink_to("../changed")
    (place.pod / "run.sh").write_text("#!/bin/sh\n")
    (place.pod / "run.sh").chmod(0o750)
    report = arrived(place.comes(), place.to)
    assert place.tree() == {
        "kept": "kept",
        "changed": "after!",
        "removed": "still here",
        "deep/er/\udcff\n x": "odd",
        "deep/link": "../changed",
        "run.sh": "#!/bin/sh\n",
    }
    assert (place.here / "run.sh").stat().st_mode & 0o777 == 0o750
    assert (report.files, report.text) == (4, "")
    assert os.listdir(place.to.spool) == ["7.0.1.0"]
    assert not (place.run / "changes.1.0").exists()


def test_what_somebody_changed_here_stays_and_the_job_s_is_beside(place: Place) -> None:
    (place.here / "both").write_text("before")
    (place.here / "dir").mkdir()
    place.submit()
    (place.pod / "both").write_text("the job's")
    (place.pod / "new").write_text("the job's")
    (place.pod / "dir/x").write_text("the job's")
    (place.here / "both").write_text("mine")
    (place.here / "new").write_text("mine")
    (place.here / "dir").rmdir()
    (place.here / "dir").write_text("mine")
    report = arrived(place.comes(), place.to)
    assert place.tree() == {
        "both": "mine",
        "both.slurm-7": "the job's",
        "new": "mine",
        "new.slurm-7": "the job's",
        "dir": "mine",
        "dir.slurm-7/x": "the job's",
    }
    assert report.text == "beside another's file: both.slurm-7, dir.slurm-7, new.slurm-7"
    (place.here / "new.slurm-7").write_text("mine, too")
    arrived(place.comes(number=2), place.to)
    assert place.tree()["new.slurm-7"] == "mine, too"
    assert place.tree()["new.slurm-7.1"] == "the job's"


def test_it_may_be_done_again_from_anywhere(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (place.here / f"old{number}").write_text("before")
    place.submit()
    for number in range(5):
        (place.pod / f"old{number}").write_text("after")
        (place.pod / f"new{number}").write_text("after")
    archive = place.comes()
    real = stage_out.Draft.place
    left = [3]

    def fails(draft: stage_out.Draft, name: str = "") -> bool:
        left[0] -= 1
        if left[0] < 0:
            draft.drop()
            raise OSError(28, "No space left on device")
        return real(draft, name)

    monkeypatch.setattr(stage_out.Draft, "place", fails)
    with pytest.raises(OSError, match="No space"):
        arrived(archive, place.to)
    assert all(text in ("before", "after") for text in place.tree().values())
    monkeypatch.setattr(stage_out.Draft, "place", real)
    report = arrived(archive, place.to)
    assert report.text == ""
    assert place.tree() == {**{f"old{n}": "after" for n in range(5)}, **{f"new{n}": "after" for n in range(5)}}
    assert arrived(archive, place.to).files == 0


def test_an_archive_that_is_cut_changes_nothing_and_names_its_files(place: Place) -> None:
    (place.here / "old").write_text("before")
    place.submit()
    (place.pod / "old").write_text("after!")
    (place.pod / "big").write_bytes(b"x" * 100000)
    path = place.comes(cut=10)
    with pytest.raises(Broken):
        arrived(path, place.to)
    assert place.tree() == {"old": "before"}
    report = remains(place.to)
    assert report.text == "not come back: big, old"
    assert place.tree() == {"old": "before"}
    assert remains(place.to).text == ""


def test_a_file_that_is_written_to_while_it_is_copied_is_not_taken(place: Place) -> None:
    place.submit()
    (place.pod / "log").write_bytes(b"x" * 9000)
    now = stage_out.scan(str(place.pod))
    archive = stage_out.Archive(
        stage_out.choose(stage_out.changes(str(place.pod), place.before, now, lambda paths: {}), 1 << 20, 10),
        str(place.pod),
    )
    (place.pod / "log").write_bytes(b"y" * 4000)
    (place.run / "changes.1.0").write_bytes(b"".join(iter_of(archive)))
    report = arrived(str(place.run / "changes.1.0"), place.to)
    assert report.text == "not come back: 'log (it was written to while it was copied)'"
    assert place.tree() == {}


@pytest.mark.parametrize("way", ["folder", "file"])
def test_a_link_here_is_never_written_through(place: Place, tmp_path: Path, way: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("not yours")
    place.submit()
    if way == "folder":
        (place.pod / "data").mkdir()
        (place.pod / "data/x").write_text("hostile")
        (place.here / "data").symlink_to(outside)
    else:
        (place.pod / "x").write_text("hostile")
        (place.here / "x").symlink_to(outside / "x")
    arrived(place.comes(), place.to)
    assert (outside / "x").read_text() == "not yours"
    assert sorted(os.listdir(outside)) == ["x"]


@pytest.mark.parametrize(
    "entry",
    [
        Entry(path="../out", size=1, digest="a"),
        Entry(path="/tmp/out", size=1, digest="a"),
        Entry(path=".git/hooks/pre-commit", size=1, digest="a"),
    ],
)
def test_a_pod_that_names_paths_elsewhere_is_not_believed(place: Place, entry: Entry) -> None:
    head = stage_out.head(Manifest(entries=(entry,)))
    (place.run / "changes.1.0").write_bytes(head + b"x")
    with pytest.raises(Broken, match="not a path within"):
        arrived(str(place.run / "changes.1.0"), place.to)
    assert place.tree() == {}


def test_a_link_of_the_job_that_leads_out_is_named(place: Place) -> None:
    head = stage_out.head(Manifest(entries=(Entry(path="l", kind=LINK, target="../.."), Entry(path="l/x", kind=FILE))))
    (place.run / "changes.1.0").write_bytes(head)
    report = arrived(str(place.run / "changes.1.0"), place.to)
    assert "'l (a link that leads out)'" in report.text
    assert not (place.here / "l").is_symlink()


def test_of_two_nodes_the_first_one_s_counts(place: Place) -> None:
    place.submit()
    (place.pod / "same").write_text("both")
    (place.pod / "log").write_text("of node 0")
    first = place.comes()
    (place.pod / "log").write_text("of node 1")
    second = place.comes(node=1)
    arrived(first, place.to)
    report = arrived(second, place.to)
    assert place.tree() == {"same": "both", "log": "of node 0", "log.slurm-7-1": "of node 1"}
    assert report.beside == ("log.slurm-7-1",)


def test_what_came_once_may_come_again_with_another_content(place: Place) -> None:
    place.submit()
    (place.pod / "log").write_text("one")
    arrived(place.comes(), place.to)
    (place.pod / "log").write_text("two")
    arrived(place.comes(number=2), place.to)
    assert place.tree() == {"log": "two"}
    (place.here / "log").write_text("mine")
    (place.pod / "log").write_text("three")
    arrived(place.comes(number=3), place.to)
    assert place.tree() == {"log": "mine", "log.slurm-7": "three"}


def test_what_is_beyond_the_limits_is_named(place: Place) -> None:
    place.submit()
    (place.pod / "large").write_bytes(b"x" * 5000)
    for number in range(4):
        (place.pod / f"small{number}").write_text("x")
    report = arrived(place.comes(most=3000), place.to)
    assert report.text == "not come back: 'large (beyond the 0 MiB that come back)'"
    assert len(place.tree()) == 4
    assert arrived(place.comes(number=2, files=2), place.to).missed == 3


def _job(place: Place, job_id: int, dependency: str = "", **fields: object) -> Job:
    request = JobRequest(work_dir=str(place.here), dependency=dependency or None)
    return Job(job_id=job_id, request=request, cluster="k8s", **fields)  # type: ignore[arg-type]


def test_dependents_and_requeues_have_what_came_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path / "state"))
    first = Place(tmp_path)
    (first.here / "code").write_text("as submitted")
    first.submit()
    job = _job(first, 7)
    (first.here / "code").write_text("changed since")
    (first.pod / "numbers").write_text("1 2 3")
    first.to = first.to.replace(spool=spool_of("k8s", job))
    arrived(first.comes(), first.to)

    def given(one: Job, name: str) -> dict[str, str]:
        folder = tmp_path / name
        folder.mkdir()
        with open(copy_for(one, "k8s", str(first.packed), str(folder)), "rb") as file:
            unpack_parts(file, str(folder / "tree"))
        return {path.name: path.read_text() for path in (folder / "tree").iterdir()}

    both = {"code": "as submitted", "numbers": "1 2 3"}
    assert given(job.replace(restarts=1), "again") == both
    second = _job(first, 8, "afterok:7")
    assert given(second, "next") == both
    assert given(_job(first, 9, "afterok:8"), "last") == both
    assert given(_job(first, 10), "other") == {"code": "as submitted"}
    later = second.replace(job_id=11, submit_time=os.stat(first.to.spool + "/7.0.1.0").st_mtime + 1)
    assert given(later, "later") == {"code": "as submitted"}  # its own copy has the result already
    prune("k8s", [job.replace(state=states.COMPLETED), _job(first, 9, "afterok:8")])
    kept = os.listdir(os.path.join(run_folders.folder_of("k8s"), "files"))
    assert sorted(kept) == ["8", "9"]
    assert given(_job(first, 9, "afterok:8"), "still") == both


def test_20000_small_files(place: Place) -> None:
    place.submit()
    for folder in range(200):
        (place.pod / f"{folder}").mkdir()
        for number in range(100):
            (place.pod / f"{folder}/{number}").write_bytes(b"%d" % number)
    report = arrived(place.comes(), place.to)
    assert (report.files, report.text) == (20000, "")
    assert (place.here / "199/99").read_bytes() == b"99"


def test_a_stream_of_the_script_is_no_file_of_its_own(place: Place) -> None:
    place.submit()
    (place.pod / "slurm-7.out").write_text("said")
    found = stage_out.changes(
        str(place.pod), place.before, stage_out.scan(str(place.pod)), lambda paths: {}, {"slurm-7.out"}
    )
    archive = stage_out.Archive(stage_out.choose(found, 1 << 20, 10), str(place.pod))
    (place.run / "changes.1.0").write_bytes(archive.read(0, 1 << 20))
    assert arrived(str(place.run / "changes.1.0"), place.to).files == 0
    assert place.tree() == {}


def test_a_file_that_was_only_touched_does_not_travel(place: Place) -> None:
    (place.here / "same").write_text("abc")
    (place.here / "other").write_text("abc")
    place.submit()
    (place.pod / "same").write_text("abc")
    (place.pod / "other").write_text("xyz")
    from shim.job.stage_parts import digests

    now = stage_out.scan(str(place.pod))
    found = stage_out.changes(str(place.pod), place.before, now, lambda paths: digests(str(place.packed), paths))
    assert [entry.path for entry in found] == ["other"]
    assert io.BytesIO(place.packed.read_bytes()).read(2) == b"\x1f\x8b"
