"""Whether the job that a batch script asks for has room for the steps that its srun lines ask for, each of them alone.

The job is placed on idle nodes as the scheduler would, and each line is read with the variables that the script would have. What only the
run can tell is not judged: words with other variables, lines for other jobs, scripts that set SLURM_* themselves.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence

from shim.admin.script_commands import Line, commands
from shim.control import site
from shim.control.lifecycle import running
from shim.control.lifecycle.submission import Submitter, submitted
from shim.core.admission import feasibility, partition_rules
from shim.core.environ.job import batch_environment
from shim.core.errors import ShimError, no_step
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.options import srun_salloc, value_parsing, values
from shim.core.options.build import check_step, step_request
from shim.core.options.sources import read_line
from shim.core.placement.select_nodes import select_nodes
from shim.core.placement.step_values import ShareUse, StepError
from shim.core.placement.steps import step_layout

_OWN = re.compile(r"\b(SLURM_\w+=|unset\s+[^;\n]*SLURM_)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_ELSEWHERE = ("jobid", "clusters", "test-only", "multi-prog", "help", "usage", "version")


def failing(text: str, request: JobRequest, cluster: Cluster) -> list[str]:
    """The errors of srun lines for which the job would have no room, each with ``line 7: srun: `` in front."""
    if _OWN.search(text):
        return []
    job = granted(request, cluster)
    if job is None:
        return []
    environ = batch_environment(job, cluster)
    found = []
    for line in commands(text):
        problem = _problem(line, job, cluster, environ) if line.program == "srun" else ""
        if problem:
            found.append(f"line {line.number}: srun: {problem}")
    return found


def granted(request: JobRequest, cluster: Cluster) -> Job | None:
    """The job as it would run in the first of its partitions that has room for it; None if none has."""
    now = time.time()
    request = request.replace(array=None, hold=False, begin=0, dependency=None)
    job = submitted(request, cluster, Submitter(uid=os.getuid()), 1, now)
    for partition in partition_rules.partitions_of(job.request, cluster):
        nodes = feasibility.idle_nodes(feasibility.usable_nodes(job.request, cluster, partition))
        shares = select_nodes(job.request, cluster, nodes, partition)
        if shares is not None:
            return running.starting(job, shares, cluster, partition.name, now)
    return None


def _problem(line: Line, job: Job, cluster: Cluster, environ: Mapping[str, str]) -> str:
    """Why the step would be refused, or would wait for ever; "" if it would not, or nobody can know."""
    grammar = site.grammar()
    try:
        words = _options(line.words[1:], environ)
        if words is None or any(option.field in _ELSEWHERE for option, _ in read_line("srun", words, grammar)[0]):
            return ""
        context = values.Context(time.time(), os.getuid(), lambda _path: "", grammar)
        components = srun_salloc.settle("srun", words, environ, context)
        if len(components) > 1:
            return ""
        step = step_request(components[0].settings, components[0].words)
        check_step(step)
    except (ShimError, value_parsing.PrintAndExit):
        return ""  # that is told of every such line, whatever its job has
    features = {node.name: node.features for node in cluster.nodes}
    try:
        step_layout(step, job, [ShareUse()] * len(job.shares), features)
    except StepError as error:
        return "; ".join(_plain(error, job))
    return ""


def _plain(error: StepError, job: Job) -> Iterator[str]:
    for one in error.lines:
        yield one.replace(no_step(job.job_id, ""), "").removeprefix("error: ")


def _options(words: Sequence[str], environ: Mapping[str, str]) -> list[str] | None:
    """The options, and a program in place of the one that they are for; None where the value of an option is not known."""
    rest = read_line("srun", words, site.grammar())[1]
    options = [
        _VARIABLE.sub(lambda one: environ.get(one[1] or one[2], one[0]), word)
        for word in words[: len(words) - len(rest)]
    ]
    # A program in a variable may be further options, or none.
    if any("$" in word or "`" in word for word in [*options, *rest[:1]]):
        return None
    return [*options, "true"]
