"""The doctor's look at a Kubernetes cluster: does it answer, what may this user do there, would it take a pod of ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from shim.admin.doctor import BAD, GOOD, NOTE, Finding, pods
from shim.admin.doctor.permissions import COUNTED, NEEDED, Permission
from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import AccessError, ApiError
from shim.control.backends.kubernetes.cluster import autoscaling, nodes, pinned_context
from shim.control.backends.kubernetes.cluster.usage_sums import Sums
from shim.control.backends.kubernetes.objects import manifests, names, volumes
from shim.control.backends.kubernetes.objects.bundle import bundle, container_command
from shim.control.backends.kubernetes.objects.gang_spec import Gang, code_name
from shim.control.backends.kubernetes.settings import Settings, settings_of
from shim.core.errors import ShimError
from shim.core.formats import hostlist
from shim.core.model.cluster import Cluster

_PATIENCE = 9.0  # seconds for everything that one cluster is asked


def findings(cluster: Cluster) -> Iterator[Finding]:
    """What there is to say about one cluster with the kubernetes backend, within ten seconds."""
    found: list[Finding] = []
    name = f"cluster {cluster.name}"
    try:
        asyncio.run(_bounded(cluster, found))
    except (AccessError, ShimError) as problem:
        found.append((BAD, f"{name}: {str(problem).removeprefix('error: ')}"))
    except ApiError as error:
        found.append((BAD, f"{name} does not answer: {error.message}"))
    except TimeoutError:
        found.append((BAD, f"{name} does not answer within {_PATIENCE:.0f} s"))
    yield from found


async def _bounded(cluster: Cluster, found: list[Finding]) -> None:
    settings = settings_of(cluster)
    volumes.check(settings)
    for partition in cluster.partitions:
        autoscaling.check(settings_of(cluster, partition.name))
    async with asyncio.timeout(_PATIENCE):
        access, where = await pinned_context.find(cluster)
        look = Look(cluster, settings.replace(namespace=where.namespace), access, found)
        kubectl = pinned_context.elsewhere(settings, where, access)
        if kubectl:
            text = f"cluster {cluster.name} stays in {where} until its jobs there have ended; kubectl {kubectl}"
            found.append((NOTE, text))
        await look.all()
    if not any(verdict == BAD for verdict, _ in found):
        await look.pods_meet()


class Look:
    """The checks of one cluster. Each finding goes to ``found`` at once, and so is printed even if later checks take too long."""

    def __init__(self, cluster: Cluster, settings: Settings, access: Access, found: list[Finding]) -> None:
        self._cluster = cluster
        self._access = access
        self._found = found
        self._namespace = settings.namespace
        self._settings = settings
        self._allowed: dict[Permission, bool] = {}

    async def all(self) -> None:
        """Everything, from what is needed first."""
        version = (await self._access.get("/version", timeout=_PATIENCE)).get("gitVersion", "of an unknown version")
        name, server = self._cluster.name, self._access.server
        self._say(GOOD, f"cluster {name} (kubernetes): {version} at {server}, namespace {self._namespace}")
        if not await self._namespace_there():
            return
        asked = (*NEEDED, *COUNTED)
        answers = await asyncio.gather(*(self._can(one) for one in asked))
        self._allowed = dict(zip(asked, answers, strict=True))
        await self._permissions()
        await self._shape()
        await self._gangs()
        await self._mounts()
        await self._pods()

    def _say(self, verdict: str, text: str) -> None:
        self._found.append((verdict, text))

    async def _can(self, one: Permission) -> bool:
        where = self._namespace if one.inside else ""
        return await self._access.can(one.verb, one.resource, one.group, namespace=where, subresource=one.subresource)

    async def _namespace_there(self) -> bool:
        try:
            await self._access.get(f"/api/v1/namespaces/{self._namespace}")
        except ApiError as error:
            if error.missing:
                self._say(BAD, f'there is no namespace "{self._namespace}"')
                return False
            if not error.forbidden:  # who may use a namespace need not be allowed to see it
                raise
        return True

    async def _permissions(self) -> None:
        missing = [one for one in NEEDED if not self._allowed[one]]
        ready = await self._preinstalled() if any(one.made_by_others for one in missing) else set()
        missing = [one for one in missing if one.made_by_others not in ready]
        for one in missing:
            self._say(BAD if one.vital else NOTE, f"may not {one.text}: {one.lost}")
        if not missing:
            self._say(GOOD, f"namespace {self._namespace} allows all that jobs need ({len(NEEDED)} permissions tried)")
        else:
            self._say(NOTE, "docs/kubernetes-role.yaml is the Role that gives all of them")

    async def _preinstalled(self) -> set[str]:
        """Of the objects that an administrator may have made, those that are there."""
        base = f"/api/v1/namespaces/{self._namespace}"
        code = code_name((await asyncio.to_thread(bundle)).digest)
        there = set()
        for kind, path in (
            ("service", f"services/{names.SERVICE}"),
            ("code", f"configmaps/{code}"),
            ("ids", f"configmaps/{names.IDS}"),
        ):
            try:
                await self._access.get(f"{base}/{path}")
                there.add(kind)
            except ApiError as error:
                if error.transient:
                    raise
        return there | ({"maps"} if {"code", "ids"} <= there else set())

    async def _shape(self) -> None:
        listed, counted = (self._allowed[one] for one in COUNTED)
        described = self._cluster.nodes
        if described:
            text = f"{len(described)} nodes as configured: {hostlist.fold([node.name for node in described])}"
            self._say(GOOD, f"{text}; where pods really run is the cluster's choice")
        elif listed:
            items = (await self._access.get("/api/v1/nodes"))["items"]
            shape = nodes.shaped(self._cluster, items, Sums())
            gpus = sum(one.count for node in shape.nodes for one in node.gres)
            text = f"{len(shape.nodes)} nodes {hostlist.fold([node.name for node in shape.nodes])}"
            if shape.nodes:
                self._say(GOOD, text + (f" with {gpus} GPUs" if gpus else ""))
            else:
                self._say(BAD, f"none of its {len(items)} nodes fits a partition (node_selector, tolerations, nodes)")
            if not counted:
                self._say(
                    NOTE,
                    "may not list pods of all namespaces: what others use is not seen, jobs try and are taken back",
                )
        else:
            self._say(
                BAD, 'may not list nodes: describe them ("nodes", "cpus", "memory", "gpus" in the configuration), or see'
                " the ClusterRole in docs/kubernetes-role.yaml"
            )  # fmt: skip

    async def _gangs(self) -> None:
        try:
            await self._access.get("/apis/scheduling.k8s.io/v1alpha2")
        except ApiError as error:
            if not error.missing and not error.forbidden:
                raise
            self._say(GOOD, "jobs of several nodes start together by suspension (the cluster has no PodGroup)")
            return
        may = await self._access.can("create", "podgroups", "scheduling.k8s.io", namespace=self._namespace)
        if self._settings.gang == "suspend" or not may:
            why = "as configured" if may else "may not create PodGroups"
            self._say(GOOD if may else NOTE, f"jobs of several nodes start together by suspension ({why})")
        else:
            self._say(GOOD, "jobs of several nodes start together by the cluster's own PodGroup")
            if not await self._access.can("get", "podgroups", "scheduling.k8s.io", namespace=self._namespace):
                self._say(NOTE, "may not get podgroups: a start that was interrupted cannot be taken up")

    async def _mounts(self) -> None:
        mounts = self._settings.mounts
        if not mounts:
            self._say(NOTE, "no mounts: the working directory is copied into the pods, and output is fetched from them")
        for mount in mounts:
            claim = mount.get("pvc")
            if claim is None:
                continue
            try:
                await self._access.get(f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{claim}")
            except ApiError as error:
                if error.missing:
                    self._say(BAD, f"{mount['path']}: there is no PersistentVolumeClaim {claim}: no pod would start")
                elif not error.forbidden:
                    raise

    async def _pods(self) -> None:
        """Whether admission would let a pod of each partition through: Pod Security, LimitRange, webhooks."""
        tried: list[Settings] = []
        for partition in self._cluster.partitions:
            settings = settings_of(self._cluster, partition.name).replace(namespace=self._namespace)
            if settings in tried:
                continue
            tried.append(settings)
            where = f"a pod of partition {partition.name}"
            if not settings.image:
                self._say(NOTE, f'{where} has no image: set "image", or every job must name one (--container-image)')
                settings = settings.replace(image="image")
            try:
                if await self._dry_run(settings):
                    self._say(GOOD, f"{where} would be accepted (dry run)")
            except BackendError as error:
                self._say(BAD, f"{where} would be refused: {error}")

    async def pods_meet(self) -> None:
        """Whether two pods reach each other, tried with two that are made for it."""
        partition = self._cluster.default_partition or next(iter(self._cluster.partitions), None)
        settings = settings_of(self._cluster, partition.name if partition is not None else "")
        settings = settings.replace(namespace=self._namespace)
        if not settings.image or settings.queue or not self._may_try():
            return
        try:
            fine, text = await pods.trouble(self._access, settings)
        except ApiError as error:
            self._say(NOTE, f"whether pods reach each other was not tried: {error.message}")
            return
        if text:
            self._say(GOOD if fine else BAD, text)
        else:
            self._say(
                NOTE,
                f"whether pods reach each other is not known: two of them did not run within {pods.PATIENCE:.0f} s",
            )

    async def _dry_run(self, settings: Settings) -> bool:
        """Whether admission has looked at a pod and taken it. Raises BackendError with what it says of one that it refuses."""
        user = None
        if settings.identity == "submitter":
            user = (os.getuid(), os.getgid()) if os.getuid() else (settings.root_uid, settings.root_uid)
        gang = Gang(
            job_id=0,
            record="doctor",
            nodes=1,
            cpus=1,
            user=user,
            staged=True,
            image=settings.image,
            command=tuple(container_command()),
            passwd=user is not None,
        )
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        try:
            await self._access.post(path, manifests.pod(gang, settings), {"dryRun": "All"})
        except ApiError as error:
            if error.transient:
                raise
            if not self._may_try() and error.forbidden:
                return False  # said already
            if "exceeded quota" in error.message:
                self._say(NOTE, f"a quota is used up at present: {error.message}")
                return False
            raise BackendError(error.message) from error
        return True

    def _may_try(self) -> bool:
        return all(ok for one, ok in self._allowed.items() if one.resource == "pods" and one.verb == "create")
