"""What is kept of a job that a real Slurm took: told to the controller; if it is not there at once, by a process beside.

A home that is full or read-only, a controller that cannot be started, a command line that cannot be read here: none of it may
change what the user sees.
"""

from __future__ import annotations

import os
import time

from shim.control import channel, paths
from shim.control.backends.slurm import beside
from shim.core.errors import ShimError
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.options import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.options.merge import Settings

SHORT = 0.5  # seconds that a user waits for a controller to be there and to answer
LONG = 60.0  # seconds that a process beside does
_KINDS = {"sbatch": "batch", "salloc": "alloc", "srun": "run"}


class Submission:
    """A command line as far as it could be read: what it asks for, whether it is quiet, whether it makes a job at all."""

    def __init__(self, program: str, argv: Sequence[str], session: int | None = None) -> None:
        """``session``: the caller's, where this is another one; 0 in a container whose session was begun outside."""
        self.line = " ".join([program, *argv])
        self.began = time.time()
        self.session = os.getsid(0) if session is None else session
        self.directory = _directory()
        self.silent = False  # it says no job id
        self.makes_job = True
        self.request = JobRequest(kind=_KINDS[program], work_dir=self.directory)
        from shim.control import asking

        try:
            settings, words, path = asking.read(program, argv, stdin=False)
            self.silent = bool(settings.get("quiet"))
            self.makes_job = not settings.get("test-only")
            self.request = _request(program, settings, words, os.path.abspath(path) if path else None, self.directory)
        except values.Shown:
            self.makes_job = False  # --help
        except (ShimError, OSError):
            # Options of a newer Slurm, of plugins: what can be seen among them must do.
            self.request = self.request.replace(
                name=asking.found_in(argv, "--job-name", "-J") or None,
                partition=asking.found_in(argv, "--partition", "-p") or None,
            )

    def record(self, cluster: str, job_id: int, *, state: str, start: bool = True, patience: float = SHORT) -> None:
        """Tells the controller that this became a job. ``start``: a controller may be started for it."""
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
        if not tell(job, patience, start=start):
            beside.run(lambda: tell(job, LONG, start=start))


def _request(program: str, settings: Settings, words: Sequence[str], path: str | None, directory: str) -> JobRequest:
    from shim.core.options.request import job_request

    mask = os.umask(0)
    os.umask(mask)
    name = os.path.basename(path) if path else None
    if program == "salloc":
        name, path = "interactive", words[0] if words else None
    elif program == "sbatch" and settings.get("wrap"):
        name = "wrap"
    return job_request(
        settings,
        directory=directory,
        umask=mask,
        name=name,
        command=path,
        arguments=words[1:],
    )


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def tell(job: Job, patience: float, *, start: bool) -> bool:
    """One bounded call; False if it was not answered in time. What can never be told is passed over."""
    from shim.control.client import request

    fields = {
        "job": job.to_dict(),
        "submit_line": job.submit_line,
        "submit_host": job.submit_host,
        "sid": job.alloc_sid,
    }
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            connected = _connected(end, start=start)
            if connected is None:
                return not start
            connected.send(request("record", fields))
            if _answered(connected, end):
                return True
        except channel.ChannelClosed:
            time.sleep(0.02)  # it has just ended: there will be another one
        except (OSError, ShimError):
            return True  # no place for an index
    return False


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


def _answered(connected: channel.Channel, end: float) -> bool:
    """Whether there was an answer in time, a refusal included."""
    from select import select

    while connected.receive_now() is None:
        left = end - time.monotonic()
        if left <= 0 or not select([connected.fileno()], [], [], left)[0]:
            return False
    return True
