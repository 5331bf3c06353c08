"""How a run's objects are made: in which order, and what a crash or a lost answer leaves."""

from __future__ import annotations

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes import names
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.objects import Objects, refusal
from shim.control.backends.kubernetes.tickets import TicketFolder
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakecluster import JOBS, FakeCluster, Killed
from tests.control.backends.kubernetes.stage import RUN, SETTINGS, gang

JOB = f"{JOBS}/slurm-7"
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
        secret = cluster.ticket()
        assert secret is not None
        owner = secret["metadata"]["ownerReferences"][0]
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
        await Objects(cluster.access, "default").tear(RUN, TicketFolder(RUN).make().submission)
        cluster.suspend()
        await make(cluster)
        assert cluster.ticket() is None
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


def test_what_an_attempt_before_has_left_is_not_waited_for_and_not_found() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        objects = Objects(cluster.access, "default")
        folder = TicketFolder(RUN)
        made = set()
        for _ in range(2):
            found = gang(folder.make().submission).replace(pod_group=True)
            await objects.make(found, SETTINGS, {"key": b"k"}, folder)
            spec = cluster.objects.pop(JOB)["spec"]["template"]["spec"]  # the garbage collector comes minutes later
            group = spec["schedulingGroup"]["podGroupName"]
            (ticket,) = (one["secret"]["secretName"] for one in spec["volumes"] if one["name"] == "shim-ticket")
            assert {f"{objects.groups}/{group}", f"{objects.secrets}/{ticket}"} <= set(cluster.objects)
            made |= {group, ticket}
            folder.remove()
        assert len(made) == 2

    clock.run(inside())


def test_a_secret_of_that_name_that_is_not_ours_is_left_alone() -> None:
    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        secret = cluster.ticket()
        assert secret is not None
        secret["metadata"]["labels"][names.SUBMISSION] = "another"
        cluster.suspend()
        cluster.objects[JOB]["metadata"]["generation"] = 1  # it was never let go
        with pytest.raises(BackendError, match="there is another slurm-7-"):
            await make(cluster)
        assert cluster.ticket() is secret

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
        assert cluster.said == ["POST configmaps/slurm-agent-dddddddddddd", "POST services/slurm-nodes"]
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
        bound = cluster.pod(1)["metadata"]["resourceVersion"]
        assert await objects.remove_pod(RUN, name, grace=0, uid=uid, version=bound)
        assert not await objects.remove_pod(RUN, name, uid=uid, version=bound)  # whoever removed it, and when

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


def test_only_the_very_job_that_was_seen_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a Job and its removal another may be made under its name."""

    async def inside() -> None:
        cluster = FakeCluster()
        await make(cluster)
        look = cluster.get

        async def replaced(path: str, query: object = None) -> dict[str, object]:
            found = await look(path, query)
            cluster.objects[path]["metadata"]["uid"] = "uid-of-another"
            return found

        monkeypatch.setattr(cluster, "get", replaced)
        with pytest.raises(ApiError) as refused:
            await Objects(cluster.access, "default").remove(RUN)
        assert refused.value.conflict
        assert JOB in cluster.objects

    clock.run(inside())
