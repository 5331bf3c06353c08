"""sattach: the output of a step that runs, as it comes, and input for its tasks."""

from __future__ import annotations

import os
import sys

from shim.commands import job_leader, output, site_view, verbose_options
from shim.commands.job_ids import JobId, parse_job_id
from shim.core.errors import ALREADY_DONE, INVALID_JOB_ID, ShimError, plain
from shim.core.formats import hostlist
from shim.core.options.query_options import read
from shim.job.wire import STDERR, STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.core.options.query_options import Values

_PROGRAM = "sattach"
_USAGE = "Usage: sattach [options] <jobid.stepid>"


def main(argv: list[str]) -> int:
    """Runs sattach; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ, permute=False)
    if site_view.print_help(_PROGRAM, values):
        return 0
    only = _filters(values)
    wanted = _step(words)
    if len(values.get("verbose", "")) > 1:
        output.say(_PROGRAM, *verbose_options.sattach(values, wanted))
    job_leader.hand_on(_PROGRAM, argv, [wanted.job_id])
    job = job_leader.find(_PROGRAM, wanted) if wanted.job_id else None
    if job is None:
        raise _unknown()
    if not job_leader.runs(job):
        raise _unknown(ALREADY_DONE)
    if wanted.step == "batch" and "layout" not in values:
        raise ShimError("error: a batch script's output is in its file: there is nothing to attach to")
    if "layout" in values:
        return _show_layout(job.job_id, str(wanted.step))
    if not str(wanted.step).isdigit():
        raise _unknown()
    return _attach(job.job_id, int(str(wanted.step)), "label" in values, only, "pty" in values)


def _filters(values: Values) -> dict[int, int | None]:
    """The one task of each stream; that of standard error is that of standard output unless it is said."""
    numbers: dict[str, int | None] = {}
    for name in ("input-filter", "output-filter", "error-filter"):
        text = values.get(name)
        if text is not None and not (text.isascii() and text.isdigit()):
            raise ShimError(f'error: Invalid numeric value "{text}" for {name}.')
        numbers[name] = None if text is None else int(text)
    if "quiet" in values and "verbose" in values:
        raise ShimError("error: don't specify both --verbose (-v) and --quiet (-Q)")
    if "pty" in values and any(number is not None for number in numbers.values()):
        raise ShimError("error: don't specify both --pty and I/O filtering")
    out, error = numbers["output-filter"], numbers["error-filter"]
    return {STDIN: numbers["input-filter"], STDOUT: out, STDERR: out if error is None else error}


def _step(words: Sequence[str]) -> JobId:
    if len(words) != 1:
        raise _misused("too many parameters")
    base, dot, step = words[0].partition(".")
    step = step.partition("+")[0]  # of a step of several components the number alone
    base = base.partition("_")[0] if parse_job_id(base) is None else base
    wanted = parse_job_id(".".join([base, *step.split(".")[:1]]) if dot else base)
    if not dot or (wanted is None and parse_job_id(base) is None and base != "0"):
        raise _misused("Failed to parse stepid from command line options")
    if wanted is None and base != "0":
        raise ShimError(f"fatal: Bad step specified: {base}")
    if wanted is None:
        return JobId(job_id=0, step=step)
    return wanted


def _misused(why: str) -> ShimError:
    sys.stdout.write(f"{_USAGE}\n")
    return ShimError(f"error: {why}")


def _unknown(why: str = INVALID_JOB_ID) -> ShimError:
    return ShimError(f"error: Could not get job step info: {why}")


def _show_layout(job_id: int, step: str) -> int:
    """--layout: which task is where."""
    try:
        answers: list[dict[str, Any]] = job_leader.ask(job_id, {"do": "attach", "step": step, "layout": True})
    except ShimError:
        raise _unknown() from None
    if not answers:
        raise _unknown()
    nodes, ranks = answers[0]["nodes"], answers[0]["ranks"]
    lines = ["Job step layout:", f"\t{sum(map(len, ranks))} tasks, {len(nodes)} nodes ({hostlist.fold(nodes)})", ""]
    for place, (node, own) in enumerate(zip(nodes, ranks)):
        lines.append(f"\tNode {place} ({node}), {len(own)} task(s): {' '.join(map(str, own))} ")
    output.put(lines)
    return 0


def _attach(job_id: int, step: int, label: bool, only: dict[int, int | None], pty: bool) -> int:
    from shim.job.steps.attach import Attachment

    try:
        attached = Attachment(job_leader.run_folder(job_id), step, label=label, only=only, pty=pty)
        code = attached.run()
    except (OSError, ValueError) as error:
        raise ShimError(plain(f"sattach: error: {error or ALREADY_DONE}")) from None
    if attached.layout is None:
        raise _unknown()
    return code
