"""How srun and salloc get an allocation: asking, waiting with Slurm's words, and what ends the wait."""

from __future__ import annotations

import os
from time import monotonic

from shim.commands import progress
from shim.commands.output import say
from shim.core.errors import (
    ALREADY_DONE,
    DEPENDENCY_PROBLEM,
    INVALID_JOB_ID,
    JOB_HELD,
    KINDS,
    NODES_BUSY,
    PARTITION_CONFIG_UNAVAILABLE,
    RequestError,
    ShimError,
    submission_failed,
)
from shim.job.loop import Loop
from shim.job.submitter import passed_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

    from shim.commands.progress import Progress
    from shim.control.client import Allocation
    from shim.core.model.request import JobRequest
    from shim.core.options.sources import Settings

    Event = Dict[str, Any]
else:
    import _signal

_INTERRUPTS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)
# What -vv says, in Slurm's names for it, when an allocation is asked for and when it is given back.
_ASKING = ("Entering slurm_allocation_msg_thr_create()", "Entering _msg_thr_internal")
_OVER = ("Leaving _msg_thr_internal",)
# What is said of the job that was asked for when a signal ends the wait.
_INTERRUPTED = {
    "salloc": ("Job allocation {} has been revoked.", "Job aborted due to signal"),
    "srun": ("Job allocation {} has been revoked", "Force Terminated JobId={}"),
}


def obtain(program: str, argv: Sequence[str], settings: Settings, requests: Sequence[JobRequest]) -> Optional[Held]:
    """Requests an allocation of these components (usually one), and waits for the grant; ``settings``: options that belong to no component.

    None: a signal ended the wait, which was said. ShimError: refused, cancelled, or not within --immediate.
    """

    if not settings.get("no-shell"):
        _debug(program, settings, *_ASKING)
    with progress.on_terminal(program, quiet=bool(settings.get("quiet"))) as shown:
        return _obtained(program, settings, fields_of(program, argv, settings, requests), requests[0].immediate, shown)


def _obtained(
    program: str, settings: Settings, fields: Dict[str, Any], immediate: Optional[int], shown: Progress
) -> Optional[Held]:
    from shim.control import client

    if shown.wanted:
        fields["progress"] = True
    allocation = client.open_allocation(fields)
    try:
        granted = Waiter(program, allocation, bool(settings.get("quiet")), immediate, shown=shown).wait()
    except Interrupted as interrupted:
        if interrupted.job_id is not None:
            say(program, *[line.format(interrupted.job_id) for line in _INTERRUPTED[program]])
        return None
    return Held(program, settings, allocation, granted)


class Held:
    """A granted allocation: the job lives while this object is open. ``granted``: the event with the job's nodes and environment."""

    def __init__(self, program: str, settings: Settings, allocation: Allocation, granted: Event) -> None:
        self.granted = granted
        self.job_id = int(granted["job"]["job_id"])
        self._program = program
        self._settings = settings
        self._allocation = allocation

    def say_layout(self, components: Sequence[Settings]) -> None:
        """Prints the layout lines of salloc -vv."""
        if self._settings.get("verbose", 0) > 1:
            _debug(self._program, self._settings, *_laid_out(self.granted["environment"], components))

    def attend(self, revoked: Optional[Callable[[Event], None]] = None) -> Attending:
        """Watches the allocation while a command runs in it; calls ``revoked(event)`` once, when the controller ends the allocation."""
        return Attending(self._program, self._allocation, revoked or (lambda _event: None))

    def release(self, status: int) -> None:
        """Releases the allocation; ``status``: the raw wait status of its command. Reports a failure on stderr."""
        from shim.control import client

        try:
            client.call("release", {"job_id": self.job_id, "status": status})
        except ShimError as error:
            first, *more = error.lines
            if first != f"error: {INVALID_JOB_ID}":  # it has ended meanwhile
                why = first[len("error: ") :] if first.startswith("error: ") else first
                say(self._program, f"error: Unable to clean up job allocation {self.job_id}: {why}", *more)

    def leave(self) -> None:
        """Closes the allocation, and says so at -vv."""
        self.close()
        _debug(self._program, self._settings, *_OVER)

    def close(self) -> None:
        """Closes the connection: the controller ends the job, unless it was released or requested with --no-shell."""
        self._allocation.close()


def _debug(program: str, settings: Settings, *lines: str) -> None:
    """Says what ``-vv`` (or a variable that says as much) asks for."""
    if settings.get("verbose", 0) > 1:
        say(program, *(f"debug:  {line}" for line in lines))


def _laid_out(environment: Mapping[str, str], components: Sequence[Settings]) -> List[str]:
    from shim.core.formats import hostlist, lists

    lines = []
    for group, settings in enumerate(components):
        suffix = f"_HET_GROUP_{group}" if len(components) > 1 else ""
        nodes = environment["SLURM_JOB_NODELIST" + suffix]
        tasks = sum(lists.expand_counts(environment["SLURM_TASKS_PER_NODE" + suffix]))
        number = _distribution_number(settings.get("distribution") or "")
        lines.append(f"laying out the {tasks} tasks on {len(hostlist.expand(nodes))} hosts {nodes} dist {number}")
    return lines


def _distribution_number(text: str) -> int:
    """``-m`` as Slurm numbers it: four bits each for nodes, sockets and cores."""
    levels, _, pack = text.partition(",")
    if levels in ("pack", "nopack"):
        levels, pack = "", levels
    number = {"": 0, "pack": 1 << 23, "nopack": 1 << 22}[pack]
    if not levels:
        return number | 1 << 13
    first, *others = levels.split(":")
    number |= {"cyclic": 1, "block": 2, "arbitrary": 3, "plane": 4}[first.partition("=")[0]]
    for bits, word in zip((4, 8), others):
        number |= {"cyclic": 1, "block": 2, "fcyclic": 3}[word] << bits
    return number


def revoked(job_id: Optional[int]) -> str:
    """salloc's line for an allocation that has ended."""
    return f"Job allocation {job_id} has been revoked."


class Interrupted(Exception):
    """A signal ended the wait; the allocation is closed. ``job_id``: None if the controller had not yet given an id."""

    def __init__(self, job_id: Optional[int]) -> None:
        super().__init__(job_id)
        self.job_id = job_id


def fields_of(program: str, argv: Sequence[str], settings: Settings, requests: Sequence[JobRequest]) -> Dict[str, Any]:
    """The fields of the request to the controller: a job with these components (usually one); ``settings``: those of the first component."""
    return {
        "request": requests[0].to_dict(),
        "components": [request.to_dict() for request in requests[1:]],
        "environment": dict(os.environ),
        "script": None,
        "token": os.urandom(16).hex(),
        "submit_line": " ".join([program, *argv]),
        "submit_host": os.uname().nodename,
        "sid": os.getsid(0),
        "rlimits": passed_on(settings.get("propagate")),
        "test_only": bool(settings.get("test-only")),
        "cluster": settings.get("clusters") or None,
        "home": os.environ.get("SLURM_CLUSTER_NAME") if "SHIM_RUN_DIR" in os.environ else None,
        "keep": bool(settings.get("no-shell")),
    }


class Waiter:
    """Waits for an allocation's grant. ``granted`` holds the event; ``ended`` the state once the allocation is over."""

    def __init__(
        self,
        program: str,
        allocation: Allocation,
        quiet: bool,
        immediate: Optional[int],
        clock: Callable[[], float] = monotonic,
        shown: Optional[Progress] = None,
    ) -> None:
        self.loop = Loop(clock)
        self._shown = shown
        self._program = program
        self._allocation = allocation
        self._quiet = quiet
        self._immediate = immediate
        self._queued = False
        self._granted: Optional[Event] = None
        self._error: Optional[Exception] = None

    def wait(self) -> Event:
        """The ``granted`` event. ShimError: refused, cancelled, or not within --immediate; Interrupted: a signal came."""
        loop = self.loop
        for number in _INTERRUPTS:
            loop.on_signal(number, self._interrupted)
        if self._immediate:
            loop.call_later(self._immediate, self._too_late)
        self._look()
        self._tick()
        try:
            self._readable()
            while self._granted is None and self._error is None:
                fd = self._allocation.fileno()
                loop.reader(fd, lambda fd=fd: self._came(fd))  # type: ignore[misc]
                loop.run_once()
                loop.reader(fd, None)
        finally:
            loop.close()
            if self._shown is not None:
                self._shown.clear()
        if self._error is not None:
            self._allocation.close()
            raise self._error
        assert self._granted is not None
        return self._granted

    def _came(self, fd: int) -> None:
        self.loop.reader(fd, None)  # it may be closed now: the controller's end is met by attaching to the next
        self._readable()

    def _tick(self) -> None:
        """How long it takes is shown by the second."""
        if self._shown is not None and self._shown.wanted:
            self._shown.tick()
            self.loop.call_later(1.0, self._tick)

    def _look(self) -> None:
        """Until the job is submitted: looks from time to time whether the controller can answer at all."""
        from shim.control.client import LOOK

        if self._allocation.job_id is not None:
            return
        try:
            self._allocation.refuse_stopped()
            self.loop.call_later(LOOK, self._look)
        except ShimError as error:
            self._error = error

    def _readable(self) -> None:
        try:
            while self._granted is None and self._error is None:
                event = self._allocation.next_event(False)
                if event is None:
                    return
                self._happened(event)
        except ShimError as error:
            self._error = self._revoked(error)

    def _revoked(self, error: ShimError) -> ShimError:
        """What salloc says when a job is refused only after it had its id (--immediate, held or with a dependency): that it is gone, too."""
        job_id = self._allocation.job_id
        if (
            self._quiet
            or self._program != "salloc"
            or job_id is None
            or not error.lines[-1].endswith(DEPENDENCY_PROBLEM)
        ):
            return error
        return RequestError(*error.lines, revoked(job_id), code=error.code)

    def _happened(self, event: Event) -> None:
        kind = event.get("event")
        program = self._program
        if kind == "progress" and self._shown is not None:
            self._shown.event(event)
        elif kind == "submitted":
            self._tell(*event.get("notes", ()))
        elif kind == "queued":
            self._queued = True
            reason = str(event.get("reason", ""))
            if reason.startswith("JobHeld"):
                self._tell(JOB_HELD)
            elif reason.startswith("Partition"):
                self._tell(PARTITION_CONFIG_UNAVAILABLE)
            if program == "salloc":
                self._tell(f"Pending job allocation {event['job_id']}")
            self._tell(f"job {event['job_id']} queued and waiting for resources")
        elif kind == "granted":
            if self._queued:
                self._tell(f"job {event['job']['job_id']} has been allocated resources")
            self._granted = event
        elif kind in ("revoked", "ended"):
            self._tell("Job has been cancelled")
            if program == "salloc":
                self._tell(revoked(self._allocation.job_id))
            self._error = submission_failed(KINDS[program], ALREADY_DONE)

    def _tell(self, *lines: str) -> None:
        if not self._quiet and lines:
            if self._shown is not None:
                self._shown.clear()
            say(self._program, *lines)

    def _too_late(self) -> None:
        why = "Connection timed out" if self._program == "salloc" else NODES_BUSY
        self._error = submission_failed("run", why)  # of salloc too

    def _interrupted(self) -> None:
        self._error = Interrupted(self._allocation.job_id)


class Attending:
    """Watches an allocation while a command runs in it. Calls ``revoked(event)`` once, when the controller ends the allocation; prints what
    ``scontrol notify`` says.
    """

    def __init__(self, program: str, allocation: Allocation, revoked: Callable[[Event], None]) -> None:
        self.over = False
        self._program = program
        self._allocation = allocation
        self._revoked = revoked
        self._loop: Optional[Loop] = None
        self._fd = -1

    def watch(self, loop: Loop) -> None:
        """Starts watching; events that have arrived already are handled at once."""
        self._loop = loop
        self._fd = self._allocation.fileno()
        loop.reader(self._fd, self._readable)
        self._readable()

    def stop(self) -> None:
        """Stops watching."""
        if self._loop is not None:
            self._loop.reader(self._fd, None)
            self._loop = None

    def _readable(self) -> None:
        # The connection may be another one afterwards: the controller's end is met by attaching to the next.
        loop = self._loop
        if loop is None:
            return
        loop.reader(self._fd, None)
        try:
            event = self._allocation.next_event(False)
            while event is not None:
                if event.get("event") in ("revoked", "ended"):
                    self.over = True
                    self._revoked(event)
                    break
                if event.get("event") == "notice":
                    say(self._program, str(event["text"]))
                event = self._allocation.next_event(False)
        except ShimError as error:
            self.over = True
            self._revoked({"event": "revoked", "state": "", "reason": str(error)})
        if not self.over and self._loop is not None:
            self._fd = self._allocation.fileno()
            loop.reader(self._fd, self._readable)
