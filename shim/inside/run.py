"""The run that this pod belongs to: its spec, its job and steps as the journal tells them, orders to its leader."""

from __future__ import annotations

import os
import sys

from shim.core.errors import ShimError
from shim.core.jsonlite import loads
from shim.core.model import states
from shim.core.model.job import Job, Step
from shim.job import rawfile
from shim.job.agent.journal import read_journal
from shim.job.run_folder import JOURNAL
from shim.job.spec import RunSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Line = dict[str, Any]

PATIENCE = 10.0  # seconds that the leader has for an answer
_known: list[RunSpec] = []


def folder() -> str:
    """The run's folder: the caller's own, or (for a shell that was started in the pod from outside) the only one there is."""
    given = os.environ.get("SHIM_RUN_DIR")
    if given:
        return given
    above = os.path.dirname(sys.path[0])  # the code is unpacked beside it
    for name in sorted(os.listdir(above)):
        if os.path.exists(f"{above}/{name}/spec.json"):
            return f"{above}/{name}"
    raise ShimError("error: this pod has no job")


def spec() -> RunSpec:
    """The run's spec."""
    if not _known:
        _known.append(RunSpec.from_dict(loads(rawfile.read(f"{folder()}/spec.json"))))
    return _known[0]


def ask(message: Line) -> list[Line]:
    """What the leader answers, up to the message ``done``. ShimError when there is no leader (any more)."""
    from shim.job import command

    try:
        key = bytes.fromhex(rawfile.read(f"{folder()}/key").decode("ascii"))
        return command.ask(folder(), key, message, PATIENCE)
    except (OSError, ValueError) as error:
        raise _no_leader(str(error)) from None


def _no_leader(why: str) -> ShimError:
    return ShimError(
        "error: Unable to contact slurm controller (connect failure)",
        f"error: the first pod of the job does not answer: {why}",
    )


def journal() -> list[Line]:
    """The run's journal: the file in the leader's pod, elsewhere the leader's answer."""
    path = f"{folder()}/{JOURNAL}"
    if os.path.exists(path):
        return read_journal(path)
    return [answer["line"] for answer in ask({"do": "show"})]


def job_and_steps() -> tuple[Job, list[Step]]:
    """The job as the journal leaves it, and the steps of this run in the order of their start."""
    job = spec().job
    # In here the nodes go by the names that resolve.
    job = job.replace(shares=tuple([share.replace(name=share.host or share.name) for share in job.shares]))
    steps: dict[str, Step] = {}
    for line in journal():
        kind, at = line["kind"], float(line["at"])
        if kind == "started":
            limit = job.time_limit
            end = 0 if limit is None or limit < 0 else at + limit * 60
            job = job.replace(state=states.RUNNING, reason="None", start_time=at, end_time=end, system_comment="")
        elif kind == "step":
            number = str(line["step"])
            steps[number] = Step(
                job_id=job.job_id,
                restart=job.restarts,
                step_id=number,
                name=str(line.get("name") or ""),
                nodes=tuple(line.get("nodes") or ()),
                tasks=int(line.get("tasks") or 1),
                cpus=int(line.get("cpus") or 1),
                start_time=at,
            )
        elif kind == "step-end" and str(line["step"]) in steps:
            number = str(line["step"])
            steps[number] = steps[number].replace(
                state=str(line.get("state")), exit_status=int(line.get("status") or 0), end_time=at
            )
        elif kind == "ending":
            job = job.replace(state=states.COMPLETING, end_time=at)
        elif kind == "ended":
            job = job.replace(
                state=str(line["state"]),
                exit_status=int(line.get("status") or 0),
                reason=str(line.get("reason") or "None"),
                end_time=at,
            )
    return job, list(steps.values())
