"""Where state lives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.control import paths

HOST = os.uname().nodename


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SHIM_HOST_STATE_DIR": "/a", "SHIM_STATE_DIR": "/b"}, "/a"),
        ({"SHIM_STATE_DIR": "/b", "XDG_STATE_HOME": "/c"}, f"/b/{HOST}"),
        ({"XDG_STATE_HOME": "/c"}, f"/c/shim/{HOST}"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, f"/h/.local/state/shim/{HOST}"),
        ({"HOME": "/h"}, f"/h/.local/state/shim/{HOST}"),
    ],
)
def test_the_folder(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: str) -> None:
    for name in ("SHIM_HOST_STATE_DIR", "SHIM_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert paths.state_dir() == expected
    assert paths.index_path() == f"{expected}/index.db"
    assert paths.job_spool(7) == f"{expected}/spool/7"


def test_a_virtual_node_is_on_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert paths.machine() == HOST
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{paths.hosts_head()}\n127.0.0.1 localhost\n")
    monkeypatch.setattr(paths, "_HOSTS", str(hosts))
    monkeypatch.setattr(os, "uname", lambda: pytest.fail("the name of the node counts for nothing"))
    assert paths.machine() == HOST
    assert paths.hosts_head() == hosts.read_text().splitlines()[0], "a controller that is started on the node"


def test_made_on_demand_for_the_user_alone(tmp_path: Path) -> None:
    folder = str(tmp_path / "a" / "b")
    assert paths.ensure(folder) == folder == paths.ensure(folder)
    assert os.stat(folder).st_mode & 0o777 == 0o700
