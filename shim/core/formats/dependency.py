"""Job dependencies: the text of ``--dependency``, and what is left of it as other jobs go on.

``type:job[+minutes][:job…]`` joined by ``,`` (all of them) or ``?`` (any; one ``?`` makes the whole list so), and
``singleton``. A bare job id is ``afterany``. A job that is forgotten counts as satisfied, whatever the type.
"""

from __future__ import annotations

from shim.core.errors import DEPENDENCY_PROBLEM, NOT_SUPPORTED
from shim.core.formats.integers import SPACE, is_number
from shim.core.model import states
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Callable, Optional

    from shim.core.model.job import Job

    # The records of a job (job id, task or None): one (for a task that has no record of its own yet: the array's pending
    # rest), or for a whole array those of its tasks and of its rest. None or empty: unknown.
    Lookup = Callable[[int, Optional[int]], Optional[Sequence[Job]]]

TYPES = ("after", "afterany", "afternotok", "afterok", "aftercorr", "afterburstbuffer", "singleton")

SATISFIED = "satisfied"
WAITING = "waiting"
NEVER = "never"
_MARKS = {WAITING: "(unfulfilled)", NEVER: "(failed)"}


class Condition(Value):
    """One condition on one job. ``failed``: it was found never to come true, and stays so when that job is forgotten."""

    type: str
    job_id: int = 0  # 0: singleton
    task: int | None = None
    whole_array: bool = False  # written as ``12_*``
    minutes: int = 0
    failed: bool = False

    def text(self, whole_array: bool = False) -> str:
        """``afterok:12``, ``afterok:12_3``, ``after:12_*+5``; ``whole_array`` adds the ``_*`` that the user left out."""
        if not self.job_id:
            return self.type
        task = f"_{self.task}" if self.task is not None else "_*" if self.whole_array or whole_array else ""
        delay = f"+{self.minutes}" if self.minutes else ""
        return f"{self.type}:{self.job_id}{task}{delay}"


class Dependency(Value):
    """Conditions of which all (or, ``any_of``, one) must come true."""

    conditions: tuple[Condition, ...]
    any_of: bool = False
    _nested = {"conditions": Condition}

    @classmethod
    def parse(cls, text: str) -> Dependency:
        """Reads what sbatch accepts, and what ``judge`` returned. Conditions that are repeated are kept once.

        Raises ValueError with Slurm's text, for an empty text too (that is no dependency at all).
        """
        conditions: list[Condition] = []
        for word in text.replace("?", ",").split(","):
            conditions.extend(item for item in _conditions(word) if item not in conditions)
        return cls(conditions=tuple(conditions), any_of="?" in text)

    def __str__(self) -> str:
        """The normal form, without what is known about the jobs; ``parse`` reads it back."""
        return self._joiner.join(condition.text() for condition in self.conditions)

    @property
    def _joiner(self) -> str:
        return "?" if self.any_of else ","


def judge(
    dependency: Dependency,
    lookup: Lookup,
    now: float,
    task: int | None = None,
    singleton_blocked: Callable[[], bool] | None = None,
) -> tuple[str, str]:
    """The state (SATISFIED, WAITING, NEVER) and the text of what is left, as squeue's ``%E`` shows it.

    ``task`` is the depending job's own array index: an array with aftercorr is judged once for each of its tasks.
    ``singleton_blocked`` tells whether an earlier job of the
    same user and name is still there. Fulfilled conditions vanish from the text, impossible ones read ``(failed)``.
    """
    verdicts = []
    texts = []
    for condition in dependency.conditions:
        if condition.type == "singleton":
            records: Sequence[Job] = ()
            verdict = WAITING if singleton_blocked is not None and singleton_blocked() else SATISFIED
        else:
            records = _records(condition, lookup, task)
            verdict = NEVER if condition.failed else _verdict(condition, records, now)
        verdicts.append(verdict)
        if verdict != SATISFIED:
            texts.append(condition.text(_is_array(condition, records, lookup)) + _MARKS[verdict])
    if dependency.any_of:
        if SATISFIED in verdicts:
            return SATISFIED, ""
        state = WAITING if WAITING in verdicts else NEVER
    else:
        state = NEVER if NEVER in verdicts else WAITING if WAITING in verdicts else SATISFIED
    return state, "?".join(texts) if dependency.any_of else ",".join(texts)


def unfulfilled(dependency: Dependency, lookup: Lookup) -> str:
    """The text right after submission, before anything was judged: every condition ``(unfulfilled)``."""
    joiner = "?" if dependency.any_of else ","
    return joiner.join(item.text(_is_array(item, (), lookup)) + _MARKS[WAITING] for item in dependency.conditions)


def _records(condition: Condition, lookup: Lookup, task: int | None) -> Sequence[Job]:
    wanted = condition.task
    if condition.type == "aftercorr" and wanted is None:
        # Task by task; a job that is no array, or has no such task, is taken as a whole.
        found = lookup(condition.job_id, task) if task is not None else None
        if found:
            return found
    return lookup(condition.job_id, wanted) or ()


def _is_array(condition: Condition, records: Sequence[Job], lookup: Lookup) -> bool:
    if condition.whole_array or condition.task is not None or not condition.job_id:
        return False
    return any(job.array_job_id for job in records or lookup(condition.job_id, None) or ())


def _verdict(condition: Condition, records: Sequence[Job], now: float) -> str:
    if not records:
        return SATISFIED
    if condition.type == "after":
        return SATISFIED if all(_has_started(job, condition.minutes, now) for job in records) else WAITING
    if not all(job.state in states.TERMINAL for job in records):
        return WAITING
    all_ok = all(job.state == states.COMPLETED for job in records)
    if condition.type in ("afterok", "aftercorr"):
        return SATISFIED if all_ok else NEVER
    if condition.type == "afternotok":
        return NEVER if all_ok else SATISFIED
    return SATISFIED


def _has_started(job: Job, minutes: int, now: float) -> bool:
    """Started ``minutes`` ago, or ended without a start (cancelled)."""
    if job.state == states.PENDING:
        return False
    never_ran = job.state in states.TERMINAL and not job.start_time
    return never_ran or now >= job.start_time + 60 * minutes


def _conditions(word: str) -> list[Condition]:
    """The conditions of one list entry: ``afterok:12:13`` is two; a delay holds for the jobs behind it too."""
    failed = word.endswith(_MARKS[NEVER])
    for mark in _MARKS.values():
        if word.endswith(mark):
            word = word[: -len(mark)]
    kind, colon, rest = word.partition(":")
    kind = kind.lower()
    if kind == "singleton" and not colon:
        return [Condition(type=kind)]
    if not colon:
        kind, rest = "afterany", word
    if kind == "expand":
        raise ValueError(NOT_SUPPORTED)
    if kind not in TYPES or kind == "singleton":
        raise ValueError(DEPENDENCY_PROBLEM)
    conditions = []
    minutes = 0
    for target in rest.split(":"):
        job_text, plus, delay = target.partition("+")
        if plus and not colon:
            raise ValueError(DEPENDENCY_PROBLEM)  # a bare job id has no type that could wait
        minutes = _number(delay) if plus else minutes
        id_text, underscore, task_text = job_text.partition("_")
        if not colon and not id_text[:1].isdigit():
            raise ValueError(DEPENDENCY_PROBLEM)
        job_id = _job_id(id_text.lstrip(SPACE))
        if not job_id:
            raise ValueError(DEPENDENCY_PROBLEM)
        conditions.append(
            Condition(
                type=kind,
                job_id=job_id,
                task=_number(task_text or "0") if underscore and task_text != "*" else None,
                whole_array=task_text == "*",
                minutes=minutes,
                failed=failed,
            )
        )
    return conditions


def _job_id(text: str) -> int:
    """A number as C reads it, its sign and all, cut to the 32 bits of a job id."""
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not is_number(digits):
        raise ValueError(DEPENDENCY_PROBLEM)
    return int(sign + digits) & 0xFFFFFFFF


def _number(digits: str) -> int:
    if not is_number(digits, 10):
        raise ValueError(DEPENDENCY_PROBLEM)
    return int(digits)
