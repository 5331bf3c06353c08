"""Headers of batch scripts with what sbatch 22.05.8 made of them: exit code, messages, options (-vv), record (scontrol).

The cases, and how they were measured, are compat/header_case.py's.
"""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from compat.cluster.controller import write_conf
from compat.header_case import differences, measured, read_cases, waits, words
from shim.commands import entrypoint
from shim.control import client
from shim.control.lifecycle.submission import Submitter, submitted
from shim.control.slurm_conf import read
from shim.core.admission import refusals
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.render.scontrol_job import job_record
from shim.core.render.view import View

# Clusters are looked up before a controller is asked, and bytes that are no text do not come through a captured stream.
CASES = [
    pytest.param(case, id=str(number))
    for number, case in enumerate(read_cases(), 1)
    if "clusters" not in case.get("options", {}) and "\udcff" not in case.get("script", "")
]
NOW = 1_790_000_000
USER = 1501
JOB = 7654321


class Controller:
    """Stands where the client's call would: judges and keeps the job."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.job: Job | None = None

    def call(self, op: str, fields: dict[str, Any], **_: Any) -> dict[str, Any]:
        request = JobRequest.from_dict(fields["request"])
        refusals.check_request(request, self.cluster, USER, NOW, lambda: ["alice"], host=str(fields["submit_host"]))
        self.job = submitted(request, self.cluster, Submitter(uid=USER, user="alice"), JOB, NOW)
        return {"job_id": JOB, "cluster": self.cluster.name, "notes": []}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cluster]:
    """The clusters of the measurement, from their slurm.conf, by EnforcePartLimits."""
    return {
        enforce: read(str(write_conf(tmp_path_factory.mktemp("conf"), enforce=enforce)), "local")
        for enforce in ("NO", "ANY", "ALL")
    }


@pytest.mark.parametrize("case", CASES)
def test_header(
    case: dict[str, Any],
    clusters: dict[str, Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = case.get("script", "").encode(errors="surrogateescape")
    cluster = clusters[case.get("enforce", "NO")]
    monkeypatch.setattr(os, "getuid", lambda: USER)
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setenv("USER", "alice")
    monkeypatch.chdir(tmp_path)
    for name, value in case.get("env", {}).items():
        monkeypatch.setenv(name, value)
    if not case.get("stdin") and "script" in case:
        (tmp_path / "job.sh").write_bytes(script)

    def sbatch(*options: str) -> tuple[int, str, str, Job | None]:
        controller = Controller(cluster)
        monkeypatch.setattr(client, "call", controller.call)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(script if case.get("stdin") else b"")))
        code = entrypoint.run("sbatch", [*options, waits(case), *words(case)])
        return code, *capsys.readouterr(), controller.job

    code, out, err, job = sbatch()
    verbose = sbatch("-vv")[2]
    record = (
        None
        if job is None or not out or case.get("later")
        else job_record(job, View(NOW, lambda: cluster), oneliner=True)
    )
    seen = measured((str(tmp_path), "alice"), code, out, err, verbose, record, str(JOB))
    assert bool(differences(case, seen)) == ("differs" in case), differences(case, seen)
