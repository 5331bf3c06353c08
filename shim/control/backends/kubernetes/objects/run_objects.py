"""A run's objects in the cluster: made, all of them or what is missing of them, and removed. Every step may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import manifests, names
from shim.control.backends.kubernetes.objects.gang_spec import Gang, code_name
from shim.control.backends.kubernetes.settings import Settings

Object = dict[str, Any]


class Objects:
    """The objects of the runs of one namespace."""

    def __init__(self, access: Access, namespace: str) -> None:
        self.access = access
        self.namespace = namespace
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self.maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self.services = f"/api/v1/namespaces/{namespace}/services"
        self._makes_pods = True
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

    async def make(self, gang: Gang, settings: Settings, files: Mapping[str, bytes]) -> Object:
        """Makes what is missing of a run's objects; its Job, or its only pod. Raises ApiError with what the API server says, and where nobody
        knows.
        """
        made = [
            self._make_pods(gang, settings),
            self._create(self.secrets, manifests.secret(gang, files)),
        ]
        if gang.pod_group:
            made.append(self._create(self.groups, manifests.pod_group(gang)))
        found = await asyncio.gather(*made, return_exceptions=True)
        for problem in found:
            if isinstance(problem, BaseException):
                raise problem
        job: Any = found[0]
        return dict(job)

    async def _make_pods(self, gang: Gang, settings: Settings) -> Object:
        if gang.jobless and self._makes_pods:
            try:
                return await self._create(self.pods, manifests.only_pod(gang, settings))
            except ApiError as error:
                if not error.not_permitted:
                    raise
                self._makes_pods = False  # who may make Jobs need not be allowed to make pods
        return await self._create(self.jobs, manifests.job(gang, settings))

    async def _create(self, path: str, manifest: Object) -> Object:
        try:
            return await self.access.post(path, manifest)
        except ApiError as error:
            if not error.conflict:
                raise
            name = manifest["metadata"]["name"]
            found = await self.access.get(f"{path}/{name}")
            if names.label(found, names.RECORD) == names.label(manifest, names.RECORD):
                return found
            text = f"there is another {name} in namespace {self.namespace}"
            raise ApiError(409, "AlreadyExists", text) from error

    async def remove(self, path: str, name: str, uid: str = "", *, grace: int | None = None) -> bool:
        """Removes an object; False if there is none that could be removed: it is gone, or its name is another one's by now. ApiError."""
        try:
            await self.access.delete(f"{path}/{name}", grace=grace, uid=uid or None)
        except ApiError as error:
            if not error.conflict and not error.missing:
                raise
            return False
        return True

    async def remove_rest(self, job_id: int, number: int) -> None:
        """Removes what a run that is closed leaves beside its Job, where the job goes on. ApiError."""
        name = names.ticket(job_id, number)
        await self.remove(self.secrets, name)

    async def pods_of_job(self, job_id: int) -> list[Object]:
        """The pods of all runs of a job, as they are now. ApiError."""
        found = await self.access.get(self.pods, {"labelSelector": f"{names.selector()},{names.JOB_ID}={job_id}"})
        return list(found["items"])


def refusal(error: ApiError) -> BackendError:
    """What an API error means for a job that is to start."""
    if "exceeded quota" in error.message:
        return BackendError(error.message, reason="AssocGrpResourceLimit", transient=True)
    return BackendError(error.message, reason="JobLaunchFailure", transient=error.transient or error.conflict)
