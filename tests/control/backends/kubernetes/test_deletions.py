"""What is deleted is the very object that was meant: not one that somebody made anew under its name."""

from __future__ import annotations

from shim.control.backends.kubernetes.objects.run_objects import Objects
from shim.control.backends.kubernetes.records.record import JobRecord
from shim.control.backends.kubernetes.records.store import Records
from shim.core.model.job import Job
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, FakeCluster


def test_a_job_made_anew_under_the_same_name_stays() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        objects = Objects(cluster.access, "default")
        path = f"{JOBS}/slurm-7-0"
        cluster._put("ADDED", path, {"metadata": {"name": "slurm-7-0", "uid": "anew"}})
        assert not await objects.remove(objects.jobs, "slurm-7-0", "of before")
        assert path in cluster.objects
        assert await objects.remove(objects.jobs, "slurm-7-0", "anew")
        assert path not in cluster.objects

    clock.run(inside())


def test_a_record_made_anew_under_the_same_name_stays() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        records = Records(cluster.access, "default")
        before = await records.make(JobRecord(name="slurm-7", submission="first", job=Job(job_id=7)), None)
        assert await records.delete(before)
        anew = await records.make(JobRecord(name="slurm-7", submission="second", job=Job(job_id=7)), None)
        assert not await records.delete(before)
        assert await records.read(7) == anew

    clock.run(inside())
