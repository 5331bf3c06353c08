"""srun: runs tasks on the nodes of an allocation: of the job it is in, of ``--jobid``, or of its own.

In a job everything goes through the job's leader (``SHIM_RUN_DIR``): no controller is needed, and none is started.
"""

from __future__ import annotations

import os
import sys
from errno import EFBIG

from shim.commands.allocation_options import read_options
from shim.commands.submission_context import backend
from shim.core.errors import (
    INVALID_GRES,
    INVALID_JOB_ID,
    SUBMISSION_FAILED,
    ShimError,
    Unsupported,
    no_step,
    plain,
)
from shim.core.options import value_parsing
from shim.core.options.build import check_step, step_request
from shim.core.options.srun_salloc import for_step
from shim.core.options.support import refuse_het
from shim.job.submitter import passed_on, umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from shim.core.model.request import JobRequest, StepRequest
    from shim.core.options.sources import Settings
    from shim.core.options.srun_salloc import Component
    from shim.core.options.validate import Validated
    from shim.job.loop import Loop
    from shim.job.steps.client import StepClient
    from shim.job.steps.parts import Asked
    from shim.job.steps.scripts import Scripts

PROGRAM = "srun"


def main(argv: List[str]) -> int:
    """Runs srun with ``argv`` (without the program's name); its exit code. Refusals are ShimErrors."""
    try:
        return _main(argv)
    except ShimError as error:
        code = os.environ.get("SLURM_EXIT_ERROR", "")
        if error.code == 1 and code.isdigit():
            error.code = int(code) & 0xFF
        raise


def _main(argv: List[str]) -> int:
    try:
        components, directory = read_options(PROGRAM, argv)
    except value_parsing.PrintAndExit as shown:
        sys.stdout.write(shown.text)
        return shown.code
    components = for_step(components)
    if len(components) > 1 and any(one.settings.get("multi-prog") for one in components):
        raise ShimError("fatal: --multi-prog option not supported with multiple het groups")
    settings = components[0].settings
    if settings.get("verbose", 0) > 1:
        from shim.job.submitter import propagated

        _say(*propagated(passed_on(settings.get("propagate"))))
    jobid = settings.get("jobid")
    run_dir = os.environ.get("SHIM_RUN_DIR", "")
    if jobid and not settings.get("test-only"):
        asked = _parts(components, directory)
        for part in asked:
            check_step(part.request)
        if not (run_dir and _job_of(run_dir) == jobid):
            run_dir = _reached(jobid)
        return _client(settings, run_dir, jobid, asked).run()
    return _allocate(argv, components, directory)


def _job_of(run_dir: str) -> int:
    """The job whose run folder that is: its name is JOB.RESTARTS."""
    digits = os.path.basename(run_dir).partition(".")[0]
    return int(digits) if digits.isdigit() else 0


# The step


def _parts(components: Sequence[Component], directory: str, plain: bool = False) -> List[Asked]:
    """The parts of the step, each with the environment that its tasks get from here. ``plain``: see ``_plain``."""
    from shim.job.steps.parts import Asked

    parts = []
    for one in components:
        step = _step(one.settings, one.words, directory)
        parts.append(Asked(_plain(step) if plain else step, _exported(one.settings), one.group, one.named))
    return parts


def _step(settings: Validated, words: Sequence[str], directory: str) -> StepRequest:
    """The step asked for, with what only this process knows."""
    step = step_request(settings, words)
    changes: Dict[str, Any] = {
        "work_dir": os.path.join(directory, step.work_dir) if step.work_dir else directory,
        "umask": umask(),
        "rlimits": passed_on(settings.get("propagate")),
    }
    if not settings.given("job-name"):
        changes["name"] = None  # a step is named by its command, not by the job's SLURM_JOB_NAME
    if settings.get("multi-prog"):
        changes["multi_prog"] = _programs(words, step.ntasks)
    if step.pty and not settings.get("test-only"):
        window = _window()
        changes["pty"] = window is not None
        changes["window"] = window
    return step.replace(**changes)


def _programs(words: Sequence[str], ntasks: Optional[int]) -> Tuple[Tuple[str, Tuple[str, ...]], ...]:
    from shim.job import capped
    from shim.job.steps import multiprog

    try:
        text = capped.text(words[0])
    except OSError as error:
        why = f": {error.strerror}" if error.errno == EFBIG else ""
        raise ShimError(f"error: Could not open multi_prog config file {words[0]}{why}") from None
    programs = multiprog.parse(text, words[0], words[1:])
    if ntasks is not None:
        multiprog.programs_of(programs, ntasks, words[0])
    return programs


def _window() -> Optional[Tuple[int, int]]:
    """The size of the terminal that --pty passes on; None, with srun's words, when there is none."""
    from shim.job.steps.terminal import window_of

    try:
        return window_of(0)
    except OSError as error:
        _say(
            f"error: ioctl(TIOCGWINSZ): {error.strerror}",
            "error: Not using a pseudo-terminal, disregarding --pty option",
        )
        return None


def _exported(settings: Settings) -> Dict[str, str]:
    """The environment that the tasks get from here, by --export."""
    from shim.core.environ.export import step_export

    return step_export(os.environ, settings.get("export"))


def _client(
    settings: Settings,
    run_dir: str,
    job_id: int,
    asked: Sequence[Asked],
    attend: Optional[Callable[[Loop], None]] = None,
) -> StepClient:
    from shim.job.steps.client import StepClient

    if settings.get("resv-ports"):  # none are configured (MpiParams)
        raise ShimError(no_step(job_id, "Requires more ports than can be reserved"))
    return StepClient(
        run_dir,
        job_id,
        asked,
        disable_status=bool(settings.get("disable-status")),
        quit_on_interrupt=bool(settings.get("quit-on-interrupt")),
        ignored=settings.get("ignore-signals", ()),
        scripts=_scripts(settings, asked),
        attend=attend,
    )


def _scripts(settings: Settings, asked: Sequence[Asked]) -> Optional[Scripts]:
    """--prolog and --epilog."""
    paths = [settings.get(name) or "" for name in ("prolog", "epilog")]
    if not any(paths):
        return None
    from shim.job.steps.scripts import Scripts

    return Scripts(paths[0], paths[1], asked[0].request.argv)


# Allocations


def _reached(jobid: int) -> str:
    """The run folder of another job of the user."""
    from shim.control import client

    try:
        reply = client.call("reach", {"job_id": jobid})
    except ShimError as error:
        why = error.lines[-1].rpartition(": ")[2] if error.lines else INVALID_JOB_ID
        raise ShimError(
            f"error: Unable to confirm allocation for job {jobid}: {why}",
            f"Check SLURM_JOB_ID environment variable. Expired or invalid job {jobid}",
        ) from None
    return str(reply["run_dir"])


def _allocate(argv: Sequence[str], components: Sequence[Component], directory: str) -> int:
    """srun outside of a job: an allocation of its own, one step in it, release."""
    from shim.commands.allocation import obtain
    from shim.commands.output import flush_output

    settings = components[0].settings
    trying = settings.get("test-only")
    if not trying and any(one.settings.get("relative") is not None for one in components):
        raise ShimError("fatal: --relative option invalid for job allocation request")
    refuse_het(len(components), backend(settings.get("clusters")))
    if trying:
        return _tested(argv, components, directory)
    asked = _parts(components, directory, plain=True)
    requests = [_request(one, directory, part.request.umask or 0) for one, part in zip(components, asked)]
    held = obtain(PROGRAM, argv, settings, requests)
    if held is None:
        return 1
    for place, part in enumerate(asked):
        part.group, part.named = place, False  # the components are those of this srun
    attending = held.attend()
    code = 1
    try:
        flush_output()
        runner = _client(settings, held.granted["run_dir"], held.job_id, asked, attending.watch)
        code = runner.run()
    finally:
        if not attending.over:
            held.release(code << 8)
        held.leave()
    return code


def _request(one: Component, directory: str, umask: int) -> JobRequest:
    """The job, or the component, that is asked for to run the command in."""
    from shim.core.options.build import job_request

    words = one.words
    return job_request(
        one.settings,
        directory=directory,
        umask=umask,
        name=os.path.basename(words[0]) if words else None,
        command=words[0] if words else None,
        arguments=words[1:],
    )


def _tested(argv: Sequence[str], components: Sequence[Component], directory: str) -> int:
    """--test-only: each component is tested as a job of its own, as Slurm's srun does."""
    from shim.commands import dry_run
    from shim.commands.allocation import fields_of
    from shim.control import site

    settings = components[0].settings
    failed = f"error: {SUBMISSION_FAILED['run']}: "
    for one in components:
        try:
            part = _parts([one], directory, plain=True)[0]
            request = _request(one, directory, part.request.umask or 0)
            fields = fields_of(PROGRAM, argv, settings, [request])
            dry_run.report_test_only(PROGRAM, fields, bool(settings.get("quiet")))
        except Unsupported:
            raise
        except ShimError as error:
            last = error.lines[-1]
            if last.startswith(failed):
                why, lines = last[len(failed) :], error.lines[:-1]
            elif last == f"error: {INVALID_GRES}" or site.UNREACHABLE in last:
                # What srun itself refuses leaves it without an error to tell.
                why, lines = "No error", error.lines
            else:
                raise
            raise ShimError(*lines, plain(f"allocation failure: {why}"), code=error.code) from None
    return 0


def _plain(step: StepRequest) -> StepRequest:
    """The step of an allocation that srun made for this step: without the options by which the allocation was placed."""
    return step.replace(
        exclude=None,
        min_nodes=None,
        max_nodes=None,
        immediate=None,
        time_limit=None,
        constraint=None,
        gpus_per_socket=None,
    )


def _say(*lines: str) -> None:
    from shim.commands.output import say

    if lines:
        say(PROGRAM, *lines)
