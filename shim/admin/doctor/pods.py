"""The doctor's two pods: whether one reaches the other at the agents' port, and finds names. That is what a job of several nodes needs."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.objects.gang_spec import Gang
from shim.control.backends.kubernetes.objects.pod_template import template
from shim.control.backends.kubernetes.run.pod_view import PodView, look
from shim.control.backends.kubernetes.settings import Settings
from shim.job.pod.places import PORT

PATIENCE = 40.0  # seconds for both pods, the first of which may have to pull its image
_PAUSE = 0.3
_LIVES = 120  # seconds after which a pod ends that the doctor could not remove
_LISTENS = f"""\
import socket
s = socket.create_server(("::", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True) if socket.has_dualstack_ipv6() \
else socket.create_server(("", {PORT}))
while True:
    s.accept()[0].close()
"""
_CALLS = f"""\
import json, socket, sys, time
address, name = sys.argv[1:]
found = {{"tcp": "", "dns": ""}}
def tried(what, limit, work):
    end = time.time() + limit
    while True:
        try:
            work()
            found[what] = ""
            return
        except OSError as error:
            found[what] = str(error.strerror or error)
        if time.time() > end:
            return
        time.sleep(0.3)
tried("tcp", 4, lambda: socket.create_connection((address, {PORT}), 2).close())
tried("dns", 4, lambda: socket.getaddrinfo(name, {PORT}))
open("/dev/termination-log", "w").write(json.dumps(found))
"""


async def trouble(access: Access, settings: Settings) -> tuple[bool, str]:
    """Whether two pods can meet, and what there is to say of it; (True, "") where the cluster did not run them. Raises ApiError."""
    stem = f"shim-doctor-{secrets.token_hex(3)}"
    path = f"/api/v1/namespaces/{settings.namespace}/pods"
    try:
        async with asyncio.timeout(PATIENCE):
            await access.post(path, _pod(f"{stem}-a", settings, [_LISTENS]))
            first = await _until(access, path, stem, "a", lambda view, pod: view.running and _address(pod))
            calling = [_CALLS, _address(first[1]), f"kubernetes.default.svc.{settings.cluster_domain}"]
            await access.post(path, _pod(f"{stem}-b", settings, calling, apart=f"{stem}-a"))
            second = await _until(access, path, stem, "b", lambda view, pod: view.ended is not None)
    except TimeoutError:
        return True, ""
    finally:
        for which in "ab":
            await _remove(access, f"{path}/{stem}-{which}")
    return _said(first[0], second[0])


def _said(first: PodView, second: PodView) -> tuple[bool, str]:
    assert second.ended is not None
    try:
        found = json.loads(second.ended.message)
        tcp, dns = str(found["tcp"]), str(found["dns"])
    except (ValueError, KeyError, TypeError):
        return True, ""
    where = (
        f"a pod on {second.node} and one on {first.node}" if first.node != second.node else f"two pods on {first.node}"
    )
    wrong = []
    if tcp:
        wrong.append(f"the one does not reach the other on TCP port {PORT} ({tcp}): a NetworkPolicy, a firewall?")
    if dns:
        wrong.append(f"names are not found, by the DNS on UDP port 53 ({dns})")
    if wrong:
        return False, f"{where} cannot meet, and no job of several nodes would start: {'; '.join(wrong)}"
    return True, f"{where} reach each other on TCP port {PORT}, and find names"


async def _until(access: Access, path: str, stem: str, which: str, holds: Any) -> tuple[PodView, dict[str, Any]]:
    """The pod once it is so. Listed: that is what the Role allows."""
    while True:
        items = (await access.get(path, {"labelSelector": f"{names.RECORD}={stem}"}))["items"]
        for pod in items:
            view = look(pod)
            if view.name == f"{stem}-{which}" and holds(view, pod):
                return view, pod
        await asyncio.sleep(_PAUSE)


async def _remove(access: Access, path: str) -> None:
    try:
        await access.delete(path, grace=0)
    except ApiError:
        return  # it was never made; else it ends by itself


def _address(pod: dict[str, Any]) -> str:
    return str((pod.get("status") or {}).get("podIP") or "")


def _pod(name: str, settings: Settings, script: list[str], apart: str = "") -> dict[str, Any]:
    """A small pod as those of jobs are, but for volumes, running a Python script with arguments."""
    stem = name[:-2]
    user = (settings.root_uid, settings.root_uid) if settings.identity == "submitter" else None
    gang = Gang(job_id=0, record=stem, nodes=1, cpus=1, user=user, image=settings.image)
    made = template(gang, settings.replace(cpu_request=1), gang.labels)
    spec = made["spec"]
    spec["volumes"] = []
    spec["activeDeadlineSeconds"] = _LIVES
    spec["terminationGracePeriodSeconds"] = 0
    container = next(one for one in spec["containers"] if one["name"] == names.CONTAINER)
    container.update(command=["python3", "-c", *script], volumeMounts=[], env=[])
    if apart:
        term = {"topologyKey": names.HOSTNAME, "labelSelector": {"matchLabels": {names.RECORD: stem}}}
        preferred = [{"weight": 100, "podAffinityTerm": term}]
        anti = spec["affinity"].setdefault("podAntiAffinity", {})
        anti["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    metadata = {**made["metadata"], "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
