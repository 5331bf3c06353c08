"""The edge of every command: errors become Slurm's lines and exit codes, and nobody sees a traceback."""

from __future__ import annotations

import errno
import os
import sys

from shim import dispatch
from shim.commands.output import say, silence
from shim.core.errors import ShimError, missing_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PIPE_CLOSED = 141  # what a shell reports of a program that SIGPIPE ended
INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what cannot be written is lost from the buffer, if it is large


def run(program: str, argv: list[str], main: Callable[[list[str]], int] | None = None) -> int:
    """Runs the program and flushes its output; the exit code. ``main``: a function to call in place of the program's own."""
    try:
        code = (main or dispatch.entry(program))(argv)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except ShimError as error:
        return _refused(program, error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        silence(1)
        return _unread(program)
    except Exception as error:
        return _failed(program, error)


def _refused(program: str, error: ShimError) -> int:
    _give_up_unwritable()
    say(program, *error.lines)
    # What Slurm prints past its log ends a program that nobody listens to.
    bare = bool(error.lines) and error.lines[0].startswith("\0")
    return _unread(program) or error.code if bare and getattr(sys.stderr, "gone", False) else error.code


def _failed(program: str, error: Exception) -> int:
    lost = _give_up_unwritable()
    if isinstance(error, OSError) and (lost or error.errno in _FULL):
        say(program, f"error: write error: {error.strerror or error}")
        return 1
    if isinstance(error, ModuleNotFoundError) and not (error.name or "shim").startswith("shim"):
        return _refused(program, missing_package(error, sys.executable))
    where = _log(program, error)
    say(
        program, f"error: internal error: {type(error).__name__}: {error}" + (f" (details in {where})" if where else "")
    )
    return 1


def _give_up_unwritable() -> bool:
    """Whether standard output refuses what is still in its buffer (a full disk, no reader). Then nothing more is tried there."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence(1)
        return True
    return False


def _unread(program: str) -> int:
    """The exit code of a command whose output nobody reads any more. srun blocks SIGPIPE."""
    return 0 if program == "srun" else PIPE_CLOSED


def _log(program: str, error: Exception) -> str:
    """Appends the traceback to the log in the state folder; the path, or "" where it cannot be written."""
    import time
    import traceback

    from shim.control import paths

    try:
        path = paths.log_path()
        paths.ensure(os.path.dirname(path))
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(file, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {program}[{os.getpid()}]: internal error\n")
            log.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except (OSError, ShimError):
        return ""
    return path
