"""The register of a run, the leader's ask, and the answer: who may launch, decided by one write. Pure."""

from __future__ import annotations

from shim.core.value import Value

MADE = "made"  # its Job may be there, its agents may meet; nothing has begun
GRANTED = "granted"  # the process that holds the nonce may launch, or has
WITHDRAWN = "withdrawn"  # it never began, and never will
OVER = "over"  # it was granted, and has ended or was given up

# Outcomes of a run that is over; the others are Slurm's words, from the leader.
NOT_BEGUN = "NOT_BEGUN"  # the leader was granted, did not launch, and never will: its own word
NODE_FAIL = "NODE_FAIL"  # nobody knows how it ended
CANCELLED = "CANCELLED"

ANSWER_HOLDS = 30.0  # seconds for which a yes may be acted on, from the ask on


class Member(Value):
    """An agent of the gang that asks. ``checked`` and ``boot`` say what its Node object, read live, confirmed at the grant."""

    index: int
    pod: str  # uid
    node: str
    boot: str = ""  # the machine's boot id; once granted: only if the Node object said the same
    checked: bool = False  # the Node object was there, and not marked as out of service


class Ask(Value):
    """A leader whose gang has met wants to launch.

    ``nonce``: 16 random bytes in the memory of the leader's process, made anew for every gang that it assembles. So whoever
    presents it is that process, and is asking for these members: not the same pod's next container, not another gang.
    """

    record: str  # uid of the record whose key the gang holds
    run: int
    nonce: str
    members: tuple[Member, ...]  # the leader is the one with index 0
    asked: float  # on the leader's clock, which goes on while a machine sleeps; comes back with the answer


class Register(Value):
    """What the record says of the job's last run."""

    _nested = {"members": Member}

    run: int
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
    version: int  # metadata.resourceVersion
    nodes: int
    wanted: Wanted = Wanted()
    limits: Limits = Limits()
    register: Register | None = None  # None: no run was made yet
    ended: str = ""  # how the job ended; after that it never runs again


# The arrows. Each is written with the record's uid and resourceVersion, so it leaves from what was read, or not at all.


def made(before: Register | None) -> Register:
    """The next run. The caller has looked at the fence."""
    if before is not None and not before.closed:
        raise ValueError(f"run {before.run} is {before.state}")
    return Register(run=0 if before is None else before.run + 1)


def granted(register: Register, nonce: str, members: tuple[Member, ...]) -> Register:
    if register.state != MADE:
        raise ValueError(f"run {register.run} is {register.state}")
    return register.replace(state=GRANTED, nonce=nonce, members=members)


def withdrawn(register: Register) -> Register:
    if register.state != MADE:
        raise ValueError(f"run {register.run} is {register.state}")
    return register.replace(state=WITHDRAWN)


def over(register: Register, outcome: str) -> Register:
    if register.state != GRANTED:
        raise ValueError(f"run {register.run} is {register.state}")
    return register.replace(state=OVER, outcome=outcome)


# The answer, and what the leader makes of it.


def answer(record: Record | None, ask: Ask) -> bool | None:
    """What a leader is told. None: nothing yet, it asks again.

    ``record`` was read live (a GET without a resourceVersion) after the ask came; None: there is none.
    """
    if record is None or record.uid != ask.record or record.register is None or record.register.run != ask.run:
        return False
    if record.register.state == MADE:
        return None
    return record.register.state == GRANTED and record.register.nonce == ask.nonce


def may_launch(answered: bool | None, ask: Ask, now: float, linked: bool) -> bool:
    """Whether a leader that has not launched yet does so now.

    ``ask``: the very one that was answered, not the last one made. ``now``: on the leader's clock. ``linked``: its links to all
    members have held since they met. (The agent's half of the protocol: it moves to where agents can import it.)
    """
    return answered is True and linked and 0 <= now - ask.asked <= ANSWER_HOLDS
