"""Jobs stay where they are found, whatever kubectl is switched to meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from shim.control import paths
from shim.control.backends.kubernetes.api import login
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import AccessError
from shim.control.backends.kubernetes.backend import KubernetesBackend
from shim.control.backends.kubernetes.cluster import pinned_context, watches
from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.settings import texts
from shim.control.controller.controller import Controller
from shim.control.index.opening import open_store
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster, Node, Partition
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.fakeapi import FakeServer
from tests.control.backends.kubernetes.fakecluster import FakeCluster
from tests.control.backends.kubernetes.fakewatch import FakeReflector
from tests.control.backends.kubernetes.stage import RUN, Told
from tests.control.controller.fakes import Bench, Clock, FakeBackend

HERE = ("here", "mine")
THERE = ("there", "mine")
POD = ("", "pods")


class Kubectl:
    """What `kubectl config` does to the file that it reads; "here" and "there" are the contexts of two clusters."""

    def __init__(self, folder: Path, servers: dict[str, str]) -> None:
        self.path = folder / "config"
        self.config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": url}} for name, url in servers.items()],
            "users": [{"name": "me", "user": {"token": "secret"}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": "me", "namespace": "mine"}} for name in servers
            ],
        }
        self.use("here")

    def use(self, context: str) -> None:
        self._write({**self.config, "current-context": context})

    def set_namespace(self, namespace: str) -> None:
        """Of every context."""
        for one in self.config["contexts"]:
            one["context"]["namespace"] = namespace
        self._write(self.config)

    def delete(self, context: str) -> None:
        self.config["contexts"] = [one for one in self.config["contexts"] if one["name"] != context]
        self._write(self.config)

    def _write(self, config: dict[str, Any]) -> None:
        self.config = config
        self.path.write_text(json.dumps(config))


@pytest.fixture
def kubectl(tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    made = Kubectl(tmp_path, {"here": server.url, "there": "http://127.0.0.1:1"})
    monkeypatch.setenv("KUBECONFIG", str(made.path))
    return made


def cluster(**words: Any) -> Cluster:
    return Cluster(
        name="k8s",
        backend="kubernetes",
        nodes=(Node(name="n1", cpus=4, memory=4096),),
        partitions=(Partition(name="all", nodes=("n1",), default=True),),
        settings=texts({"image": "python", **words}),
    )


def found(**words: Any) -> tuple[str, str]:
    """Where a controller that is started now looks for its jobs: context and namespace."""
    access, where = asyncio.run(pinned_context.find(cluster(**words)))
    assert access.context == where.context
    pinned_context.note("k8s", where)
    return where.context, where.namespace


def refusal(**words: Any) -> str:
    with pytest.raises(AccessError) as caught:
        asyncio.run(pinned_context.find(cluster(**words)))
    return str(caught.value)


def note() -> Path:
    return Path(run_folders.folder_of("k8s"), "place")


# A controller that runs


def test_a_controller_that_runs_stays_in_its_context(server: FakeServer, kubectl: Kubectl) -> None:
    server.turns(lambda request: request.fail(401, "Unauthorized"), lambda request: request.json({"ok": True}))

    async def go() -> None:
        access = await Access.load()
        access.transport._made -= 60
        kubectl.use("there")
        assert await access.get("/x") == {"ok": True}
        assert (access.context, access.server) == ("here", server.url)
        await access.close()

    asyncio.run(go())
    assert len(server.seen) == 2


def test_a_context_that_is_gone_is_said_and_the_login_stays(server: FakeServer, kubectl: Kubectl) -> None:
    server.answer = lambda request: request.fail(401, "Unauthorized", "Unauthorized")

    async def go() -> None:
        access = await Access.load()
        access.transport._made -= 60
        before = access.transport.login
        kubectl.use("there")
        kubectl.delete("here")
        with pytest.raises(
            Exception, match=r'Unauthorized \(kubeconfig ".*" has no context "here" \(it has: there\)\)'
        ):
            await access.get("/x")
        assert access.transport.login is before
        await access.close()

    asyncio.run(go())


# A controller that is started


def test_without_jobs_kubectl_is_followed_and_with_jobs_it_is_not(kubectl: Kubectl) -> None:
    assert found() == HERE
    kubectl.use("there")
    assert found() == THERE
    kubectl.use("here")
    assert found() == HERE
    run_folders.ensure(RUN)
    kubectl.use("there")
    kubectl.set_namespace("other")
    assert found() == HERE
    run_folders.remove("k8s", RUN.job_id)
    assert found() == ("there", "other")


def test_the_note_is_kept_beside_the_tickets_and_is_none(kubectl: Kubectl) -> None:
    found()
    assert note().stat().st_mode & 0o777 == 0o600
    assert run_folders.known("k8s") == []


def test_jobs_of_a_home_without_a_note_are_where_kubectl_is(kubectl: Kubectl) -> None:
    run_folders.ensure(RUN)
    assert found() == HERE
    kubectl.use("there")
    assert found() == HERE


def test_what_the_configuration_said_stays_in_force_when_it_says_it_no_more(kubectl: Kubectl) -> None:
    said = {"context": "there", "namespace": "said"}
    assert found(**said) == ("there", "said")
    run_folders.ensure(RUN)
    assert found() == found(**said) == ("there", "said")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"context": "there"}, 'context "there"'),
        ({"namespace": "other", "context": "here"}, 'namespace "other"'),
        ({"namespace": "other", "context": "there"}, 'context "there" and namespace "other"'),
    ],
)
def test_a_configuration_that_says_another_place_is_refused_while_there_are_jobs(
    kubectl: Kubectl, words: dict[str, str], said: str
) -> None:
    found()
    run_folders.ensure(RUN)
    assert refusal(**words) == (
        f'its jobs are in context "here", namespace "mine", and the configuration says {said}: '
        f"set it back until they have ended, or remove {note()} to give them up"
    )
    note().unlink()
    assert found(**words) == (words.get("context", "here"), words.get("namespace", "mine"))


def test_another_kubeconfig_is_for_those_who_submit_when_the_jobs_have_ended(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found()
    run_folders.ensure(RUN)
    (tmp_path / "other").mkdir()
    other = Kubectl(tmp_path / "other", {"here": "http://127.0.0.1:1"})  # a context of that name, of another cluster
    monkeypatch.setenv("KUBECONFIG", str(other.path))
    access, _where = asyncio.run(pinned_context.find(cluster()))
    assert access.server != "http://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert found() == HERE
    run_folders.remove("k8s", RUN.job_id)
    monkeypatch.setenv("KUBECONFIG", str(other.path))
    access, _where = asyncio.run(pinned_context.find(cluster()))
    assert access.server == "http://127.0.0.1:1"


def test_a_context_that_is_not_there_any_more_is_refused_while_there_are_jobs(kubectl: Kubectl) -> None:
    found()
    run_folders.ensure(RUN)
    kubectl.delete("here")
    assert refusal() == (
        f'its jobs are in context "here", namespace "mine", but kubeconfig "{kubectl.path}" has no context "here" '
        "(it has: there): see that it is found (or configure another kubeconfig) "
        f"until they have ended, or remove {note()} to give them up"
    )
    kubectl.path.unlink()
    assert f'but no kubeconfig: "{kubectl.path}" does not exist: ' in refusal()


def test_what_else_a_kubeconfig_lacks_is_said_as_ever(kubectl: Kubectl) -> None:
    found()
    run_folders.ensure(RUN)
    kubectl.path.write_text("[")
    assert refusal().startswith(f'kubeconfig "{kubectl.path}": ')


@pytest.fixture
def account(tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's service account: the file with the namespace."""
    kube = pytest.importorskip("kubernetes.config").incluster_config
    for name, text in (("token", "secret"), ("ca.crt", "x"), ("namespace", "pods")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(kube, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(kube, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(login, "_POD_NAMESPACE", str(tmp_path / "namespace"))
    monkeypatch.setattr(login, "_tls", lambda configuration: None)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "namespace"


def test_a_pods_service_account_stays_too(
    account: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found() == POD
    run_folders.ensure(RUN)
    account.write_text("elsewhere")
    assert found() == POD
    monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path / "config"))
    assert found() == POD
    said = refusal(kubeconfig=str(tmp_path / "config"))
    assert said.startswith(
        'its jobs are in the cluster of the pod\'s service account, namespace "pods", and the configuration says kubeconfig "'
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert "but the pod's service account: Service host/port is not set." in refusal()
    run_folders.remove("k8s", RUN.job_id)
    assert found() == HERE


def test_a_controller_in_a_pod_that_runs_stays_with_the_service_account(
    account: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = asyncio.run(Access.load())
    monkeypatch.setenv("KUBECONFIG", server.kubeconfig(tmp_path / "config"))
    transport = access.transport
    assert transport._load(transport.login.context).server == "https://10.0.0.1:443"


# The backend and the controller


def test_the_place_is_noted_before_there_can_be_a_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    there = FakeCluster()
    asked: list[tuple[str | None, ...]] = []

    async def load(*where: str | None) -> Access:
        asked.append(where)
        return there.access

    monkeypatch.setattr(watches, "Reflector", FakeReflector)
    monkeypatch.setattr(Access, "load", load)

    async def inside() -> None:
        for _ in range(2):
            backend = KubernetesBackend(cluster())
            await backend.open(Told())
            kept = {"kubeconfig": there.kubeconfig, "context": "here", "namespace": "default"}
            assert json.loads(note().read_text()) == kept
            await backend.close()
            there.namespace = "other"
            run_folders.ensure(RUN)
        assert json.loads(backend._configured.settings["namespace"]) == "default"

    clock.run(inside())
    assert asked == [(None, None), (there.kubeconfig, "here")]


@pytest.mark.parametrize("name", ["place", "place.new"])
def test_a_note_that_cannot_be_read_or_written_is_told(kubectl: Kubectl, name: str) -> None:
    os.makedirs(note().with_name(name))
    with pytest.raises(ShimError, match=r"^error: cluster k8s: /.*/place: Is a directory$"):
        asyncio.run(KubernetesBackend(cluster()).open(Told()))


def test_a_note_that_is_damaged_is_made_anew(kubectl: Kubectl) -> None:
    found()
    run_folders.ensure(RUN)
    note().write_text("{")
    assert found() == HERE
    kept = {"kubeconfig": str(kubectl.path), "context": "here", "namespace": "mine"}
    assert json.loads(note().read_text()) == kept


def test_a_controller_that_cannot_find_them_leaves_its_jobs_as_they_are(kubectl: Kubectl, state_dir: Path) -> None:
    found()
    shape = cluster()

    async def inside() -> None:
        before = await Bench(FakeBackend(shape), Clock()).open()
        number = await before.submit(work_dir=str(state_dir.parent), requeue=True)
        before.backend.tell(number, "started")
        await before.settle()
        assert before.job(number).state == states.RUNNING
        await before.close()

        run_folders.ensure(RUN.replace(job_id=number))
        kubectl.use("there")
        kubectl.delete("here")
        store = open_store(paths.index_path())
        controller = Controller(store, (shape,), KubernetesBackend, Clock(), 60.0)
        await controller.open()
        assert controller.world.blocked["k8s"].startswith('its jobs are in context "here", namespace "mine", but')
        (job,) = store.jobs()
        assert (job.job_id, job.state, job.restarts) == (number, states.RUNNING, 0)
        assert run_folders.known("k8s") == [RUN.replace(job_id=number)]
        await controller.close()
        store.close()

    asyncio.run(inside())
