"""salloc: gets an allocation, runs a command (or the login shell) on this machine in it, and releases it at the end."""

from __future__ import annotations

import os
import sys

from shim.commands.allocation import obtain, revoked
from shim.commands.allocation_options import read_options
from shim.commands.output import flush_output, say
from shim.commands.submission_context import backend
from shim.core.errors import ShimError
from shim.core.options import value_parsing
from shim.core.options.build import job_request
from shim.core.options.sources import full_path
from shim.core.options.support import refuse_het
from shim.job.loop import Loop
from shim.job.submitter import umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Dict, List, Sequence

    from shim.commands.allocation import Held
    from shim.core.options.validate import Validated
else:
    import _signal

PROGRAM = "salloc"
# Signals that a user is taken to have sent: a command that they ended has not failed.
_USERS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGKILL)
_NAME, _NAME_ALONE = "interactive", "no-shell"  # of jobs that have no name: with a command or a shell, and without


def main(argv: List[str]) -> int:
    """Runs salloc with ``argv`` (without the program's name); its exit code. Refusals are ShimErrors."""
    try:
        components, directory = read_options(PROGRAM, argv)
    except value_parsing.PrintAndExit as shown:
        sys.stdout.write(shown.text)
        return shown.code
    words = components[-1].words
    return _allocate(argv, [one.settings for one in components], words, directory)


def _allocate(argv: Sequence[str], components: Sequence[Validated], words: Sequence[str], directory: str) -> int:
    """Asks for the components, usually one, and runs the command in them. Options that belong to no component count as the first component has them."""
    settings = components[0]
    if settings.get("get-user-env", "(null)") != "(null)" and os.getuid():
        raise ShimError("error: SlurmdUser must be root to use --get-user-env")
    mask = umask()
    refuse_het(len(components), backend(settings.get("clusters")))
    requests = [
        job_request(
            one,
            directory=directory,
            umask=mask,
            name=_NAME_ALONE if settings.get("no-shell") else _NAME,
            command=words[0] if words else None,
            arguments=words[1:],
        )
        for one in components
    ]
    chdir = settings.get("chdir")
    if chdir:
        try:
            chdir = full_path(chdir, directory)
            os.chdir(chdir)
        except OSError as error:
            raise ShimError(f"error: chdir({chdir}): {error.strerror}") from None
    held = obtain(PROGRAM, argv, settings, requests)
    if held is None:
        return 1
    quiet = bool(settings.get("quiet"))
    if not quiet:
        _say(f"Granted job allocation {held.job_id}")
    if settings.get("no-shell"):
        held.close()
        return 0
    held.say_layout(components)
    problem = _too_few_names(held.granted["job"])
    if problem:
        _say(problem)
        if not quiet:
            _say(f"Relinquishing job allocation {held.job_id}", revoked(held.job_id))
        held.release(1 << 8)
        held.close()
        return 1
    kill = settings.get("kill-command") if "kill-command" in settings else None
    return _Child(held, quiet, kill).run(words, _environment(held.granted))


def _too_few_names(job: Dict[str, Any]) -> str:
    """What Slurm has against an allocation with -m arbitrary that has more tasks than nodes are named; "" for another."""
    request = job.get("request") or {}
    if not (request.get("distribution") or "").startswith("arbitrary") or not request.get("node_list"):
        return ""
    from shim.core.formats import hostlist

    names = len(set(hostlist.expand(request["node_list"])))
    tasks = sum(share.get("tasks", 1) for share in job["shares"])
    if tasks <= names:
        return ""
    return (
        f"error: Asked for {tasks} tasks have {names} in the nodelist.  "
        f"Check your nodelist, or set the -n option to be {names}"
    )


def _environment(granted: Dict[str, Any]) -> Dict[str, str]:
    """The command's environment: this one, with what the allocation adds."""
    return {**os.environ, **granted["environment"], "SHIM_RUN_DIR": str(granted["run_dir"])}


class _Child:
    """The command that runs in the allocation. ``kill``: the signal it gets when the allocation is revoked (None: none)."""

    def __init__(self, held: Held, quiet: bool, kill: Any) -> None:
        self._loop = Loop()
        self._held = held
        self._attending = held.attend(self._revoked)
        self._job_id = held.job_id
        self._quiet = quiet
        self._kill = kill
        self._pid = 0
        self._status = 0
        self._released = False
        self._killed = False
        self._hung_up = False

    def run(self, words: Sequence[str], environment: Dict[str, str]) -> int:
        """Runs the command to its end and gives the allocation back; salloc's exit code."""
        loop = self._loop
        terminal = not words and os.isatty(0)
        try:
            argv = list(words) or [_shell()]
            command = _found(argv[0], environment.get("PATH", ""))
            if command is None:
                _say(f'error: _fork_command: Unable to find command "{argv[0]}"')
                self._status = 1 << 8
            else:
                for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGQUIT):
                    loop.on_signal(number, self._interrupted)
                loop.on_signal(_signal.SIGHUP, self._hang_up)
                flush_output()
                self._pid = _start(command, argv, environment, terminal)
                loop.on_exit(self._pid, self._ended)
                self._attending.watch(loop)
                loop.run()
        finally:
            self._attending.stop()
            if terminal:
                _foreground(os.getpgrp())
            loop.close()
            self._give_back()
        if self._hung_up or self._killed:
            return 1
        if os.WIFEXITED(self._status):
            return os.WEXITSTATUS(self._status)
        return 0 if os.WTERMSIG(self._status) in _USERS else 1

    def _ended(self, status: int) -> None:
        self._status = status
        self._loop.stop()

    def _revoked(self, event: Dict[str, Any]) -> None:
        if self._released:
            return
        self._released = True
        if event.get("state") == "TIMEOUT":
            self._tell(f"Job {self._job_id} has exceeded its time limit and its allocation has been revoked.")
        else:
            self._tell(revoked(self._job_id))
        if self._kill is not None:
            self._killed = True
            os.kill(self._pid, self._kill or _signal.SIGTERM)

    def _interrupted(self) -> None:
        """INT or TERM: the allocation goes, the command is waited for."""
        if not self._released:
            self._released = True
            self._attending.stop()
            self._held.release(0)
            self._tell(revoked(self._job_id))

    def _hang_up(self) -> None:
        self._hung_up = True
        self._loop.stop()

    def _give_back(self) -> None:
        if not self._released:
            self._released = True
            self._tell(f"Relinquishing job allocation {self._job_id}")
            self._held.release(self._status)
        self._held.leave()

    def _tell(self, line: str) -> None:
        if not self._quiet:
            _say(line)


def _shell() -> str:
    """The user's login shell by the password database, not by $SHELL."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


def _found(name: str, path: str) -> Any:
    if "/" in name:
        return name if os.access(name, os.X_OK) and not os.path.isdir(name) else None
    for folder in path.split(":"):
        candidate = os.path.join(folder or ".", name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def _start(command: str, argv: Sequence[str], environment: Dict[str, str], terminal: bool) -> int:
    """Forks the command. ``terminal``: it gets a process group of its own in the foreground, for its job control."""
    # Blocked over the fork: a signal that came to the child now would run a handler of ours, and be lost.
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, range(1, 32))
    pid = os.fork()
    if pid:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        return pid
    try:
        _signal.set_wakeup_fd(-1)
        if terminal:
            os.setpgid(0, 0)
            _foreground(os.getpgrp())
        for number in range(1, 32):
            if number not in (_signal.SIGKILL, _signal.SIGSTOP):
                _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        os.execve(command, list(argv), environment)
    except OSError as error:
        os.write(2, f"{PROGRAM}: error: {argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(1)
    return pid


def _foreground(group: int) -> None:
    """Gives the terminal to a process group; from the background that needs SIGTTOU out of the way."""
    before = _signal.signal(_signal.SIGTTOU, _signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, group)
    except OSError:
        return  # the terminal is gone
    finally:
        _signal.signal(_signal.SIGTTOU, before)


def _say(*lines: str) -> None:

    if lines:
        say(PROGRAM, *lines)
