"""What of a working directory is copied into the pods."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from shim.control import paths
from shim.control.backends.base import BackendError, Progress
from shim.control.backends.kubernetes.submit import staging


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            target.mkdir(exist_ok=True)
        else:
            target.write_text(path)


def copied(folder: Path, tmp_path: Path) -> set[str]:
    target = tmp_path / "stage.tar.gz"
    staging.pack(str(folder), str(target), 10)
    with tarfile.open(target) as archive:
        return {member.name for member in archive if not member.isdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.mark.parametrize("place", [".", ".local/state/shim", "a/.."])
def test_state_folders_stay_out(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    make(folder, "train.py", "a/b", ".local/state/other/c", f"{place}/elsewhere/index.db", f"{place}/notes/d")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path / "link" / place))
    make(Path(paths.state_dir()), "index.db", "pods/k8s/7.0/key", "spool/1/stage.tar.gz")
    notes = os.path.normpath(f"{place}/notes/d")
    assert copied(folder, tmp_path) == {"train.py", "a/b", ".local/state/other/c", notes}


def test_everything_but_git_and_earlier_output_is_copied(folder: Path, tmp_path: Path) -> None:
    make(folder, "train.py", "pkg/a.py", ".git/config", "slurm-12.out", "pkg/__pycache__/a.pyc", ".env")
    assert copied(folder, tmp_path) == {"train.py", "pkg/a.py", ".env"}


def test_the_own_ignore_file_counts_before_gits(folder: Path, tmp_path: Path) -> None:
    make(folder, "a.txt", "b.txt")
    (folder / ".gitignore").write_text("a.txt\n")
    (folder / ".shimignore").write_text("b.txt\n")
    assert copied(folder, tmp_path) == {"a.txt", ".gitignore", ".shimignore"}


PATTERNS = "*.bin\n/top\nlogs/\n# a comment\n\n!keep.bin\ndata/raw\ncache/**\n/data/*.csv\n"
PATHS = (
    "x.bin",
    "keep.bin",
    "sub/y.bin",
    "top",
    "sub/top",
    "logs/1",
    "sub/logs/2",
    "data/raw/f",
    "sub/data/raw",
    "cache/c",
    "sub/cache/c",
    "data/a.csv",
    "data/old/a.csv",
    "f.py",
)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
def test_patterns_mean_what_they_mean_to_git(folder: Path, tmp_path: Path) -> None:
    make(folder, *PATHS)
    (folder / ".gitignore").write_text(PATTERNS)
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env=environ)
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", *PATHS],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    ignored = set(asked.stdout.split())
    assert copied(folder, tmp_path) == {*PATHS, ".gitignore"} - ignored


def test_links_inside_stay_links_and_those_abroad_and_devices_stay_out(folder: Path, tmp_path: Path) -> None:
    make(folder, "file")
    (folder / "link").symlink_to("file")
    (folder / "abroad").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("../elsewhere")
    os.mkfifo(folder / "pipe")
    target = tmp_path / "stage.tar.gz"
    assert staging.pack(str(folder), str(target), 10) == ["abroad", "up"]
    with tarfile.open(target) as archive:
        members = {member.name: member for member in archive}
    assert set(members) == {"file", "link"}
    assert members["link"].issym()
    assert (members["file"].uid, members["file"].uname) == (0, "")


def test_what_is_too_large_is_named(folder: Path, tmp_path: Path) -> None:
    make(folder, "small")
    (folder / "weights").mkdir()
    with open(folder / "weights/model.bin", "wb") as file:
        file.truncate(3 << 20)
    with pytest.raises(BackendError, match=r"3\.0 MiB, more than stage_limit = 2 .*weights \(3\.0 MiB\)"):
        staging.pack(str(folder), str(tmp_path / "stage.tar.gz"), 2)


def test_an_archive_may_have_nothing_in_it(tmp_path: Path) -> None:
    target = tmp_path / "stage.tar.gz"
    staging.pack_nothing(str(target))
    with tarfile.open(target) as archive:
        assert archive.getnames() == []


def test_what_is_packed_is_counted_also_within_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "large").write_bytes(b"x" * 1_000_000)
    make(folder, "sub/b")
    progress = Progress()
    seen: list[int] = []
    write = staging._Packed.write

    def noted(self: staging._Packed, data: bytes) -> int:
        seen.append(progress.done)
        return write(self, data)

    monkeypatch.setattr(staging._Packed, "write", noted)
    staging.pack(str(folder), str(tmp_path / "stage.tar.gz"), 10, progress)
    assert len([done for done in seen if 100_000 < done < 900_000]) > 10
    found = progress.fields
    assert found["done"] == found["all"] > 1_000_000
    assert (found["what"], found["unit"]) == (f"packing {folder} for the pods", "bytes")
