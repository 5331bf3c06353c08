"""What is done next for a job, from its record and what is seen. Pure; the effects are for drivers, which may repeat each of them."""

from __future__ import annotations

from typing import Union

from shim.control.backends.kubernetes.run.evidence import Seen, fence, grant
from shim.control.backends.kubernetes.run.register import (
    CANCELLED,
    GRANTED,
    MADE,
    NODE_FAIL,
    NOT_BEGUN,
    OVER,
    WITHDRAWN,
    Record,
    Register,
    made,
    over,
    withdrawn,
)
from shim.core.value import Value
from shim.job.pod.asking import Ask

WAITS = "waits"  # no run: for its turn, for its user, or for the fence
ENDED = "ended"
FORGOTTEN = "forgotten"

LOOK = 5.0  # seconds between looks at what no watch tells
ENDS = 30.0  # seconds in which the pods of a job that has ended should be shown as ended: busy kubelets take their time


class Write(Value):
    """Writes the record, if it still has this uid and this resourceVersion. On 409, or without an answer: read live, decide anew."""

    name: str
    uid: str
    version: str
    register: Register | None
    ended: str = ""  # how the job has ended with this


class CreateJob(Value):
    """Makes the Job of a run, owned by the record, labelled with its uid and the run. 409: it is there."""

    name: str
    record: str  # uid
    run: int


class Delete(Value):
    """Deletes an object, if it still has this uid. What belongs to it goes with it."""

    kind: str  # "record", "job", "pod"
    name: str
    uid: str
    run: int = -1  # that it is of


class Answer(Value):
    """Reads the record live and tells the leader what ``register.answer`` makes of it. On an error says nothing: it asks again."""

    ask: Ask


class TellEnd(Value):
    """Tells the leader, over its stream, to end the run."""

    run: int


Effect = Union[Write, CreateJob, Delete, Answer, TellEnd]


class Decision(Value):
    """``next``: what the job will be if the effects, in this order, succeed. It is decided anew with the next news, and after
    ``look_again`` seconds (None: no need). ``free``: no process of the last run lives; its files may be believed."""

    next: str
    effects: tuple[Effect, ...]
    look_again: float | None
    free: bool


def decide(record: Record, seen: Seen, now: float) -> Decision:
    """The life of a job's runs, on one screen. ``record`` may be stale: what is written then meets a 409, what is deleted was closed."""
    register, wanted, limits = record.register, record.wanted, record.limits
    doubts = fence(record, seen, now)
    always: tuple[Effect, ...] = (*(Answer(ask=ask) for ask in seen.asks), *_sweep(record, seen, now, bool(doubts)))

    def then(state: str, *first: Effect, wait: float | None = None) -> Decision:
        effects = (*first, *always)  # any of them may be lost: whether they were not is looked at soon
        return Decision(next=state, effects=effects, look_again=LOOK if effects else wait, free=not doubts)

    # No run, or one that launches nothing any more: behind the fence the next may be made.
    if register is None or register.closed:
        if record.ended:
            return then(FORGOTTEN, _forget(record)) if seen.archived and not doubts else then(ENDED, wait=LOOK)
        if verdict(record, register, seen):
            return then(ENDED, _write(record, register, seen))
        if doubts:
            return then(WAITS, wait=LOOK)
        return (
            then(WAITS)
            if wanted.hold or not seen.turn
            else then(MADE, _write(record, made(register, seen.restart), seen))
        )

    # Its Job is there or comes, its agents meet. Nothing has begun: one write grants it, or takes it back.
    if register.state == MADE:
        patience = seen.since + limits.boot - now
        if wanted.cancel or wanted.hold or patience <= 0 or seen.given_up or _broken(register, seen):
            return then(WITHDRAWN, _write(record, withdrawn(register, seen.given_up), seen))
        for ask in seen.asks:
            if (agreed := grant(record, ask, seen)) is not None:
                return then(GRANTED, _write(record, agreed, seen))
        if not any(job.run == register.run for job in seen.jobs):
            return then(MADE, CreateJob(name=job_name(record, register), record=record.uid, run=register.run))
        return then(MADE, wait=patience)

    # Granted: it runs, or is about to. A Job that is missing or suspended means nothing: only its leader counts.
    if outcome := _outcome(record, seen, now):
        return then(OVER, _write(record, over(register, outcome), seen))
    return then(GRANTED, TellEnd(run=register.run)) if wanted.cancel else then(GRANTED, wait=LOOK)


def job_name(record: Record, register: Register) -> str:
    return f"{record.name}-r{register.run}" if register.run else record.name


def verdict(record: Record, register: Register | None, seen: Seen) -> str:
    """How the job has ended if it stands like this; empty: it goes on, or runs again."""
    if register is not None and not register.closed:
        return ""
    if seen.ended is not None:
        return seen.ended
    outcome = register.outcome if register is not None and register.state == OVER else NOT_BEGUN
    if outcome == NOT_BEGUN or (outcome == NODE_FAIL and record.wanted.requeue):
        return CANCELLED if record.wanted.cancel else ""
    return outcome


def _outcome(record: Record, seen: Seen, now: float) -> str:
    """How a granted run has ended; empty: it goes on, as far as anybody knows."""
    register, cancel = record.register, record.wanted.cancel
    assert register is not None and register.leader is not None
    pod = seen.pod(register.leader.pod)
    ended = pod is not None and pod.ended
    for report in (seen.report, pod.report if pod is not None else None):
        if report is not None and report.nonce == register.nonce:
            return report.outcome
    # What another process says that was started in the leader's pod is no word of the leader.
    patience = record.limits.cancel if cancel else record.limits.node
    if ended or register.leader.pod in seen.absent or now - seen.heard >= patience:
        return CANCELLED if cancel else NODE_FAIL
    return ""


def _broken(register: Register, seen: Seen) -> bool:
    """The gang of a run that was made cannot meet any more."""
    return any(job.run == register.run and job.finished for job in seen.jobs) or any(
        pod.run == register.run and pod.ended for pod in seen.pods
    )


def _sweep(record: Record, seen: Seen, now: float, doubts: bool) -> tuple[Delete, ...]:
    """What is left of runs that launch nothing any more. A stale record knows fewer of them, never others.

    Pods that have ended by themselves are evidence: they stay for as long as theirs is the last run, and go with the record.
    """
    register = record.register
    if register is None:
        return ()
    patience = (
        ENDS if record.ended else record.limits.cancel
    )  # with the job at its end nothing waits for its pods to end by themselves
    lingers = register.state == OVER and doubts and now - seen.since >= patience
    last = register.run if lingers or register.state == WITHDRAWN else register.run - 1
    jobs = [
        Delete(kind="job", name=job.name, uid=job.uid, run=job.run)
        for job in seen.jobs
        if job.run <= last and not job.deleting
    ]
    pods = [
        Delete(kind="pod", name=pod.name, uid=pod.uid, run=pod.run)
        for pod in seen.pods
        if pod.run <= last and not pod.deleting
    ]
    return (*jobs, *pods)


def _write(record: Record, register: Register | None, seen: Seen) -> Write:
    ended = verdict(record, register, seen)
    return Write(name=record.name, uid=record.uid, version=record.version, register=register, ended=ended)


def _forget(record: Record) -> Delete:
    return Delete(kind="record", name=record.name, uid=record.uid)
