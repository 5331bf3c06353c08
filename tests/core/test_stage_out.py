"""What comes back from a copy of a working directory, decided without looking at a disk."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.stage_out import (
    BESIDE,
    FILE,
    FOLDER,
    LINK,
    NOTHING,
    WRITE,
    Entry,
    Left,
    Manifest,
    beside,
    choose,
    decide,
    is_within,
    link_stays,
    said,
    touched,
)

PARTS = st.binary(min_size=1, max_size=8).filter(
    lambda part: not set(part) & {0, 47} and part not in (b".", b"..", b".git")
)
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(lambda parts: b"/".join(parts).decode("utf-8", "surrogateescape"))
DIGESTS = st.sampled_from(["a" * 64, "b" * 64, "c" * 64])
FILES = st.builds(
    lambda path, size, digest: Entry(path=path, size=size, digest=digest), PATHS, st.integers(0, 100), DIGESTS
)
HERE = st.none() | FILES | st.builds(lambda kind: Entry(path="x", kind=kind), st.sampled_from([LINK, FOLDER, "other"]))


@given(st.lists(FILES, max_size=20))
def test_a_manifest_says_the_same_after_its_way_as_text(entries: list[Entry]) -> None:
    manifest = Manifest(entries=tuple(entries), left=(Left(path="\udcff\n", why="too large"),), left_out=3)
    assert Manifest.from_list(json.loads(json.dumps(manifest.to_list()))) == manifest


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\0b", ".git/hooks/post-checkout", "a/.git/config"],
)
def test_a_path_that_leaves_the_tree_or_runs_by_itself_is_none(path: str) -> None:
    assert not is_within(path)
    with pytest.raises(ValueError, match="not a path within"):
        Manifest.from_list([[[path, FILE, 1, 0o644, 0, "a", ""]], [], 0])


@pytest.mark.parametrize(
    "found",
    [None, [], [[]], [[["a"]], [], 0], [[["a", FILE, -1, 0, 0, "", ""]], [], 0], [[[1, FILE, 1, 0, 0, "", ""]], [], 0]],
)
def test_what_is_no_manifest_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match=r"manifest|numbers|entry|values"):
        Manifest.from_list(found)


@given(FILES, HERE, st.sets(DIGESTS), st.booleans())
def test_nothing_that_somebody_changed_here_is_ever_written_over(
    entry: Entry, here: Entry | None, known: set[str], claimed: bool
) -> None:
    what = decide(entry, here, known, claimed)
    if what == WRITE:
        assert here is None or (here.kind == FILE and here.digest in known and not claimed)
    if what == NOTHING:
        assert here is not None
        assert here.content == entry.content
    if here is None:
        assert what == WRITE


@given(FILES, HERE, st.sets(DIGESTS))
def test_once_written_there_is_nothing_left_to_do(entry: Entry, here: Entry | None, known: set[str]) -> None:
    if decide(entry, here, known) == WRITE:
        assert decide(entry, entry, known) == NOTHING


def test_a_folder_that_is_there_stays_and_a_file_in_its_place_too() -> None:
    folder = Entry(path="a", kind=FOLDER)
    assert decide(folder, None, ()) == WRITE
    assert decide(folder, folder, ()) == NOTHING
    assert decide(folder, Entry(path="a"), ()) == BESIDE


@given(st.lists(FILES, max_size=30, unique_by=lambda entry: entry.path), st.integers(0, 300), st.integers(0, 10))
def test_what_is_over_a_limit_is_named_and_counted(entries: list[Entry], most_bytes: int, most_files: int) -> None:
    manifest = choose(entries, most_bytes, most_files)
    assert manifest.size <= most_bytes
    assert len(manifest.entries) <= most_files
    assert manifest.left_out == len(manifest.left)
    assert sorted([e.path for e in manifest.entries] + [one.path for one in manifest.left]) == sorted(
        e.path for e in entries
    )
    sizes = {entry.path: entry.size for entry in entries}
    if len(manifest.entries) < most_files:  # no larger one took a smaller one's place
        kept = sum(entry.size for entry in manifest.entries)
        assert all(sizes[one.path] + kept > most_bytes for one in manifest.left)


def test_deletions_do_not_travel() -> None:
    one, other = (1, 2, 3, 4, 5), (1, 2, 9, 9, 5)
    assert touched({"gone": one, "same": one, "changed": one}, {"same": one, "changed": other, "new": one}) == [
        "changed",
        "new",
    ]


@pytest.mark.parametrize(
    ("path", "target", "stays"),
    [
        ("link", "file", True),
        ("a/link", "../file", True),
        ("link", "../file", False),
        ("a/link", "../../file", False),
        ("link", "/etc/passwd", False),
        ("link", "a/../../x", False),
        ("link", "", False),
    ],
)
def test_links_that_lead_out(path: str, target: str, stays: bool) -> None:
    assert link_stays(path, target) is stays


def test_names_beside_and_in_messages() -> None:
    assert beside("a/b.pt", 7) == "a/b.pt.slurm-7"
    assert beside("a/b.pt", 7, 1) == "a/b.pt.slurm-7-1"
    assert beside("b", 7, 1, 2) == "b.slurm-7-1.2"
    assert said(["a", "b\nc", "d", "e"], 9) == "a, 'b\\nc', d and 6 more"
