"""How a run's objects are made: in which order, and what a crash or a lost answer leaves."""

from __future__ import annotations

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.objects import Objects, refusal
from shim.control.backends.kubernetes.tickets import TicketFolder
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, SECRETS, FakeCluster, Killed
from tests.control.backends.kubernetes.stage import RUN, SETTINGS, gang

JOB, SECRET = f"{JOBS}/slurm-7", f"{SECRETS}/slurm-7"
ALL = ["POST jobs/slurm-7", "POST secrets/slurm-7", "PATCH jobs/slurm-7"]


async def make(cluster: FakeCluster, folder: TicketFolder | None = None) -> None:
    """As a controller does that has just been started."""
    folder = folder or TicketFolder(RUN)
    found = gang(folder.make().submission)
    await Objects(cluster.access, "default").make(found, SETTINGS, {"key": b"k"}, folder)


def test_the_secret_belongs_to_a_suspended_job_before_pods_may_be_made() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        assert cluster.said == ALL
        owner = cluster.objects[SECRET]["metadata"]["ownerReferences"][0]
        assert owner["uid"] == cluster.objects[JOB]["metadata"]["uid"]
        assert len(cluster.pods()) == 2

    clock.run(inside())


@pytest.mark.parametrize("answered", [True, False], ids=["killed", "unanswered"])
@pytest.mark.parametrize("write", [1, 2, 3])
def test_whatever_was_made_before_a_crash_is_completed(write: int, answered: bool) -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        if answered:
            cluster.kill_after = write
        else:
            cluster.silent_after = write
        with pytest.raises(Killed if answered else BackendError) as caught:
            await make(cluster)
        assert isinstance(caught.value, Killed) or caught.value.transient
        await make(cluster)
        assert cluster.said == ALL
        assert len(cluster.pods()) == 2

    clock.run(inside())


def test_a_secret_that_was_torn_is_never_made_again() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        await Objects(cluster.access, "default").tear(RUN)
        # Somebody suspends the Job by hand: it has had a start.
        cluster.objects[JOB]["spec"]["suspend"] = True
        await make(cluster)
        assert SECRET not in cluster.objects
        assert cluster.said == [*ALL, "DELETE secrets/slurm-7"]

    clock.run(inside())


def test_a_job_of_that_name_that_is_not_ours_is_left_alone() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        TicketFolder(RUN).remove()
        with pytest.raises(BackendError, match="there is another job slurm-7") as caught:
            await make(cluster)
        assert caught.value.transient
        assert cluster.said == ALL

    clock.run(inside())


def test_a_secret_of_an_attempt_before_must_go_first() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        del cluster.objects[JOB]  # the garbage collector has not come yet
        TicketFolder(RUN).remove()
        with pytest.raises(BackendError, match="earlier attempt") as caught:
            await make(cluster)
        assert caught.value.transient
        assert cluster.objects[JOB]["spec"]["suspend"] is True
        assert cluster.said[-1] == "DELETE secrets/slurm-7"
        await make(cluster)
        assert cluster.objects[JOB]["spec"]["suspend"] is False
        assert (
            cluster.objects[SECRET]["metadata"]["ownerReferences"][0]["uid"] == cluster.objects[JOB]["metadata"]["uid"]
        )


def test_a_secret_of_that_name_that_is_not_ours_is_left_alone() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        cluster.objects[SECRET]["metadata"]["labels"][names.OWNER] = "another"
        del cluster.objects[JOB]
        TicketFolder(RUN).remove()
        with pytest.raises(BackendError, match="earlier attempt"):
            await make(cluster)
        assert "DELETE secrets/slurm-7" not in cluster.said

    clock.run(inside())


def test_the_group_of_an_attempt_before_is_not_waited_for() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        objects = Objects(cluster.access, "default")
        folder = TicketFolder(RUN)
        for _ in range(2):
            found = gang(folder.make().submission).replace(pod_group=True)
            await objects.make(found, SETTINGS, {"key": b"k"}, folder)
            job = cluster.objects.pop(JOB)  # the garbage collector has its time with groups: they are protected
            cluster.objects.pop(SECRET)
            spec = job["spec"]["template"]["spec"]
            assert f"{objects.groups}/{spec['schedulingGroup']['podGroupName']}" in cluster.objects
            folder.remove()
        assert sum(path.startswith(objects.groups) for path in cluster.objects) == 2

    clock.run(inside())

    clock.run(inside())


def test_a_job_that_was_deleted_is_not_made_a_second_time() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        cluster.vanish(JOB)
        with pytest.raises(BackendError, match="was deleted") as caught:
            await make(cluster)
        assert not caught.value.transient
        assert cluster.said == ALL

    clock.run(inside())


def test_what_all_runs_share_may_have_been_made_by_an_administrator() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        objects = Objects(cluster.access, "default")
        await objects.common("d" * 64, b"zip")
        assert cluster.said == ["POST configmaps/slurm-agent-dddddddddddd", "POST services/slurm"]
        cluster.refusals = {said: ApiError(403, "Forbidden", "no") for said in cluster.said}
        await objects.common("d" * 64, b"zip")
        with pytest.raises(ApiError, match="no"):
            cluster.objects.clear()
            await objects.common("d" * 64, b"zip")

    clock.run(inside())


def test_only_the_very_pod_that_was_meant_is_removed() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        objects = Objects(cluster.access, "default")
        metadata = dict(cluster.pod(1)["metadata"])
        name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
        cluster.bind(1, "n1")
        assert not await objects.remove_pod(RUN, name, uid=uid, version=version)
        assert not await objects.remove_pod(RUN, name, uid="another")
        cluster.vanish(f"{objects.pods}/{name}")
        assert await objects.remove_pod(RUN, name, uid=uid, version=version)  # gone is gone

    clock.run(inside())


@pytest.mark.parametrize(
    ("error", "reason", "transient"),
    [
        (ApiError(403, "Forbidden", "exceeded quota: q, requested: pods=1"), "AssocGrpResourceLimit", True),
        (ApiError(403, "Forbidden", "violates PodSecurity"), "JobLaunchFailure", False),
        (ApiError(422, "Invalid", "spec.x: Invalid value"), "JobLaunchFailure", False),
        (ApiError(409, "Conflict", "changed"), "JobLaunchFailure", True),
        (ApiError(503, "ServiceUnavailable", "later"), "JobLaunchFailure", True),
        (ApiError(0, "Refused", "nobody there"), "JobLaunchFailure", True),
    ],
)
def test_what_a_refusal_means_for_the_job(error: ApiError, reason: str, transient: bool) -> None:
    found = refusal(error)
    assert (found.reason, found.transient, str(found)) == (reason, transient, error.message)
