"""Whose job an id is, where real Slurms are among the clusters, and running a real command for them."""

from __future__ import annotations

import os
import sys

from shim.commands import reading
from shim.core.options.to_argv import to_query_argv
from shim.core.routing import HIGHEST_REAL, Route

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Dict, NoReturn

    from shim.control.index.reader import Reader
    from shim.core.routing import Place


def owners(ids: Iterable[int], places: Sequence[Place], program: str) -> Dict[int, Place | None]:
    """The real Slurm whose job each id is; None for ours, and for one that nobody knows where several could have had it.

    By the index, in which our jobs stay for good and those that were submitted through us to a real Slurm are noted; an id
    that it does not know is asked for where there are several real Slurms.
    """
    by_name = {place.name: place for place in places}
    reader = reading.open_index(program)
    found: Dict[int, Place | None] = {}
    unknown = []
    for job_id in dict.fromkeys(ids):
        if _ours(reader, job_id):
            found[job_id] = None
            continue
        place = by_name.get(_noted(reader, job_id)) or (places[0] if len(places) == 1 else None)
        found[job_id] = place
        if place is None:
            unknown.append(job_id)
    for job_id in unknown:
        found[job_id] = _who_knows(job_id, places)
    return found


def all_ours(ids: Iterable[int], program: str) -> bool:
    """Whether all of these (there are some) are jobs of ours, so that no real Slurm need be asked about them."""
    reader = reading.open_index(program)
    named = list(ids)
    return bool(named) and all(_ours(reader, job_id) for job_id in named)


def _ours(reader: Reader | None, job_id: int) -> bool:
    return job_id > HIGHEST_REAL or (reader is not None and reader.job(None, job_id) is not None)


def _noted(reader: Reader | None, job_id: int) -> str:
    """The cluster of the newest job with this id that was submitted through us to a real Slurm; "" for none."""
    rows = reader.passed_jobs((job_id,)) if reader is not None else []
    return rows[-1].cluster if rows else ""


def _who_knows(job_id: int, places: Sequence[Place]) -> Place | None:
    from shim.control.backends.slurm.questions import Question, answered

    questions = [
        Question(place, "squeue", ["--noheader", "--states=all", f"--jobs={job_id}", "--format=%A"]) for place in places
    ]
    answered(questions)
    return next((question.place for question in questions if question.code == 0 and question.out.strip()), None)


def become(program: str, place: Place, argv: Sequence[str]) -> NoReturn:
    """Makes this process the real command of that cluster: its ``-M`` is ours to understand."""
    from shim.control.backends.slurm import call

    sys.stdout.flush()
    call.follow(program, _route(program, place, argv))


def run(program: str, place: Place, argv: Sequence[str]) -> int:
    """Runs the real command with our terminal and streams, however long it takes; its exit code."""
    from shim.control.backends.slurm import call

    made = call.made(program, _route(program, place, argv))
    sys.stdout.flush()
    pid = os.posix_spawn(made.path, made.argv, made.environment)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _route(program: str, place: Place, argv: Sequence[str]) -> Route:
    options, words = to_query_argv(program, argv, ("clusters",))
    dropped = [name for name in ("SLURM_CLUSTERS",) if name in os.environ]
    return Route(place, [*options, *words], dropped)
