"""What pods say of their nodes: hosts only where a job names them, labels and distance for everything else."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shim.control.backends.kubernetes.cluster.shape import Shape
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.affinity import placement
from shim.control.backends.kubernetes.objects.gang_spec import Gang
from shim.control.backends.kubernetes.objects.pod_template import template
from shim.control.backends.kubernetes.settings import Settings
from shim.core.model.cluster import Cluster, Gres, Node, Partition
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from shim.core.placement.select_nodes import NodeFree, select_nodes
from shim.job.spec import RunSpec

SETTINGS = Settings(
    node_features={"ib": {"net": "ib"}, "fast": {"cpu": ["v4", "v5"]}, "big": {"size": "big"}},
    gpu_types={"a100": {"product": "A100"}, "h100": {"product": "H100"}},
)
NODES = (
    Node(name="n1", cpus=8, memory=8000, tmp_disk=9000, features=("ib", "fast"), gres=(Gres(name="gpu", type="a100"),)),
    Node(name="n2", cpus=8, memory=8000, tmp_disk=9000, features=("ib",), gres=(Gres(name="gpu", type="a100"),)),
    Node(name="n3", cpus=8, memory=8000, tmp_disk=9000, features=("big",), gres=(Gres(name="gpu", type="h100"),)),
)
CLUSTER = Cluster(name="k8s", nodes=NODES, partitions=(Partition(name="all", nodes=("n1", "n2", "n3"), default=True),))


class Named:
    """The shape, as far as it is asked: nodes are the cluster's, and labelled otherwise than they are called."""

    def __init__(self, names_nodes: bool = True) -> None:
        self.names_nodes = names_nodes

    def hostname(self, node: str) -> str:
        return f"host-{node}"


def affinity(cluster: Cluster = CLUSTER, described: bool = False, barred: tuple[str, ...] = (), **asked: Any) -> Any:
    """The affinity of the job's pods when our scheduler has found it nodes."""
    request = JobRequest(**asked)
    free = [
        NodeFree(node=node, cpus=node.cpus, memory=node.memory, gpus=tuple(range(node.gpus))) for node in cluster.nodes
    ]
    shares = select_nodes(request, cluster, free, cluster.partitions[0])
    assert shares is not None
    job = Job(
        cluster="k8s", job_id=7, submit_time=0.0, uid=1, shares=shares, nodes=len(shares), partition="all",
        request=request,
    )  # fmt: skip
    spec = RunSpec(job=job, cluster=cluster, barred=barred)
    found = placement(spec, SETTINGS, cast(Shape, Named(not described)))
    gang = Gang(job_id=7, record="r", nodes=len(shares), cpus=1, place=found)
    return template(gang, SETTINGS, {})["spec"]["affinity"]


def terms(**asked: Any) -> Any:
    """What the labels of a node must say: (label, operator, values), one list for each alternative."""
    found = affinity(**asked).get("nodeAffinity")
    if found is None:
        return []
    required = found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [[(one["key"], one["operator"], one["values"]) for one in term["matchExpressions"]] for term in required]


HOSTS = names.HOSTNAME


@pytest.mark.parametrize("asked", [{}, {"min_nodes": 3, "max_nodes": 3}, {"gres": "gpu:1"}, {"ntasks": 4}])
def test_no_host_is_named_that_the_job_has_not_named(asked: dict[str, Any]) -> None:
    assert terms(**asked) == []


def test_nodes_that_the_job_names() -> None:
    assert terms(node_list="n2") == [[(HOSTS, "In", ["host-n2"])]]
    assert terms(node_list="n2", min_nodes=2, max_nodes=2) == [[(HOSTS, "In", ["host-n2", "host-n3"])]]
    assert terms(exclude="n[1-2]") == [[(HOSTS, "NotIn", ["host-n1", "host-n2"])]]


def test_nodes_that_operators_keep_it_from() -> None:
    assert terms(barred=("n3",), exclude="n1") == [[(HOSTS, "NotIn", ["host-n1", "host-n3"])]]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("ib", [[("net", "In", ["ib"])]]),
        ("ib&fast", [[("cpu", "In", ["v4", "v5"]), ("net", "In", ["ib"])]]),
        ("ib|big", [[("net", "In", ["ib"])], [("size", "In", ["big"])]]),
        ("[big|ib]", [[("net", "In", ["ib"])]]),  # that of the two nodes which our scheduler has found
    ],
)
@pytest.mark.parametrize("described", [False, True])
def test_features(constraint: str, expected: Any, described: bool) -> None:
    assert terms(constraint=constraint, min_nodes=1 + ("[" in constraint), described=described) == expected


def test_a_type_of_gpus_that_was_asked_for_and_one_that_was_not() -> None:
    assert terms(gres="gpu:h100:1") == [[("product", "In", ["H100"])]]
    assert terms(gpus="a100:1", exclude="n1") == [[(HOSTS, "NotIn", ["host-n1"]), ("product", "In", ["A100"])]]
    assert terms(gpus="1") == []


@pytest.mark.parametrize(
    "asked",
    [
        {"contiguous": True, "min_nodes": 2, "max_nodes": 2},
        {"constraint": "ib*1&big*1", "min_nodes": 2, "max_nodes": 2},
    ],
)
def test_what_no_label_says_is_had_by_the_hosts_that_were_chosen(asked: dict[str, Any]) -> None:
    ((one,),) = terms(**asked)
    assert one[:2] == (HOSTS, "In")
    assert terms(**asked, described=True) in ([], [[("net", "In", ["ib"]), ("size", "In", ["big"])]])


def test_an_exclusive_job_stays_away_from_all_pods_of_ours_and_they_from_it() -> None:
    (one,) = affinity(exclusive="node")["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert one == {
        "topologyKey": HOSTS,
        "labelSelector": {"matchLabels": {names.MANAGED: names.MANAGER}},
        "namespaceSelector": {},
    }
    assert "podAntiAffinity" not in affinity()


def test_whole_nodes_of_different_sizes_are_had_by_their_hosts() -> None:
    larger = CLUSTER.replace(nodes=(NODES[0], NODES[1].replace(cpus=16), NODES[2]))
    assert terms(cluster=larger, exclusive="node", min_nodes=2, max_nodes=2) == [
        [(HOSTS, "In", ["host-n1", "host-n2"])]
    ]


def test_the_disk_that_a_node_must_have() -> None:
    gang = Gang(job_id=7, record="r", nodes=1, cpus=1)
    gang = gang.replace(place=gang.place.replace(tmp_disk=500))
    resources = template(gang, SETTINGS, {})["spec"]["containers"][0]["resources"]
    assert resources["requests"]["ephemeral-storage"] == "500Mi"
    assert "ephemeral-storage" not in resources["limits"]
