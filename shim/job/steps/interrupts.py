"""What srun does with the signals it gets: Ctrl-C once and twice, termination, and those it passes on."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Protocol, Sequence

    from shim.job.loop import Loop

    class Interrupted(Protocol):
        """The srun that gets the signals."""

        loop: Loop

        @property
        def created(self) -> object: ...

        @property
        def step_ids(self) -> Sequence[str]: ...

        def give_up(self, *lines: str) -> None: ...

        def say(self, *lines: str) -> None: ...

        def say_status(self) -> None: ...

        def send_signal(self, number: int) -> None: ...

        def abort(self, grace: float = 0.0) -> None: ...

        def resumed(self) -> None: ...

else:
    import _signal

AGAIN = 1.0  # seconds in which a second Ctrl-C ends the step
# What its tasks do on Ctrl-C begins before they are killed: Slurm's KILL comes by way of slurmctld, once each node has said that its tasks
# were signalled. Without a handler a task has been ended by then, and by INT.
GRACE = 0.5
_FORWARDED = (_signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGALRM)
_ENDING = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)


class Interrupts:
    """The signals of one srun.

    SIGINT shows the tasks' state; a second one within a second sends Ctrl-C to the tasks and ends the step. With
    ``disable_status`` the first is sent to the tasks at once too, with ``quit_on_interrupt`` it ends the step. SIGTERM, SIGHUP and
    SIGQUIT end the step. SIGUSR1, SIGUSR2 and SIGALRM are passed on to the tasks. Those that are ``ignored`` do nothing.
    """

    def __init__(
        self, client: Interrupted, disable_status: bool, quit_on_interrupt: bool, ignored: Sequence[int] = ()
    ) -> None:
        self.forced = False
        self._client = client
        self._disable_status = disable_status
        self._quit = quit_on_interrupt
        self._ignored = ignored
        self._last: float | None = None
        self._told = float("-inf")  # when it was said that the step is being ended
        self._ctrl_c = False

    def install(self) -> None:
        """From now on the loop gets the signals."""
        loop = self._client.loop
        _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
        _signal.signal(_signal.SIGTTIN, _signal.SIG_IGN)  # reading in the background fails instead of stopping srun
        loop.on_signal(_signal.SIGINT, self._interrupted)
        loop.on_signal(_signal.SIGCONT, self._continued)
        for number in _ENDING:
            loop.on_signal(number, lambda number=number: self._terminated(number))  # type: ignore[misc]
        for number in _FORWARDED:
            loop.on_signal(number, lambda number=number: self._client.send_signal(number))  # type: ignore[misc]
        for other in self._ignored:
            _signal.signal(other, _signal.SIG_IGN)

    def shown(self, lines: list[str]) -> list[str]:
        """The exit lines that are printed: tasks that our own Ctrl-C, or the KILL after it, ended are not news."""
        if not self._ctrl_c:
            return lines
        return [line for line in lines if not line.endswith((": Interrupt", ": Killed"))]

    def _interrupted(self) -> None:
        client = self._client
        if client.created is None:
            client.give_up(f"Cancelled pending job step with signal {int(_signal.SIGINT)}")
            return
        now = client.loop.now()
        ends = self._quit or (self._last is not None and now - self._last <= AGAIN)
        self._last = now
        if ends or self._disable_status:
            self._ctrl_c = ends
            self._send_interrupt()
            if ends:
                self._force(GRACE)
            return
        client.say("interrupt (one more within 1 sec to abort)")
        client.say_status()

    def _send_interrupt(self) -> None:
        self._client.say(*(f"sending Ctrl-C to StepId={step_id}" for step_id in self._client.step_ids))
        self._client.send_signal(_signal.SIGINT)

    def _terminated(self, number: int) -> None:
        if self._client.created is None:
            self._client.give_up(f"Cancelled pending job step with signal {int(number)}")
        else:
            self._force()

    def _force(self, grace: float = 0.0) -> None:
        """Ends the step, its tasks after ``grace`` seconds; who has done so is told that it takes its time, once a second."""
        client = self._client
        if not self.forced:
            self.forced = True
            client.say("forcing job termination")
            client.abort(grace)
        elif client.loop.now() - self._told >= 1:
            self._told = client.loop.now()
            client.say("job abort in progress")

    def _continued(self) -> None:
        if self._client.created is not None:
            self._client.say("got SIGCONT")
        self._client.resumed()
