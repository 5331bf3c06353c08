"""What the API server is asked for an array of 200 tasks, beside a raw Indexed Job of 200 completions; and for one job.

    KUBECONFIG=/var/lib/shim-compat/kubernetes/kubeconfig ./dev bench --only requests

Counted by the API server itself (``apiserver_request_total``): requests of everybody, ours, controllers', schedulers' and kubelets'. What the
cluster asks while nothing happens is measured before, and taken off, and so is what this program asks itself. Other work in the same cluster is
counted, too.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.pods import CONFIG, IMAGE, Bench
from shim.control.backends.kubernetes.api.access import Access

TASKS = 200
ROUNDS = 3
_LINE = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_WORD = re.compile(r'(\w+)="([^"]*)"')
_READS = ("GET", "LIST", "WATCH", "CONNECT")
_QUIET = 20.0  # seconds in which it is measured what the cluster asks by itself
_OWN = ("leases", "nodes/status")  # asked by kubelets at their own pace


class Counts:
    """Requests by verb and resource, as the server has counted them."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._idle: Counter[str] = Counter()

    async def now(self) -> Counter[str]:
        """All requests so far."""
        text = (await asyncio.to_thread(_metrics)).decode()
        found: Counter[str] = Counter()
        for labels, value in _LINE.findall(text):
            words = dict(_WORD.findall(labels))
            name = words["resource"] + ("/" + words["subresource"] if words["subresource"] else "")
            if words["resource"] and name not in _OWN:
                found[f"{words['verb']} {name}"] += int(float(value))
        return found

    async def quiet(self) -> None:
        """Measures what is asked while nothing happens."""
        before = await self.now()
        await asyncio.sleep(_QUIET)
        self._idle = (await self.now()) - before

    async def since(self, before: Counter[str], seconds: float) -> Counter[str]:
        """Requests since ``before``, without those of a quiet cluster."""
        idle = Counter({name: round(count * seconds / _QUIET) for name, count in self._idle.items()})
        return (await self.now()) - before - idle


def _metrics() -> bytes:
    return subprocess.run(["kubectl", "get", "--raw", "/metrics"], stdout=subprocess.PIPE, check=True).stdout


class Run:
    """What one array cost."""

    def __init__(self, seconds: float, requests: Counter[str]) -> None:
        self.seconds = seconds
        self.requests = requests

    @property
    def total(self) -> int:
        return sum(self.requests.values())

    @property
    def writes(self) -> int:
        return sum(count for name, count in self.requests.items() if name.split()[0] not in _READS)


async def raw(bench: Bench, counts: Counts, tasks: int, together: int) -> Run:
    """An Indexed Job whose pods run ``true``, with one emptyDir, until it and its pods are gone."""
    bench.number += 1
    name = f"raw-{bench.number}"
    container = {
        "name": "raw",
        "image": IMAGE,
        "command": ["true"],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "10m"}},
        "volumeMounts": [{"name": "empty", "mountPath": "/empty"}],
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "empty", "emptyDir": {}}],
    }
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": tasks,
            "parallelism": together,
            "backoffLimitPerIndex": 0,
            "template": {"spec": spec},
        },
    }
    before, began = await counts.now(), time.monotonic()
    await bench.access.post(f"/apis/batch/v1/namespaces/{bench.namespace}/jobs", manifest)
    path = f"/apis/batch/v1/namespaces/{bench.namespace}/jobs/{name}"
    own: Counter[str] = Counter()
    while (await bench.access.get(path))["status"].get("succeeded", 0) < tasks:
        own["GET jobs"] += 1
        await asyncio.sleep(0.5)
    took = time.monotonic() - began
    await bench.access.delete(path)
    own += await _none_left(bench, "pods", "")
    return Run(took, await counts.since(before, time.monotonic() - began) - own)


async def ours(bench: Bench, counts: Counts, *words: str) -> Run:
    """What sbatch is given, until its jobs have ended and their pods are gone."""
    script = bench.folder / "true.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    before, began = await counts.now(), time.monotonic()
    job = (await asyncio.to_thread(bench.run, "sbatch", "--parsable", "-o", "/dev/null", *words, str(script))).strip()
    while await asyncio.to_thread(bench.run, "squeue", "-h", "-j", job):
        await asyncio.sleep(0.5)
    took = time.monotonic() - began
    own = await _none_left(bench, "pods", "") + await _none_left(bench, "configmaps", "slurm-shim.io/kind=record")
    return Run(took, await counts.since(before, time.monotonic() - began) - own)


async def _none_left(bench: Bench, kind: str, selector: str) -> Counter[str]:
    """Waits until the namespace has no such objects; what was asked for that."""
    own: Counter[str] = Counter()
    while True:
        own[f"LIST {kind}"] += 1
        if not (await bench.access.get(f"/api/v1/namespaces/{bench.namespace}/{kind}", {"labelSelector": selector}))[
            "items"
        ]:
            return own
        await asyncio.sleep(1)


def measure(folder: Path, env: Mapping[str, str], row: Any) -> None:
    """The table's lines."""
    asyncio.run(_measure(folder, env, row))


async def _measure(folder: Path, env: Mapping[str, str], row: Any) -> None:
    shared = folder / "shared"
    shared.mkdir()
    namespace = f"shim-bench-{os.getpid()}"
    (folder / "pods.toml").write_text(CONFIG.format(namespace=namespace, image=IMAGE, folder=shared))
    access = await Access.load()
    await access.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    bench = Bench(access, namespace, shared, {**env, "SHIM_CONFIG": str(folder / "pods.toml")})
    counts = Counts(access)
    tasks, rounds = int(os.environ.get("TASKS", TASKS)), int(os.environ.get("ROUNDS", ROUNDS))
    together = 64  # as many as our nodes have CPUs
    try:
        await bench.ours(1)  # makes the Service, and fills caches
        await bench.settle()
        await counts.quiet()
        for _ in range(rounds):
            theirs = await raw(bench, counts, tasks, together)
            mine = await ours(bench, counts, f"--array=0-{tasks - 1}")
            row(
                f"array of {tasks}: requests",
                f"{mine.total} / {theirs.total}",
                f"{mine.total / theirs.total:.2f} x (wanted <= 1.6)",
            )
            row("  of these writes", f"{mine.writes} / {theirs.writes}", f"{mine.writes / theirs.writes:.2f} x")
            row(
                "  time",
                f"{mine.seconds:.1f} s / {theirs.seconds:.1f} s",
                f"{mine.seconds / theirs.seconds:.2f} x (wanted <= 1.0)",
            )
            _table(mine, theirs, tasks)
        one = await ours(bench, counts)
        two = await raw(bench, counts, 1, 1)
        row("one job: requests", f"{one.total} / {two.total}", f"{one.total / two.total:.2f} x")
        _table(one, two, 1)
    finally:
        await asyncio.to_thread(bench.run, "scancel", "-u", env.get("USER", "root"))
        await asyncio.to_thread(bench.run, "shim", "controller", "stop")
        await access.delete(f"/api/v1/namespaces/{namespace}")
        await access.close()


def _table(mine: Run, theirs: Run, tasks: int) -> None:
    for name in sorted({*mine.requests, *theirs.requests}, key=lambda name: -mine.requests[name]):
        if (mine.requests[name] + theirs.requests[name]) >= tasks / 10:
            print(f"    {name:<40} {mine.requests[name]:>6} {theirs.requests[name]:>6}", flush=True)
