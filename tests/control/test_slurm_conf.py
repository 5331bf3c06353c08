"""A cluster's shape out of an existing slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.control import slurm_conf
from shim.control.slurm_conf import SlurmConfError

CONF = """\
ClusterName=ref       # a comment
SlurmctldHost=head(10.0.0.1)
MaxArraySize=5001
DefMemPerCPU=1000
GresTypes=gpu,nvme
Licenses=matlab:2,ansys
NodeName=DEFAULT Sockets=2 CoresPerSocket=4 RealMemory=16000 State=UNKNOWN
NodeName=n[1-2] Gres=gpu:4 Feature=fast,cpu \\
    Weight=5
nodename=n[3-4] gres=gpu:a100:4,nvme:10 feature=slow Reason="fan, broken" State=DRAIN
NodeName=big CPUs=64 Sockets=2 RealMemory=1024000 TmpDisk=5000
NodeSet=accel Nodes=n[3-4]
DownNodes=n2 Reason=disk
PartitionName=DEFAULT MaxTime=2-00:00:00 State=UP
PartitionName=debug Nodes=n[1-4] Default=YES MaxTime=INFINITE
PartitionName=gpu Nodes=accel DefaultTime=30 MaxNodes=1
Include more.conf
"""


def test_everything_that_shapes_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "more.conf").write_text("PartitionName=all Nodes=ALL State=DOWN\n")
    cluster = slurm_conf.read(str(tmp_path / "slurm.conf"), "here")
    assert (cluster.name, cluster.max_array_size, cluster.def_mem_per_cpu) == ("here", 5001, 1000)
    assert [(one.name, one.count) for one in cluster.licenses] == [("matlab", 2), ("ansys", 1)]
    assert [node.name for node in cluster.nodes] == ["n1", "n2", "n3", "n4", "big"]
    first, second, third, _, big = cluster.nodes
    assert (first.cpus, first.sockets, first.cores_per_socket, first.memory, first.weight) == (8, 2, 4, 16000, 5)
    assert (first.features, first.gpus, first.gres[0].type) == (("fast", "cpu"), 4, "")
    assert (second.state, second.reason) == ("DOWN", "disk")
    assert (third.state, third.reason) == ("DRAIN", "fan, broken")
    assert [(gres.name, gres.type, gres.count) for gres in third.gres] == [("gpu", "a100", 4), ("nvme", "", 10)]
    assert (big.cpus, big.tmp_disk) == (64, 5000)
    assert len({node.address for node in cluster.nodes}) == 5
    debug, gpu, everything = cluster.partitions
    assert (debug.default, debug.max_time, debug.nodes) == (True, None, ("n1", "n2", "n3", "n4"))
    assert (gpu.default, gpu.max_time, gpu.default_time, gpu.max_nodes) == (False, 2880, 30, 1)
    assert gpu.nodes == ("n3", "n4")
    assert (everything.nodes, everything.state) == (("n1", "n2", "n3", "n4", "big"), "DOWN")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NodeName=n1 CPUs=many\n", 'slurm.conf: line 1: cpus="many": a number is wanted'),
        ("\nPartitionName=p Nodes=n9\n", 'slurm.conf: line 2: partition p: no node "n9"'),
        ("NodeName=n1 Gres=gpu:1\n", 'node n1: "gpu" is not in GresTypes'),
        ("Licenses=matlab:x\nNodeName=n1\n", 'licenses="matlab:x": licences are wanted'),
        ("nonsense\n", '"nonsense" is no Key=Value'),
        ("Include slurm.conf\n", "files include each other"),
        ("Include missing.conf\n", "missing.conf: No such file or directory"),
        ("PartitionName=p MaxTime=soon\n", 'maxtime="soon": a time is wanted'),
    ],
)
def test_errors_name_the_place_and_the_value(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "slurm.conf").write_text(text)
    with pytest.raises(SlurmConfError) as caught:
        slurm_conf.read(str(tmp_path / "slurm.conf"), "here")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "has"),
    [
        ("", False),
        ("AccountingStorageType=accounting_storage/none\n", False),
        ("AccountingStorageType=accounting_storage/slurmdbd\n", True),
    ],
)
def test_accounting(tmp_path: Path, line: str, has: bool) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"{line}NodeName=n1\nPartitionName=all Nodes=ALL Default=YES\n")
    assert slurm_conf.read(str(conf), "x").accounting is has


def test_the_policy_of_partitions(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        """\
EnforcePartLimits=ANY
NodeName=n[1-4] CPUs=4 Feature=a
NodeName=m[1-2] CPUs=4 Feature=b
NodeSet=some Feature=b
NodeSet=both Nodes=n4 Feature=b
PartitionName=one Nodes=some,n1 AllowGroups=g AllowAccounts=x,y DenyQos=q MaxCPUsPerNode=2 LLN=YES ReqResv=YES
PartitionName=two Nodes=both DenyAccounts=x AllowQos=q DisableRootJobs=YES RootOnly=YES Hidden=YES MinNodes=2
PartitionName=none State=UP
"""
    )
    cluster = slurm_conf.read(str(tmp_path / "slurm.conf"), "here")
    one, two, none = cluster.partitions
    assert (cluster.enforce_part_limits, cluster.enforce_in_all) == (True, False)
    assert (one.nodes, two.nodes, none.nodes) == (("m1", "m2", "n1"), ("n4", "m1", "m2"), ())
    assert (one.allow_groups, one.allow_accounts, one.deny_qos) == ("g", "x,y", "q")
    assert (one.max_cpus_per_node, one.lln, one.req_resv, one.disable_root_jobs) == (2, True, True, False)
    assert (two.deny_accounts, two.allow_qos, two.disable_root_jobs, two.hidden) == ("x", "q", True, True)
    assert (two.min_nodes, two.max_cpus_per_node, two.max_nodes) == (2, None, None)
