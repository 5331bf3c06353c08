"""The configuration: files, variables, origins, errors; and the clusters made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shim
from shim.control import config, shape, site
from shim.control.id_ranges import numbered
from shim.control.machine import Machine, this_machine
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster

PACKAGE = Path(shim.__file__).parent
END = 1 << 62  # of a range of job ids that has none
MACHINE = Machine(cpus=8, sockets=2, memory=16000, gpus=2)


def write(folder: Path, text: str) -> None:
    (folder / "config" / "shim").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "shim" / "config.toml").write_text(text)


def made(isolation: str = "namespaces") -> Cluster:
    return shape.clusters(config.load(), MACHINE, isolation)[0]


def test_nothing_configured_is_one_local_cluster_of_four_nodes_like_this_machine() -> None:
    cluster = made()
    assert (cluster.name, cluster.backend) == ("local", "local")
    assert [node.name for node in cluster.nodes] == ["node1", "node2", "node3", "node4"]
    assert [node.address for node in cluster.nodes] == [f"127.0.0.{number}" for number in range(1, 5)]
    assert {(node.cpus, node.sockets, node.memory, node.gpus) for node in cluster.nodes} == {(8, 2, 16000, 2)}
    assert cluster.settings["share"] == "devices"
    assert cluster.elastic
    assert cluster.default_partition is not None
    assert cluster.default_partition.name == "debug"


@pytest.mark.parametrize("text", ["[clusters.local]\n", "[clusters.local]\nkill_wait = 1\n"])
def test_what_somebody_has_configured_is_strict(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    assert not made().elastic


def test_a_variable_configures_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_LOCAL_NODES", "2")
    assert not made().elastic


def test_nodes_share_the_machine_where_it_is_configured(tmp_path: Path) -> None:
    write(tmp_path, '[clusters.local]\nshare = "machine"\n')
    assert made().one_machine
    write(tmp_path, "[clusters.local]\ngpus = 2\n")
    assert not made().one_set_of_gpus
    write(tmp_path, '[clusters.local]\nshare = "all"\n')
    with pytest.raises(
        config.ConfigError, match=r'clusters\.local\.share: bad value "all": nodes or machine is wanted'
    ):
        made()


def test_without_namespaces_the_addresses_are_the_names() -> None:
    assert [node.name for node in made("addresses").nodes] == ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]


def test_the_shape_of_another_cluster(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [clusters.ref]
        node_names = "n[1-4]"
        cpus = 8
        sockets = 2
        memory = "16000M"
        gpus = 0
        def_mem_per_cpu = 1000
        features = ["fast", "cpu"]
        licenses = "matlab:2"
        [[clusters.ref.node]]
        names = "n[3-4]"
        gpus = "a100:4"
        features = ["slow"]
        [clusters.ref.partitions.debug]
        default = true
        [clusters.ref.partitions.gpu]
        nodes = "n[3-4]"
        max_time = "2:00:00"
        default_time = "30:00"
        """,
    )
    cluster = made()
    assert [(node.name, node.cpus, node.gpus) for node in cluster.nodes] == [
        ("n1", 8, 0),
        ("n2", 8, 0),
        ("n3", 8, 4),
        ("n4", 8, 4),
    ]
    assert cluster.nodes[0].features == ("fast", "cpu")
    assert cluster.nodes[3].features == ("slow",)
    assert cluster.nodes[3].gres[0].type == "a100"
    assert cluster.nodes[0].cores_per_socket == 4
    assert cluster.def_mem_per_cpu == 1000
    assert "overcommit" not in cluster.settings
    assert [(gres.name, gres.count) for gres in cluster.licenses] == [("matlab", 2)]
    gpu = cluster.partition("gpu")
    assert gpu is not None
    assert (gpu.nodes, gpu.max_time, gpu.default_time, gpu.default) == (("n3", "n4"), 120, 30, False)


def test_later_files_and_variables_win_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "[clusters.local]\nnodes = 2\ncpus = 3\nmemory = 1000\n")
    other = tmp_path / "other.toml"
    other.write_text("[clusters.local]\ncpus = 5\n")
    monkeypatch.setenv("SHIM_CONFIG", str(other))
    monkeypatch.setenv("SHIM_LOCAL_MEMORY", "2G")
    words = config.load().clusters["local"]
    assert (words["nodes"].value, words["cpus"].value, words["memory"].value) == (2, 5, 2048)
    assert words["nodes"].origin.endswith("config/shim/config.toml")
    assert words["cpus"].origin == str(other)
    assert words["memory"].origin == "SHIM_LOCAL_MEMORY"


@pytest.mark.parametrize("text", ["", '[clusters.local]\nbackend = "local"\nslurm_conf = "{}"\n'])
def test_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    if text:
        write(tmp_path, text.format(tmp_path / "pipe"))
    else:
        monkeypatch.setenv("SHIM_CONFIG", str(tmp_path / "pipe"))
    with pytest.raises(
        ShimError, match=f"{tmp_path}/pipe: a pipe, which can be read only once: a regular file is wanted"
    ):
        made()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[clusters.local]\nnode = 3\n", '"clusters.local.node" must be a list of tables'),
        ("[clusters.local]\nkill_wiat = 3\n", 'unknown word "clusters.local.kill_wiat"; did you mean "kill_wait"?'),
        ("defualt = 'x'\n", 'unknown word "defualt"; did you mean "default"?'),
        ("default = 'x'\n", 'default "x" names no cluster; configured: local'),
        ("[clusters.local]\nnodes = -1\n", 'bad value "-1"'),
        ("[clusters.local]\nnodes = 0\n", 'bad value "0": 1 to 10000 is wanted'),
        ("[clusters.local]\nthreads_per_core = 0\n", 'bad value "0": 1 to'),
        (
            "[clusters.local]\nisolation = 'none'\n",
            'clusters.local.isolation: bad value "none": namespaces, addresses or auto is wanted',
        ),
        ("[clusters.local]\ncpus = 'many'\n", 'bad value "many": a number from 0 up is wanted'),
        ("[clusters.local]\nmemory = '1.5G'\n", 'bad value "1.5G": a size is wanted'),
        ("[clusters.local.partitions.p]\nmax_time = '1h'\n", 'bad value "1h": a time is wanted'),
        ("[clusters.local.partitions.p]\nnodes = 'x[1-2]'\n", '"x1" is no node; nodes are node[1-4]'),
        (
            "[clusters.local.partitions.p]\nstate = 'up?'\n",
            'clusters.local.partitions.p.state: bad value "up?": UP, DOWN, DRAIN or INACTIVE is wanted',
        ),
        ("[clusters.local]\ncpus = 3\nsockets = 2\n", "3 CPUs are no multiple of 2 sockets"),
        (
            "[clusters.local]\nbackend = 'kubernets'\n",
            'clusters.local.backend: bad value "kubernets": local, kubernetes or slurm is wanted',
        ),
        ("[clusters.local]\nlicenses = 'a=3'\n", 'licenses: bad value "a=3": names with numbers are wanted'),
        (
            "[clusters.k]\nbackend = 'kubernetes'\ngang = 'all'\n",
            'bad value "all": auto, suspend or podgroup is wanted',
        ),
        ("[clusters.a]\n[clusters.b]\n", 'default "local" names no cluster; configured: a, b; default = "a" names one'),
        ("default = 'all'\n[clusters.all]\n", '"all" cannot be the name of a cluster'),
        ("[clusters.'a,b']\n", '"a,b" cannot be the name of a cluster'),
        ("[clusters.a]\nnode_names='n1,../x'\n", 'clusters.a: "../x" cannot be the name of a node'),
        ("[clusters.a]\nnode_names='-oProxy'\n", 'clusters.a: "-oProxy" cannot be the name of a node'),
        ("clusters = 3\n", '"clusters" must be a table'),
        ("[clusters.local\n", "config.toml: "),
    ],
)
def test_errors_name_the_word_and_what_would_do(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, text)
    with pytest.raises(ShimError) as caught:
        made()
    assert said in str(caught.value)


def test_a_relative_folder_of_configurations_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "planted" / "shim"
    planted.mkdir(parents=True)
    (planted / "config.toml").write_text("[clusters.planted]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", "planted")
    assert [one.name for one in site.clusters()] == ["local"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "planted"))
    assert [one.name for one in site.clusters()] == ["planted"]


def test_the_site_is_kept_and_read_anew_when_a_file_changes(tmp_path: Path, state_dir: Path) -> None:
    write(tmp_path, "[clusters.local]\nnodes = 2\n")
    assert len(site.cluster().nodes) == 2
    kept = next(state_dir.glob("*/site.cache"))
    assert kept.stat().st_mode & 0o777 == 0o600
    before = kept.read_bytes()
    assert len(site.cluster().nodes) == 2
    assert kept.read_bytes() == before
    write(tmp_path, "[clusters.local]\nnodes = 31\n")
    assert len(site.cluster().nodes) == 31


def test_limits_beside_a_slurm_conf_win_and_a_shape_beside_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "KillWait=7\nMinJobAge=9\nNodeName=n[1-3]\nPartitionName=p Nodes=ALL Default=YES\n"
    )
    words = f"[clusters.local]\nslurm_conf = '{tmp_path}/slurm.conf'\nkill_wait = 3\n"
    write(tmp_path, words)
    assert (made().kill_wait, made().min_job_age, len(made().nodes)) == (3, 9, 3)
    write(tmp_path, words + "cpus = 8\n")
    with pytest.raises(ShimError, match='"cpus" cannot stand beside "slurm_conf"'):
        made()


def test_a_changed_slurm_conf_is_read_anew(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=n[1-3] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\n")
    write(tmp_path, f"[clusters.local]\nslurm_conf = '{conf}'\n")
    assert len(site.cluster().nodes) == 3
    conf.write_text("NodeName=n[1-31] CPUs=4\nPartitionName=p Nodes=ALL Default=YES\n")
    assert len(site.cluster().nodes) == 31


def test_what_other_code_has_kept_is_not_read(tmp_path: Path, state_dir: Path) -> None:
    """An upgrade in place, and a second program with the same state folder; the code of before knows no ``max_jobs``."""
    write(tmp_path, "[clusters.local]\nmax_jobs = 3\n")

    def most_jobs(folder: Path) -> str:
        words = ["-B", "-c", "from shim.control import site; print(site.cluster().max_jobs)"]
        environ = {**os.environ, "PYTHONPATH": str(folder)}
        return subprocess.run(
            [sys.executable, *words], env=environ, cwd="/", check=True, capture_output=True, text=True
        ).stdout

    for name in ("upgraded", "other"):
        shutil.copytree(PACKAGE, tmp_path / name / "shim", ignore=shutil.ignore_patterns("__pycache__"))
    words = tmp_path / "upgraded" / "shim" / "control" / "config_words.py"
    new = words.read_text()
    words.write_text(new.replace('if value != ""}', 'if name != "max_jobs"}'))
    assert most_jobs(tmp_path / "upgraded") == "10000\n"
    assert most_jobs(tmp_path / "other") == "3\n"
    assert most_jobs(tmp_path / "upgraded") == "10000\n"
    words.write_text(new)
    assert most_jobs(tmp_path / "upgraded") == "3\n"


def test_a_damaged_site_cache_is_made_again(state_dir: Path) -> None:
    assert len(site.cluster().nodes) == 4
    next(state_dir.glob("*/site.cache")).write_bytes(b"\0garbage")
    assert len(site.cluster().nodes) == 4


def test_an_unknown_cluster_is_refused_in_slurms_words() -> None:
    with pytest.raises(ShimError) as caught:
        site.cluster("nosuch")
    assert caught.value.lines[0] == "error: No cluster 'nosuch' known by database."


def test_this_machine_has_something() -> None:
    machine = this_machine()
    assert machine.cpus >= 1
    assert machine.cpus % machine.sockets == 0
    assert machine.memory > 1


@pytest.mark.parametrize(
    ("clusters", "ranges"),
    [
        ([("a", "local", 0)], {"a": (1, END)}),
        ([("a", "local", 0), ("b", "local", 0)], {"a": (1, END), "b": (1, END)}),
        ([("a", "local", 0), ("b", "local", 500)], {"a": (1, 500, 500, END), "b": (500, END)}),
        ([("k", "kubernetes", 0)], {"k": (1, END)}),
        (
            [("a", "local", 0), ("k", "kubernetes", 0), ("l", "kubernetes", 0)],
            {"a": (1, 10**7, 3 * 10**7, END), "k": (10**7, END), "l": (2 * 10**7, END)},
        ),
        (
            [("a", "local", 0), ("k", "kubernetes", 0), ("hpc", "slurm", 0)],
            {"a": (10**8, 11 * 10**7, 12 * 10**7, END), "k": (11 * 10**7, END), "hpc": (1, END)},
        ),
        ([("a", "local", 7), ("hpc", "slurm", 0)], {"a": (7, END), "hpc": (1, END)}),
    ],
)
def test_ranges_of_job_ids_do_not_overlap(
    clusters: list[tuple[str, str, int]], ranges: dict[str, tuple[int, ...]]
) -> None:
    made = numbered(Cluster(name=name, backend=backend, first_job_id=first) for name, backend, first in clusters)
    assert {cluster.name: cluster.id_ranges for cluster in made} == ranges
    assert all(cluster.first_job_id == cluster.id_ranges[0] for cluster in made)


def test_a_first_id_among_a_kubernetes_cluster_s_is_refused() -> None:
    made = [Cluster(name="a", first_job_id=600), Cluster(name="k", backend="kubernetes", first_job_id=500)]
    with pytest.raises(ShimError, match="first_job_id 600 lies among the job ids of a Kubernetes cluster"):
        numbered(made)


def test_a_real_slurm_is_no_default_where_local_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    assert list(config.load().clusters) == ["slurm"]
    write(tmp_path, 'default = "local"\n')
    assert list(config.load().clusters) == ["local"]
    write(tmp_path, "")
    monkeypatch.setenv("SHIM_DEFAULT", "local")
    assert list(config.load().clusters) == ["local"]
