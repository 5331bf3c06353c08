"""What proves that a member of a run is over, what does not, and when a run is granted at all."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.backends.kubernetes.run import register
from shim.control.backends.kubernetes.run.decide import FORGOTTEN, WAITS, Answer, CreateJob, Delete, Write, decide
from shim.control.backends.kubernetes.run.evidence import (
    Job,
    Node,
    Pod,
    Renewals,
    Report,
    Seen,
    fence,
    grant,
    renewals,
)
from shim.control.backends.kubernetes.run.register import Limits, Record, Register, Wanted, answer
from shim.job.pod.asking import Ask, Member, may_launch

BOOT = "boot-1"
MEMBER = Member(index=0, pod="pod-a", node="n1", boot=BOOT, checked=True)
RUN = Register(run=0, state=register.OVER, nonce="nonce", members=(MEMBER,), outcome=register.NODE_FAIL)
ASK = Ask(record="uid", run=0, nonce="nonce", members=(Member(index=0, pod="pod-a", node="n1", boot=BOOT),), asked=0.0)
POD = Pod(name="a", uid="pod-a", run=0, index=0, node="n1")
HERE = {"n1": Node(boot=BOOT)}
NOW = 1000.0


def record(run: Register | None = RUN, **fields: Any) -> Record:
    return Record(name="slurm-7", uid="uid", version="3", nodes=1, limits=Limits(grace=40.0), register=run, **fields)


def touch(since: float, until: float) -> dict[str, Renewals]:
    return {"n1": Renewals(value="", read=until, since=since, until=until)}


PROOF = {
    "the kubelet has seen its end": Seen(over=frozenset(["pod-a"])),
    "its machine was booted again": Seen(pods=(POD,), nodes={"n1": Node(boot="boot-2")}),
    "its Node was removed": Seen(pods=(POD,), nodes={"n1": Node(gone=True)}),
    "its Node is out of service": Seen(pods=(POD,), nodes={"n1": Node(boot=BOOT, out_of_service=True)}),
    "gone, and its kubelet in touch since": Seen(nodes=HERE, absent={"pod-a": 500.0}, leases=touch(100.0, 600.0)),
}
NO_PROOF = {
    "nothing is seen": Seen(),
    "its pod is being deleted": Seen(pods=(POD.replace(deleting=True),), nodes=HERE),
    "ended for a reason that nobody knows": Seen(pods=(POD.replace(ended=True, unknown=True),), nodes=HERE),
    "gone, and nothing is known of its node": Seen(absent={"pod-a": 0.0}),
    "gone, and its kubelet in touch for a while": Seen(nodes=HERE, absent={"pod-a": 501.0}, leases=touch(100.0, 600.0)),
    "gone, and its kubelet is back for a while": Seen(nodes=HERE, absent={"pod-a": 1.0}, leases=touch(501.0, 600.0)),
    "there, and its kubelet in touch": Seen(pods=(POD,), nodes=HERE, leases=touch(1.0, 999.0)),
}


@pytest.mark.parametrize(("ended", "left"), [("", 10.0), ("COMPLETED", 30.0)])
def test_pods_whose_end_is_not_shown_are_deleted_later_where_no_run_waits_for_it(ended: str, left: float) -> None:
    """A busy kubelet takes its time to say that a pod has ended: to delete it, and to look for it, is work for nothing."""
    over = record(RUN.replace(outcome="COMPLETED"), ended=ended)

    def deleted(since: float) -> list[Any]:
        seen = Seen(pods=(POD,), since=NOW - since, ended=ended or None)
        return [effect for effect in decide(over, seen, NOW).effects if isinstance(effect, Delete)]

    assert not deleted(left - 0.1)
    assert [effect.uid for effect in deleted(left)] == ["pod-a"]


@pytest.mark.parametrize("seen", PROOF.values(), ids=PROOF)
def test_what_opens_the_fence(seen: Seen) -> None:
    others = seen.replace(pods=tuple(pod for pod in seen.pods if pod.uid != MEMBER.pod))
    assert fence(record(), others, NOW) == ()


@pytest.mark.parametrize("seen", NO_PROOF.values(), ids=NO_PROOF)
def test_what_does_not(seen: Seen) -> None:
    assert fence(record(), seen, NOW) == ("pod-a",)
    assert decide(record(), seen.replace(turn=True), NOW).next == WAITS


@pytest.mark.parametrize("node", [Node(boot="boot-2"), Node(gone=True), Node(boot=BOOT, out_of_service=True)])
def test_a_node_that_was_not_looked_at_when_the_run_was_granted_proves_nothing(node: Node) -> None:
    unchecked = RUN.replace(members=(MEMBER.replace(checked=False, boot=""),))
    assert fence(record(unchecked), Seen(nodes={"n1": node}), NOW) == ("pod-a",)


def test_another_boot_id_than_the_agents_proves_nothing_if_the_node_never_said_the_same() -> None:
    made = Register(run=0)
    found = grant(record(made), ASK, Seen(pods=(POD,), nodes={"n1": Node(boot="of the host")}))
    assert found is not None and found.members[0].boot == ""
    closed = record(register.over(found, register.NODE_FAIL))
    assert fence(closed, Seen(nodes={"n1": Node(boot="of the host")}), NOW) == ("pod-a",)
    assert fence(closed, Seen(nodes={"n1": Node(gone=True)}), NOW) == ()


def test_every_other_pod_of_the_run_keeps_the_fence_closed_too_and_is_taken_away() -> None:
    other = Pod(name="b", uid="pod-b", run=0, index=0, node="n2")
    seen = Seen(pods=(other,), over=frozenset(["pod-a"]), turn=True)
    decision = decide(record(), seen.replace(since=NOW - 10.0), NOW)
    assert (decision.next, decision.free) == (WAITS, False)
    assert decision.effects == (Delete(kind="pod", name="b", uid="pod-b", run=0),)
    assert decide(record(), seen.replace(pods=(other.replace(ended=True),)), NOW).free


def test_a_person_may_vouch() -> None:
    assert fence(record(wanted=Wanted(vouched=0)), Seen(), NOW) == ()
    assert fence(record(RUN.replace(run=1), wanted=Wanted(vouched=0)), Seen(), NOW) == ("pod-a",)


def test_the_lease_counts_only_without_a_gap() -> None:
    known = None
    for now in range(0, 60, 10):
        known = renewals(known, str(now), float(now))
    assert known is not None and (known.since, known.until) == (
        0.0,
        40.0,
    )  # the last renewal came at some time after 40
    known = renewals(known, "50", 60.0)
    assert (known.since, known.until) == (0.0, 40.0)
    known = renewals(known, "66", 66.0)
    assert (known.since, known.until) == (66.0, 66.0)  # from 40 to 66 nobody knows


def test_a_run_that_was_not_granted_leaves_nothing_to_wait_for() -> None:
    withdrawn = record(register.withdrawn(Register(run=4)))
    decision = decide(withdrawn, Seen(pods=(POD.replace(run=4),), turn=True), NOW)
    assert decision.effects[0] == Write(name="slurm-7", uid="uid", version="3", register=Register(run=5))
    assert decision.effects[1:] == (Delete(kind="pod", name="a", uid="pod-a", run=4),)


VETO = {
    "its pod is not known yet": Seen(nodes=HERE),
    "its pod is being deleted": Seen(pods=(POD.replace(deleting=True),), nodes=HERE),
    "its pod has ended": Seen(pods=(POD.replace(ended=True),), nodes=HERE),
    "its Node could not be read": Seen(pods=(POD,), nodes={}),
    "its Node is gone": Seen(pods=(POD,), nodes={"n1": Node(gone=True)}),
    "its Node is out of service": Seen(pods=(POD,), nodes={"n1": Node(boot=BOOT, out_of_service=True)}),
}


@pytest.mark.parametrize("seen", VETO.values(), ids=VETO)
def test_what_keeps_a_run_from_being_granted(seen: Seen) -> None:
    decision = decide(record(Register(run=0)), seen.replace(asks=(ASK,)), 0.0)
    assert Answer(ask=ASK) in decision.effects  # it is answered all the same, by what the record says then
    assert decision.next != register.GRANTED


def test_who_asks_for_another_run_or_record_is_not_granted() -> None:
    seen = Seen(pods=(POD,), nodes=HERE)
    made = record(Register(run=0))
    assert grant(made, ASK, seen) == register.granted(Register(run=0), "nonce", (MEMBER,))
    assert grant(made, ASK.replace(run=1), seen) is None
    assert grant(made, ASK.replace(record="of before"), seen) is None
    assert grant(made, ASK.replace(members=()), seen) is None


def test_the_answer() -> None:
    granted = RUN.replace(state=register.GRANTED, outcome="")
    assert answer(record(granted), ASK) is True
    assert answer(record(granted), ASK.replace(nonce="of the next container")) is False
    assert answer(record(granted), ASK.replace(record="of before")) is False
    assert answer(record(Register(run=0)), ASK) is None
    assert answer(record(Register(run=1)), ASK) is False
    assert answer(record(RUN), ASK) is False
    assert answer(None, ASK) is False


def test_a_yes_holds_for_thirty_seconds_and_while_the_gang_does() -> None:
    assert may_launch(True, ASK, 30.0, linked=True)
    assert not may_launch(True, ASK, 30.1, linked=True)
    assert not may_launch(True, ASK, 1.0, linked=False)
    assert not may_launch(None, ASK, 1.0, linked=True)
    assert not may_launch(False, ASK, 1.0, linked=True)


def test_the_arrows() -> None:
    for state in (register.GRANTED, register.WITHDRAWN, register.OVER):
        with pytest.raises(ValueError):
            register.granted(RUN.replace(state=state), "nonce", ())
        with pytest.raises(ValueError):
            register.withdrawn(RUN.replace(state=state))
    for state in (register.MADE, register.GRANTED):
        with pytest.raises(ValueError):
            register.made(RUN.replace(state=state))
    for state in (register.MADE, register.WITHDRAWN, register.OVER):
        with pytest.raises(ValueError):
            register.over(RUN.replace(state=state), "COMPLETED")


def test_a_life_without_faults() -> None:
    """Four writes: made, granted, over with the job's end, and the record goes; its objects are evidence until then."""
    current = record(None)
    job = Job(name="slurm-7-r0", uid="job", run=0)

    def written(seen: Seen) -> Record:
        effect = decide(current, seen, NOW).effects[0]
        assert isinstance(effect, Write) and (effect.uid, effect.version) == (current.uid, current.version)
        return current.replace(version=current.version + "1", register=effect.register, ended=effect.ended)

    assert decide(current, Seen(), NOW).next == WAITS
    current = written(Seen(turn=True))
    assert decide(current, Seen(since=NOW), NOW).effects == (CreateJob(name="slurm-7", record="uid", run=0),)
    assert decide(current, Seen(jobs=(job,), since=NOW), NOW).effects == ()
    current = written(Seen(jobs=(job,), pods=(POD,), nodes=HERE, asks=(ASK,), since=NOW))
    assert current.register is not None and current.register.state == register.GRANTED
    assert decide(current, Seen(pods=(POD,), heard=NOW), NOW).effects == ()  # without its Job it goes on
    current = written(Seen(report=Report(nonce="nonce", outcome="COMPLETED"), heard=NOW))
    assert current.ended == "COMPLETED"
    ended = Seen(jobs=(job,), pods=(POD.replace(ended=True),), over=frozenset(["pod-a"]), turn=True)
    assert decide(current, ended, NOW).effects == ()
    gone = decide(current, ended.replace(archived=True), NOW)
    assert (gone.next, gone.effects) == (FORGOTTEN, (Delete(kind="record", name="slurm-7", uid="uid"),))


def test_what_the_next_process_in_the_leaders_pod_says_is_no_word_of_the_leader() -> None:
    granted = record(RUN.replace(state=register.GRANTED, outcome=""), wanted=Wanted(requeue=False))
    other = POD.replace(ended=True, report=Report(nonce="of the next container", outcome=register.NOT_BEGUN))
    (write,) = decide(granted, Seen(pods=(other,), heard=NOW), NOW).effects
    assert isinstance(write, Write) and write.ended == register.NODE_FAIL
