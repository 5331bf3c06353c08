"""`shim config`: what it writes is a configuration, and the one in force."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from shim.admin.config import report
from shim.control import config, shape
from shim.control.backends.kubernetes.settings import settings_of
from shim.control.machine import Machine
from shim.core.model.cluster import Cluster

WRITTEN = """
[clusters.here]
cpus = 8
memory = "4G"
gpus = "a100:2,1"
licenses = "matlab:2,ansys"
first_job_id = 7
[[clusters.here.node]]
names = "node2"
features = ["slow"]
[clusters.here.partitions.short]
max_time = "30"
state = "down"
[clusters.cloud]
backend = "kubernetes"
image = "python:3.12"
node_selector = { disk = "ssd" }
[clusters.cloud.partitions.all]
default = true
[clusters.cloud.partitions.small]
image = "busybox"
[clusters.hpc]
backend = "slurm"
"""


@pytest.mark.usefixtures("state_dir")
def test_it_reads_as_the_configuration_that_it_was_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(text: str) -> tuple[tuple[Cluster, ...], str]:
        file = tmp_path / "config.toml"
        file.write_text(f'default = "here"\n{text}')
        monkeypatch.setenv("SHIM_CONFIG", str(file))
        out = io.StringIO()
        report(out, origin=False)
        machine = Machine(cpus=4, memory=1000, tmp_disk=1)
        return shape.clusters(config.load(), machine, "none"), out.getvalue()

    clusters, said = made(WRITTEN)
    again, said_again = made(said.partition("\n")[2])
    assert said == said_again
    for old, new in zip(clusters, again):
        pods = [settings_of(one, partition) for one in (old, new) for partition in ("", "all", "small")]
        assert pods[:3] == pods[3:]
        assert _bare(old) == _bare(new)
    assert [one.name for one in again] == ["here", "cloud", "hpc"]
    assert settings_of(again[1], "all").image == "python:3.12"


@pytest.mark.usefixtures("state_dir")
def test_what_slurm_conf_says_is_not_shown_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slurm.conf").write_text(
        "NodeName=c[1-2] CPUs=4\nPartitionName=main Nodes=ALL Default=YES\nMaxArraySize=55\nKillWait=7\n"
    )

    def made(text: str) -> tuple[Cluster, str]:
        file = tmp_path / "config.toml"
        file.write_text(text)
        monkeypatch.setenv("SHIM_CONFIG", str(file))
        out = io.StringIO()
        report(out, origin=False)
        (cluster,) = shape.clusters(config.load(), Machine(cpus=4, memory=1000, tmp_disk=1), "none")
        return cluster, out.getvalue()

    cluster, said = made(f'[clusters.local]\nslurm_conf = "{tmp_path}/slurm.conf"\nkill_wait = 8\n')
    assert made(said) == (cluster, said)
    assert (cluster.max_array_size, cluster.kill_wait, len(cluster.nodes)) == (55, 8, 2)
    assert "debug" not in said and "# nodes, partitions and limits: as slurm_conf has them" in said


def _bare(cluster: Cluster) -> Cluster:
    """Without the words for its pods."""
    partitions = tuple(one.replace(settings={}) for one in cluster.partitions)
    return cluster.replace(settings={}, partitions=partitions)
