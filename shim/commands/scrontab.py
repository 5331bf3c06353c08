"""scrontab: a user's table of recurring jobs. The controller has a job for each of its entries, which waits for its next time again and again."""

from __future__ import annotations

import os
import sys
import time

from shim.commands import output, site_view
from shim.commands.submission_context import backend, grammar, gres_names, refuse_container
from shim.core import crontab
from shim.core.errors import ShimError, UsageError, plain
from shim.core.options.build import job_request
from shim.core.options.getopt import parse
from shim.core.options.query_options import read
from shim.core.options.recurring_options import NOT_IN_A_TABLE
from shim.core.options.sources import DIRECTIVE, Reading
from shim.core.options.submit_options import options_of
from shim.core.options.support import refuse_unsupported
from shim.core.options.validate import validate
from shim.core.options.value_parsing import Context
from shim.job import capped
from shim.job.submitter import passed_on, umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.core.crontab import Entry
    from shim.core.options.validate import Validated

_PROGRAM = "scrontab"
_USAGE = """usage:	scrontab [-u user] file
	scrontab [-u user] [ -e | -l | -r | -v]
	-e	Edit user's crontab (default action if stdin is a TTY)
	-l	List user's crontab
	-r	Delete user's crontab
	-u	User to edit crontab for"""
_WRONG = "There are errors in your crontab."
_COMMENTED = f"The failed line(s) is commented out with {crontab.BAD.strip()}"
_NEW = """# Recurring jobs, one a line: five fields say when, the rest of the line is the command.
#
#   minute (0-59)  hour (0-23)  day of month (1-31)  month (1-12)  day of week (0-7)  command
#
# or @hourly, @daily, @weekly, @monthly, @yearly and the command. The clock is the controller's.
# Lines that begin with "#SCRON" give the next entry options of sbatch, for instance:
#
#   #SCRON --time=10 --mem=1G
#   30 6 * * mon /path/to/script
"""
_OWN_VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")


def main(argv: list[str]) -> int:
    """Runs scrontab; its exit code."""
    try:
        found, words = read(_PROGRAM, argv, {})
    except UsageError:
        found, words = None, []
    if found is None or len(words) > 1 or (words and {"edit", "list", "remove"} & set(found)):
        raise ShimError(plain(_USAGE))
    own = _is_own(found.get("user"))
    if "remove" in found:
        _call("crontab", do="remove")
        return 0
    if "list" in found:
        return _list(found.get("user"))
    typed = sys.stdin is not None and sys.stdin.isatty()
    if "edit" in found or (not words and typed):
        if not typed:
            raise ShimError("fatal: Standard input is not a TTY")
        return _edit()
    _refuse_others(own)
    text = _whole(words[0] if words else "-")
    try:
        return _put(text)
    except crontab.BadLine as error:
        sys.stdout.flush()
        output.say(_PROGRAM, *error.lines)
        output.put([_WRONG])
        return 1


def _is_own(user: str | None) -> bool:
    """Whether the table is the caller's own; ShimError for a user that is none."""
    if user is None:
        return True
    uid = site_view.uid_of(user)
    if uid is None:
        raise ShimError(f"fatal: Could not find user {user}")
    from shim.control import paths

    if uid == os.getuid() and paths.anothers() is None:
        return True
    if paths.anothers() is None:
        raise ShimError(f"fatal: the table of {user} is in that user's state folder: SHIM_STATE_DIR names it")
    return False


def _refuse_others(own: bool) -> None:
    if not own:
        raise ShimError("fatal: slurm_update_crontab failed: Invalid user id")


def _call(op: str, **fields: Any) -> dict[str, Any]:
    from shim.control import client

    return client.call(op, fields)


def _text() -> str | None:
    """The table as it is; None for none."""
    from shim.control import paths

    if paths.anothers() is not None:
        found = _call("crontab", do="get")["text"]
        return None if found is None else str(found)
    reader = site_view.open_index(_PROGRAM)
    return None if reader is None else reader.crontab()


def _list(user: str | None) -> int:
    text = _text()
    if text is None:
        import pwd

        raise ShimError(plain(f"no crontab for {user or pwd.getpwuid(os.getuid()).pw_name}"))
    sys.stdout.write(text)
    return 0


def _whole(name: str) -> str:
    """What the file holds; ``-``: standard input."""
    if name == "-":
        data = sys.stdin.buffer.read() if sys.stdin is not None else b""
        return data.decode("utf-8", "surrogateescape")
    try:
        with open(name, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        raise ShimError(f"fatal: failed to open {name}") from None


def _edit() -> int:
    text = _text() or _NEW
    while True:
        text = _edited(text)
        try:
            return _put(text)
        except crontab.BadLine as error:
            text = crontab.marked(text, error.number, error.number, crontab.BAD)
            output.say(_PROGRAM, *error.lines)
            if not _retries():
                return 0


def _edited(text: str) -> str:
    """The text as the user's editor leaves it."""
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.NamedTemporaryFile("w+", prefix="scrontab-", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        output.flush_output()
        done = subprocess.run(["/bin/sh", "-c", f'{editor} "$1"', "sh", file.name], check=False)
        if done.returncode:
            raise ShimError("fatal: editor returned non-zero exit code")
        return _whole(file.name)


def _retries() -> bool:
    while True:
        output.put([_WRONG, _COMMENTED])
        sys.stdout.write("Do you want to retry the edit? (y/n) ")
        sys.stdout.flush()
        answer = sys.stdin.readline()[:1].lower()
        if answer in ("", "n", "y"):
            return answer == "y"


def _put(text: str) -> int:
    """Gives the controller the table with a submission for each entry; the exit code. BadLine for a mistake in it."""
    fields = [_submission(entry) for entry in crontab.entries(text)]
    refused = _call("set_crontab", text=text, entries=fields).get("refused")
    if not refused:
        return 0
    *why, last = [line.removeprefix("error: ") for line in refused["lines"]]
    output.put(
        [
            f"There was an issue with the job submission on lines {refused['first']}-{refused['last']}",
            f"The error code return was: {last.removeprefix('Batch job submission failed: ')}",
            f"The error message was: {why[0] if why else '(null)'}",
        ]
    )
    return 1


def _submission(entry: Entry) -> dict[str, Any]:
    """What the controller is told of an entry's job: as sbatch would, but in the user's home folder and with a login's environment."""
    settings = _settings(entry)
    where = backend(None)
    try:
        refuse_unsupported(settings, where)
        refuse_container(settings, where)
        request = job_request(
            settings,
            directory=os.path.expanduser("~"),
            umask=umask(),
            name=entry.command.partition(" ")[0],
            command=entry.command,
        )
    except ShimError as error:
        raise crontab.BadLine(entry.first, *error.lines) from None
    request = request.replace(cron=str(entry.schedule), get_user_env=True)
    kept = {name: value for name, value in os.environ.items() if name.startswith("SHIM_") or name in _OWN_VARIABLES}
    return {
        "first": entry.first,
        "last": entry.last,
        "request": request.to_dict(),
        "environment": kept,  # where the jobs' own commands find this controller; all else is a login's
        "script": entry.script,
        "submit_line": _PROGRAM,
        "submit_host": os.uname().nodename,
        "rlimits": passed_on(settings.get("propagate")),
    }


def _settings(entry: Entry) -> Validated:
    """The options of its lines. BadLine in Slurm's words for a mistake."""
    context = Context(time.time(), os.getuid(), capped.text, grammar(), gres_names, _say)
    reading = Reading("sbatch", context)
    for number, words in entry.options:
        last = words[-1] if words else ""
        try:
            found, left = parse("sbatch", words, options_of("sbatch", context.grammar))
        except UsageError:
            raise _invalid(number, last) from None
        for option, text in found:
            if option.field in NOT_IN_A_TABLE:
                raise _invalid(number, _spelled(words, option.long, option.short))
            try:
                reading.put(option, text, DIRECTIVE)
            except ShimError as error:
                raise _invalid(number, text or last, *error.lines) from None
        if left:
            raise _invalid(number, left[0])
    try:
        settings, notes = validate(reading.settings())
    except ShimError as error:
        raise crontab.BadLine(entry.first, *error.lines) from None
    output.say(_PROGRAM, *notes)
    return settings


def _say(line: str) -> None:
    output.say(_PROGRAM, line)


def _invalid(number: int, word: str, *before: str) -> crontab.BadLine:
    return crontab.BadLine(number, *before, f"error: Invalid option found in #SCRON line: {word}")


def _spelled(words: tuple[str, ...], long: str, short: str) -> str:
    """The word of the line that has the option."""
    return next(
        (word for word in words if word.startswith(f"--{long}") or (short and word.startswith(f"-{short}"))), words[-1]
    )
