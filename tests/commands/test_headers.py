"""Headers of batch scripts with what sbatch 22.05.8 made of them: exit code, messages, options (-vv), record (scontrol).

``headers.jsonl`` has one case a line: script, words and variables of the call, and what was measured on a controller without
accounting, for a user who is no administrator, with ``--hold``. Of the record only what differs from a plain job's is there;
null: the field is absent. The number of the job is written ``%j`` and the working directory ``$PWD``.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from shim.commands import funnel
from shim.control import client
from shim.control.lifecycle.submission import Submitter, submitted
from shim.core import check
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.render.scontrol_job import job_record
from shim.core.render.view import View

CASES = [json.loads(line) for line in (Path(__file__).parent / "headers.jsonl").read_text().splitlines()]
NOW = 1_790_000_000
USER = 1501
JOB = 7654321
GRES = (Gres(name="gpu", type="a100", count=8), Gres(name="gpu", type="v100", count=8), Gres(name="nvme", count=4000))
NODES = tuple(
    Node(
        name=name,
        cpus=256,
        sockets=2,
        cores_per_socket=128 // threads,
        threads_per_core=threads,
        memory=4_000_000,
        tmp_disk=4_000_000,
        gres=GRES,
        features=("fast", "big"),
    )
    for name, threads in (*((f"a{n:04}", 1) for n in range(1, 513)), *((f"h{n:03}", 2) for n in range(1, 17)))
)
CLUSTER = Cluster(
    name="measured",
    nodes=NODES,
    partitions=tuple(
        Partition(name=name, nodes=tuple(node.name for node in NODES), default=name == "main")
        for name in ("main", "short", "long", "Short")
    ),
    licenses=(Gres(name="matlab", count=1000), Gres(name="ansys", count=1000)),
    accounting=False,
)
PLAIN = {
    "Nice": "0",
    "Account": "(null)",
    "QOS": "(null)",
    "Requeue": "1",
    "Reboot": "0",
    "TimeLimit": "UNLIMITED",
    "TimeMin": "N/A",
    "Deadline": "N/A",
    "Partition": "main",
    "ReqNodeList": "(null)",
    "ExcNodeList": "(null)",
    "NumNodes": "1",
    "NumCPUs": "1",
    "NumTasks": "1",
    "CPUs/Task": "1",
    "ReqB:S:C:T": "0:0:*:*",
    "TRES": "cpu=1,mem=4000000M,node=1,billing=1",
    "Socks/Node": "*",
    "NtasksPerN:B:S:C": "0:0:*:*",
    "CoreSpec": "*",
    "MinCPUsNode": "1",
    "MinMemoryNode": "0",
    "MinTmpDiskNode": "0",
    "Features": "(null)",
    "OverSubscribe": "OK",
    "Contiguous": "0",
    "Licenses": "(null)",
    "Network": "(null)",
    "Command": "$PWD/job.sh",
    "WorkDir": "$PWD",
    "StdErr": "$PWD/slurm-%j.out",
    "StdIn": "/dev/null",
    "StdOut": "$PWD/slurm-%j.out",
    "Power": "",
    "JobName": "job.sh",
}
FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z:/_]*)=")
# Times, and what belongs to the place and not to the header.
NOT_COMPARED = frozenset(
    [
        "JobId",
        "ArrayJobId",
        "Priority",
        "JobState",
        "Reason",
        "BatchFlag",
        "UserId",
        "GroupId",
        "AllocNode:Sid",
        "ExitCode",
        "RunTime",
        "SubmitTime",
        "EligibleTime",
        "AccrueTime",
        "StartTime",
        "EndTime",
        "SuspendTime",
        "SecsPreSuspend",
        "LastSchedEval",
        "Scheduler",
        "Restarts",
        "NodeList",
        "MCS_label",
        "DelayBoot",
        "Dependency",
        "GresEnforceBind",
        "NtasksPerTRES",
        "Governor",
        "CPU_min_freq",
    ]
)


class Controller:
    """Stands where the client's call would: judges and keeps the job."""

    job: Job | None = None

    def call(self, op: str, fields: dict[str, Any], **_: Any) -> dict[str, Any]:
        request = JobRequest.from_dict(fields["request"])
        check.refusals(request, CLUSTER, USER, NOW)
        self.job = submitted(request, CLUSTER, Submitter(uid=USER, user="alice"), JOB, NOW)
        return {"job_id": JOB, "cluster": CLUSTER.name, "notes": []}


def fields(job: Job) -> dict[str, str]:
    """The record by field."""
    text = job_record(job, View(NOW, lambda: CLUSTER), oneliner=True).rstrip()
    found = list(FIELD.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)]
    return {one.group(1): text[one.end() : end].rstrip() for one, end in zip(found, ends)}


def plain(text: str, folder: Path) -> str:
    return text.replace(str(folder), "$PWD")


def options(stderr: str) -> dict[str, str]:
    """The block that -vv prints, less what the runner added."""
    block = re.search(r"defined options\n.*?\n(.*?)sbatch: -{20} -{20}\n", stderr, re.DOTALL)
    lines = block.group(1).splitlines() if block else []
    found = {name.rstrip(): value for name, _, value in (line[len("sbatch: ") :].partition(": ") for line in lines)}
    return {name: value for name, value in found.items() if name not in ("hold", "verbose")}


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_header(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = Controller()
    monkeypatch.setattr(client, "call", controller.call)
    monkeypatch.setattr(os, "getuid", lambda: USER)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("SBATCH_", "SLURM_"))]:
        monkeypatch.delenv(name)
    for name, value in case.get("env", {}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "job.sh").write_text(case["script"])
    words = [*case.get("argv", ()), "job.sh"]

    code = funnel.run("sbatch", ["--hold", *words])
    said = capsys.readouterr()
    assert (code, plain(said.err, tmp_path).splitlines()) == (case["rc"], case.get("stderr", []))
    if code == 0:
        assert said.out.strip() == case.get("stdout", "Submitted batch job JOBID").replace("JOBID", str(JOB))
    assert (controller.job is not None) == ("job" in case)
    if controller.job is not None:
        compare(fields(controller.job), case["job"], tmp_path)
    if "options" in case:
        funnel.run("sbatch", ["-vv", "--hold", *words])
        assert options(plain(capsys.readouterr().err, tmp_path)) == case["options"]


def compare(record: dict[str, str], measured: dict[str, str | None], folder: Path) -> None:
    """Fails unless the record is a plain job's with what was measured."""
    expected = {name: value for name, value in {**PLAIN, **measured}.items() if value is not None}
    got = {name: plain(value, folder).replace(str(JOB), "%j") for name, value in record.items()}
    for name in {*expected, *got} - NOT_COMPARED:
        assert (name, got.get(name)) == (name, expected.get(name))
