"""Patterns of a .gitignore mean what they mean to git: asked about the same trees."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.core.formats.gitignore import Ignore

_ENVIRON = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
_NAMES = st.sampled_from(
    ["a", "b", "ab", "abc", "a.csv", "data", "build", "a b", "-", "[", "!a", "#a", "ä", "a ", "A", "]", "\\"]
)
_TREES = st.lists(st.lists(_NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=8)
_PIECES = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "data",
        "build",
        ".csv",
        "*",
        "**",
        "?",
        "/",
        "/",
        "!",
        "#",
        " ",
        "\\",
        "[ab]",
        "[!a]",
        "[a-c]",
        "[]a]",
    ]
    + [
        "[",
        "]",
        "-",
        "[[:alpha:]]",
        "[[:no:]]",
        "[a",
        "[^a-",
        "ä",
        "[[:digit:]a]",
        "[[:",
        "[\\]]",
        "\\t",
        "\\r",
        "***",
        "[/]",
    ]
)
_LINES = st.lists(_PIECES, max_size=6).map("".join)


def _paths(tree: list[str]) -> list[tuple[str, bool]]:
    """What a walk comes to: folders, and files that are no folder of another one."""
    folders = {path[:at] for path in tree for at in range(len(path)) if path[at] == "/"}
    return sorted([(path, True) for path in folders] + [(path, False) for path in set(tree) - folders])


def _out(ignore: Ignore, path: str, folder: bool) -> bool:
    """As a walk finds it: below what is out everything is."""
    parents = [path[:at] for at in range(len(path)) if path[at] == "/"]
    return any(ignore.out(parent, True) for parent in parents) or ignore.out(path, folder)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env=_ENVIRON)
    return folder


def _git(work: Path, content: str, paths: list[tuple[str, bool]]) -> set[str]:
    """What git leaves out."""
    for entry in work.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for path, folder in paths:
        (work / path).mkdir(parents=True, exist_ok=True) if folder else (work / path).touch()
    (work / ".gitignore").write_bytes(content.encode())
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(path for path, _folder in paths).encode(),
        cwd=work,
        env=_ENVIRON,
        capture_output=True,
        check=False,
    )
    assert asked.returncode in (0, 1), asked.stderr
    return set(filter(None, asked.stdout.decode().split("\0")))


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@settings(max_examples=int(os.environ.get("SHIM_TEST_EXAMPLES", "150")))
@given(lines=st.lists(_LINES, max_size=4), tree=_TREES)
def test_random_patterns_mean_what_they_mean_to_git(work: Path, lines: list[str], tree: list[str]) -> None:
    content = "\n".join(lines)
    paths = _paths([path for path in tree if ".git" not in path])
    ours = Ignore(content.encode())
    assert {path for path, folder in paths if _out(ours, path, folder)} == _git(work, content, paths)


@pytest.mark.parametrize(
    ("line", "out", "stay"),
    [
        ("/data/*.csv", ["data/a.csv"], ["data/old/a.csv", "sub/data/a.csv", "a.csv"]),
        ("build/**", ["build/a", "build/b/c"], ["sub/build/a", "build"]),
        ("foo/**/bar", ["foo/bar", "foo/a/b/bar"], ["bar", "foo/a/bars"]),
        ("\\#a", ["#a"], ["\\#a"]),
        ("a\\ ", ["a "], ["a"]),
        ("*.[ch]", ["x.c", "d/x.h"], ["x.cc"]),
        ("[[:digit:]]x", ["1x"], ["ax"]),
    ],
)
def test_what_a_pattern_leaves_out(line: str, out: list[str], stay: list[str]) -> None:
    ignore = Ignore(line.encode())
    assert [path for path in out if not ignore.out(path, False)] == []
    assert [path for path in stay if ignore.out(path, False)] == []
