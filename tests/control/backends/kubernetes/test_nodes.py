"""The cluster's nodes, and what is free on them."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control.backends.kubernetes import settings
from shim.control.backends.kubernetes.cluster import nodes, usage_sums
from shim.control.backends.kubernetes.cluster.autoscaling import check
from shim.control.backends.kubernetes.objects import names
from shim.control.scheduler import plan
from shim.core.errors import ShimError
from shim.core.model.cluster import NO_END, Cluster, Partition
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.render.node_state import uses


def node(
    name: str, cpu: str = "8", memory: str = "16Gi", gpus: str = "", labels: Any = None, **spec: Any
) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, **({"nvidia.com/gpu": gpus} if gpus else {})}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": {names.HOSTNAME: name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [ready]},
    }


def pod(where: str, cpu: str = "1", memory: str = "1Gi", owner: str = "ReplicaSet", **more: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory, **more}
    return {
        "metadata": {"name": "p", "ownerReferences": [{"kind": owner}]},
        "spec": {"nodeName": where, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }


def shaped(configured: Cluster, made: list[dict[str, Any]], pods: list[dict[str, Any]]) -> Cluster:
    for number, one in enumerate(pods):
        one["metadata"]["name"] = f"p{number}"
    return nodes.shaped(configured, made, usage_sums.summed(pods, "nvidia.com/gpu"))


def cluster(*partitions: Partition, **words: Any) -> Cluster:
    return Cluster(name="k8s", partitions=partitions or (Partition(name="all"),), settings=settings.texts(words))


def test_nodes_are_counted_as_people_count() -> None:
    found = shaped(cluster(), [node("n10"), node("n9"), node("n1")], [])
    assert [one.name for one in found.nodes] == ["n1", "n9", "n10"]
    assert found.partitions[0].nodes == ("n1", "n9", "n10")
    assert (found.nodes[0].cpus, found.nodes[0].memory) == (8, 16384)


def test_what_daemons_take_is_never_offered_and_what_others_take_is_in_use() -> None:
    pods = [pod("n1", "300m", "1Gi", "DaemonSet"), pod("n1", "1500m", "2Gi", **{"nvidia.com/gpu": "1"})]
    (one,) = shaped(cluster(), [node("n1", gpus="4")], pods).nodes
    assert (one.cpus, one.memory, one.gpus) == (7, 15360, 4)
    assert (one.others_cpus, one.others_memory, one.others_gpus) == (2, 2048, 1)


def test_pods_that_have_ended_take_nothing() -> None:
    gone = pod("n1")
    gone["status"]["phase"] = "Succeeded"
    (one,) = shaped(cluster(), [node("n1")], [gone]).nodes
    assert one.others_cpus == 0


def test_init_containers_count_by_the_largest_and_sidecars_stay() -> None:
    found = pod("n1", "1")
    found["spec"]["initContainers"] = [
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"resources": {"requests": {"cpu": "4"}}},
    ]
    found["spec"]["overhead"] = {"cpu": "250m"}
    assert usage_sums.requests(found, "nvidia.com/gpu").cpus == 5250
    found["spec"]["resources"] = {"requests": {"cpu": "3"}}
    assert usage_sums.requests(found, "nvidia.com/gpu").cpus == 3000


def test_partitions_have_the_nodes_with_their_labels_that_tolerate() -> None:
    made = [
        node("cpu1"),
        node("gpu1", labels={"pool": "gpu"}),
        node("gpu2", labels={"pool": "gpu"}, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
        node("out", unschedulable=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
    ]
    tolerating = settings.texts(
        {"node_selector": {"pool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    )
    found = shaped(
        cluster(
            Partition(name="all"),
            Partition(name="gpu", settings=settings.texts({"node_selector": {"pool": "gpu"}})),
            Partition(name="all-gpu", settings=tolerating),
        ),
        made,
        [],
    )
    everything, gpu, tolerant = (partition.nodes for partition in found.partitions)
    assert set(everything) == {"cpu1", "gpu1", "out"}
    assert (gpu, tolerant) == (("gpu1",), ("gpu1", "gpu2"))
    assert {one.name: one.state for one in found.nodes if one.state} == {"out": "DRAIN"}


def test_a_node_that_is_not_ready_is_down() -> None:
    broken = node("n1")
    broken["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    (one,) = shaped(cluster(), [broken], []).nodes
    assert (one.state, one.reason) == ("DOWN", "NodeStatusUnknown")


def test_labels_become_features_and_gpu_types() -> None:
    words = {
        "node_features": {"ib": {"net": "infiniband"}, "any": {"net": ["infiniband", "ethernet"]}},
        "gpu_types": {"a100": {"nvidia.com/gpu.product": ["A100-40", "A100-80"]}},
    }
    made = [node("n1", gpus="2", labels={"net": "infiniband", "nvidia.com/gpu.product": "A100-80"}), node("n2")]
    one, other = shaped(cluster(**words), made, []).nodes
    assert set(one.features) == {"ib", "any"}
    assert [(gres.name, gres.type, gres.count) for gres in one.gres] == [("gpu", "a100", 2)]
    assert (other.features, other.gres) == ((), ())


def test_a_cpu_of_a_job_may_request_less_than_one() -> None:
    (one,) = shaped(cluster(cpu_request=10), [node("n1", "2")], [pod("n1", "500m")]).nodes
    assert (one.cpus, one.others_cpus) == (20, 5)


def grown(words: dict[str, Any], made: list[dict[str, Any]], **more: Any) -> Cluster:
    return shaped(cluster(autoscale=True, **words, **more), made, [])


def test_nodes_that_may_be_added_stand_beside_those_that_are_there() -> None:
    found = grown({"autoscale_nodes": 2}, [node("n1", gpus="4"), node("n2", "4"), node("n3", "4", "8Gi")])
    assert found.partitions[0].nodes[3:] == tuple(f"all-cloud-{number}" for number in range(1, 5))
    new = [one for one in found.nodes if one.cloud]
    assert [(one.cpus, one.gpus, one.memory) for one in new] == [(8, 4, 16384)] * 2 + [(4, 0, 8192)] * 2
    assert all(one.weight > found.nodes[0].weight for one in new)
    assert uses(found, [])["all-cloud-1"].short == "idle~"


def test_nodes_that_may_be_added_where_there_are_none() -> None:
    found = grown({}, [])
    assert len(found.nodes) == 16
    request = JobRequest(ntasks=32, gres="gpu:8")
    (start,) = plan([job_of(request)], found, (), 0.0).starts
    assert [(share.name, share.cpus, len(share.gpus)) for share in start[1]] == [("all-cloud-1", 32, 8)]


def test_nodes_that_may_be_added_as_they_are_described() -> None:
    words = {"cpus": 64, "memory": "256G", "gpus": "a100:8", "features": ["ib"]}
    found = grown({"autoscale_node": words, "autoscale_nodes": 1}, [node("n1")])
    new = found.nodes[-1]
    assert (new.name, new.cpus, new.memory, new.features) == ("all-cloud-1", 64, 262144, ("ib",))
    assert [(one.type, one.count) for one in new.gres] == [("a100", 8)]
    several = grown({"autoscale_node": [{"cpus": 2}, {"cpus": 4}], "autoscale_nodes": 1}, [])
    assert [one.cpus for one in several.nodes] == [2, 4]


@pytest.mark.parametrize("words", [{"cpu": 4}, {"cpus": "many"}, {"gpus": "x:y"}, ["a"]])
def test_descriptions_that_cannot_be_read(words: Any) -> None:
    with pytest.raises(ShimError, match="bad autoscale_node"):
        check(settings.settings_of(cluster(autoscale_node=words)))


def test_jobs_take_nodes_that_are_there_first_and_no_more_new_ones_than_they_may() -> None:
    found = grown({"autoscale_nodes": 2}, [node("n1")])
    jobs = [job_of(JobRequest(ntasks=8), number) for number in range(1, 6)]
    made = plan(jobs, found, (), 0.0)
    assert [share.name for _job, shares in made.starts for share in shares] == ["n1", "all-cloud-1", "all-cloud-2"]
    assert made.reasons == {4: "Resources", 5: "Priority"}


def job_of(request: JobRequest, key: int = 1) -> Job:
    return Job(cluster="k8s", job_id=key, key=key, submit_time=0.0, partition="all", nodes=1, request=request)


def test_what_pods_hold_follows_every_change() -> None:
    found = usage_sums.Sums(lambda metadata: metadata["name"] if metadata["name"].startswith("ours") else None)

    def put(name: str, where: str, **fields: Any) -> None:
        one = pod(where)
        one["metadata"]["name"] = name
        one["spec"].update(fields.pop("spec", {}))
        one["status"].update(fields)
        found.put(usage_sums.trim(one, "nvidia.com/gpu"))

    def cpus(where: str, counted: bool = True) -> int:
        return sum(use.cpus for use in found.by_node(lambda run: counted).get(where, {}).values())

    put("a", "n1")
    put("b", "n1")
    put("a", "n2")  # its name was given anew
    put("ours-1", "n1")
    assert (cpus("n1"), cpus("n2"), cpus("n1", counted=False)) == (1000, 1000, 2000)
    put("b", "n1", phase="Failed")
    found.drop({"metadata": {"name": "a"}})
    found.drop({"metadata": {"name": "never seen"}})
    assert (cpus("n1"), cpus("n2")) == (0, 0)


@pytest.mark.parametrize(
    ("spec", "annotations", "expected"),
    [
        ({}, {}, 0.0),
        ({"restartPolicy": "Never"}, {}, NO_END),
        ({"restartPolicy": "Never", "activeDeadlineSeconds": 600}, {}, 1_700_000_400 + 600),
        ({"restartPolicy": "Never", "activeDeadlineSeconds": 1500}, {names.LIMIT: "590"}, 1_700_000_400 + 600),
    ],
)
def test_when_others_end(spec: dict[str, Any], annotations: dict[str, str], expected: float) -> None:
    one = pod("n1")
    one["spec"].update(spec)
    one["metadata"]["annotations"] = annotations
    one["status"]["startTime"] = "2023-11-14T22:20:00Z"
    (found,) = shaped(cluster(), [node("n1")], [one]).nodes
    assert [part.until for part in found.others] == ([expected] if expected else [])


def test_a_partition_without_nodes_says_why() -> None:
    labels = shaped(cluster(node_selector={"pool": "gpu", "zone": "a"}), [node("n1"), node("n2")], [])
    why = "none of the cluster's 2 nodes has the labels of partition all: pool=gpu, zone=a"
    assert labels.partitions[0].note == why
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    tainted = shaped(cluster(), [node("n1", taints=[taint])], [])
    assert tainted.partitions[0].note == "partition all tolerates no node of the cluster: dedicated"
    assert shaped(cluster(), [node("n1")], []).partitions[0].note == ""
