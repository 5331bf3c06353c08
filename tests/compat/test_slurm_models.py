"""The models of a client that was made from the OpenAPI document of Slurm 25.11 take every document of the newer layout, and lose nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from compat.clients import environment
from tests import reference
from tests.commands.conftest import World, greenwich, world
from tests.commands.test_documents import measured
from tests.commands.test_sacct import STEPS, queue

__all__ = ["greenwich", "world"]  # fixtures

pytestmark = pytest.mark.clients

DOCUMENTS = {
    "squeue -t all": "v0043_openapi_job_info_resp",
    "scontrol show jobs": "v0043_openapi_job_info_resp",
    "sacct -S now-2days": "v0043_openapi_slurmdbd_jobs_resp",
    "scontrol show nodes": "v0043_openapi_nodes_resp",
    "scontrol show partitions": "v0043_openapi_partition_resp",
}


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter that has the client; where there must be one, a test that is not run is no test passed."""
    if not environment.is_up(environment.SLURM_MODELS):
        refuse = pytest.fail if os.environ.get("SHIM_TEST_CLIENTS") else pytest.skip
        refuse("no client: python -m compat.clients.environment up")
    return environment.folder(environment.SLURM_MODELS) / "bin" / "python"


def test_they_take_every_document(python: Path, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_SLURM_VERSION", "25.11")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    others = [job.replace(job_id=job.job_id + 1000) for job in reference.queue()]
    world.index([*queue(), *others], {**STEPS, 24: (measured(),)})
    words = []
    for number, (command, model) in enumerate(DOCUMENTS.items()):
        program, *argv = command.split()
        result = world.run(program, "--json", *argv)
        assert result.code == 0
        (tmp_path / f"{number}.json").write_text(result.out)
        words.append(f"{model}={tmp_path / f'{number}.json'}")
    done = subprocess.run(
        [python, environment.HERE / "slurm_models.py", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
