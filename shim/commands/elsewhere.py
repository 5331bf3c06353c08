"""The real Slurms among the clusters, as commands see them that look through all clusters: asked together, told one by one."""

from __future__ import annotations

import sys

from shim.commands import funnel, reading
from shim.control import site
from shim.core.errors import INVALID_JOB_ID, ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import List

    from shim.commands.job_ids import JobId
    from shim.control.backends.slurm.questions import Question
    from shim.core.routing import Place

_NO_ACCOUNTING = b"accounting storage is disabled"  # a site without has nothing that could be missing


def real(names: Sequence[str] = ()) -> list[Place]:
    """The real Slurms among these clusters, in their order; among all for none."""
    places = {place.name: place for place in site.places()}
    return [places[name] for name in names or places if name in places and places[name].real]


def concerned(names: Sequence[str], ids: Sequence[JobId], program: str) -> list[Place]:
    """The real Slurms that a listing of these clusters (of all for none) asks: none about jobs that are all ours."""
    found = real(names)
    if found and ids and not names:
        from shim.commands.owners import all_ours

        if all_ours([one.job_id for one in ids], program):
            return []
    return found


class Asked:
    """One command line, said to several real Slurms at once.

    ``header``: the first answer brings headers along; ``each``: every one does. ``dated``: a line with the date stands before them.
    """

    def __init__(
        self,
        program: str,
        argv: Sequence[str],
        places: Sequence[Place],
        *,
        header: bool,
        each: bool = False,
        dated: bool = False,
    ) -> None:
        from shim.control.backends.slurm.questions import Question
        from shim.core.options.to_argv import to_query_argv

        options, words = to_query_argv(program, argv, ("clusters", "iterate", "noheader", "allclusters"))
        self.program = program
        self.dated = {place.name for place, headed in zip(places, _headed(places, header, each)) if headed and dated}
        self.questions = [
            Question(place, program, [*options, *(() if headed else ("--noheader",)), *words])
            for place, headed in zip(places, _headed(places, header, each))
        ]

    def wait(self) -> None:
        """Until all have answered, or their time is over."""
        from shim.control.backends.slurm.questions import answered

        sys.stdout.flush()
        answered(self.questions)

    def of(self, name: str) -> Question | None:
        """The question to that cluster; None if it is no real Slurm."""
        return next((question for question in self.questions if question.place.name == name), None)

    def put(self, question: Question, prefix: str = "") -> int:
        """Prints an answer, each line behind ``prefix``; the exit code it stands for."""
        lines = _text(question.out).split("\n")
        reading.put(
            [prefix + line for line in lines[1 if question.place.name in self.dated else 0 : -1]]
            + [line for line in lines[-1:] if line]
        )
        return self.complain(question)

    def complain(self, question: Question) -> int:
        """Says on stderr what went wrong there; the exit code it stands for."""
        name = question.place.name
        lines = [_named(self.program, name, line) for line in _text(question.err).split("\n") if line]
        if question.problem:
            lines.append(f"error: {name}: {question.problem}")
        if lines:
            sys.stdout.flush()
            funnel.say(self.program, *lines)
        return 1 if question.code != 0 and _NO_ACCOUNTING not in question.err else 0


def _headed(places: Sequence[Place], header: bool, each: bool) -> List[bool]:
    """Of which places the answer has headers."""
    return [header and (each or number == 0) for number in range(len(places))]


def keeps_no_accounting(question: Question) -> bool:
    """Whether sacct was told that there is none."""
    return _NO_ACCOUNTING in question.err


def told(
    asked: Asked,
    own: ShimError | None,
    *,
    found: bool,
    instead: Callable[[Question], int | None] = lambda question: None,
) -> int:
    """Prints the answers of a listing of all clusters; the exit code. A job is no mistake where another cluster has it.

    ``own``: what went wrong on our side; ``found``: whether we have the job that was asked for. ``instead``: prints something
    in place of an answer and returns the exit code it stands for, or returns None.
    """
    asked.wait()
    unknown = [question for question in asked.questions if _knows_no_job(question)]
    found = found or any(question.code == 0 for question in asked.questions)
    code = 0
    for question in asked.questions:
        if question not in unknown:
            put = instead(question)
            code = (asked.put(question) if put is None else put) or code
    if own is not None and not found:
        code = reading.told(asked.program, own)
    elif unknown and not found:
        code = asked.complain(unknown[0])
    return code


def put_answers(program: str, questions: Sequence[Question]) -> int:
    """Prints what several real commands have said, errors with their cluster's name; the exit code."""
    asked = Asked(program, [], [], header=False)
    asked.questions = list(questions)
    asked.wait()
    code = 0
    for question in asked.questions:
        failed = asked.put(question)
        code = code or (question.code or failed)
    return code


def titled(
    program: str,
    clusters: Sequence[str],
    asked: Asked | None,
    put: Callable[[str], None],
    *,
    header: bool,
    prefix: Callable[[str], str] = lambda name: "",
) -> int:
    """A table for each of these clusters under its title; the exit code. ``put`` prints that of a cluster of ours.

    A mistake in one of several does not hide the others.
    """
    code = 0
    if asked is not None:
        asked.wait()
    for place, name in enumerate(clusters):
        if header:
            reading.put([*([""] if place else []), f"CLUSTER: {name}"])
        question = asked.of(name) if asked is not None else None
        if asked is not None and question is not None:
            code = asked.put(question, prefix(name)) or code
            continue
        try:
            put(name)
        except ShimError as error:
            if len(clusters) == 1:
                raise
            code = reading.told(program, error)
    return code


def _knows_no_job(question: Question) -> bool:
    return question.code not in (0, None) and INVALID_JOB_ID in _text(question.err)


def _text(data: bytes) -> str:
    return data.decode(sys.getfilesystemencoding(), "surrogateescape")


def _named(program: str, cluster: str, line: str) -> str:
    """A line of a real command's stderr with the cluster's name, without the program's, which stands in front anyway."""
    if line.startswith(f"{program}: "):
        line = line[len(program) + 2 :]
        # What it says of itself (-v) is no error; what it says without its name (slurm_load_jobs error) is one.
        if not line.startswith(("error: ", "fatal: ")):
            return f"{cluster}: {line}"
    for start in ("error: ", "fatal: "):
        if line.startswith(start):
            line = line[len(start) :]
    return f"error: {cluster}: {line}"
