"""Queries to the real Slurms among the clusters, for commands that cover all clusters; finds the cluster of a job id; runs real commands."""

from __future__ import annotations

import os
import sys

from shim.commands import output, site_view
from shim.core.errors import INVALID_JOB_ID, ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Dict, List, NoReturn

    from shim.commands.job_ids import JobId
    from shim.control.backends.slurm.questions import Question
    from shim.control.index.reader import Reader
    from shim.core.routing import ClusterRef, Route

_NO_ACCOUNTING = b"accounting storage is disabled"  # a site without has nothing that could be missing


def clusters_to_ask(names: Sequence[str], ids: Sequence[JobId], program: str) -> list[ClusterRef]:
    """The real Slurms that a listing of these clusters (of all for none) asks: none about jobs that are all ours."""
    found = site_view.real_clusters(names)
    if found and ids and not names and all_ours([one.job_id for one in ids], program):
        return []
    return found


class ClusterQuery:
    """One command line, sent to several real Slurms at the same time.

    ``header``: the first answer brings headers along; ``each``: every one does. ``dated``: a line with the date stands before them.
    """

    def __init__(
        self,
        program: str,
        argv: Sequence[str],
        refs: Sequence[ClusterRef],
        *,
        header: bool,
        each: bool = False,
        dated: bool = False,
    ) -> None:
        from shim.control.backends.slurm.questions import Question
        from shim.core.options.to_argv import to_query_argv

        options, words = to_query_argv(program, argv, ("clusters", "iterate", "noheader", "allclusters"))
        self.program = program
        self.dated = {ref.name for ref, headed in zip(refs, _headed(refs, header, each)) if headed and dated}
        self.questions = [
            Question(ref, program, [*options, *(() if headed else ("--noheader",)), *words])
            for ref, headed in zip(refs, _headed(refs, header, each))
        ]

    def wait(self) -> None:
        """Returns when all have answered, or their time is over."""
        from shim.control.backends.slurm.questions import answered

        sys.stdout.flush()
        answered(self.questions)

    def of(self, name: str) -> Question | None:
        """The question to that cluster; None if the cluster is not a real Slurm."""
        return next((question for question in self.questions if question.ref.name == name), None)

    def put(self, question: Question, prefix: str = "") -> int:
        """Prints an answer, each line after ``prefix``; the exit code for the answer."""
        lines = _text(question.out).split("\n")
        output.put(
            [prefix + line for line in lines[1 if question.ref.name in self.dated else 0 : -1]]
            + [line for line in lines[-1:] if line]
        )
        return self.complain(question)

    def complain(self, question: Question) -> int:
        """Prints the cluster's errors on stderr; the exit code for the answer."""
        name = question.ref.name
        lines = [_named(self.program, name, line) for line in _text(question.err).split("\n") if line]
        if question.problem:
            lines.append(f"error: {name}: {question.problem}")
        if lines:
            sys.stdout.flush()
            output.say(self.program, *lines)
        return 1 if question.code != 0 and _NO_ACCOUNTING not in question.err else 0


def _headed(refs: Sequence[ClusterRef], header: bool, each: bool) -> List[bool]:
    """For each cluster whether its answer has headers."""
    return [header and (each or number == 0) for number in range(len(refs))]


def keeps_no_accounting(question: Question) -> bool:
    """Whether the cluster answered that it keeps no accounting."""
    return _NO_ACCOUNTING in question.err


def print_answers(
    asked: ClusterQuery,
    own: ShimError | None,
    *,
    found: bool,
    instead: Callable[[Question], int | None] = lambda question: None,
) -> int:
    """Prints the answers of a listing of all clusters; the exit code. An unknown job is no error if another cluster has the job.

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
        code = output.say_error(asked.program, own)
    elif unknown and not found:
        code = asked.complain(unknown[0])
    return code


def run_all(program: str, questions: Sequence[Question]) -> int:
    """Prints what several real commands have said, errors with their cluster's name; the exit code."""
    asked = ClusterQuery(program, [], [], header=False)
    asked.questions = list(questions)
    asked.wait()
    code = 0
    for question in asked.questions:
        failed = asked.put(question)
        code = code or (question.code or failed)
    return code


def print_by_cluster(
    program: str,
    clusters: Sequence[str],
    asked: ClusterQuery | None,
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
            output.put([*([""] if place else []), f"CLUSTER: {name}"])
        question = asked.of(name) if asked is not None else None
        if asked is not None and question is not None:
            code = asked.put(question, prefix(name)) or code
            continue
        try:
            put(name)
        except ShimError as error:
            if len(clusters) == 1:
                raise
            code = output.say_error(program, error)
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


def owners_of(ids: Iterable[int], refs: Sequence[ClusterRef], program: str) -> Dict[int, ClusterRef | None]:
    """For each id the real Slurm that has the job. None: the job is ours, or no one of several real Slurms knows the id.

    By the index, in which our jobs stay for good and those that were submitted through us to a real Slurm are noted; an id
    that it does not know is asked for where there are several real Slurms.
    """
    by_name = {ref.name: ref for ref in refs}
    reader = site_view.open_index(program)
    found: Dict[int, ClusterRef | None] = {}
    unknown = []
    for job_id in dict.fromkeys(ids):
        if _ours(reader, job_id):
            found[job_id] = None
            continue
        ref = by_name.get(_noted(reader, job_id)) or (refs[0] if len(refs) == 1 else None)
        found[job_id] = ref
        if ref is None:
            unknown.append(job_id)
    for job_id in unknown:
        found[job_id] = _who_knows(job_id, refs)
    return found


def all_ours(ids: Iterable[int], program: str) -> bool:
    """Whether all of these (there are some) are jobs of ours, so that no real Slurm need be asked about them."""
    reader = site_view.open_index(program)
    named = list(ids)
    return bool(named) and all(_ours(reader, job_id) for job_id in named)


def _ours(reader: Reader | None, job_id: int) -> bool:
    from shim.core.routing import HIGHEST_REAL

    return job_id > HIGHEST_REAL or (reader is not None and reader.job(None, job_id) is not None)


def _noted(reader: Reader | None, job_id: int) -> str:
    """The cluster of the newest job with this id that was submitted through us to a real Slurm; "" for none."""
    rows = reader.passed_jobs((job_id,)) if reader is not None else []
    return rows[-1].cluster if rows else ""


def _who_knows(job_id: int, refs: Sequence[ClusterRef]) -> ClusterRef | None:
    from shim.control.backends.slurm.questions import Question, answered

    questions = [
        Question(ref, "squeue", ["--noheader", "--states=all", f"--jobs={job_id}", "--format=%A"]) for ref in refs
    ]
    answered(questions)
    return next((question.ref for question in questions if question.code == 0 and question.out.strip()), None)


def become(program: str, ref: ClusterRef, argv: Sequence[str]) -> NoReturn:
    """Makes this process the real command of that cluster: its ``-M`` is ours to understand."""
    from shim.control.backends.slurm import call

    sys.stdout.flush()
    call.follow(program, _route(program, ref, argv))


def run(program: str, ref: ClusterRef, argv: Sequence[str]) -> int:
    """Runs the real command with our terminal and streams, however long it takes; its exit code."""
    from shim.control.backends.slurm import call

    made = call.made(program, _route(program, ref, argv))
    sys.stdout.flush()
    pid = os.posix_spawn(made.path, made.argv, made.environment)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _route(program: str, ref: ClusterRef, argv: Sequence[str]) -> Route:
    from shim.core.options.to_argv import to_query_argv
    from shim.core.routing import Route

    options, words = to_query_argv(program, argv, ("clusters",))
    dropped = [name for name in ("SLURM_CLUSTERS",) if name in os.environ]
    return Route(ref, [*options, *words], dropped)
