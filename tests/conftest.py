"""Settings of the whole suite: a Hypothesis profile, an own state folder for every test."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("suite", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# Nothing of the caller's job, configuration or input variables may reach a test.
_OURS = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "SCANCEL_", "SHIM_", "SKYPILOT_")
for _name in list(os.environ):
    if _name.startswith(_OURS) and not _name.startswith("SHIM_TEST_"):
        del os.environ[_name]
os.umask(0o022)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails, at the end of all tests of this process, for processes and temporary folders that they have left behind."""
    from tests.leftovers import Leftovers

    leftovers = Leftovers(tmp_path_factory.getbasetemp())
    yield
    found = leftovers.found()
    assert not found, "left behind by tests:\n" + "\n".join(found)


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own state folder and no configuration but the test's."""
    folder = tmp_path / "state"
    monkeypatch.setenv("SHIM_STATE_DIR", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SHIM_NO_SYSTEM_CONFIG", "1")
    return folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under pytest-xdist, whatever its --dist: tests that share something stay together."""
    from tests.parallel import ByFile

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A test that failed with bytes that are no text says so to pytest-xdist too."""
    from tests.parallel import sendable

    return sendable((yield))
