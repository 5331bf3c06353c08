"""What would become of a submission on a cluster, without submitting it: for `shim check`, `shim explain` and `shim init`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence

from shim.admin import script_commands, script_steps
from shim.commands.sbatch import missing_folders
from shim.control import site
from shim.control.backends.slurm import programs
from shim.control.groups import names_of, user_name
from shim.core import script
from shim.core.admission import elastic, feasibility, partition_rules, refusals
from shim.core.errors import ShimError, Unsupported, submission_failed
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.options import value_parsing, values
from shim.core.options.batch import settle
from shim.core.options.build import job_request
from shim.core.options.getopt import Option
from shim.core.options.sources import Settings
from shim.core.options.support import approximations, refuse_het, refuse_unsupported
from shim.core.options.validate import Validated, validate
from shim.job import capped
from shim.job.container.tools import refuse_without

Options = Sequence[tuple[Option, str | None]]
Found = Sequence[Options]  # of the command line, for each component
PendingReason = Callable[[JobRequest, Cluster, partition_rules.Access], str | None]


_PATIENCE = 60.0  # seconds for a real Slurm's answer
_NAME = "sbatch: "
FAULTS = ("refused", "waiting", "failing", "unread", "approximated")


class Verdict:
    """The answer to one script.

    ``refused``: the lines that sbatch would print, empty if Slurm would accept it, with its exit ``code``. ``unsupported``: those
    with which only this project refuses it. ``reason``: why an accepted job would wait for ever, None if it can start.
    ``approximated``: a line for each option that does less here. ``warnings``: what sbatch says of a job that it accepts.
    ``folderless``: what it says of output whose folder is not there, seen from the present directory.
    ``requests``: what it would ask for, one for each component. ``failing``: lines of its body that would be refused when they run:
    by themselves, and steps for which the job has no room.
    ``unread``: lines that look like directives and are none.
    """

    def __init__(self) -> None:
        self.refused: tuple[str, ...] = ()
        self.code = 0
        self.unsupported: tuple[str, ...] = ()
        self.reason: str | None = None
        self.approximated: list[str] = []
        self.warnings: list[str] = []
        self.folderless: list[str] = []
        self.failing: list[str] = []
        self.unread: list[str] = []
        self.requests: list[JobRequest] = []

    @property
    def accepted(self) -> bool:
        """Whether the job would be submitted here."""
        return not self.refused and not self.unsupported

    @property
    def faults(self) -> set[str]:
        """What there is to find fault with: of ``FAULTS`` those that it has."""
        found = {
            "refused": not self.accepted,
            "waiting": self.accepted and self.reason is not None,
            "failing": bool(self.failing),
            "unread": bool(self.unread),
            "approximated": bool(self.approximated),
        }
        return {name for name, there in found.items() if there}


def require_nodes(cluster: Cluster) -> Cluster:
    """The cluster. Raises ShimError if its nodes are unknown: no job could be judged."""
    if cluster.backend == "kubernetes" and not cluster.nodes:
        raise ShimError(f"error: cluster {cluster.name} has not told its nodes; shim doctor says why")
    return cluster


def read_script(name: str) -> str:
    """The script's text. ShimError as sbatch has it for what is no script."""
    try:
        data = capped.start_of(name)
    except OSError:
        raise ShimError(f"error: Unable to open file {name}") from None
    script.check(data)
    return script.text_of(data)


def judge(
    words: Sequence[str],
    cluster: Cluster,
    found: Found = ((),),
    text: str | None = None,
    pending_reason: PendingReason = feasibility.pending_reason,
) -> Verdict:
    """The verdict on the script ``words[0]`` with its arguments, for a command line with the options ``found``. ``text``: the script's,
    where it was read already: a pipe (``<(…)``) can be read once. ``pending_reason``: as ``feasibility`` has it, for who judges many scripts.

    Of a heterogeneous job the first component that is refused decides; so does the first that would wait for ever.
    """
    verdict = Verdict()
    if cluster.backend == "slurm":
        code, said = _ask_slurm(_written(found), words, cluster, text)
        if code:
            verdict.refused, verdict.code = tuple(said), code
        else:
            verdict.warnings = said
        return verdict
    try:
        _judge_here(verdict, words, cluster, found, read_script(words[0]) if text is None else text, pending_reason)
    except value_parsing.PrintAndExit:
        verdict.refused = ("error: help was asked for: a text is printed and nothing is submitted",)
    except Unsupported as problem:
        verdict.unsupported = problem.lines
    except ShimError as problem:
        verdict.refused, verdict.code = problem.lines, problem.code
    return verdict


def _judge_here(
    verdict: Verdict, words: Sequence[str], cluster: Cluster, found: Found, text: str, pending_reason: PendingReason
) -> None:
    """As ``judge``, for a cluster of ours. Raises what refuses the script."""
    verdict.unread = [
        f"line {number} is no directive, {why}: {line}" for number, line, why in script.unread_directives(text)
    ]
    verdict.failing, less = script_commands.verdicts(text, cluster.backend)
    verdict.approximated += less
    components = _settled(words, found, verdict.warnings, text)
    for settings in components:
        verdict.approximated += approximations(settings, cluster.backend)
        verdict.unsupported = verdict.unsupported or _unsupported(settings, cluster)
    verdict.unsupported = verdict.unsupported or _unsupported_together(components, cluster)
    requests, notes = _adapted([request_of(settings, words) for settings in components], cluster)
    verdict.requests, cluster = requests, elastic.grown(cluster, requests)
    verdict.warnings += notes
    _check_requests(verdict, requests, cluster, pending_reason)
    verdict.folderless = missing_folders(requests)
    if len(requests) == 1 and verdict.accepted and verdict.reason is None:
        verdict.failing += script_steps.failing(text, requests[0], cluster)
        verdict.failing.sort(key=lambda line: int(line.split(":")[0].split()[1]))


def _check_requests(
    verdict: Verdict, requests: list[JobRequest], cluster: Cluster, pending_reason: PendingReason
) -> None:
    """Raises ShimError for a request that is refused; notes what one that is accepted would wait for."""
    refusals.check_components(requests)
    uid = os.getuid()
    operator = partition_rules.is_operator(cluster.operators, uid, user_name(uid), uid)
    access = partition_rules.Access(uid, lambda: names_of(uid), os.uname().nodename)
    now = int(time.time())
    for request in requests:
        refusals.check_request(request, cluster, uid, now, access.groups, operator=operator, host=access.host)
        verdict.reason = verdict.reason or pending_reason(request, cluster, access)
        if cluster.backend == "kubernetes" and not verdict.unsupported:
            verdict.warnings += _of_pods(request, cluster)


def _adapted(requests: list[JobRequest], cluster: Cluster) -> tuple[list[JobRequest], list[str]]:
    """As ``elastic.adapted``. Raises Unsupported: a real Slurm would not refuse these requests."""
    try:
        return elastic.adapted(requests, cluster)
    except ShimError as problem:
        raise Unsupported(*problem.lines) from None


def requests_of(words: Sequence[str]) -> list[JobRequest]:
    """What the script asks for, one request for each component. ShimError as sbatch has it for what Slurm's client refuses."""
    return [request_of(settings, words) for settings in _settled(words, ((),), [])]


def _settled(words: Sequence[str], found: Found, warnings: list[str], text: str | None = None) -> list[Validated]:
    def component(settings: Settings) -> Validated:
        validated, notes = validate(settings)
        warnings.extend(notes)
        return validated

    return settle(
        values.Context(time.time(), os.getuid(), capped.text, site.grammar(), say=warnings.append),
        found,
        os.environ,
        read_script(words[0]) if text is None else text,
        os.path.basename(words[0]),
        component,
    )


def _of_pods(request: JobRequest, cluster: Cluster) -> list[str]:
    """The warnings for the pods of this job. Raises Unsupported if the pods could not be created."""
    from shim.control.backends.base import BackendError
    from shim.control.backends.kubernetes.settings import settings_of
    from shim.control.backends.kubernetes.submit import submit_checks

    partition = next(iter(partition_rules.partitions_of(request, cluster)), None)
    job = Job(job_id=0, request=request, partition=partition.name if partition is not None else "")
    try:
        return submit_checks.check_asked(job, settings_of(cluster, job.partition))
    except BackendError as problem:
        raise Unsupported(*submission_failed("batch", str(problem)).lines) from None


def _written(found: Found) -> list[str]:
    """The options as a command line has them, with a colon between components."""
    line: list[str] = []
    for part in found:
        line += [":"] if part is not found[0] else []
        line += [f"--{option.long}" + ("" if value is None else f"={value}") for option, value in part]
    return line


def request_of(settings: Validated, words: Sequence[str]) -> JobRequest:
    """What sbatch would ask for, submitted from the present directory."""
    return job_request(
        settings,
        directory=os.getcwd(),
        umask=0o022,
        name=os.path.basename(words[0]),
        command=os.path.abspath(words[0]),
        arguments=words[1:],
    )


def _unsupported(settings: Settings, cluster: Cluster) -> tuple[str, ...]:
    try:
        refuse_unsupported(settings, cluster.backend)
        refuse_without(settings, cluster.backend)
    except Unsupported as problem:
        return problem.lines
    return ()


def _unsupported_together(components: Sequence[Settings], cluster: Cluster) -> tuple[str, ...]:
    try:
        refuse_het(len(components), cluster.backend)
    except Unsupported as problem:
        return problem.lines
    return ()


def _ask_slurm(
    options: Sequence[str], words: Sequence[str], cluster: Cluster, text: str | None
) -> tuple[int, list[str]]:
    """Exit code and lines (as after ``sbatch: ``) of a trial submission of ``words``: script, arguments. ``text``: the script's, if known.

    ShimError if the cluster could not be asked.
    """
    folder, conf = cluster.settings.get("bin", ""), cluster.settings.get("conf", "")
    path, _kind = programs.find("sbatch", folder, os.environ.get("PATH", ""))
    given = None if os.path.isfile(words[0]) else text  # a pipe was read by now
    environ = {**os.environ, "SLURM_CONF": conf} if conf else dict(os.environ)
    try:
        done = subprocess.run(
            [path, "--test-only", *options, words[0] if given is None else "/dev/stdin", *words[1:]],
            env=environ,
            input=given or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="surrogateescape",
            timeout=_PATIENCE,
            check=False,
        )
    except OSError as error:
        raise ShimError(f"error: {path}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ShimError(f"error: cluster {cluster.name} did not answer within {_PATIENCE:.0f} s") from None
    lines = [line.removeprefix(_NAME) if line.startswith(_NAME) else "\0" + line for line in done.stdout.splitlines()]
    return done.returncode, lines
