"""The cluster's nodes, and what is free on them."""

from __future__ import annotations

from typing import Any

from shim.control.backends.kubernetes import names, nodes, settings
from shim.core.model.cluster import Cluster, Partition


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


def cluster(*partitions: Partition, **words: Any) -> Cluster:
    return Cluster(name="k8s", partitions=partitions or (Partition(name="all"),), settings=settings.texts(words))


def test_nodes_are_counted_as_people_count() -> None:
    found = nodes.shaped(cluster(), [node("n10"), node("n9"), node("n1")], [])
    assert [one.name for one in found.nodes] == ["n1", "n9", "n10"]
    assert found.partitions[0].nodes == ("n1", "n9", "n10")
    assert (found.nodes[0].cpus, found.nodes[0].memory) == (8, 16384)


def test_what_daemons_take_is_never_offered_and_what_others_take_is_in_use() -> None:
    pods = [pod("n1", "300m", "1Gi", "DaemonSet"), pod("n1", "1500m", "2Gi", **{"nvidia.com/gpu": "1"})]
    (one,) = nodes.shaped(cluster(), [node("n1", gpus="4")], pods).nodes
    assert (one.cpus, one.memory, one.gpus) == (7, 15360, 4)
    assert (one.others_cpus, one.others_memory, one.others_gpus) == (2, 2048, 1)


def test_pods_that_have_ended_take_nothing() -> None:
    gone = pod("n1")
    gone["status"]["phase"] = "Succeeded"
    (one,) = nodes.shaped(cluster(), [node("n1")], [gone]).nodes
    assert one.others_cpus == 0


def test_init_containers_count_by_the_largest_and_sidecars_stay() -> None:
    found = pod("n1", "1")
    found["spec"]["initContainers"] = [
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"resources": {"requests": {"cpu": "4"}}},
    ]
    found["spec"]["overhead"] = {"cpu": "250m"}
    assert nodes.requests(found, "nvidia.com/gpu").cpus == 5250
    found["spec"]["resources"] = {"requests": {"cpu": "3"}}
    assert nodes.requests(found, "nvidia.com/gpu").cpus == 3000


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
    found = nodes.shaped(
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
    (one,) = nodes.shaped(cluster(), [broken], []).nodes
    assert (one.state, one.reason) == ("DOWN", "NodeStatusUnknown")


def test_labels_become_features_and_gpu_types() -> None:
    words = {
        "node_features": {"ib": {"net": "infiniband"}, "any": {"net": ["infiniband", "ethernet"]}},
        "gpu_types": {"a100": {"nvidia.com/gpu.product": ["A100-40", "A100-80"]}},
    }
    made = [node("n1", gpus="2", labels={"net": "infiniband", "nvidia.com/gpu.product": "A100-80"}), node("n2")]
    one, other = nodes.shaped(cluster(**words), made, []).nodes
    assert set(one.features) == {"ib", "any"}
    assert [(gres.name, gres.type, gres.count) for gres in one.gres] == [("gpu", "a100", 2)]
    assert (other.features, other.gres) == ((), ())


def test_a_cpu_of_a_job_may_request_less_than_one() -> None:
    (one,) = nodes.shaped(cluster(cpu_request=10), [node("n1", "2")], [pod("n1", "500m")]).nodes
    assert (one.cpus, one.others_cpus) == (20, 5)
