"""sbatch: reads a script and its options, hands the job to the controller and says its id."""

from __future__ import annotations

import os
import sys
import time

from shim.commands.submission_context import NO_EXIT_CODE, backend, exit_code, grammar, gres_names, refuse_container
from shim.core import script
from shim.core.errors import RequestError, ShimError
from shim.core.options import value_parsing, values
from shim.core.options.batch import command_line, settle
from shim.core.options.build import job_request
from shim.core.options.sources import full_path
from shim.core.options.support import approximations, refuse_het, refuse_unsupported
from shim.core.options.validate import validate
from shim.job import capped
from shim.job.submitter import passed_on, umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    from shim.core.model.request import JobRequest
    from shim.core.options.getopt import Option
    from shim.core.options.sources import Settings
    from shim.core.options.validate import Validated

PROGRAM = "sbatch"


class Source:
    """The script of a submission: its bytes, the name for messages, the path (None: not a file), its arguments."""

    __slots__ = ("arguments", "data", "job_name", "name", "path")

    def __init__(
        self,
        data: bytes,
        name: str,
        path: Optional[str] = None,
        arguments: Sequence[str] = (),
        job_name: Optional[str] = None,
    ) -> None:
        self.data = data
        self.name = name
        self.path = path
        self.arguments = arguments
        self.job_name = job_name


def main(argv: List[str]) -> int:
    """Runs sbatch with ``argv`` (without the program's name); its exit code. Refusals are ShimErrors."""
    if exit_code() == 0:
        _say(NO_EXIT_CODE)
    try:
        return _main(argv)
    except RequestError as error:
        # The code of what the controller refuses.
        error.code = exit_code() or error.code
        raise


def _main(argv: List[str]) -> int:
    try:
        directory = os.getcwd()
    except OSError as error:
        raise ShimError(f"error: getcwd failed: {error.strerror}", code=255) from None
    context = values.Context(time.time(), os.getuid(), capped.text, grammar(), gres_names, _say)
    try:
        # Slurm reads the values of the command line before it looks for the script and its directives.
        found, words = command_line(argv, context)
        source = _source([one for part in found for one in part], words, directory)
        components = _settle(context, found, source, directory)
    except value_parsing.PrintAndExit as shown:
        sys.stdout.write(shown.text)
        return shown.code
    where = backend(components[0].get("clusters"))
    for settings in components:
        refuse_unsupported(settings, where)
        refuse_container(settings, where)
    refuse_het(len(components), where)
    return _submit(argv, components, source, directory)


def _source(found: Sequence[Tuple[Option, Optional[str]]], words: Sequence[str], directory: str) -> Source:
    """The script: of --wrap, of a file, or standard input. ShimError if there is none that Slurm would take."""
    wraps = [text for option, text in found if option.field == "wrap"]
    if wraps:
        if words:
            raise ShimError("error: Script arguments not permitted with --wrap option")
        return Source(script.bytes_of(script.wrapped(wraps[-1] or "")), "wrap", job_name="wrap")
    if words:
        folders = [text for option, text in found if option.field == "chdir"]
        source = _file(words, full_path(folders[-1] or "", directory) if folders else directory)
    else:
        source = Source(capped.start(sys.stdin.buffer if sys.stdin is not None else None), "stdin")
    script.check(source.data)
    return source


def _file(words: Sequence[str], directory: str) -> Source:
    """The script file that the first word names, with the rest as its arguments. ``directory``: --chdir's or the present one."""
    name = path = words[0]
    for place in script.candidates(name, directory, os.environ.get("PATH", "")):
        if os.path.exists(place) and not os.path.isdir(place):
            path = place
            break
    try:
        data = capped.start_of(path)
    except IsADirectoryError:
        data = b""
    except OSError:
        raise ShimError(f"error: Unable to open file {path}") from None
    except ValueError:  # a NUL in the name
        raise ShimError(f"error: Unable to open file {name}") from None
    return Source(data, name, path, words[1:], os.path.basename(path))


def _settle(
    context: values.Context, found: Sequence[Sequence[Tuple[Option, Optional[str]]]], source: Source, directory: str
) -> List[Validated]:
    """The validated options of each component. Warnings are said as they come up."""
    text = None if source.job_name == "wrap" and source.path is None else script.text_of(source.data)

    def component(settings: Settings) -> Validated:
        validated, notes = validate(settings)
        _say(*(note for note in notes if note.startswith("error: ") or not settings.get("quiet")))
        _tell(validated, directory)
        return validated

    return settle(context, found, os.environ, text, source.name, component)


def _tell(settings: Settings, directory: str) -> None:
    """-v: the options as they were understood, and those that do less here."""
    if settings.get("verbose"):
        from shim.core.options.verbose import defined_options

        _say(*defined_options(settings, directory), *approximations(settings, backend(settings.get("clusters"))))


def _submit(argv: Sequence[str], components: Sequence[Validated], source: Source, directory: str) -> int:
    """Submits the job and prints the answer; the exit code. Options that belong to no component count as the first component has them."""
    rlimits = passed_on(components[0].get("propagate"))
    if components[0].get("verbose", 0) > 1 and components[0].given("verbose"):  # SBATCH_DEBUG shows the options alone
        from shim.job.submitter import propagated

        _say(*propagated(rlimits))
    mask = umask()
    requests = [
        job_request(
            one,
            directory=directory,
            umask=mask,
            name=source.job_name,
            command=source.path,
            arguments=source.arguments,
        )
        for one in components
    ]
    settings = components[0]
    fields: Dict[str, Any] = {
        "request": requests[0].to_dict(),
        "components": [one.to_dict() for one in requests[1:]],
        "environment": _environment(settings),
        "script": script.text_of(source.data),
        "token": os.urandom(16).hex(),
        "submit_line": " ".join([PROGRAM, *argv]),
        "submit_host": os.uname().nodename,
        "sid": os.getsid(0),
        "rlimits": rlimits,
        "test_only": bool(settings.get("test-only")),
        "cluster": settings.get("clusters") or None,
        "home": os.environ.get("SLURM_CLUSTER_NAME") if "SHIM_RUN_DIR" in os.environ else None,
    }
    if settings.get("test-only"):
        from shim.commands import dry_run

        return dry_run.report_test_only(PROGRAM, fields, bool(settings.get("quiet")))
    from shim.commands import progress

    with progress.on_terminal(PROGRAM, quiet=bool(settings.get("quiet"))) as shown:
        reply = shown.call("submit", fields)
        shown.clear()
        _say(*reply.get("notes", ()), *missing_folders(requests))
        if not settings.get("quiet"):
            sys.stdout.write(_told(settings, reply))
            sys.stdout.flush()
        if settings.get("wait"):
            return _code(shown.call("wait", {"job_id": reply["job_id"]}))
        return 0


def missing_folders(requests: Sequence[JobRequest]) -> List[str]:
    """A warning for each folder of -o and -e that does not exist: as in Slurm the folder is not created, and the job fails silently."""
    folders = {folder: None for request in requests for folder in request.output_folders() if not os.path.isdir(folder)}
    return [
        f'warning: "{folder}", for the output of the job, is no folder: without it the job fails' for folder in folders
    ]


def _told(settings: Settings, reply: Dict[str, Any]) -> str:
    """The line about a submission. It names the cluster if the user did."""
    cluster = reply.get("cluster", "") if settings.get("clusters") else ""
    if settings.get("parsable"):
        return f"{reply['job_id']}" + (f";{cluster}" if cluster else "") + "\n"
    return f"Submitted batch job {reply['job_id']}" + (f" on cluster {cluster}" if cluster else "") + "\n"


def _code(end: Dict[str, Any]) -> int:
    """sbatch --wait: the script's exit code, 1 if a signal ended the script."""
    status = int(end.get("exit_status", 0))
    return 1 if status & 0x7F else (status >> 8) & 0xFF


def _environment(settings: Settings) -> Dict[str, str]:
    """The environment at submission; with --export-file that file's, beside what Slurm itself has set."""
    text = settings.get("export") or ""
    if '"' in text or "'" in text:
        from shim.core.environ.export import unclosed

        if unclosed(text):
            _say(f"error: Improperly formed environment variable ({unclosed(text)})")
    path = settings.get("export-file")
    if path is None:
        return dict(os.environ)
    try:
        # A number is a descriptor that the caller has opened.
        content = capped.whole(int(path) if path.isascii() and path.isdigit() else path)
    except (OSError, OverflowError):
        raise ShimError(f"error: Could not open user environment file {path}") from None
    environment = {name: value for name, value in os.environ.items() if name.startswith("SLURM_")}
    for entry in script.text_of(content).split("\0" if b"\0" in content else "\n"):
        name, equals, value = entry.partition("=")
        if equals and name:
            environment[name] = value
    return environment


def _say(*lines: str) -> None:
    from shim.commands.output import say

    if lines:
        say(PROGRAM, *lines)
