"""Our commands for a job's PATH: the checkout's folder, or launchers written for an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.control import launchers
from shim.dispatch import MODULES


def test_a_checkout_has_its_own_folder() -> None:
    assert launchers.folder() == os.path.join(launchers.ROOT, "bin")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a package that is installed somewhere with blanks and quotes in its path."""
    place = tmp_path / "site 'packages'"
    place.mkdir()
    (place / "shim").symlink_to(os.path.join(launchers.ROOT, "shim"))
    monkeypatch.setattr(launchers, "ROOT", str(place))
    return launchers.folder()


def test_an_installed_package_gets_launchers_and_nothing_else(installed: str) -> None:
    assert sorted(os.listdir(installed)) == sorted(MODULES)


def test_they_are_immune_to_the_callers_python(installed: str, tmp_path: Path) -> None:
    (tmp_path / "os.py").write_text("raise SystemExit('the caller's module was imported')")
    broken = {**os.environ, "PYTHONHOME": "/nonexistent", "PYTHONPATH": str(tmp_path), "VIRTUAL_ENV": "/nonexistent"}
    answer = subprocess.run(
        [os.path.join(installed, "squeue"), "--version"], env=broken, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "slurm 22.05.8\n", "")


def test_they_are_written_once_and_mended(installed: str) -> None:
    path = os.path.join(installed, "squeue")
    before = os.stat(path).st_mtime_ns
    launchers.folder()
    assert os.stat(path).st_mtime_ns == before
    Path(path).write_text("damaged")
    launchers.folder()
    assert Path(path).read_text().startswith(f"#!{sys.executable} ")
    assert os.access(path, os.X_OK)
