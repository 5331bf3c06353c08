"""Daemons of a cluster: found again, ended, and never mistaken for another process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.cluster.processes import Registry, processes_with, start_time

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path / "daemons.json")
    yield made
    made.stop("sleeper")


def test_started_found_and_ended(registry: Registry, tmp_path: Path) -> None:
    pid = registry.start("sleeper", SLEEPER, {"COMPAT_TEST": str(tmp_path)}, tmp_path / "log")
    assert registry.start("sleeper", SLEEPER, {}, tmp_path / "log") == pid
    assert Registry(registry.path).pid("sleeper") == pid
    assert registry.any_alive()
    registry.stop("sleeper")
    assert start_time(pid) == ""
    assert registry.pid("sleeper") is None
    assert not registry.any_alive()


def test_an_id_that_went_to_another_process_is_not_taken(registry: Registry) -> None:
    registry.path.write_text(json.dumps({"sleeper": [os.getpid(), "1@an-earlier-boot"]}))
    assert registry.pid("sleeper") is None
    registry.stop("sleeper")
    assert start_time(os.getpid()) != ""


def test_a_torn_file_counts_as_none(registry: Registry) -> None:
    registry.path.write_text('{"sleeper": [')
    assert registry.pid("sleeper") is None


def test_processes_by_environment(registry: Registry, tmp_path: Path) -> None:
    # The environment of a new process is in place once it has called exec: when Popen returns.
    pid = registry.start("sleeper", SLEEPER, {"COMPAT_TEST": str(tmp_path)}, tmp_path / "log")
    assert list(processes_with({"COMPAT_TEST": str(tmp_path)})) == [pid]
    assert list(processes_with({"COMPAT_TEST": str(tmp_path), "OTHER": None})) == []
