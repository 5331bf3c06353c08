"""The page on testing: each of its recipes runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/testing.md"
_FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(folder: Path) -> None:
    for name, text in _FILE.findall(PAGE.read_text()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def names() -> list[str]:
    return [name for name, _text in _FILE.findall(PAGE.read_text()) if name.startswith("test_")]


def test_there_are_the_five_recipes_and_the_first_example() -> None:
    assert len(names()) == 6


@pytest.mark.parametrize("name", names())
def test_the_recipe(tmp_path: Path, name: str) -> None:
    files(tmp_path)
    base = tmp_path / "base"
    done = run(
        tmp_path, "-m", "pytest", "-q", "-p", "shim.pytest_plugin", "--strict-markers", f"--basetemp={base}", name
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_pytest(tmp_path: Path) -> None:
    files(tmp_path)
    done = run(tmp_path, "without.py")
    assert (done.returncode, done.stdout) == (0, "node1\n"), done.stderr
