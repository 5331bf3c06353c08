"""``shim move JOB CLUSTER``: a pending job goes to another cluster and runs there, once.

To a real Slurm it goes in this order: held here, submitted there held, ended here, released there. Each step can be the last
one of a process that is killed: asked again, ``shim move`` goes on from there. The submission is found by the mark in its
comment, which it has until it is released.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any, TextIO

from shim.control import client, paths, site
from shim.control.backends.slurm.call import made
from shim.control.backends.slurm.questions import Question, answered
from shim.control.index.reader import open_reader
from shim.core.errors import ShimError
from shim.core.model.request import JobRequest
from shim.core.options.to_argv import to_sbatch_argv
from shim.core.routing import ClusterRef, Route


def report(job: str, cluster: str, out: TextIO) -> None:
    """Moves the job and tells what became of it. Raises ShimError where it cannot be moved: then it is where it was."""
    if not job.isascii() or not job.isdigit():
        raise ShimError(f"error: invalid job id {job}: the id of a job or of a whole array is wanted")
    refs = {ref.name: ref for ref in site.cluster_refs()}
    if cluster not in refs:
        raise ShimError(f"error: no cluster {cluster} is configured; there are: {', '.join(refs)}")
    _check_ours(int(job))
    if refs[cluster].real:
        tell(job, _move_out(int(job), refs[cluster]), out)
        return
    client.call("stay", {"job_id": int(job)})  # one on its way to a real Slurm turns back
    tell(job, client.call("move", {"job_id": int(job), "cluster": cluster}), out)


def _check_ours(job_id: int) -> None:
    """ShimError for a job that a real Slurm runs: what it has of the script and the environment is not told."""
    reader = open_reader(paths.index_path())
    if reader is None or reader.job(None, job_id) is not None:
        return
    for job in reader.passed_jobs((job_id,)):
        raise ShimError(
            f"error: job {job_id} is on {job.cluster}, a real Slurm: jobs are moved to one, not away from it",
            f"error: to run it elsewhere, cancel it and submit it again: {job.submit_line}",
        )


def tell(job: str, reply: dict[str, Any], out: TextIO) -> None:
    """Where the job is now, and what it no longer asks for."""
    named = "" if str(reply["job_id"]) == job else f" as job {reply['job_id']}"
    out.write(f"job {job} is on cluster {reply['cluster']}{named}\n")
    for note in reply["notes"]:
        out.write(f"  {note}\n")


def _move_out(job_id: int, ref: ClusterRef) -> dict[str, Any]:
    """Moves the job to a real Slurm; its id there, and what had to be given up. Raises ShimError, and says so if the job is held by then."""
    ticket = client.call("move_out", {"job_id": job_id, "cluster": ref.name})
    if ticket["gone"]:
        if ticket["cluster"] != ref.name:
            raise ShimError(f"error: job {job_id} has gone to {ticket['cluster']} as job {ticket['there']}")
        if _waits_held(ref, ticket["there"]):
            _release(ref, ticket["there"], str(ticket["comment"] or ""), held=ticket["held"])
        return {"job_id": ticket["there"], "cluster": ref.name, "notes": []}
    request = JobRequest.from_dict(ticket["request"])
    notes: list[str] = []
    there = _found(job_id, ref, ticket["mark"]) if ticket["again"] else None
    if there is None:
        there, notes = _submitted(job_id, ref, request, ticket)
    try:
        client.call("moved_out", {"job_id": job_id, "there": there, "mark": ticket["mark"]})
    except client.Unreachable:
        raise
    except ShimError:
        _asked(ref, "scancel", [str(there)])  # it was cancelled here, or somebody else has moved it
        raise
    _release(ref, there, request.comment or "", held=request.hold)
    return {"job_id": there, "cluster": ref.name, "notes": notes}


def _submitted(job_id: int, ref: ClusterRef, request: JobRequest, ticket: dict[str, Any]) -> tuple[int, list[str]]:
    """Submits the job there, held; its id. It stays here if it is refused."""
    partitions = (request.partition or "").split(",")
    notes = []
    if request.partition and ref.partitions and not set(partitions) <= set(ref.partitions):
        notes.append(f"--partition={request.partition}: not on {ref.name}; its default partition is used")
        request = request.replace(partition=None)
    options, given_up = to_sbatch_argv(
        request.replace(hold=True, comment=ticket["mark"], name=request.name or "sbatch")
    )
    notes += [f"{option}: given up, {ref.name} may be too old for it" for option in given_up]
    call = made("sbatch", Route(ref, ["--parsable", *options, "/dev/stdin", *request.arguments]))
    directory = request.extra.get("submit_dir") or request.work_dir
    environment = {**ticket["environment"]}
    for name in ("SLURM_CONF", "SHIM_PASSED"):
        if name in call.environment:
            environment[name] = call.environment[name]
    try:
        done = subprocess.run(
            call.argv,
            executable=call.path,
            env=environment,
            cwd=directory if os.path.isdir(directory) else "/",
            input=ticket["script"],
            capture_output=True,
            timeout=ref.timeout,
            umask=request.umask,
            check=False,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except subprocess.TimeoutExpired:
        raise ShimError(
            f"error: {ref.name}: no answer within {ref.timeout:g} s; job {job_id} is held",
            f"error: once it answers, shim move {job_id} {ref.name} goes on; shim move with the job's own cluster takes it back",
        ) from None
    number = done.stdout.strip().partition(";")[0]
    if done.returncode or not number.isdigit():
        client.call("stay", {"job_id": job_id})
        lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in done.stderr.splitlines() if line]
        raise ShimError(*(f"error: {ref.name}: {line}" for line in lines or [f"sbatch ended with {done.returncode}"]))
    return int(number), notes


def _found(job_id: int, ref: ClusterRef, mark: str) -> int | None:
    """The job there that a process which was killed has submitted; None if it did not come so far."""
    said = _asked(ref, "squeue", ["--noheader", "--format=%F|%k"])
    if said.code != 0:
        why = said.problem or said.err.decode(errors="replace").strip()
        raise ShimError(
            f"error: {ref.name}: {why}", f"error: job {job_id} is held until it can be moved, or taken back"
        )
    for line in said.out.decode("utf-8", "replace").splitlines():
        number, _, comment = line.partition("|")
        if comment.strip() == mark and number.strip().isdigit():
            return int(number)
    return None


def _waits_held(ref: ClusterRef, there: int) -> bool:
    """Whether the job there has not been released yet. ShimError if nobody answers."""
    said = _asked(ref, "squeue", ["--noheader", f"--jobs={there}", "--format=%r"])
    if said.problem:
        raise ShimError(f"error: {ref.name}: {said.problem}")
    return said.out.strip() == b"JobHeldUser"


def _release(ref: ClusterRef, there: int, comment: str, *, held: bool) -> None:
    """The job there gets its own comment, and may start unless it was held."""
    steps = [["update", f"JobId={there}", f"Comment={comment}"]]
    if not held:
        steps.append(["release", str(there)])
    for words in steps:
        said = _asked(ref, "scontrol", words)
        if said.code != 0:
            why = said.problem or said.err.decode(errors="replace").strip()
            raise ShimError(
                f"error: {ref.name}: {why}",
                f"error: job {there} waits there, held: the same command again, or scontrol release {there}",
            )


def _asked(ref: ClusterRef, program: str, argv: Sequence[str]) -> Question:
    question = Question(ref, program, argv)
    answered([question])
    return question
