"""What a job in pods costs beside a bare Indexed Job with one emptyDir whose pods resolve and connect to pod 0, and beside bare API writes.

    compat/cluster/k8s.py up
    KUBECONFIG=/var/lib/shim-compat/kubernetes/kubeconfig ./dev bench --only pods

Needs a cluster whose nodes share the folder that this makes below /tmp (the test cluster's do). Takes turns, so that a busy machine is
busy for both.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.objects import names

IMAGE = "shim-compat.local/python:1"
ROUNDS = 5
PODS = (1, 2, 8)
JOBS = 500
_BARE = """
import os, socket, time
if os.environ["JOB_COMPLETION_INDEX"] == "0":
    server = socket.create_server(("0.0.0.0", 6900))
    peers = [server.accept() for _ in range({pods} - 1)]
    with open("{mark}.new", "w") as file:
        file.write(str(time.time()))
    os.rename("{mark}.new", "{mark}")
else:
    while True:
        try:
            socket.create_connection(("{name}-0.{service}", 6900), 1).recv(1)
            break
        except OSError:
            time.sleep(0.05)
"""
CONFIG = """
[clusters.pods]
backend = "kubernetes"
namespace = "{namespace}"
image = "{image}"
nodes = 8
cpus = 8
memory = 16000
cpu_request = 1
spread = false
identity = "image"
mounts = [{{ path = "{folder}", host_path = "{folder}" }}]
"""


class Bench:
    """One run of it: a namespace, a folder that pods see, and our commands for it."""

    def __init__(self, access: Access, namespace: str, folder: Path, env: Mapping[str, str]) -> None:
        self.access = access
        self.namespace = namespace
        self.folder = folder
        self.env = env
        self.number = 0

    async def bare(self, pods: int, confined: bool = False) -> float:
        """Seconds from the creation of a bare Job until all its pods are connected. ``confined``: as a restricted namespace demands it,
        and as ours always are: to make a system call filter costs the runtime 15 to 20 ms of CPU for each container.
        """
        self.number += 1
        name = f"bare-{self.number}"
        mark = self.folder / name
        code = _BARE.format(pods=pods, mark=mark, name=name, service=names.SERVICE)
        began = time.time()
        manifest = self._manifest(name, pods, code)
        if confined:
            spec = manifest["spec"]["template"]["spec"]
            spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
            spec["containers"][0]["securityContext"] = {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
        await self.access.post(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", manifest)
        met = float(await _content(mark)) - began
        await self.access.delete(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}")
        return met

    def _manifest(self, name: str, pods: int, code: str) -> dict[str, Any]:
        container = {
            "name": "bare",
            "image": IMAGE,
            "command": ["python3", "-c", code],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "10m"}},
            "volumeMounts": [
                {"name": "folder", "mountPath": str(self.folder)},
                {"name": "empty", "mountPath": "/empty"},
            ],
        }
        spec = {
            "restartPolicy": "Never",
            "subdomain": names.SERVICE,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [
                {"name": "folder", "hostPath": {"path": str(self.folder)}},
                {"name": "empty", "emptyDir": {}},
            ],
        }
        template = {
            "metadata": {"labels": {names.MANAGED: names.MANAGER, **({names.GANG: "true"} if pods > 1 else {})}},
            "spec": spec,
        }
        job = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "backoffLimitPerIndex": 0}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {**job, "template": template},
        }

    async def ours(self, pods: int) -> tuple[float, float]:
        """Seconds from sbatch to the script's first line, and of a step of 8 tasks in it."""
        self.number += 1
        line, step = self.folder / f"ours-{self.number}", self.folder / f"step-{self.number}"
        script = self.folder / "job.sh"
        script.write_text(
            f"#!/bin/bash\n#SBATCH -N{pods} --ntasks=8 -o /dev/null\ndate +%s.%N >{line}.new; mv {line}.new {line}\nsrun -n8 true\n"
            f"t=$(date +%s%N); srun -n8 true; echo $(($(date +%s%N) - t)) >{step}.new; mv {step}.new {step}\n"
        )
        began = time.time()
        await asyncio.to_thread(self.run, "sbatch", str(script))
        first = float(await _content(line)) - began
        return first, float(await _content(step)) / 1e9

    async def settle(self) -> None:
        """Returns when the pods before are gone: to take eight of them down costs as much as to start them."""
        while (await self.access.get(f"/api/v1/namespaces/{self.namespace}/pods"))["items"]:
            await asyncio.sleep(0.2)
        await asyncio.sleep(0.5)

    async def api_write(self) -> float:
        """Seconds for one small object to be made."""
        self.number += 1
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"write-{self.number}"}}
        began = time.perf_counter()
        await self.access.post(f"/api/v1/namespaces/{self.namespace}/configmaps", made)
        return time.perf_counter() - began

    def run(self, *command: str) -> str:
        """Runs one of our commands; its output."""
        done = subprocess.run(
            command, env=dict(self.env), cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def memory(self) -> float:
        """MiB of the controller's proportional memory."""
        state = Path(self.env["SHIM_STATE_DIR"])
        pid = int(next(state.glob("*/controller.lock")).read_text())
        for text in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if text.startswith("Pss:"):
                return int(text.split()[1]) / 1024
        return 0.0


async def _content(path: Path) -> str:
    while not path.exists():
        await asyncio.sleep(0.01)
    return path.read_text()


def measure(folder: Path, env: dict[str, str], row: Any, empty: float) -> None:
    """The table's lines. ``empty``: milliseconds of an empty Python entry point in the same run."""
    asyncio.run(_measure(folder, env, row, empty))


async def _measure(folder: Path, env: dict[str, str], row: Any, empty: float) -> None:
    shared = folder / "shared"
    shared.mkdir()
    namespace = f"shim-bench-{os.getpid()}"
    (folder / "pods.toml").write_text(CONFIG.format(namespace=namespace, image=IMAGE, folder=shared))
    access = await Access.load()
    await access.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    bench = Bench(access, namespace, shared, {**env, "SHIM_CONFIG": str(folder / "pods.toml")})
    try:
        await bench.ours(1)  # makes the Service, and fills caches
        for pods in PODS:
            bare, confined, ours, steps = [], [], [], []
            for _ in range(ROUNDS):
                bare.append(await bench.bare(pods))
                await bench.settle()
                confined.append(await bench.bare(pods, confined=True))
                await bench.settle()
                first, step = await bench.ours(pods)
                ours.append(first)
                steps.append(step)
                await bench.settle()
            mine, theirs = statistics.median(ours), statistics.median(bare)
            row(
                f"sbatch to first line, {pods} pods",
                f"{mine:.2f} s / {theirs:.2f} s",
                f"{mine / theirs:.2f} x (wanted <= 1.15)",
            )
            theirs = statistics.median(confined)
            row(
                "  beside bare pods that are confined as ours",
                f"{mine:.2f} s / {theirs:.2f} s",
                f"{mine / theirs:.2f} x",
            )
            if pods > 1:
                row(
                    f"srun, 8 tasks over {pods} pods",
                    f"{statistics.median(steps) * 1000:.0f} ms",
                    "(wanted <= 100, 2 pods)",
                )
        await _submission(bench, row, empty)
    finally:
        await asyncio.to_thread(bench.run, "scancel", "-u", env.get("USER", "root"))
        await asyncio.to_thread(bench.run, "shim", "controller", "stop")
        await access.delete(f"/api/v1/namespaces/{namespace}")
        await access.close()


async def _submission(bench: Bench, row: Any, empty: float) -> None:
    held = bench.folder / "held.sh"
    held.write_text("#!/bin/sh\ntrue\n")
    writes: list[float] = []
    times: list[float] = []
    for _ in range(JOBS):
        began = time.perf_counter()
        await asyncio.to_thread(bench.run, "sbatch", "-H", str(held))
        times.append((time.perf_counter() - began) * 1000)
        if len(writes) < 50:
            writes.append(await bench.api_write() * 1000)
    took, write = statistics.median(times), statistics.median(writes)
    limit = 2.5 * empty + 3 * write
    row("sbatch", f"{took:.1f} ms", f"{took / limit:.2f} x (2.5 x empty + 3 writes of {write:.1f} ms)")
    row(f"controller with {JOBS} jobs", f"{bench.memory():.0f} MiB", "(wanted <= 150)")
