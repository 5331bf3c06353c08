"""A header of a batch script and what sbatch makes of it: one JSON object a line in ``headers.jsonl``.

What is given: ``script`` (the text of job.sh; absent: no file), ``argv`` (words before the name of the script), ``args``
(words after it), ``env`` (further variables), ``stdin`` (true: the script comes on standard input), ``enforce`` (the
cluster's EnforcePartLimits, if not NO), ``later`` (true: ``--begin=now+1hour`` in place of ``--hold``, because nodes are looked for then;
no record is compared). ``differs``: why the local backend does otherwise by design.

What was measured with ``sbatch --hold``, for a user who is no administrator: ``rc``; ``stderr`` (lines; absent: none);
``stdout`` (absent: the usual line; the number of the job is JOBID); ``options``, the block that -vv prints; ``job``, the
fields of ``scontrol show job`` that differ from a plain job's (null: not there), absent when there is no job. The number of
the job is ``%j`` in it, the working directory ``$PWD``, the user ``$USER``, a time of day ``$TIME``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from compat.normalise import OURS_ALONE

HEADERS = Path(__file__).resolve().parent / "headers.jsonl"
GIVEN = ("script", "argv", "args", "env", "stdin", "enforce", "later", "differs")
MEASURED = ("rc", "stderr", "stdout", "options", "job")
USUAL_ANSWER = "Submitted batch job JOBID"
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
# Times, and what belongs to the place and not to the header; a dependency's text changes with the first look at it.
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
_FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z:/_]*)=")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\b")
# Which plugins a client loads is its build's business.
_PLUGINS = re.compile(r"^sbatch: select/\S+: (common_)?init: .* loaded.*\n", re.MULTILINE)
_BLOCK = re.compile(r"defined options\n.*?\n(.*?)sbatch: -{20} -{20}\n", re.DOTALL)


def read_cases() -> list[dict[str, Any]]:
    """All cases, in order."""
    return [json.loads(line) for line in HEADERS.read_text().splitlines()]


def write_cases(cases: list[dict[str, Any]]) -> None:
    """Keep ``cases``, keys in the order of this module's text."""
    lines = (json.dumps({key: case[key] for key in (*GIVEN, *MEASURED) if key in case}) for case in cases)
    HEADERS.write_text("".join(f"{line}\n" for line in lines))


def waits(case: dict[str, Any]) -> str:
    """The option that keeps the job from starting."""
    return "--begin=now+1hour" if case.get("later") else "--hold"


def words(case: dict[str, Any]) -> list[str]:
    """What follows ``sbatch`` and the option of ``waits``."""
    name = ["job.sh"] if "script" in case and not case.get("stdin") else []
    return [*case.get("argv", ()), *name, *case.get("args", ())]


def measured(
    places: tuple[str, str], code: int, out: str, err: str, verbose: str, record: str | None, job_id: str
) -> dict[str, Any]:
    """What was seen, in the form of a case.

    ``places``: the working directory and the user's name. ``verbose``: stderr of the call with -vv. ``record``: scontrol's
    one line.
    """
    seen: dict[str, Any] = {"rc": code}
    lines = re.sub(rf"(?m)^{OURS_ALONE}\n", "", _PLUGINS.sub("", _plain(err, places))).splitlines()
    if lines:
        seen["stderr"] = lines
    answer = re.sub(r"\d+", "JOBID", out.strip(), count=1)
    if code == 0 and answer != USUAL_ANSWER:
        seen["stdout"] = answer
    defined = _options(_plain(verbose, places))
    if defined is not None:
        seen["options"] = defined
    if record is not None:
        fields = {name: _plain(value, places).replace(job_id, "%j") for name, value in _fields(record).items()}
        names = sorted({*fields, *PLAIN} - NOT_COMPARED)
        seen["job"] = {name: fields.get(name) for name in names if fields.get(name) != PLAIN.get(name)}
    return seen


def differences(case: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    """A line for each thing that was not as measured."""
    found = []
    for key in MEASURED:
        expected, got = case.get(key), seen.get(key)
        if isinstance(expected, dict) and isinstance(got, dict):
            names = sorted({*expected, *got})
            differing = [name for name in names if expected.get(name, "-") != got.get(name, "-")]
            found += [f"{key} {name}: {expected.get(name, '-')!r} here {got.get(name, '-')!r}" for name in differing]
        elif expected != got:
            found.append(f"{key}: {expected!r} here {got!r}")
    return found


def _plain(text: str, places: tuple[str, str]) -> str:
    folder, user = places
    return _TIME.sub("$TIME", text.replace(folder, "$PWD").replace(user, "$USER"))


def _fields(record: str) -> dict[str, str]:
    text = record.rstrip()
    found = list(_FIELD.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)]
    return {one.group(1): text[one.end() : end].rstrip() for one, end in zip(found, ends)}


def _options(stderr: str) -> dict[str, str] | None:
    """The block that -vv prints, less what the call added; None when there is none."""
    block = _BLOCK.search(stderr)
    if block is None:
        return None
    lines = (line.removeprefix("sbatch: ").partition(": ") for line in block.group(1).splitlines())
    found = {name.rstrip(): value for name, _, value in lines}
    return {name: value for name, value in found.items() if name not in ("hold", "verbose")}
