"""What an operator of another account would have read in the index, had they been let into the folder: asked question by question.

The questions are those of the index's ``Reader``, whose answers are records of jobs and steps as listings show them. Scripts, environments, tokens
and orders are in none of them. They are answered beside the event loop, by a connection that cannot write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim.control.controller.connection import Connection
from shim.control.index.query import JobQuery
from shim.control.index.reader import Reader, open_reader
from shim.control.threads import aside
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job

AT_ONCE = 200  # jobs in one message: what is sent with them waits no longer than that

Asked = dict[str, Any]


async def look(path: str, connection: Connection, message: Asked) -> Asked:
    """Answers one question about the index at ``path``."""
    question = QUESTIONS.get(message["question"])
    if question is None:
        raise ShimError(f"error: malformed message for look: question: there is none such: {message['question']}")
    answer = await aside(_answered, path, question, message)
    if message["question"] in _OF_JOBS:
        for begin in range(0, len(answer), AT_ONCE):
            await connection.send({"event": "jobs", "jobs": answer[begin : begin + AT_ONCE]})
        answer = None
    return {"answer": answer}


def _answered(path: str, question: Callable[[Reader, Asked], Any], asked: Asked) -> Any:
    reader = open_reader(path)
    if reader is None:
        raise ShimError("error: there is no index")
    try:
        return question(reader, asked)
    finally:
        reader.close()


def _needed(asked: Asked, name: str) -> Any:
    if asked.get(name) is None:
        raise ShimError(f"error: malformed message for look: {name}: it is missing")
    return asked[name]


def _jobs(reader: Reader, asked: Asked) -> Any:
    return [shown(job) for job in reader.jobs(JobQuery.from_dict(_needed(asked, "query")))]


def _array(reader: Reader, asked: Asked) -> Any:
    return [shown(job) for job in reader.array(_needed(asked, "cluster"), _needed(asked, "job_id"))]


def _job(reader: Reader, asked: Asked) -> Any:
    found = reader.job(asked.get("cluster"), _needed(asked, "job_id"))
    return shown(found) if found is not None else None


def _steps(reader: Reader, asked: Asked) -> Any:
    found = reader.steps_of(_runs(asked), running=bool(asked.get("running")), every_run=bool(asked.get("every_run")))
    return [[job.key, step.to_dict()] for job, step in found]


def _step(reader: Reader, asked: Asked) -> Any:
    found = [reader.step(job, _needed(asked, "step")) for job in _runs(asked)]
    return found[0].to_dict() if found and found[0] is not None else None


def _runs(asked: Asked) -> list[Job]:
    """As far as the index looks at them: their keys and restart counts."""
    return [Job(job_id=0, key=one[0], restarts=one[1]) for one in _needed(asked, "runs") if len(one) == 2]


def _transitions(reader: Reader, asked: Asked) -> Any:
    return list(reader.transitions([job.key for job in _runs(asked)]).items())


def _cluster(reader: Reader, asked: Asked) -> Any:
    found = reader.cluster(_needed(asked, "cluster"))
    return shown_cluster(found).to_dict() if found is not None else None


def shown(job: Job) -> dict[str, Any]:
    """The record of a job without the variables that its submitter set for it: no listing shows those."""
    return job.replace(request=job.request.replace(export=None)).to_dict()


def shown_cluster(cluster: Cluster) -> Cluster:
    """The cluster without the words that only its backend acts on: namespaces, images, accounts, mounts."""
    settings = {word: value for word, value in cluster.settings.items() if word in _SHOWN}
    return cluster.replace(settings=settings, partitions=tuple(one.replace(settings={}) for one in cluster.partitions))


_SHOWN = ("share", "slurm_version", "timeout")
_OF_JOBS = ("jobs", "array")
QUESTIONS: dict[str, Callable[[Reader, Asked], Any]] = {
    "jobs": _jobs,
    "array": _array,
    "job": _job,
    "steps": _steps,
    "step": _step,
    "transitions": _transitions,
    "cluster": _cluster,
    "changes": lambda reader, asked: reader.changes(_needed(asked, "cluster")),
    "spans": lambda reader, asked: reader.spans(_needed(asked, "since"), gpus=bool(asked.get("gpus"))),
    "labels": lambda reader, asked: reader.labels(),
    "first_submission": lambda reader, asked: reader.first_submission(_needed(asked, "cluster")),
    "active": lambda reader, asked: reader.active(),
    "generation": lambda reader, asked: reader.generation(),
    "last_job_id": lambda reader, asked: reader.last_job_id(_needed(asked, "first"), _needed(asked, "end")),
    "pruned": lambda reader, asked: reader.pruned(),
    "troubles": lambda reader, asked: reader.troubles(),
}
