"""What holds of every plan, whatever the queue."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shim.control.scheduler import Plan, plan
from shim.core.admission.feasibility import pending_reason
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job
from shim.core.model.request import JobRequest

NOW = 1000.0
NAMES = ("n1", "n2", "n3")


def cluster(machine: bool) -> Cluster:
    return Cluster(
        name="c",
        nodes=tuple(
            Node(name=name, cpus=4, cores_per_socket=4, memory=1000, gres=(Gres(name="gpu", count=2),))
            for name in NAMES
        ),
        partitions=(Partition(name="p", nodes=NAMES, default=True), Partition(name="q", nodes=NAMES[:1])),
        settings={"share": "machine"} if machine else {},
    )


REQUEST = st.fixed_dictionaries(
    {},
    optional={
        "ntasks": st.integers(1, 14),
        "cpus_per_task": st.integers(1, 4),
        "min_nodes": st.integers(1, 4),
        "mem_per_node": st.integers(1, 1000),
        "gres": st.sampled_from(["gpu:1", "gpu:2"]),
        "exclusive": st.just("node"),
        "node_list": st.sampled_from(["n1", "n[2-3]"]),
    },
)
PLAIN = st.fixed_dictionaries({}, optional={"ntasks": st.integers(1, 12), "exclusive": st.just("node")})
QUEUE = st.lists(st.tuples(REQUEST, st.integers(1, 30), st.sampled_from(["p", "q", "q,p"])), max_size=12)


def job(key: int, fields: dict[str, Any], limit: int, partition: str = "p") -> Job:
    if "min_nodes" in fields:
        fields = {**fields, "max_nodes": fields["min_nodes"]}
    request = JobRequest(partition=partition, time_limit=limit, **fields)
    return Job(key=key, job_id=key, partition=partition, time_limit=limit, priority=100 - key, request=request)


def run(found: Plan) -> list[Job]:
    """The jobs of a plan as they are once started."""
    return [
        one.replace(state="RUNNING", shares=tuple(shares), end_time=NOW + 60 * (one.time_limit or 0))
        for one, shares in found.starts
    ]


@given(QUEUE, QUEUE, st.booleans())
def test_nothing_is_given_twice_and_everybody_has_an_answer(first: Any, second: Any, machine: bool) -> None:
    shape = cluster(machine)
    running = run(plan([job(key, *item) for key, item in enumerate(first)], shape, [], NOW))
    queue = [job(key, *item) for key, item in enumerate(second, 50)]
    found = plan(queue, shape, running, NOW)
    everything = [share for one in [*running, *run(found)] for share in one.shares]
    jobs = len(running) + len(found.starts)

    if machine:
        owned = [
            gpu for one in [*running, *run(found)] for gpu in {index for share in one.shares for index in share.gpus}
        ]
        assert len(owned) == len(set(owned))
        assert jobs <= 1 or sum(share.cpus for share in everything) <= 4
        assert jobs <= 1 or sum(share.memory for share in everything) <= 1000
    else:
        for name in NAMES:
            here = [share for share in everything if share.name == name]
            gpus = [index for share in here for index in share.gpus]
            assert sum(share.cpus for share in here) <= 4 and sum(share.memory for share in here) <= 1000
            assert len(gpus) == len(set(gpus))

    begun = {one.key for one, _ in found.starts}
    assert begun.isdisjoint(found.reasons) and begun | set(found.reasons) == {one.key for one in queue}
    assert all(when > NOW and names for when, names in found.expected.values())
    assert sum(reason == "Resources" for reason in found.reasons.values()) <= 2


@given(QUEUE, st.booleans())
def test_an_idle_cluster_starts_the_first_that_can_start(items: Any, machine: bool) -> None:
    shape = cluster(machine)
    queue = [job(key, *item) for key, item in enumerate(items)]
    found = plan(queue, shape, [], NOW)
    able = [one for one in queue if pending_reason(one.request, shape) is None]
    assert [one.key for one, _ in found.starts][:1] == [one.key for one in able][:1]


@settings(derandomize=True)
@given(
    st.lists(st.tuples(PLAIN, st.integers(1, 30)), max_size=6),
    st.lists(st.tuples(PLAIN, st.integers(1, 30)), min_size=1, max_size=8),
    st.booleans(),
)
def test_starting_early_delays_nobody_before(first: Any, second: Any, machine: bool) -> None:
    shape = cluster(machine)
    running = run(plan([job(key, *item) for key, item in enumerate(first)], shape, [], NOW))
    queue = [job(key, *item) for key, item in enumerate(second, 50)]
    found = plan(queue, shape, running, NOW)
    begun = {one.key for one, _ in found.starts}
    again = plan([one for one in queue if one.key not in begun], shape, [*running, *run(found)], NOW)
    assert again.starts == []
    for key, (when, _) in list(found.expected.items())[:1]:
        assert again.expected[key][0] <= when


@given(QUEUE, QUEUE, st.booleans())
def test_what_starts_does_not_hang_on_the_forecast(first: Any, second: Any, machine: bool) -> None:
    shape = cluster(machine)
    running = run(plan([job(key, *item) for key, item in enumerate(first)], shape, [], NOW))
    queue = [job(key, *item) for key, item in enumerate(second, 50)]
    found, without = plan(queue, shape, running, NOW), plan(queue, shape, running, NOW, forecast=False)
    assert (without.starts, without.reasons, without.crowded) == (found.starts, found.reasons, found.crowded)
    assert without.expected.items() <= found.expected.items()
