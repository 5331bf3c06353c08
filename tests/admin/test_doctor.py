"""What the doctor finds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from shim.admin import doctor
from shim.control import paths
from shim.job.agent import isolation


def findings() -> tuple[bool, str]:
    out = io.StringIO()
    return doctor.report(out), out.getvalue()


def test_a_machine_where_nothing_has_run_yet() -> None:
    fine, text = findings()
    assert fine
    assert "  ok  no job index yet: the first job makes it\n" in text


def test_a_damaged_index(state_dir: Path) -> None:
    paths.ensure(paths.state_dir())
    Path(paths.index_path()).write_bytes(b"no database at all " * 1000)
    fine, text = findings()
    assert not fine
    assert f"FAIL  the job index {paths.index_path()} is damaged" in text


def test_names_that_the_configuration_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe", lambda: ("namespaces", "mount and UTS namespaces"))
    monkeypatch.setenv("SHIM_LOCAL_ISOLATION", "addresses")
    assert "note  nodes are named by loopback addresses, 127.0.0.1 and on, as configured (isolation)\n" in findings()[1]
