"""The register of a run, and the answer to a leader's ask: who may launch, decided by one write. Pure.

The leader's half, the ask and what it makes of the answer, is ``shim.job.pod.asking``.
"""

from __future__ import annotations

from shim.core.value import Value
from shim.job.pod.asking import Ask, Member

MADE = "made"  # its Job may be there, its agents may meet; nothing has begun
GRANTED = "granted"  # the process that holds the nonce may launch, or has
WITHDRAWN = "withdrawn"  # it never began, and never will
OVER = "over"  # it was granted, and has ended or was given up

# Outcomes of a run that is over; the others are Slurm's words, from the leader.
NOT_BEGUN = "NOT_BEGUN"  # the leader was granted, did not launch, and never will: its own word
NODE_FAIL = "NODE_FAIL"  # nobody knows how it ended
CANCELLED = "CANCELLED"


class Register(Value):
    """What the record says of the job's last run."""

    _nested = {"members": Member}

    run: int
    restart: int = (
        0  # the restart of its job that the run is for: what was withdrawn is another run of the same restart
    )
    state: str = MADE
    nonce: str = ""
    members: tuple[Member, ...] = ()
    outcome: str = ""

    @property
    def leader(self) -> Member | None:
        return self.members[0] if self.members else None

    @property
    def closed(self) -> bool:
        """Nothing of this run can be launched from now on."""
        return self.state in (WITHDRAWN, OVER)

    def serves(self, restart: int) -> bool:
        """Whether a start for this restart of the job is this run: it may begin yet, or has begun."""
        unbegun = self.state == WITHDRAWN or (self.state == OVER and self.outcome == NOT_BEGUN)
        return self.restart == restart and not unbegun


class Wanted(Value):
    """The part of the record that anybody writes who speaks for the user."""

    cancel: bool = False
    hold: bool = False
    requeue: bool = True
    vouched: int = -1  # up to this run a person vouches that no process lives


class Limits(Value):
    """Seconds."""

    boot: float = 1200.0  # for a gang to meet
    node: float = 300.0  # for which a leader may be silent
    cancel: float = 10.0  # for which a leader that is to end may be silent
    grace: float = 40.0  # that a pod has between TERM and KILL


class Record(Value):
    """A job's record as it was read: live, or from a watch."""

    name: str
    uid: str
    version: str  # metadata.resourceVersion
    nodes: int
    wanted: Wanted = Wanted()
    limits: Limits = Limits()
    register: Register | None = None  # None: no run was made yet
    ended: str = ""  # how the job ended; after that it never runs again


# The arrows. Each is written with the record's uid and resourceVersion, so it leaves from what was read, or not at all.


def made(before: Register | None, restart: int = 0) -> Register:
    """The next run, for this restart of the job. The caller has looked at the fence."""
    if before is not None and not before.closed:
        raise ValueError(f"run {before.run} is {before.state}")
    return Register(run=restart if before is None else before.run + 1, restart=restart)


def granted(register: Register, nonce: str, members: tuple[Member, ...]) -> Register:
    if register.state != MADE:
        raise ValueError(f"run {register.run} is {register.state}")
    return register.replace(state=GRANTED, nonce=nonce, members=members)


def withdrawn(register: Register, outcome: str = "") -> Register:
    """``outcome``: what becomes of the job by it, for who has to tell; the promise rests on the state alone."""
    if register.state != MADE:
        raise ValueError(f"run {register.run} is {register.state}")
    return register.replace(state=WITHDRAWN, outcome=outcome)


def over(register: Register, outcome: str) -> Register:
    if register.state != GRANTED:
        raise ValueError(f"run {register.run} is {register.state}")
    return register.replace(state=OVER, outcome=outcome)


# The answer.


def answer(record: Record | None, ask: Ask) -> bool | None:
    """What a leader is told. None: nothing yet, it asks again.

    ``record`` was read live (a GET without a resourceVersion) after the ask came; None: there is none.
    """
    if record is None or record.uid != ask.record or record.register is None or record.register.run != ask.run:
        return False
    if record.register.state == MADE:
        return None
    return record.register.state == GRANTED and record.register.nonce == ask.nonce
