"""What the contract suite needs of a backend under test, and an observer that remembers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from shim.control import paths, site
from shim.control.backends import make
from shim.control.backends.base import Backend, KeepsJobs, Run
from shim.control.controller.launching import run_spec
from shim.control.controller.spool import Submission
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest
from shim.job.spec import RunSpec
from tests import leftovers
from tests.support import wait_until

LIMIT = 120.0  # seconds; only ends a test that has failed

# All nodes of the test cluster are this machine: what is below the test's folder is the same in the pods.
_KUBERNETES = """\
[clusters.kubernetes]
backend = "kubernetes"
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
image = "{image}"
identity = "image"
cpu_request = 10
mounts = [{{ path = "{folder}", host_path = "{folder}" }}]
"""


def configure_kubernetes(kubeconfig: str, namespace: str, folder: Path) -> None:
    """Makes "kubernetes" a cluster of this test; jobs may use ``folder``."""
    path = folder / "config" / "shim" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(_KUBERNETES.format(kubeconfig=kubeconfig, namespace=namespace, image=IMAGE_PYTHON, folder=folder))


class Observer:
    """Remembers what a backend reports."""

    def __init__(self) -> None:
        self.lines: list[tuple[Run, dict[str, Any]]] = []
        self.gone: list[Run] = []
        self.cluster: Cluster | None = None
        self._news = asyncio.Event()

    def happened(self, run: Run, event: Mapping[str, Any]) -> None:
        self.lines.append((run, dict(event)))
        self._news.set()

    def lost(self, run: Run, reason: str, detail: str = "") -> None:
        self.gone.append(run)
        self._news.set()

    def withdrawn(self, run: Run, reason: str) -> None:
        self.gone.append(run)
        self._news.set()

    def trouble(self, cluster: str, text: str) -> None: ...

    def unknown(self, cluster: str) -> None: ...

    def outdated(self, cluster: str) -> None: ...

    def cluster_changed(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._news.set()

    def of(self, run: Run) -> list[dict[str, Any]]:
        """The lines of one run."""
        return [line for whose, line in self.lines if whose == run]

    async def line(self, run: Run, kind: str) -> dict[str, Any]:
        """The run's first line of this kind, once it has come."""

        def found() -> dict[str, Any] | None:
            return next((line for line in self.of(run) if line["kind"] == kind), None)

        return await self.until(found)

    async def until(self, found: Callable[[], Any]) -> Any:
        """What ``found`` finds, once a report has made it true."""
        async with asyncio.timeout(LIMIT):
            while True:
                result = found()
                if result:
                    return result
                self._news.clear()
                await self._news.wait()


class Subject:
    """One kind of backend under test: makes backends over the same runs, as controllers that follow each other do."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._open: list[Backend] = []

    async def backend(self) -> tuple[Backend, Observer, Cluster]:
        """A backend as a new controller has it; the one before is closed first, its runs go on."""
        await self.close()
        observer = Observer()
        backend = make(site.cluster(self.kind))
        self._open.append(backend)
        observer.cluster = await backend.open(observer)

        def shape() -> Cluster | None:
            return observer.cluster if observer.cluster and observer.cluster.nodes else None

        return backend, observer, await observer.until(shape)  # a slow cluster tells its nodes later

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()

    async def end(self) -> None:
        """The test is over: a leader whose end nobody has heard would call for a controller for minutes."""
        await self.close()
        folder = os.path.dirname(paths.state_dir())  # as the environment has it
        await asyncio.to_thread(wait_until, lambda: not leftovers.killed(folder), "everything of the test ended")


async def start(
    backend: Backend, cluster: Cluster, script: str, *, job_id: int = 1, nodes: int = 1, **request: Any
) -> Run:
    """Starts a job with this script on the first nodes; its run."""
    spec, environment = spec_of(backend, cluster, script, job_id=job_id, nodes=nodes, **request)
    if isinstance(backend, KeepsJobs):
        await backend.accept(spec.job, {"token": f"{job_id}"}, script.encode(), "/nowhere")
    await backend.start(spec, environment, script.encode())
    return Run(cluster=cluster.name, job_id=job_id)


async def forget(backend: Backend, run: Run, state: str = "COMPLETED") -> None:
    """The run's end is committed: its job is over."""
    if isinstance(backend, KeepsJobs):
        backend.keep(Job(cluster=run.cluster, job_id=run.job_id, restarts=run.restart, state=state))
    await backend.forget(run)


def spec_of(
    backend: Backend, cluster: Cluster, script: str, *, job_id: int, nodes: int, **request: Any
) -> tuple[RunSpec, dict[str, str]]:
    """The spec and the environment of such a job."""
    request.setdefault("name", "job")
    request.setdefault("work_dir", os.path.dirname(os.environ["SHIM_STATE_DIR"]))  # the test's folder
    shares = tuple(NodeShare(name=node.name) for node in cluster.nodes[:nodes])
    job = Job(
        cluster=cluster.name,
        job_id=job_id,
        uid=os.getuid(),
        gid=os.getgid(),
        user="me",
        request=JobRequest(**request),
        state="CONFIGURING",
        partition=cluster.partitions[0].name,
        nodes=nodes,
        cpus=nodes,
        tasks=nodes,
        stdout="/dev/null",
        stderr="/dev/null",
        stdin="/dev/null",
    )
    job = job.replace(shares=backend.hosts(shares, job))
    spec, environment = run_spec(
        job, cluster, backend, Submission(environment={"PATH": "/usr/bin:/bin"}, has_script=True)
    )
    # A leader that waits for its controller calls one: a real one would know no such job, and end it.
    return (spec.replace(news=("/bin/true",)) if spec.news else spec), environment
