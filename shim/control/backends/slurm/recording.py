"""Records a job that a real Slurm accepted: sends it to the controller, from a background process if the controller does not answer at once.

A home that is full or read-only, a controller that cannot be started, a command line that cannot be read here: none of it may
change what the user sees.
"""

from __future__ import annotations

import os
import time

from shim.control import channel, paths
from shim.control.backends.slurm import beside
from shim.core.errors import KINDS, ShimError
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.options import value_parsing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.core.options.sources import Settings

SHORT = 0.5  # seconds that a user waits for a controller to be there and to answer
LONG = 60.0  # seconds that a process beside does


class Submission:
    """A command line as far as it could be read: what it asks for, whether it is quiet, whether it makes a job at all."""

    def __init__(self, program: str, argv: Sequence[str], session: int | None = None) -> None:
        """``session``: the caller's, where this is another one; 0 in a container whose session was begun outside."""
        self.program = program
        self.line = " ".join([program, *argv])
        self.began = time.time()
        self.session = os.getsid(0) if session is None else session
        self.directory = _directory()
        self.silent = False  # it says no job id
        self.makes_job = True
        self.request = JobRequest(kind=KINDS[program], work_dir=self.directory)
        from shim.control import command_line

        try:
            settings, words, path = command_line.read(program, argv, stdin=False)
            self.silent = bool(settings.get("quiet"))
            self.makes_job = not settings.get("test-only")
            self.request = _request(program, settings, words, os.path.abspath(path) if path else None, self.directory)
        except value_parsing.PrintAndExit:
            self.makes_job = False  # --help
        except (ShimError, OSError):
            # Options of a newer Slurm, of plugins: what can be seen among them must do.
            self.request = self.request.replace(
                name=command_line.found_in(argv, "--job-name", "-J") or None,
                partition=command_line.found_in(argv, "--partition", "-p") or None,
            )

    def record(
        self,
        cluster: str,
        job_id: int,
        *,
        state: str,
        start: bool = True,
        patience: float = SHORT,
        claim: bool = False,
    ) -> bool:
        """Tells the controller that this became a job. ``start``: a controller may be started for it. False if the job was to be
        this submission's alone (``claim``) and is another's.
        """
        job = Job(
            cluster=cluster,
            job_id=job_id,
            array_job_id=job_id if self.request.array else 0,
            array_spec=self.request.array,
            submit_line=self.line,
            submit_host=os.uname().nodename,
            alloc_sid=self.session,
            submit_time=self.began,
            request=self.request,
            state=state,
            partition=self.request.partition or "",
        )
        fields = {
            "job": job.to_dict(),
            "submit_line": job.submit_line,
            "submit_host": job.submit_host,
            "sid": job.alloc_sid,
            "claim": claim,
        }
        answer = tell("record", fields, patience, start=start)
        if answer is None and patience < LONG:
            beside.run(lambda: tell("record", fields, LONG, start=start))
        return answer is None or not answer.get("taken")


def _request(program: str, settings: Settings, words: Sequence[str], path: str | None, directory: str) -> JobRequest:
    from shim.core.options.build import job_request
    from shim.core.options.validate import accepted
    from shim.job.submitter import umask

    name = os.path.basename(path) if path else None
    if program == "salloc":
        name, path = "no-shell" if settings.get("no-shell") else "interactive", words[0] if words else None
    elif program == "sbatch" and settings.get("wrap"):
        name = "wrap"
    return job_request(
        accepted(settings),
        directory=directory,
        umask=umask(),
        name=name,
        command=path,
        arguments=words[1:],
    )


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def tell(op: str, fields: dict[str, Any], patience: float, *, start: bool) -> dict[str, Any] | None:
    """One bounded call: its answer, {} for one that cannot be had at all (the log says why), None for one that did not come in
    time, which is no reason to give up before LONG seconds.
    """
    from shim.control.channel import answer
    from shim.control.client import request

    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            connected = _connected(end, start=start)
            if connected is None:
                if not start:
                    return {}  # in a job of a real Slurm, where no controller is wanted
                break
            try:
                connected.send(request(op, fields))
                reply = _reply(connected, end)
            finally:
                connected.close()
            if reply is not None:
                return answer(reply)
        except channel.ChannelClosed:
            time.sleep(0.02)  # it has just ended: there will be another one
        except (OSError, ShimError) as error:
            complain(f"{_what(fields)} was not recorded: {error}")
            return {}
    if patience >= LONG:
        complain(f"{_what(fields)} was not recorded: no controller answered within {patience:g} s")
    return None


def _what(fields: dict[str, Any]) -> str:
    """The jobs of a message, for the log."""
    jobs = fields.get("jobs") or [fields.get("job") or {}]
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"job {jobs[0].get('job_id')} of {jobs[0].get('cluster', 'local')}{more}"


def complain(text: str) -> None:
    """Leaves a line in the controller's log: nothing of this may be said to the user, and nothing may be lost without a reason."""
    line = time.strftime("%Y-%m-%d %H:%M:%S") + f",000 {os.getpid()} WARNING {text}\n"
    try:
        paths.refuse_others()
        log = os.open(paths.log_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (OSError, ShimError):
        return  # there is no place for that either
    try:
        os.write(log, line.encode(errors="backslashreplace"))
    except OSError:
        pass  # a full disk
    finally:
        os.close(log)


def _connected(end: float, *, start: bool) -> channel.Channel | None:
    connected = channel.connect(paths.socket_path())
    if connected is not None or not start:
        return connected
    from shim.control import starter

    again = 0.0
    while connected is None and time.monotonic() < end:
        if time.monotonic() >= again:
            starter.start()  # from time to time: one that was just leaving may have held the lock
            again = time.monotonic() + 1.0
        time.sleep(0.01)
        connected = channel.connect(paths.socket_path())
    return connected


def _reply(connected: channel.Channel, end: float) -> dict[str, Any] | None:
    """What came before ``end``, a refusal included; None for nothing."""
    from select import select

    while (reply := connected.receive_now()) is None:
        left = end - time.monotonic()
        if left <= 0 or not select([connected.fileno()], [], [], left)[0]:
            return None
    return reply
