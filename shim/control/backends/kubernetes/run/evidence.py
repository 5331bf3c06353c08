"""What is seen of a run, and what it proves. Pure.

What can only become true once (a container has ended) may come from a watch, however late. Whatever can become untrue again (a pod or a
Node is not there, a boot id, a Lease) is read live, for this very decision; a watch may only say that something is not to be done.
"""

from __future__ import annotations

from collections.abc import Mapping

from shim.control.backends.kubernetes.run.register import GRANTED, MADE, OVER, Record, Register, granted
from shim.core.value import Value
from shim.job.pod.asking import Ask, Member

HEARD = 60.0  # seconds after which a kubelet that renews its Lease has heard of what was deleted
RENEWAL_GAP = (
    25.0  # seconds between two renewals of a Lease that count as renewed all the while; a kubelet renews every 10
)


class Report(Value):
    """How a leader says that its run ended, over its stream or as its pod's termination message."""

    nonce: str
    outcome: str


class Job(Value):
    """A Job object with the record's label."""

    name: str
    uid: str
    run: int
    finished: bool = False  # it has the condition Complete or Failed: it makes no pods any more
    deleting: bool = False


class Pod(Value):
    """A pod with the record's label, wherever it came from."""

    name: str
    uid: str
    run: int
    index: int
    node: str = ""
    ended: bool = False  # the agent's container is shown as terminated
    unknown: bool = False  # … with the reason ContainerStatusUnknown: the kubelet has lost sight of it
    deleting: bool = False
    report: Report | None = None


class Node(Value):
    """A Node object, read live for this decision."""

    boot: str = ""
    gone: bool = False  # there is none of that name
    out_of_service: bool = False  # tainted as such: somebody vouches that the machine is off


class Renewals(Value):
    """A node's Lease, as live reads by one controller have shown it. All times are on that controller's clock."""

    value: str  # renewTime: compared, never read as a time
    read: float
    since: float  # from then on it was renewed without a gap …
    until: float  # … up to then at least


class Seen(Value):
    """All that one controller knows of a job at one moment; times are on its own clock, which never jumps."""

    jobs: tuple[Job, ...] = ()  # from the watch
    pods: tuple[Pod, ...] = ()  # from the watch
    over: frozenset[str] = (
        frozenset()
    )  # uids of pods that the watch has ever shown as ended, with a reason other than unknown
    asks: tuple[Ask, ...] = ()  # not answered yet
    report: Report | None = None  # heard over the leader's stream
    since: float = 0.0  # since when the register is known to be as it is
    heard: float = 0.0  # when the leader was last heard
    nodes: Mapping[str, Node] | None = None  # live; those of members and of those who ask. None: they may not be read
    leases: Mapping[str, Renewals] = {}  # live, by node
    absent: Mapping[str, float] = {}  # uids of members' pods that live reads do not show, and since when
    turn: bool = False  # the scheduler lets the job begin
    restart: int = 0  # … for this restart
    given_up: str = ""  # whoever watches the pods of a run that was made has given its start up: as what
    ended: str | None = (
        None  # how the job has ended by what an index has committed; "": not yet. None: no index is asked
    )
    archived: bool = False  # its end is kept elsewhere: the record may go

    def pod(self, uid: str) -> Pod | None:
        return next((pod for pod in self.pods if pod.uid == uid), None)


def renewals(before: Renewals | None, value: str, now: float) -> Renewals:
    """What is known after another live read of a Lease."""
    if before is None or now - before.until > RENEWAL_GAP:
        return Renewals(value=value, read=now, since=now, until=now)
    if value == before.value:
        return before.replace(read=now)
    return before.replace(value=value, read=now, until=before.read)  # it was renewed after the read before


def grant(record: Record, ask: Ask, seen: Seen) -> Register | None:
    """The register with the run granted to whoever asks, or None where that is not to be."""
    register = record.register
    if register is None or register.state != MADE or (ask.record, ask.run) != (record.uid, register.run):
        return None
    if [member.index for member in ask.members] != list(range(record.nodes)):
        return None
    members = []
    for member in ask.members:
        pod = seen.pod(member.pod)
        if pod is None or pod.ended or pod.deleting or pod.run != ask.run:
            return None
        if seen.nodes is not None:
            node = seen.nodes.get(member.node)
            if node is None or node.gone or node.out_of_service:
                return None  # what would later prove that it is over is true already
            member = member.replace(checked=True, boot=member.boot if member.boot == node.boot else "")
        else:
            member = member.replace(checked=False, boot="")
        members.append(member)
    return granted(register, ask.nonce, tuple(members))


def fence(record: Record, seen: Seen, now: float) -> tuple[str, ...]:
    """The pods (uids) that keep the fence closed: processes of the last run may live in them. None: another run may be made."""
    register = record.register
    if register is None or register.run <= record.wanted.vouched:
        return ()
    if register.state not in (GRANTED, OVER):
        return ()  # a run that was not granted launches nothing
    doubts = [member.pod for member in register.members if not is_over(member, seen, now, record.limits.grace)]
    members = {member.pod for member in register.members}
    others = [pod.uid for pod in seen.pods if pod.run == register.run and pod.uid not in members and not pod.ended]
    return (*doubts, *others)


def is_over(member: Member, seen: Seen, now: float, grace: float) -> bool:
    """Whether it is proven that no process of this member lives."""
    if member.pod in seen.over:
        return True  # restartPolicy Never: what the kubelet has seen ended stays so
    node = seen.nodes.get(member.node) if seen.nodes is not None else None
    if node is None or not member.checked:
        return False
    if node.gone or node.out_of_service:
        return True
    if member.boot and node.boot != member.boot:
        return True
    lease, absent = seen.leases.get(member.node), seen.absent.get(member.pod)
    # The pod is not there, and the kubelet that would still run it has been in touch for long enough to know.
    return lease is not None and absent is not None and lease.until - max(lease.since, absent) >= grace + HEARD
