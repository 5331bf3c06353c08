"""The settings of the real Slurm, and the shape of ours: the same cluster."""

from __future__ import annotations

import tomllib
from pathlib import Path

from compat.cluster import slurm_conf
from compat.targets import CONFIG


def test_settings_of_the_real_one() -> None:
    text = slurm_conf.slurm_conf(Path("/x"), "vm", [1, 2, 3, 4, 5])
    lines = text.splitlines()
    assert "SlurmctldHost=vm(127.0.0.1)" in lines
    assert "SlurmctldPort=1" in lines
    nodes = [line for line in lines if line.startswith("NodeName=")]
    assert [line.split()[3] for line in nodes] == ["Port=2", "Port=3", "Port=4", "Port=5"]
    assert slurm_conf.gres_conf(Path("/x")) == "NodeName=node[1-4] Name=gpu File=/x/gpu/card[0-3]\n"


def test_ours_has_the_same_shape() -> None:
    ours = tomllib.loads(CONFIG)["clusters"]["local"]
    text = slurm_conf.slurm_conf(Path("/x"), "vm", [1, 2, 3, 4, 5])
    assert text.count("NodeName=") == ours["nodes"]
    assert f"RealMemory={ours['memory']} Gres=gpu:{ours['gpus']} " in text
    assert f"Sockets={ours['sockets']} CoresPerSocket={ours['cpus'] // ours['sockets']} " in text
    assert f"FirstJobId={ours['first_job_id']}\n" in text
    assert f"KillWait={ours['kill_wait']}\n" in text
