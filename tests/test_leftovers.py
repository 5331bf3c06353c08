"""The look for what tests have left behind finds it, and ends it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
TESTS = """
import subprocess, tempfile
from tests import leftovers

leftovers._PATIENCE = 0.2

def test_that_leaves_a_process(tmp_path):
    sleep = subprocess.Popen(["sleep", "1000"], cwd=tmp_path, start_new_session=True)
    print("PID", sleep.pid)

def test_that_leaves_a_folder():
    print("FOLDER", tempfile.mkdtemp(prefix="left-"))

def test_that_leaves_nothing(tmp_path):
    subprocess.run(["true"], cwd=tmp_path)
    with tempfile.TemporaryDirectory():
        pass
"""


def run(folder: Path, *words: str) -> tuple[int, str]:
    (folder / "test_them.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), "--basetemp", str(folder / "base"), *words, str(folder / "test_them.py")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def test_what_is_left_fails_the_session_and_is_ended(tmp_path: Path) -> None:
    code, said = run(tmp_path)
    assert (code, "3 passed, 1 error" in said) == (1, True), said
    (number,) = re.findall(r"PID (\d+)", said)
    (folder,) = re.findall(r"FOLDER (\S+)", said)
    pid = int(number)
    assert f"process {pid}: sleep 1000 ({tmp_path}/base/test_that_leaves_a_process0)" in said
    assert re.search(rf"^E +{folder}$", said, re.M)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert not os.path.exists(os.path.dirname(folder))


def test_where_nothing_is_left_nothing_is_said(tmp_path: Path) -> None:
    code, said = run(tmp_path, "-k", "that_leaves_nothing")
    assert (code, "1 passed" in said) == (0, True), said
