"""srun and salloc while they wait for an allocation, and salloc around its command. The controller is the test's own."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.commands import allocation, entrypoint, salloc, srun
from shim.commands.allocation import Interrupted, Waiter
from shim.control import client
from shim.core.errors import RequestError, ShimError

Event = dict[str, Any]
SUBMITTED = {"event": "submitted", "job_id": 9}
QUEUED = {"event": "queued", "job_id": 9}
GRANTED = {"event": "granted", "job": {"job_id": 9}, "environment": {"SLURM_JOB_ID": "9"}, "run_dir": "/nosuch/9.0"}
REVOKED = {"event": "revoked", "state": "CANCELLED", "reason": "None"}
TIMED_OUT = {"event": "revoked", "state": "TIMEOUT", "reason": "TimeLimit"}


class FakeAllocation:
    """A connection on which the given events come, later ones by ``push``. ``job_id`` as a client knows it."""

    def __init__(self, *events: Event | ShimError) -> None:
        self.job_id = 9
        self.closed = False
        self._events = list(events)
        self._mine, self._theirs = socket.socketpair()
        self._mine.setblocking(False)

    def fileno(self) -> int:
        return self._mine.fileno()

    def next_event(self, block: bool = True) -> Event | None:
        try:
            self._mine.recv(100)
        except BlockingIOError:
            pass
        if not self._events:
            return None
        event = self._events.pop(0)
        if isinstance(event, ShimError):
            raise event
        return event

    def push(self, event: Event) -> None:
        self._events.append(event)
        self._theirs.send(b"!")

    def close(self) -> None:
        self.closed = True

    def end(self) -> None:
        self._mine.close()
        self._theirs.close()


class Controller:
    """What the commands ask, and what they get."""

    def __init__(self) -> None:
        self.allocation = FakeAllocation(SUBMITTED, GRANTED)
        self.asked: list[Event] = []
        self.calls: list[tuple[str, Event]] = []
        self.on_call: Callable[[], None] = lambda: None

    def answer(self, *events: Event | ShimError) -> None:
        self.allocation.end()
        self.allocation = FakeAllocation(*events)

    def open_allocation(self, fields: Event) -> FakeAllocation:
        self.asked.append(fields)
        return self.allocation

    def call(self, operation: str, fields: Event) -> Event:
        self.calls.append((operation, fields))
        self.on_call()
        return {}


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    made = Controller()
    monkeypatch.setattr(client, "open_allocation", made.open_allocation)
    monkeypatch.setattr(client, "call", made.call)
    yield made
    made.allocation.end()


def lines_of(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return capfd.readouterr().err.splitlines()


def run_salloc(*words: str) -> int:
    return entrypoint.run("salloc", list(words), salloc.main)


# Waiting


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("srun", ["srun: job 9 queued and waiting for resources", "srun: job 9 has been allocated resources"]),
        (
            "salloc",
            [
                "salloc: Pending job allocation 9",
                "salloc: job 9 queued and waiting for resources",
                "salloc: job 9 has been allocated resources",
            ],
        ),
    ],
)
@pytest.mark.parametrize("quiet", [False, True])
def test_a_wait(program: str, expected: list[str], quiet: bool, capfd: pytest.CaptureFixture[str]) -> None:
    allocation = FakeAllocation(SUBMITTED, QUEUED, GRANTED)
    assert Waiter(program, allocation, quiet, None).wait() == GRANTED  # type: ignore[arg-type]
    assert lines_of(capfd) == ([] if quiet else expected)
    allocation.end()


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("JobHeldUser", "srun: Job is in held state, pending scheduler release"),
        ("PartitionTimeLimit", "srun: Requested partition configuration not available now"),
    ],
)
def test_why_it_waits(reason: str, line: str, capfd: pytest.CaptureFixture[str]) -> None:
    allocation = FakeAllocation(SUBMITTED, {**QUEUED, "reason": reason}, GRANTED)
    Waiter("srun", allocation, False, None).wait()  # type: ignore[arg-type]
    assert lines_of(capfd)[0] == line
    allocation.end()


def test_an_event_that_comes_later(capfd: pytest.CaptureFixture[str]) -> None:
    allocation = FakeAllocation(SUBMITTED, QUEUED)
    later = threading.Timer(0.05, allocation.push, (GRANTED,))
    later.start()
    assert Waiter("srun", allocation, False, None).wait() == GRANTED  # type: ignore[arg-type]
    later.join()
    assert len(lines_of(capfd)) == 2
    allocation.end()


def test_a_job_that_is_cancelled_while_it_waits(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    controller.answer(SUBMITTED, QUEUED, REVOKED)
    assert run_salloc("true") == 1
    assert lines_of(capfd) == [
        "salloc: Pending job allocation 9",
        "salloc: job 9 queued and waiting for resources",
        "salloc: Job has been cancelled",
        "salloc: Job allocation 9 has been revoked.",
        "salloc: error: Job submit/allocate failed: Job/step already completing or completed",
    ]
    assert controller.allocation.closed


def test_a_refusal(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    controller.answer(ShimError("error: Unable to allocate resources: Invalid partition name specified"))
    assert entrypoint.run("srun", ["-p", "nosuch", "true"], srun.main) == 1
    assert lines_of(capfd) == ["srun: error: Unable to allocate resources: Invalid partition name specified"]


def test_immediate_has_a_limit(capfd: pytest.CaptureFixture[str]) -> None:
    seconds = itertools.count()
    allocation = FakeAllocation(SUBMITTED, QUEUED)
    waiter = Waiter("srun", allocation, False, 2, clock=lambda: float(next(seconds)))  # type: ignore[arg-type]
    with pytest.raises(ShimError, match="Unable to allocate resources: Requested nodes are busy"):
        waiter.wait()
    allocation.end()
    allocation = FakeAllocation(SUBMITTED, QUEUED)
    waiter = Waiter("salloc", allocation, False, 2, clock=lambda: float(next(seconds)))  # type: ignore[arg-type]
    with pytest.raises(ShimError, match="Unable to allocate resources: Connection timed out"):
        waiter.wait()
    assert allocation.closed
    allocation.end()


@pytest.mark.parametrize(("program", "quiet", "more"), [("salloc", False, 1), ("salloc", True, 0), ("srun", False, 0)])
def test_salloc_tells_that_a_job_which_is_refused_late_is_gone(program: str, quiet: bool, more: int) -> None:
    allocation = FakeAllocation(SUBMITTED, RequestError("error: Job submit/allocate failed: Job dependency problem"))
    with pytest.raises(RequestError) as refused:
        Waiter(program, allocation, quiet, 0).wait()  # type: ignore[arg-type]
    assert refused.value.lines[1:] == ("Job allocation 9 has been revoked.",) * more
    allocation.end()


def test_what_scontrol_notify_says_is_printed(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    controller.answer(SUBMITTED, GRANTED, {"event": "notice", "text": "hello there"})
    assert run_salloc("true") == 0
    assert "salloc: hello there" in lines_of(capfd)


def test_a_signal_ends_the_wait() -> None:
    allocation = FakeAllocation(SUBMITTED, QUEUED)
    main = threading.main_thread().ident
    assert main is not None
    waiter = Waiter("srun", allocation, True, None)  # type: ignore[arg-type]
    # The handler is there before the wait begins to look for events: so an event may send the signal.
    allocation.next_event = lambda block=True: signal.raise_signal(signal.SIGINT)  # type: ignore[assignment,return-value]
    with pytest.raises(Interrupted):
        waiter.wait()
    assert allocation.closed
    allocation.end()


@pytest.mark.parametrize("program", ["srun", "salloc"])
def test_what_is_said_about_a_signal(
    program: str, controller: Controller, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_self: Waiter) -> Event:
        raise Interrupted(9)

    monkeypatch.setattr(allocation.Waiter, "wait", interrupted)
    main = srun.main if program == "srun" else salloc.main
    assert entrypoint.run(program, ["true"], main) == 1
    expected = {
        "srun": ["srun: Job allocation 9 has been revoked", "srun: Force Terminated JobId=9"],
        "salloc": ["salloc: Job allocation 9 has been revoked.", "salloc: Job aborted due to signal"],
    }
    assert lines_of(capfd) == expected[program]

    def before_any_answer(_self: Waiter) -> Event:
        raise Interrupted(None)

    monkeypatch.setattr(allocation.Waiter, "wait", before_any_answer)
    assert entrypoint.run(program, ["true"], main) == 1
    assert lines_of(capfd) == []


# salloc's command


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (("true",), 0, 0),
        (("sh", "-c", "exit 7"), 7, 7 << 8),
        (("sh", "-c", "kill -9 $$"), 0, 9),
        (("sh", "-c", "kill -HUP $$"), 0, 1),
        (("sh", "-c", "kill -TERM $$"), 1, 15),
        (("sh", "-c", "kill -PIPE $$"), 1, 13),
    ],
)
def test_salloc_runs_a_command(
    words: tuple[str, ...], code: int, status: int, controller: Controller, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_salloc(*words) == code
    assert lines_of(capfd) == ["salloc: Granted job allocation 9", "salloc: Relinquishing job allocation 9"]
    assert controller.calls == [("release", {"job_id": 9, "status": status})]


def test_an_allocation_that_cannot_be_given_back_is_told(
    controller: Controller, capfd: pytest.CaptureFixture[str]
) -> None:
    problem: ShimError = client.Unreachable("no controller listened")

    def fails() -> None:
        raise problem

    controller.on_call = fails
    assert run_salloc("true") == 0
    unable = "salloc: error: Unable to clean up job allocation 9: Unable to contact slurm controller (connect failure)"
    told = lines_of(capfd)[2:]
    assert told[0] == unable
    assert told[1].startswith("salloc: error: no controller listened; log: ")
    problem = RequestError("error: Invalid job id specified")  # it has ended meanwhile
    controller.answer(SUBMITTED, GRANTED)
    assert run_salloc("true") == 0
    assert lines_of(capfd)[2:] == []


def test_the_command_is_told_of_its_allocation(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_salloc("-Q", "sh", "-c", "echo $SLURM_JOB_ID $SHIM_RUN_DIR") == 0
    assert capfd.readouterr() == ("9 /nosuch/9.0\n", "")


def test_what_salloc_asks_for(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    run_salloc("-N2", "-n4", "true")
    fields = controller.asked[0]
    request = fields["request"]
    assert (request["kind"], request["name"], request["min_nodes"], request["ntasks"]) == ("alloc", "interactive", 2, 4)
    assert (fields["keep"], fields["script"], fields["submit_line"]) == (False, None, "salloc -N2 -n4 true")


def test_no_shell(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_salloc("--no-shell") == 0
    assert lines_of(capfd) == ["salloc: Granted job allocation 9"]
    assert controller.asked[0]["keep"]
    assert controller.calls == []


def test_a_command_that_is_not_there(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_salloc("nosuchcmd") == 1
    assert lines_of(capfd) == [
        "salloc: Granted job allocation 9",
        'salloc: error: _fork_command: Unable to find command "nosuchcmd"',
        "salloc: Relinquishing job allocation 9",
    ]


@pytest.mark.parametrize(("tasks", "code"), [((1, 1), 0), ((2, 1), 1)])
def test_more_tasks_than_names_of_an_arbitrary_list(
    tasks: tuple[int, ...], code: int, controller: Controller, capfd: pytest.CaptureFixture[str]
) -> None:
    request = {"distribution": "arbitrary", "node_list": "n2,n1,n2"}
    job = {"job_id": 9, "request": request, "shares": [{"tasks": number} for number in tasks]}
    controller.answer(SUBMITTED, {**GRANTED, "job": job})
    assert run_salloc("true") == code
    problem = (
        "salloc: error: Asked for 3 tasks have 2 in the nodelist.  Check your nodelist, or set the -n option to be 2"
    )
    end = [problem, "salloc: Relinquishing job allocation 9", "salloc: Job allocation 9 has been revoked."]
    assert lines_of(capfd) == ["salloc: Granted job allocation 9", *(end if code else end[1:2])]
    assert [name for name, _ in controller.calls] == ["release"]


def test_a_folder_that_is_not_there(controller: Controller, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_salloc("--chdir=/nosuch", "pwd") == 1
    assert lines_of(capfd) == ["salloc: error: chdir(/nosuch): No such file or directory"]
    assert controller.asked == []


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (REVOKED, "salloc: Job allocation 9 has been revoked."),
        (TIMED_OUT, "salloc: Job 9 has exceeded its time limit and its allocation has been revoked."),
    ],
)
def test_a_revoked_allocation_leaves_the_command_alone(
    event: Event, line: str, controller: Controller, capfd: pytest.CaptureFixture[str]
) -> None:
    controller.answer(SUBMITTED, GRANTED, event)
    assert run_salloc("sh", "-c", "sleep 0.1; exit 4") == 4
    assert lines_of(capfd) == ["salloc: Granted job allocation 9", line]
    assert controller.calls == []


def test_a_revoked_allocation_kills_the_command_on_request(
    controller: Controller, capfd: pytest.CaptureFixture[str]
) -> None:
    controller.answer(SUBMITTED, GRANTED, REVOKED)
    assert run_salloc("-K", "sleep", "600") == 1
    assert lines_of(capfd) == ["salloc: Granted job allocation 9", "salloc: Job allocation 9 has been revoked."]


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 5, "salloc: Job allocation 9 has been revoked."),
        (signal.SIGTERM, 5, "salloc: Job allocation 9 has been revoked."),
        (signal.SIGHUP, 1, "salloc: Relinquishing job allocation 9"),
    ],
)
def test_signals_while_the_command_runs(
    number: int, code: int, line: str, controller: Controller, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """INT and TERM give the allocation back and wait for the command; HUP ends salloc at once."""
    go = tmp_path / "go"
    controller.on_call = go.touch
    script = f"kill -{int(number)} $PPID; until [ -e {go} ]; do sleep 0.02; done; exit 5"
    assert run_salloc("sh", "-c", script) == code
    assert lines_of(capfd) == ["salloc: Granted job allocation 9", line]
    assert [operation for operation, _fields in controller.calls] == ["release"]
