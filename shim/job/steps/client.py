"""srun's side of one step: asks the leader for it, carries its streams and signals, and says how its tasks ended."""

from __future__ import annotations

import _socket
import os

from shim.core.errors import ALREADY_DONE, ShimError, no_step
from shim.core.jsonlite import dumps
from shim.job.address import read_address
from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.run_folder import JOURNAL, read_key
from shim.job.session import open_session
from shim.job.steps.exits import Exits, status_lines
from shim.job.steps.interrupts import Interrupts
from shim.job.steps.parts import asked_for, parts_of
from shim.job.steps.plumbing import Plumbing

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Sequence
    from typing import Any, Callable

    from shim.job.steps.parts import Asked, Part
    from shim.job.steps.scripts import Scripts
    from shim.job.steps.telling import Telling

    Message = dict[str, Any]
else:
    import _signal

GATHER = 0.2  # seconds in which tasks that end share a line
LONGEST_REQUEST = 900_000  # bytes of command line and environment; with what each task adds they must fit one frame
SLACK = 2  # seconds srun gives beyond KillWait, as its message says
SIGKILL = 9


class StepClient:
    """One step from its request to its end.

    ``run`` returns srun's exit code. ``asked``: its parts, usually one. In their requests ``work_dir`` and ``umask`` are filled
    in, and ``window`` where the task gets a terminal. ``attend(loop)`` lets the caller watch something of its own meanwhile.
    """

    def __init__(
        self,
        run_dir: str,
        job_id: int,
        asked: Sequence[Asked],
        *,
        disable_status: bool = False,
        quit_on_interrupt: bool = False,
        ignored: Sequence[int] = (),
        scripts: Scripts | None = None,
        attend: Callable[[Loop], None] | None = None,
    ) -> None:
        self.loop = Loop()
        self.job_id = job_id
        self.request = asked[0].request  # what counts for the whole step is the same in all parts
        self.created: Message | None = None
        self.parts: list[Part] = []  # once the step is there
        self.exits = Exits(self.request.verbose)
        self._port = _Port(self.loop)
        self._telling: Telling | None = None
        if self.request.verbose:
            from shim.job.steps.telling import Telling

            self._telling = Telling(self.request.verbose, self.say, self._port.number)
        self._aborted: set[int] = set()  # parts of which "Job step aborted" was said
        self._run_dir = run_dir
        self._asked = asked
        self._attend = attend
        self._scripts = scripts
        self._busy = False
        self._failed: ShimError | None = None
        self._gathering = False
        self._killed_on_exit = False
        self._over = False
        self._plumbing = Plumbing(self.loop, [one.request for one in asked], self._send, self._send_data, self._broken)
        self._interrupts = Interrupts(self, disable_status, quit_on_interrupt, ignored)
        self._link = self._connect()

    def run(self) -> int:
        """Runs the step. Raises ShimError when there is none to be had."""
        try:
            self._interrupts.install()
            if self._attend is not None:
                self._attend(self.loop)
            for one in self._asked:
                one.request = one.request.replace(comm_port=self._port.number)
            srun = f"{os.uname().nodename}:{os.getpid()}"
            message = {"do": "step", "sid": os.getsid(0), "srun": srun, **asked_for(self._asked)}
            if len(dumps(message)) > LONGEST_REQUEST:
                raise self._no_step("Argument list too long")
            self._link.send(message)
            self.loop.run()
        finally:
            self._plumbing.close()
            self._port.close()
            self._link.close()
            self.loop.close()
        if self._failed is not None:
            raise self._failed
        return self.exits.code

    # For the signals

    @property
    def step_ids(self) -> list[str]:
        """``7.0``, of each part; the step must be there."""
        return [part.id for part in self.parts]

    @property
    def aborted(self) -> bool:
        """Whether "Job step aborted" was said."""
        return bool(self._aborted)

    def say(self, *lines: str) -> None:
        """Prints lines as srun's own."""
        self._plumbing.say("".join(f"srun: {line}\n" for line in lines))

    def send_signal(self, number: int) -> None:
        """Signals all tasks."""
        self._link.send({"do": "signal", "signal": number})

    def say_status(self) -> None:
        """Which tasks run, which have ended."""
        for part in self.parts:
            self.say(*status_lines(part, self.exits.ended))

    def resumed(self) -> None:
        """srun was continued."""
        self._plumbing.resumed()

    def abort(self, grace: float = 0.0) -> None:
        """Ends the step by force; its tasks are killed after ``grace`` seconds."""
        for place, part in enumerate(self.parts):
            if any(rank not in self.exits.ended for rank in part.ranks):
                self._say_aborted(place)
        if grace:
            self.loop.call_later(grace, lambda: self._link.send({"do": "abort"}))
        else:
            self._link.send({"do": "abort"})

    def give_up(self, *lines: str, code: int = 1) -> None:
        """Ends srun without a step."""
        self._failed = ShimError(*lines, code=code)
        self._finish()

    # The leader

    def _connect(self) -> SessionLink:
        try:
            address = read_address(self._run_dir)
            link = SessionLink(open_session(self.loop, address, read_key(self._run_dir), "srun"))
        except (OSError, ValueError):
            raise self._no_step(ALREADY_DONE) from None
        link.on_message = self._message
        link.on_data = lambda _step, rank, stream, data: self._plumbing.output(rank, stream, data)
        link.on_close = self._lost
        return link

    def _no_step(self, why: str) -> ShimError:
        return ShimError(no_step(self.job_id, why))

    def _lost(self, reason: str) -> None:
        if self._over:
            return
        if self.created is None:
            # The leader's own words where it has said why: it speaks another version of the protocol.
            self._failed = self._no_step(self._link.session.refused or ALREADY_DONE)
        else:
            self.say(*self.exits.take_lines(), f"error: the connection to the job's first node is lost: {reason}")
            self.exits.code = max(self.exits.code, 1)
        self._finish()

    def _message(self, message: Message) -> None:
        do = message["do"]
        if do == "exit":
            self._task_ended(message)
        elif do == "credit":
            self._plumbing.credit(int(message["bytes"]))
        elif do == "created":
            self._begin(message)
        elif do == "ended":
            self._end()
        elif do == "aborted":
            self._say_aborted(int(message["part"]))
        elif do == "busy":
            self._busy = True
            if not self.request.quiet:
                why = message["why"]
                self.say(f"Job {self.job_id} step creation temporarily disabled, retrying ({why})")
        elif do == "note":
            self.say(message["line"])
        elif do == "refused":
            self.give_up(*message["lines"], code=int(message["code"]))
        elif do == "task" and self._telling is not None:
            self._telling.started(message["node"], int(message["rank"]))

    def _begin(self, created: Message) -> None:
        self.created = created
        self.parts = parts_of(created)
        if self._telling is not None:
            self._telling.created(created, [one.request for one in self._asked])
        self.say(*created["notes"])
        if created["ntasks"] > 1 and created.get("mpi", "none") == "none" and not self.request.quiet:
            from shim.job.steps.mpi import warning

            told = warning(self._asked)
            self.say(*([told] if told else ()))
        if self._busy and not self.request.quiet:
            self.say(f"Step created for job {self.job_id}")
        if self._scripts is not None:
            self._scripts.run("prolog", created, self.loop, self.say, self._launch)
        else:
            self._launch(0)

    def _launch(self, prolog: int) -> None:
        """Starts the tasks, if the prolog went well (the raw status of its end)."""
        if self._over:
            return
        if prolog:
            self.give_up(
                f"error: srun prolog failed rc = {prolog >> 8 or prolog}. Aborting step.",
                f"launch/slurm: launch_p_step_launch: StepId={self.step_ids[0]} aborted before step completely launched.",
            )
            return
        try:
            launch = self._plumbing.open(self.parts)
            self._send_programs(launch)
        except ShimError as error:
            self._failed = error
            self._finish()
            return
        if self._telling is not None and self.created is not None:
            self._telling.launching(self.created, self.parts)
        if self._plumbing.opened and os.path.exists(os.path.join(self._run_dir, JOURNAL)):
            launch["opened"] = self._plumbing.opened  # the leader is here, and sees them
        self._link.send({"do": "launch", **launch})
        self._plumbing.start()
        if self.request.window is not None:
            self.loop.on_signal(_signal.SIGWINCH, self._resized)

    def _send_programs(self, launch: Message) -> None:
        """--bcast: each part's program goes to the nodes, and is started from there. ShimError where that fails."""
        for place, (one, part) in enumerate(zip(self._asked, self.parts)):
            if one.request.bcast is None or not one.request.argv or self.created is None:
                continue
            from shim.job.steps.broadcast import Program

            program = Program(one.request, part.id)
            self.say(*program.send(self._run_dir, int(self.created["step"])))
            ends = launch["parts"][place] if "parts" in launch else launch
            ends["program"], ends["libraries"] = program.path, program.folder

    def _resized(self) -> None:
        window = self._plumbing.window()
        if window is not None:
            self._link.send({"do": "window", "rows": window[0], "columns": window[1]})

    def _send(self, message: Message) -> None:
        self._link.send(message)

    def _send_data(self, rank: int, data: bytes) -> None:
        if self.created is not None:
            self._link.send_data(self.created["step"], rank, 0, data)

    def _broken(self) -> None:
        """What the tasks print is lost: they end."""
        if self.created is not None:
            self.send_signal(SIGKILL)

    # Ends

    def _task_ended(self, message: Message) -> None:
        assert self.created is not None
        status = int(message["status"])
        first = not self.exits.ended
        text = message["text"]
        if text.startswith("error: "):
            self.say(text)
        elif text:
            self._plumbing.say(text + "\n")
        rank = int(message["rank"])
        if self._telling is not None:
            self._telling.ended(message["node"], rank)
        part = next(part for part in self.parts if rank in part.ranks)
        self.exits.add(part, message["node"], rank, status, bool(message["oom"]))
        # Said a little later: with the exits of others, and after what the tasks themselves have said, which is on its way.
        if self.exits.pending and not self._gathering:
            self._gathering = True
            self.loop.call_later(GATHER, self._say_exits)
        if status and self.request.kill_on_bad_exit and not self._killed_on_exit and not self.aborted:
            self._killed_on_exit = True
            self._say_exits()
            self._say_terminating()
            self._link.send({"do": "terminate"})
        if first and self.request.wait and len(self.exits.ended) < self.created["ntasks"]:
            self.loop.call_later(self.request.wait, self._waited)

    def _waited(self) -> None:
        assert self.created is not None
        if self._over or self.aborted or len(self.exits.ended) == self.created["ntasks"]:
            return
        self._say_exits()
        self.say(f"First task exited {self.request.wait}s ago")
        self.say_status()
        self._say_terminating()
        self.abort()

    def _say_terminating(self) -> None:
        self.say(*(f"launch/slurm: _step_signal: Terminating StepId={step_id}" for step_id in self.step_ids))

    def _say_exits(self) -> None:
        self._gathering = False
        self.say(*self._interrupts.shown(self.exits.take_lines()))

    def _say_aborted(self, part: int) -> None:
        if part not in self._aborted and self.created is not None:
            self._aborted.add(part)
            seconds = int(self.created["kill_wait"]) + SLACK
            self.say(f"Job step aborted: Waiting up to {seconds} seconds for job step to finish.")

    def _end(self) -> None:
        self.say(*self._interrupts.shown(self.exits.last_lines(self.aborted or self._interrupts.forced)))
        if self._telling is not None:
            self._telling.over()
        if self._scripts is None or self.created is None:
            self._finish()
            return
        scripts, created = self._scripts, self.created
        self._over = True  # the leader may be gone before the epilog is
        # After all that the tasks have said.
        self._plumbing.when_empty(lambda: scripts.run("epilog", created, self.loop, self.say, self._epilog_over))

    def _epilog_over(self, status: int) -> None:
        if status:
            self.say(f"error: srun epilog failed status={status >> 8 or status}")
        self._finish()

    def _finish(self) -> None:
        self._over = True
        self._plumbing.when_empty(self.loop.stop)


class _Port:
    """The port that the tasks know srun by (SLURM_SRUN_COMM_PORT): nobody else gets it while the step runs, and who comes is let go.

    ``number`` is 0 where there is none to be had.
    """

    def __init__(self, loop: Loop) -> None:
        self.number = 0
        self._loop = loop
        self._socket: _socket.socket | None = None
        try:
            self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
            self._socket.bind(("127.0.0.1", 0))
            self._socket.listen(4)
        except OSError:
            return
        self.number = int(self._socket.getsockname()[1])
        loop.reader(self._socket.fileno(), self._let_go)

    def close(self) -> None:
        """Gives the port back."""
        if self._socket is not None:
            if self.number:
                self._loop.forget(self._socket.fileno())
            self._socket.close()

    def _let_go(self) -> None:
        assert self._socket is not None
        try:
            os.close(self._socket._accept()[0])  # type: ignore[attr-defined]
        except OSError:
            return  # gone again
