"""Unpacking archives that mean harm, and those that do not."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.job.pod.unpack import UnpackError, check_link, unpack


def _entry(name: str, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    content = fields.pop("content", b"")
    assert isinstance(content, bytes)
    info.size = len(content)
    info.mode = 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def _archive(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def _folder(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    return _entry(name, type=tarfile.DIRTYPE, mode=mode)


def _link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return _entry(name, type=tarfile.SYMTYPE, linkname=target)


def test_a_tree_comes_out_as_it_went_in(tmp_path: Path) -> None:
    target = tmp_path / "home/me/work"
    entries = (
        _folder("."),
        _folder("src", mode=0o2775),
        _entry("src/run.sh", content=b"#!/bin/sh\n", mode=0o755, mtime=1_600_000_000),
        _entry("./data/é x", content=b"x" * 3_000_000),
        _link("src/data", "../data"),
        _link("latest", "src/run.sh"),
        _entry("again", type=tarfile.LNKTYPE, linkname="src/run.sh"),
    )
    unpack(_archive(*entries), str(target))
    assert (target / "src/data/é x").read_bytes() == b"x" * 3_000_000
    assert (target / "latest").read_text() == "#!/bin/sh\n"
    assert (target / "again").samefile(target / "src/run.sh")
    found = (target / "src/run.sh").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o755, 1_600_000_000)


def test_what_is_there_is_replaced_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    target = tmp_path / "work"
    target.mkdir()
    (target / "file").symlink_to(outside)
    unpack(_archive(_entry("file", content=b"new")), str(target))
    assert outside.read_text() == "mine"
    assert (target / "file").read_text() == "new"
    assert not (target / "file").is_symlink()


HOSTILE = {
    "absolute": [_entry("/tmp/x")],
    "upwards": [_entry("../x")],
    "upwards inside": [_entry("a/../../x")],
    "absolute link": [_link("a", "/etc/passwd")],
    "upward link": [_link("a", "../x")],
    "deep upward link": [_link("d/a", "../../x")],
    "link with .. in the middle": [_folder("d"), _link("d/a", "b/../../../x")],
    "through a link": [_folder("d"), _link("a", "d"), _entry("a/x")],
    "folder in place of a link": [_folder("d"), _link("a", "d"), _folder("a/b")],
    "hard link outwards": [_entry("a", type=tarfile.LNKTYPE, linkname="../../etc/passwd")],
    "absolute hard link": [_entry("a", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
    "hard link through a link": [_folder("d"), _link("b", "d"), _entry("a", type=tarfile.LNKTYPE, linkname="b/x")],
    "device": [_entry("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "block device": [_entry("a", type=tarfile.BLKTYPE)],
    "named pipe": [_entry("a", type=tarfile.FIFOTYPE)],
    "setuid": [_entry("a", mode=0o4755)],
    "setgid": [_entry("a", mode=0o2755)],
    "a file for the tree": [_entry(".")],
    "a file for a folder": [_entry("a"), _entry("a/b")],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE.keys())
def test_harm_is_refused(tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    target = tmp_path / "deep/work"
    with pytest.raises(UnpackError):
        unpack(_archive(*entries), str(target))
    left = [path for path in tmp_path.rglob("*") if target not in path.parents and path not in (target, target.parent)]
    assert left == []


def test_an_archive_that_is_cut_short_or_none_is_named_broken(tmp_path: Path) -> None:
    whole = _archive(_entry("a", content=os.urandom(100_000))).getvalue()
    for data in (whole[:50_000], b"not an archive", b""):
        with pytest.raises(UnpackError, match="broken"):
            unpack(io.BytesIO(data), str(tmp_path))


_NAMES = st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=4)


@settings(max_examples=40)
@given(st.lists(st.tuples(_NAMES, _NAMES), min_size=1, max_size=4))
def test_links_that_are_let_through_never_lead_out(
    tmp_path_factory: pytest.TempPathFactory, links: list[tuple[list[str], list[str]]]
) -> None:
    target = tmp_path_factory.mktemp("tree")
    for parts, words in links:
        parts = [part for part in parts if part not in ("..", ".")] or ["c"]
        try:
            check_link(parts, "/".join(words))
            unpack(_archive(_link("/".join(parts), "/".join(words))), str(target))
        except (UnpackError, OSError):
            continue
    for path in target.rglob("*"):
        try:
            assert path.resolve().is_relative_to(target)
        except (RuntimeError, OSError):
            continue  # links in a circle
