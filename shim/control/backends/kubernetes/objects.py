"""A run's objects in the cluster: made in an order that leaves no orphan, and removed. Every step may be repeated."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from shim.control.backends.base import BackendError, Run
from shim.control.backends.kubernetes import manifests, names
from shim.control.backends.kubernetes.access import Access
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.gangs import Gang, code_name
from shim.control.backends.kubernetes.observed import changes, queued, suspended
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.tickets import TicketFolder

Object = dict[str, Any]


async def _unguarded(run: Run) -> None:
    return None


def _unnoted(run: Run, job: Object) -> None:
    return None


class Objects:
    """The objects of the runs of one namespace. ``guard(run)`` raises ApiError where another machine acts for the run; ``noted(run,
    job)`` is told of a Job as the API server has answered it: a watch may tell later.
    """

    guard: Callable[[Run], Awaitable[None]] = staticmethod(_unguarded)
    noted: Callable[[Run, Object], None] = staticmethod(_unnoted)

    def __init__(self, access: Access, namespace: str) -> None:
        self.access = access
        self.namespace = namespace
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self.maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self.services = f"/api/v1/namespaces/{namespace}/services"
        self.groups = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups"

    async def common(self, digest: str, code: bytes) -> None:
        """The Service and the agent's code: once for the namespace. An administrator may have made them."""
        name = code_name(digest)
        await self._make_common(self.maps, name, manifests.agent_code(digest, code))
        await self._make_common(self.services, names.SERVICE, manifests.service())

    async def _make_common(self, path: str, name: str, manifest: Object) -> None:
        try:
            await self.access.get(f"{path}/{name}")
            return
        except ApiError as error:
            if not error.missing and not error.forbidden:
                raise
        try:
            await self.access.post(path, manifest)
        except ApiError as error:
            if not error.conflict:
                raise

    async def make(self, gang: Gang, settings: Settings, files: Mapping[str, bytes], folder: TicketFolder) -> None:
        """Makes the run's objects and lets its pods be placed. Raises BackendError."""
        try:
            job = await self._job(gang, settings, folder)
            self.noted(gang.run, job)
            if _let_go_before(job):
                folder.let_go()  # with its Secret: that is never made again
            else:
                uid = job["metadata"]["uid"]
                if queued(job):
                    folder.let_go()  # whoever has the queue may do so from now on
                made = [self._create(self.secrets, manifests.secret(gang, uid, files))]
                if gang.pod_group:
                    made.append(self._create(self.groups, manifests.pod_group(gang, uid)))
                for problem in await asyncio.gather(*made, return_exceptions=True):
                    if problem is not None:
                        raise problem
                folder.let_go()
                if not queued(job):
                    path = f"{self.jobs}/{names.stem(gang.run)}"
                    self.noted(gang.run, await self.access.patch(path, {"spec": {"suspend": False}}))
        except ApiError as error:
            await self._shut_again(gang, folder)
            raise refusal(error) from error

    async def _shut_again(self, gang: Gang, folder: TicketFolder) -> None:
        """Takes back that a run was let go if it is certain that none of its pods can begin: it is as it was made, and without its Secret."""
        ticket = folder.load()
        if ticket is None or not ticket.let_go:
            return
        try:
            job = await self._ours(gang)
            if not _let_go_before(job):
                await self.tear(gang.run, gang.submission)
                if not _let_go_before(await self._ours(gang)):
                    folder.save(ticket.replace(let_go=False))
        except (ApiError, BackendError):
            pass  # nobody knows: it is followed

    async def _job(self, gang: Gang, settings: Settings, folder: TicketFolder) -> Object:
        ticket = folder.make()
        manifest = manifests.job(gang, settings)
        if not ticket.made:
            try:
                made = await self.access.post(self.jobs, manifest)
            except ApiError as error:
                if not error.conflict:
                    raise
                made = await self._ours(gang)
            folder.save(ticket.replace(made=True))
            return made
        return await self._ours(gang)

    async def _ours(self, gang: Gang) -> Object:
        name = names.stem(gang.run)
        try:
            found = await self.access.get(f"{self.jobs}/{name}")
        except ApiError as error:
            if error.missing:
                raise BackendError(f"job {name} was deleted", reason="JobLaunchFailure") from error
            raise
        if names.submission_of(found) != gang.submission:
            raise BackendError(f"there is another job {name} in namespace {self.namespace}", transient=True)
        return found

    async def _create(self, path: str, manifest: Object) -> None:
        try:
            await self.access.post(path, manifest)
        except ApiError as error:
            if not error.conflict:
                raise
            name, wanted = manifest["metadata"]["name"], manifest["metadata"]["labels"][names.SUBMISSION]
            if names.submission_of(await self.access.get(f"{path}/{name}")) == wanted:
                return
            raise BackendError(f"there is another {name} in namespace {self.namespace}", transient=True) from error

    async def tear(self, run: Run, submission: str) -> None:
        """Removes the Secret of this attempt: a pod made from now on can never begin."""
        await self.guard(run)
        await self._delete(f"{self.secrets}/{names.attempt(run, submission)}")

    async def remove(self, run: Run, submission: str = "") -> bool:
        """Removes the Job, and with it everything of the run; False for another's of this name, if ``submission`` says which it is."""
        await self.guard(run)
        path = f"{self.jobs}/{names.stem(run)}"
        try:
            job = await self.access.get(path)
            if submission and names.submission_of(job) != submission:
                return False
            await self.access.delete(path, uid=job["metadata"].get("uid"))
        except ApiError as error:
            if not error.missing:
                raise
        return True

    async def keep(self, run: Run, job: Object, record: str, key: bytes) -> None:
        """Leaves what another machine needs to carry on with a run that has begun."""
        await self.guard(run)
        try:
            await self.access.post(self.secrets, manifests.kept(run, job["metadata"], record, key))
        except ApiError as error:
            if not error.conflict:
                raise

    async def secret(self, name: str) -> dict[str, bytes] | None:
        """What a Secret holds; None if it is not there."""
        try:
            found = await self.access.get(f"{self.secrets}/{name}")
        except ApiError as error:
            if error.missing:
                return None
            raise
        return {word: base64.b64decode(text) for word, text in (found.get("data") or {}).items()}

    async def remove_pod(
        self, run: Run, name: str, *, grace: int | None = None, uid: str = "", version: str = ""
    ) -> bool:
        """Removes a pod of the run; False if it was not, or not by this: it is gone, or not the very one that was meant."""
        await self.guard(run)
        try:
            await self.access.delete(f"{self.pods}/{name}", grace=grace, uid=uid or None, version=version or None)
        except ApiError as error:
            if not error.conflict and not error.missing:
                raise
            return False
        return True

    async def made(self, run: Run, submission: str) -> tuple[list[Object], Object]:
        """The pods of this attempt and then the run's Job ({} if it is gone), as they are now: of a pod that is not there any more
        the Job's status tells. ApiError.
        """
        pods = [pod for pod in await self.pods_of_job(run.job_id) if names.submission_of(pod) == submission]
        try:
            return pods, await self.access.get(f"{self.jobs}/{names.stem(run)}")
        except ApiError as error:
            if not error.missing:
                raise
            return pods, {}

    async def pods_of_job(self, job_id: int) -> list[Object]:
        """The pods of all runs of a job, whoever their owner is: an id is given once in a namespace. ApiError."""
        selector = f"{names.MANAGED}={names.MANAGER},{names.JOB_ID}={job_id}"
        found = await self.access.get(self.pods, {"labelSelector": selector})
        return list(found["items"])

    async def _delete(self, path: str) -> None:
        try:
            await self.access.delete(path)
        except ApiError as error:
            if not error.missing:
                raise


def _let_go_before(job: Object) -> bool:
    """Whether its pods could be made before. When it is suspended again its start is cleared; that it was changed stays."""
    started = (job.get("status") or {}).get("startTime")
    return not suspended(job) or bool(started) or changes(job) > 0


def refusal(error: ApiError) -> BackendError:
    """What an API error means for a job that is to start."""
    if "exceeded quota" in error.message:
        return BackendError(error.message, reason="AssocGrpResourceLimit", transient=True)
    return BackendError(error.message, reason="JobLaunchFailure", transient=error.transient or error.conflict)
