"""The order of squeue's lines: ``-S`` letters, a minus in front reverses. Default: partition, state, priority descending."""

from __future__ import annotations

from shim.core.model import states
from shim.core.render import job_facts as facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.core.model.job import Job
    from shim.core.render.view import View

    Key = Callable[[Job], Any]

DEFAULT = "P,t,-p"
DEFAULT_START = "S"  # of squeue --start
_FAR = float("inf")
_STATE_ORDER = {
    state: number
    for number, state in enumerate(
        (
            states.PENDING,
            states.RUNNING,
            states.SUSPENDED,
            states.COMPLETED,
            states.CANCELLED,
            states.FAILED,
            states.TIMEOUT,
            states.NODE_FAIL,
            states.PREEMPTED,
            states.BOOT_FAIL,
            states.DEADLINE,
            states.OUT_OF_MEMORY,
            states.CONFIGURING,
            states.COMPLETING,
        )
    )
}


def _state(job: Job) -> int:
    return _STATE_ORDER.get(job.shown_state, len(_STATE_ORDER))  # SPECIAL_EXIT, for one, comes last


def _job_id(job: Job) -> tuple[int, int]:
    task = job.array_task_id
    return job.array_job_id or job.job_id, -1 if task is None else task


def _keys(view_of: Callable[[Job], View]) -> dict[str, Key]:
    from shim.core.render.job_fields import LETTERS

    found: dict[str, Key] = {
        letter: lambda job, show=show: show(job, view_of(job))  # type: ignore[misc]
        for letter, (_, show) in LETTERS.items()
        if letter in "abfgjknqrsuvwxzEHIJNOPRWXZ"
    }
    found.update(
        {
            "i": _job_id,
            "A": lambda job: job.job_id,
            "F": lambda job: job.array_job_id or job.job_id,
            "K": lambda job: -1 if job.array_task_id is None else job.array_task_id,
            "t": _state,
            "T": _state,
            "p": lambda job: job.priority,
            "Q": lambda job: job.priority,
            "S": lambda job: job.start_time or _FAR,
            "e": lambda job: facts.end_time(job, view_of(job)) or _FAR,
            "V": lambda job: job.submit_time,
            "M": lambda job: facts.time_used(job, view_of(job).now),
            "l": lambda job: facts.time_limit(job, view_of(job)) % (1 << 32),
            "L": lambda job: (
                facts.time_limit(job, view_of(job)) % (1 << 32) * 60 - facts.time_used(job, view_of(job).now)
            ),
            "D": lambda job: job.nodes,
            "C": lambda job: job.cpus,
            "c": lambda job: facts.min_cpus_per_node(job),
            "m": lambda job: facts.min_memory(job, view_of(job))[0],
            "d": lambda job: job.request.tmp_disk or 0,
            "y": lambda job: job.request.nice,
            "U": lambda job: job.uid,
            "G": lambda job: job.gid,
        }
    )
    return found


def ordered(jobs: list[Job], text: str, view_of: Callable[[Job], View]) -> list[Job]:
    """``jobs`` by the letters of ``text``, the first one counting most; letters that mean nothing are left out."""
    if text == DEFAULT:
        return sorted(jobs, key=_usual)
    keys = _keys(view_of)
    found = list(jobs)
    for letter, reverse in reversed(letters(text)):
        key = keys.get(letter)
        if key is not None:
            found.sort(key=key, reverse=reverse)
    return found


def _usual(job: Job) -> tuple[str, int, int, int]:
    """The default order. Of held jobs, which all have priority 0, the newest comes first, as it does on Slurm."""
    held = not job.priority and job.state == states.PENDING and job.array_task_id is None
    return job.partition, _state(job), -job.priority, -job.job_id if held else 0


def letters(text: str, extra: str = "") -> list[tuple[str, bool]]:
    """The letters (and ``extra`` characters) of a ``-S`` text with whether each is reversed: ``-p,i``, ``-pi``."""
    found = []
    sign = ""
    for character in text:
        if character in "+-":
            sign = character
        elif character.isalpha() or character in extra:
            found.append((character, sign == "-"))
            sign = ""
    return found
