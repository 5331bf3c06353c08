"""One queue of this machine, a real Slurm and a real Kubernetes, whose controllers fall silent: the rest still answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from compat.cluster import slurm
from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from tests.commands.road import Road, road_to
from tests.control.backends.kubernetes.real import kubeconfig, namespace
from tests.control.backends.slurm.fake import OURS
from tests.control.controller import processes
from tests.support import wait_until

__all__ = ["kubeconfig", "namespace"]
pytestmark = pytest.mark.real_slurm
NAME = f"outage-{os.getpid()}"
CONFIG = """
default = "local"
[clusters.local]
[clusters.local.partitions.here]
[clusters.hpc]
backend = "slurm"
bin = "/usr/bin"
conf = "{conf}"
[clusters.hpc.partitions.gpu]
"""
PODS = """
[clusters.k8s]
backend = "kubernetes"
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
image = "{image}"
[clusters.k8s.partitions.pods]
"""
NO_ACCOUNTING = "sacct: hpc: Slurm accounting storage is disabled: these are the jobs that were submitted from here"


@pytest.fixture
def to_slurm(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Road]:
    """This machine and a real Slurm, whose controller is asked by a road of this test's."""
    if os.geteuid() != 0 or not slurm.is_up():
        refuse = pytest.fail if os.environ.get("SHIM_TEST_SLURM") else pytest.skip
        refuse("no real Slurm: compat/cluster/slurm.py up (as root)")
    text = slurm.CONF.read_text()
    found = re.search(r"^SlurmctldPort=(\d+)$", text, re.MULTILINE)
    assert found is not None
    with road_to(int(found[1])) as road:
        conf = tmp_path / "slurm.conf"
        conf.write_text(text.replace(found[0], f"SlurmctldPort={road.port}"))
        (tmp_path / "shim.toml").write_text(CONFIG.format(conf=conf))
        monkeypatch.setenv("SHIM_CONFIG", str(tmp_path / "shim.toml"))
        monkeypatch.setenv("SHIM_PYTHON", sys.executable)
        monkeypatch.setenv("SHIM_HPC_TIMEOUT", "60")  # how long a loaded machine takes is no matter here
        monkeypatch.setenv("PATH", f"{OURS}:/usr/bin:/bin")
        monkeypatch.chdir(tmp_path)
        with processes.ended_afterwards():
            yield road
    environ = {**os.environ, "SLURM_CONF": str(slurm.CONF)}
    subprocess.run(["/usr/bin/scancel", "-n", NAME], check=True, timeout=60, env=environ)


@pytest.fixture
def to_pods(to_slurm: Road, kubeconfig: str, namespace: str, tmp_path: Path) -> Iterator[Road]:
    """The same with a real Kubernetes as the third cluster."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    cluster = config["clusters"][0]["cluster"]
    goal = urlsplit(cluster["server"])
    with road_to(goal.port or 443) as road:
        cluster["server"] = f"https://127.0.0.1:{road.port}"
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        with (tmp_path / "shim.toml").open("a") as file:
            file.write(PODS.format(kubeconfig=tmp_path / "kubeconfig", namespace=namespace, image=IMAGE_PYTHON))
        yield road


def said(*words: str, code: int = 0) -> tuple[list[str], list[str]]:
    """The lines on stdout and stderr of one of our commands."""
    done = subprocess.run([OURS / words[0], *words[1:]], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done
    return done.stdout.splitlines(), done.stderr.splitlines()


def submitted(partition: str) -> str:
    """The id of a job that waits there."""
    words = ["--parsable", "-H", "-p", partition, "-J", NAME, "-o", "/dev/null", "--wrap", "true"]
    return said("sbatch", *words)[0][0]


def listed() -> list[str]:
    return said("squeue", "-h", "-n", NAME, "-o", "%i")[0]


def accounted(*jobs: str) -> list[str]:
    return said("sacct", "-nPX", "-j", ",".join(jobs), "-o", "jobid,partition,state")[0]


def test_three_clusters_one_queue(to_pods: Road, to_slurm: Road) -> None:
    here, there, pods = jobs = [submitted(partition) for partition in ("here", "gpu", "pods")]
    assert sorted(listed()) == sorted(jobs)
    waits = [f"{here}|here|PENDING", f"{pods}|pods|PENDING", f"{there}|gpu|PENDING"]
    wait_until(lambda: accounted(*jobs) == waits, "sacct of all three")
    # Refused, an API server is missed at once; what is silent, only when something is asked.
    to_pods.close()
    missed = wait_until(lambda: said("squeue", "-hn", NAME)[1], "the API server is missed")
    assert [line.startswith("squeue: warning: k8s: no connection") for line in missed] == [True]
    assert sorted(listed()) == sorted(jobs)
    for job in (here, there):
        said("scancel", job)
    assert listed() == [pods]
    said("scancel", pods)
    assert listed() == []
    ended = [f"{here}|here|CANCELLED by 0", f"{pods}|pods|CANCELLED by 0", f"{there}|gpu|CANCELLED"]
    assert accounted(*jobs) == ended


def test_a_silent_slurm_hides_nothing(to_slurm: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = submitted("here"), submitted("gpu")
    assert listed() == [here, there]
    assert accounted(here, there) == [f"{here}|here|PENDING", f"{there}|gpu|PENDING"]

    to_slurm.silence()
    monkeypatch.setenv("SHIM_HPC_TIMEOUT", "1")
    silent = "error: hpc: no answer within 1 s"
    assert said("squeue", "-hn", NAME, "-o", "%i", code=1) == ([here], [f"squeue: {silent}"])
    out, err = said("sinfo", "-ho", "%R", code=1)
    assert (out, err) == (["here"], [f"sinfo: {silent}"])
    out, err = said("sacct", "-nPX", "-j", f"{here},{there}", "-o", "jobid,state", code=1)
    assert out == [f"{here}|PENDING", f"{there}|PENDING"]
    assert err == [NO_ACCOUNTING, f"sacct: {silent}: its jobs are shown as they were seen last"]
    assert said("squeue", "-hj", here, "-o", "%i") == ([here], []), "nothing that would have to be asked there"
    assert f"JobId={here}" in said("scontrol", "show", "job", here)[0][0]
    assert said("scancel", here) == ([], [])
    also = submitted("here")
    assert said("scancel", "-n", NAME, code=1)[1] == [f"scancel: {silent}"]
    assert said("squeue", "-hj", also, "-t", "all", "-o", "%T")[0] == ["CANCELLED"]

    to_slurm.restore()
    monkeypatch.setenv("SHIM_HPC_TIMEOUT", "60")
    # It heard of the scancel by name while it was silent, or it did not.
    wait_until(lambda: set(listed()) <= {there}, "the rest of the queue")
    said("scancel", there)
    wait_until(lambda: not listed(), "all have ended")
    assert accounted(here, there) == [f"{here}|here|CANCELLED by 0", f"{there}|gpu|CANCELLED"]
