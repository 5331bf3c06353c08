"""A run as its pods see it."""

from __future__ import annotations

from pathlib import Path

from shim.control.backends.kubernetes.objects.pod_files import gpu_environment, inside
from shim.control.backends.kubernetes.settings import Settings
from shim.job.spec import RunSpec
from tests.job.run_folder import spec_of


def given(folder: Path, *gpus: tuple[int, ...]) -> RunSpec:
    spec = spec_of(nodes=len(gpus), script=True, folder=str(folder))
    shares = tuple(share.replace(gpus=own) for share, own in zip(spec.job.shares, gpus, strict=True))
    return spec.replace(job=spec.job.replace(shares=shares))


def test_a_pod_counts_its_gpus_from_0(tmp_path: Path) -> None:
    """The third and fourth GPU of a node are the first and second of the container that was given them."""
    spec = inside(given(tmp_path, (2, 3), (1,)), Settings(namespace="mine"), staged=False, named=True)
    assert [share.gpus for share in spec.job.shares] == [(0, 1), (0,)]
    environment = gpu_environment(spec)
    assert environment["CUDA_VISIBLE_DEVICES"] == environment["SLURM_JOB_GPUS"] == "0,1"


def test_a_job_without_gpus(tmp_path: Path) -> None:
    spec = inside(given(tmp_path, ()), Settings(namespace="mine"), staged=False, named=True)
    assert gpu_environment(spec) == {}


def test_the_leader_goes_by_its_full_name(tmp_path: Path) -> None:
    spec = inside(given(tmp_path, ()), Settings(namespace="mine"), staged=True, named=False)
    assert spec.leader == "slurm-7-0.slurm-nodes.mine.svc.cluster.local."
    assert (spec.staged, spec.told_names, spec.isolate) == (True, False, "none")
