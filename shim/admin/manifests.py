"""`shim explain -o yaml [sbatch's options] SCRIPT`: the objects that the job would be on Kubernetes. Nothing is made there."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import tempfile
import time
from collections.abc import Sequence
from typing import Any, TextIO

from shim.admin import yaml_text
from shim.admin.preflight import Found, judge, require_nodes
from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.errors import AccessError
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.cluster import pinned_context
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.cluster.shape import Shape
from shim.control.backends.kubernetes.objects import manifests, names, volumes
from shim.control.backends.kubernetes.objects.bundle import bundle
from shim.control.backends.kubernetes.objects.gang_spec import code_name
from shim.control.backends.kubernetes.objects.run_payload import Made, made
from shim.control.backends.kubernetes.settings import Settings, settings_of
from shim.control.backends.kubernetes.submit import submit_checks
from shim.control.controller.launching import run_spec
from shim.control.controller.spool import Submission
from shim.control.groups import names_of
from shim.control.lifecycle import running
from shim.control.lifecycle.submission import Submitter, submitted
from shim.control.scheduler import plan
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.model.request import JobRequest

_NO_UID = "00000000-0000-0000-0000-000000000000"  # of a Job that is not made
_NO_KEY = bytes(32)
_HEAD = """\
# What sbatch would send for this script, for a job with the id 0. To have the API server judge it:
#     shim explain -o yaml … | kubectl apply --dry-run=server -f -
# Once for the namespace, and not shown: Service {service}, ConfigMap {code} (the agent), ConfigMap {ids} (job ids).
# Made when the job is submitted, and not shown: ConfigMap {record} (the job's record, which owns the rest), Secret {payload} (script, environment).
"""
_NO_ROOM = "# Nodes are named as if all were free: at present the job would wait.\n"
_STAGED = (
    "# The working directory ({size} bytes when packed) is sent to the job's first pod before the script starts.\n"
)


def report(words: Sequence[str], found: Found, text: str, cluster: Cluster, out: TextIO) -> None:
    """Writes the manifests. Raises ShimError for what sbatch would refuse, and for a cluster that cannot be asked."""
    if cluster.backend != "kubernetes":
        raise ShimError(f"error: cluster {cluster.name} ({cluster.backend}) has no manifests: its jobs are no pods")
    try:
        asyncio.run(_report(words, found, text, cluster, out))
    except AccessError as problem:
        raise ShimError(f"error: cluster {cluster.name}: {problem}") from problem
    except (BackendError, OSError) as problem:
        raise ShimError(f"error: {problem}") from problem


async def _report(words: Sequence[str], found: Found, text: str, cluster: Cluster, out: TextIO) -> None:
    settings = settings_of(cluster)
    volumes.check(settings)
    access, where = await pinned_context.find(cluster)
    site = Site(access, where.namespace, cluster.name, "0" * 32)
    shape = Shape(site, cluster, lambda _cluster: None, lambda _job: False)
    try:
        now = require_nodes(await shape.open())
        verdict = judge(words, now, found, text)
        if not verdict.accepted:
            raise ShimError(*(verdict.refused or verdict.unsupported), code=verdict.code or 1)
        job, free = _placed(verdict.requests[0], now)
        with tempfile.TemporaryDirectory() as spool:
            own = settings_of(cluster, job.partition).replace(namespace=site.namespace)
            notes = await submit_checks.keep_files(job, spool, own)
            result = _made(job, now, own, shape, text, spool)
            size = os.path.getsize(result.stage) if result.stage else 0
    finally:
        await shape.close()
        await site.close()
        await access.close()
    gang = result.gang
    code = code_name(gang.digest)
    out.write(
        _HEAD.format(
            service=names.SERVICE,
            code=code,
            ids=names.IDS,
            record=names.record(gang.job_id),
            payload=names.payload(gang.job_id),
        )
    )
    out.write("" if free else _NO_ROOM)
    out.write(_STAGED.format(size=size) if size else "")
    out.write("".join(f"# {note}\n" for note in notes))
    out.write(yaml_text.dump(_objects(result, own)))


def _placed(request: JobRequest, cluster: Cluster) -> tuple[Job, bool]:
    """The job placed on nodes; whether these nodes are free at present. Raises ShimError if the job could not run on idle nodes either."""
    now = time.time()
    ready = request.replace(hold=False, begin=0, dependency=None, array=None)
    job = submitted(ready, cluster, _submitter(), 0, now)
    idle = cluster.replace(
        nodes=tuple(node.replace(others_cpus=0, others_memory=0, others_gpus=0, others=()) for node in cluster.nodes)
    )
    for shape, free in ((cluster, True), (idle, False)):
        found = plan([job], shape, (), now, members=names_of)
        if found.starts:
            starting, shares = found.starts[0]
            given = KubernetesBackend(cluster).hosts(shares, job)
            return running.starting(starting, given, cluster, starting.partition, now), free
    raise ShimError(f"error: the job would wait: {', '.join(found.reasons.values()) or 'Resources'}")


def _submitter() -> Submitter:
    uid, gid = os.getuid(), os.getgid()
    try:
        return Submitter(uid=uid, gid=gid, user=pwd.getpwuid(uid).pw_name, group=grp.getgrgid(gid).gr_name)
    except KeyError:
        return Submitter(uid=uid, gid=gid, user=str(uid), group=str(gid))


def _made(job: Job, cluster: Cluster, settings: Settings, shape: Shape, script: str, spool: str) -> Made:
    handed_in = Submission(environment=dict(os.environ), has_script=True)
    spec, environment = run_spec(job, cluster, KubernetesBackend(cluster), handed_in)
    spec = spec.replace(record=_NO_UID)
    text = script.encode("utf-8", "surrogateescape")
    return made(spec, settings, bundle(), shape, environment, text, _NO_KEY, spool)


def _objects(result: Made, settings: Settings) -> list[dict[str, Any]]:
    """The manifests, in the order in which they are made. The Secret shows only the sizes of its contents, because they include the key."""
    gang = result.gang
    secret = manifests.secret(gang, {})
    del secret["data"]
    secret["stringData"] = {name: f"({len(content)} bytes)" for name, content in result.contents.items()}
    found = [manifests.job(gang, settings), secret]
    if gang.pod_group:
        found.append(manifests.pod_group(gang))
    for one in found:
        one["metadata"]["namespace"] = settings.namespace
    return found
