"""The API server of the simulated cluster, as requests, watches and streams meet it.

A request may be late, refused, lost on its way there or back, applied long after its sender gave up, or applied twice. What it does is
done to what there is at that very moment; what a watch tells is what there was, some time ago.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shim.control.backends.kubernetes.api.errors import ApiError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.run.evidence import Node
from shim.control.backends.kubernetes.run.register import Register, Wanted
from tests.control.backends.kubernetes.run.driven.agents import Agent, Connection
from tests.control.backends.kubernetes.run.driven.cluster import DrivenCluster, JobOf, RecordOf
from tests.control.backends.kubernetes.run.things import LIMITS, PodObject

if TYPE_CHECKING:
    from tests.control.backends.kubernetes.run.driven.home import Home
    from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule

Object = dict[str, Any]
SPACE = "/namespaces/default/"
KINDS = {"configmaps": "record", "jobs": "job", "pods": "pod"}
REFUSALS = (
    (429, "TooManyRequests", "too many requests"),
    (500, "InternalError", "etcdserver: leader changed"),
    (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    (0, "Refused", "connection refused"),
)
LOST = ApiError(0, "Timeout", "the API server does not answer in time")


class Server:
    """``others``: Secrets by name; of other kinds nothing is kept but what the backend asks for."""

    def __init__(self, world: DrivenSchedule) -> None:
        self.world = world
        self.rng = world.rng
        self.cluster: DrivenCluster = world.cluster
        self.place = "place"

    # How requests fare

    async def ask(self, home: Home, apply: Callable[[], Any], *, writes: bool) -> Any:
        world, rng = self.world, self.rng
        if home.process.dead:
            await asyncio.Event().wait()
        if world.lucky():
            await asyncio.sleep(rng.random() * 0.1)
            return apply()
        fate = rng.random()
        if fate < 0.25:
            await asyncio.sleep(rng.random())
            raise ApiError(*rng.choice(REFUSALS))
        if fate < 0.5 or not writes:
            await asyncio.sleep(rng.choice((1.0, 5.0, 20.0)))
            found = apply()
            await asyncio.sleep(rng.choice((0.1, 5.0, 20.0)))
            return found
        if fate < 0.65:
            self.late(0.0, apply)
        elif fate < 0.8:
            self.late(rng.choice((6.0, 40.0, 150.0)), apply)
        elif fate < 0.9:
            found = apply()
            self.late(rng.choice((0.1, 6.0, 40.0)), apply)
            return found
        await asyncio.sleep(rng.choice((0.5, 5.0, 30.0)))
        raise LOST

    def late(self, seconds: float, apply: Callable[[], Any]) -> None:
        """Applied some time, whatever its sender has been told."""

        def arrive() -> None:
            try:
                apply()
            except ApiError:
                pass  # nobody hears it

        self.world.later(seconds, arrive)

    # What they ask for

    def get(self, path: str, query: Object) -> Object:
        kind, name = _split(path)
        if path == "/api/v1/nodes":
            return {"items": self._nodes(query)}
        if "kube-node-lease" in path:
            return self._renewed(path.rsplit("/", 1)[1])
        if kind == "events":
            return {"items": []}
        if kind == "pods" and not name:
            selected = query.get("labelSelector", "")
            pods = [self.cluster.shown("pod", pod) for pod in self.cluster.api.pods.values()]
            return {"items": [pod for pod in pods if _selected(pod, selected)]}
        if kind == "configmaps" and name == names.IDS:
            return {"metadata": {"name": name, "uid": self.place, "resourceVersion": "1"}, "data": {"next": "1"}}
        if kind == "secrets":
            return _there(self.cluster.secrets.get(name), name)
        return self.cluster.shown(KINDS[kind], _there(self.cluster.api.stores[KINDS[kind]].get(name), name))

    def _nodes(self, query: Object) -> list[Object]:
        if not self.world.nodes_readable:
            raise ApiError(403, "Forbidden", 'nodes is forbidden: User "jane" cannot list resource "nodes"')
        name = query["fieldSelector"].removeprefix("metadata.name=")
        node: Node | None = self.cluster.machines[name].shown
        return [] if node is None else [node_object(name, node)]

    def _renewed(self, name: str) -> Object:
        if not self.world.nodes_readable:
            raise ApiError(403, "Forbidden", f'leases "{name}" is forbidden: User "jane" cannot get resource "leases"')
        return {"metadata": {"name": name}, "spec": {"renewTime": repr(self.cluster.machines[name].renewed)}}

    def post(self, path: str, body: Object) -> Object:
        if path.endswith("/selfsubjectreviews"):
            return {"status": {"userInfo": {"username": "jane"}}}
        kind, _ = _split(path)
        name = body["metadata"]["name"]
        there = self.cluster.secrets if kind == "secrets" else self.cluster.api.stores[KINDS[kind]]
        if name in there:
            raise ApiError(409, "AlreadyExists", f"{kind} {name} already exists")
        if kind == "secrets":
            self.cluster.secrets[name] = {**body, "metadata": {**body["metadata"], "uid": self.cluster.uid("secret")}}
            return self.cluster.secrets[name]
        if kind == "jobs":
            return self._post_job(name, body)
        if kind == "pods":
            return self._post_pod(name, body)
        return self._post_record(name, body)

    def _post_job(self, name: str, body: Object) -> Object:
        record, run = names.label(body, names.RECORD), names.number_of(body, names.RUN)
        width = body["spec"]["completions"]
        job = JobOf(name=name, uid=self.cluster.uid("job"), run=run, record=record, width=width, labels=_labels(body))
        self.cluster.say("job", name, record)
        self.cluster.ids[record] = names.job_of(body)
        self.cluster.api.put("job", job)
        return self.cluster.shown("job", job)

    def _post_pod(self, name: str, body: Object) -> Object:
        record, run = names.label(body, names.RECORD), names.number_of(body, names.RUN)
        pod = PodObject(name=name, uid=self.cluster.uid("pod-"), run=run, index=0, record=record, alone=True)
        self.cluster.say("pod", name, record, pod.uid)
        self.cluster.ids[record] = names.job_of(body)
        self.cluster.api.put("pod", pod)
        return self.cluster.shown("pod", pod)

    def _post_record(self, name: str, body: Object) -> Object:
        self.cluster.versions += 1
        data = body["data"]
        record = RecordOf(
            name=name,
            uid=self.cluster.uid("record"),
            version=str(self.cluster.versions),
            nodes=json.loads(data["job"]).get("nodes", 1),
            limits=LIMITS,
            data=data,
            labels=_labels(body),
        )
        self.cluster.say("record", name, record.uid)
        self.cluster.ids[record.uid] = names.job_of(body)
        self.cluster.api.put("record", record)
        return self.cluster.shown("record", record)

    def put(self, path: str, body: Object) -> Object:
        kind, name = _split(path)
        assert kind == "configmaps", path
        record: RecordOf = _there(self.cluster.api.records.get(name), name)
        metadata, data = body["metadata"], body["data"]
        versioned = "unversioned" not in self.cluster.plant
        if metadata["uid"] != record.uid or (versioned and metadata["resourceVersion"] != record.version):
            raise ApiError(409, "Conflict", "the object has been modified")
        register = Register.from_dict(json.loads(data["register"])) if "register" in data else None
        wanted = Wanted.from_dict(json.loads(data["wanted"])) if "wanted" in data else Wanted()
        version = metadata["resourceVersion"]
        self.cluster.write(name, record.uid, version, register, data.get("ended", ""), data=data, wanted=wanted)
        return self.cluster.shown("record", self.cluster.api.records[name])

    def delete(self, path: str, uid: str | None, version: str | None) -> Object:
        kind, name = _split(path)
        there = self.cluster.secrets if kind == "secrets" else self.cluster.api.stores[KINDS[kind]]
        found = _there(there.get(name), name)
        own = found["metadata"]["uid"] if kind == "secrets" else found.uid
        if uid not in (None, own) and "no uids" not in self.cluster.plant:
            raise ApiError(409, "Conflict", "the object is another one")
        if version is not None and version != found.version:
            raise ApiError(409, "Conflict", "the object has been modified")
        if kind == "secrets":
            del there[name]
        else:
            self.cluster.delete(KINDS[kind], name, own)
        return {}

    def exec(self, name: str, home: Home) -> Connection:
        """A stream to the agent that runs in the pod now."""
        pod: PodObject = _there(self.cluster.api.pods.get(name), name)
        machine = self.cluster.machines.get(pod.node)
        container = machine.containers.get(pod.uid) if machine is not None and machine.in_touch else None
        if container is None or not container.process.alive or container.process.paused > self.cluster.now:
            raise ApiError(500, "InternalError", "the container is not there")
        agent = container.process
        assert isinstance(agent, Agent)
        return Connection(agent, home, self.world)


class Access:
    """The API server as one process sees it."""

    kubeconfig, context, namespace = "/home/jane/.kube/config", "here", "default"

    def __init__(self, server: Server, home: Home) -> None:
        self.server, self.home = server, home

    async def get(self, path: str, query: Object | None = None, *, timeout: float = 30.0) -> Object:
        return dict(await self.server.ask(self.home, lambda: self.server.get(path, query or {}), writes=False))

    async def post(self, path: str, body: Object, query: Object | None = None) -> Object:
        return dict(await self.server.ask(self.home, lambda: self.server.post(path, body), writes=True))

    async def put(self, path: str, body: Object) -> Object:
        return dict(await self.server.ask(self.home, lambda: self.server.put(path, body), writes=True))

    async def delete(
        self, path: str, *, grace: int | None = None, uid: str | None = None, version: str | None = None
    ) -> Object:
        return dict(await self.server.ask(self.home, lambda: self.server.delete(path, uid, version), writes=True))

    async def can(self, verb: str, resource: str, group: str = "", **_more: Any) -> bool:
        return False

    async def forward(self, namespace: str, pod: str, port: int) -> _Stream:
        found = await self.server.ask(self.home, lambda: self.server.exec(pod, self.home), writes=False)
        return _Stream(found)

    async def exec(self, namespace: str, pod: str, container: str, command: Any) -> _Stream:
        return await self.forward(namespace, pod, 0)

    async def log(self, namespace: str, pod: str, container: str, *, limit: int) -> bytes:
        return b""

    def unheard(self) -> float:
        return 0.0

    async def close(self) -> None: ...


class _Stream:
    def __init__(self, line: Connection) -> None:
        self.line = line

    async def status(self) -> None: ...


class Reflector:
    """In place of the watches' own. It tells in order, each change once, and late."""

    def __init__(self, access: Access, path: str, selector: str = "", **hooks: Any) -> None:
        self.server, self.home, self.hooks = access.server, access.home, hooks
        self.kind = KINDS[path.rsplit("/", 1)[1]]
        world = self.server.world
        self.lag = world.rng.choice((0.0, 0.3, 3.0, 30.0))
        self.position = 0
        self.scheduled = False
        self.known: dict[str, Object] = {}

    def start(self) -> None:
        self.server.world.later(0.05, self._list, process=self.home.process)

    def _list(self) -> None:
        api = self.server.cluster.api
        self.position = len(api.logs[self.kind])
        for found in list(api.stores[self.kind].values()):
            self._tell("ADDED", self.server.cluster.shown(self.kind, found))
        self.hooks["on_synced"]()
        api.watchers.append(self)

    def changed(self) -> None:
        """Something is to be told."""
        if not self.scheduled:
            self.scheduled = True
            world = self.server.world
            lag = self.lag * world.rng.random() if world.chaos else 0.05
            self.server.world.later(max(lag, self.home.stuck - world.loop.now), self._news, process=self.home.process)

    def _news(self) -> None:
        self.scheduled = False
        log, world = self.server.cluster.api.logs[self.kind], self.server.world
        until = len(log)
        if world.chaos and world.lists_anew and world.rng.random() < world.lists_anew:
            self._list_anew()
            return
        if world.chaos and world.rng.random() < 0.3:
            until = min(until, self.position + 1)
        for name, value in log[self.position : until]:
            if value is not None:
                before = self.known.get(name)
                shown = self.server.cluster.shown(self.kind, value)
                if before is not None and before["metadata"]["uid"] != shown["metadata"]["uid"]:
                    self._tell("DELETED", before)
                self._tell("MODIFIED" if name in self.known else "ADDED", shown)
            elif name in self.known:
                self._tell("DELETED", self.known[name])
        self.position = until
        if until < len(log):
            self.changed()

    def _list_anew(self) -> None:
        """The watch was lost, for longer than the API server remembers: what came and went meanwhile is never told of."""
        api = self.server.cluster.api
        self.position = len(api.logs[self.kind])
        there = {name: self.server.cluster.shown(self.kind, found) for name, found in api.stores[self.kind].items()}
        for name, before in list(self.known.items()):
            if name not in there or there[name]["metadata"]["uid"] != before["metadata"]["uid"]:
                self._tell("DELETED", before)
        for name, shown in there.items():
            if self.known.get(name) is not shown:
                self._tell("MODIFIED" if name in self.known else "ADDED", shown)

    def _tell(self, kind: str, found: Object) -> None:
        name = found["metadata"]["name"]
        if kind == "DELETED":
            del self.known[name]
        else:
            self.known[name] = found
        self.hooks["on_event"](kind, self.hooks["trim"](found))

    async def close(self) -> None: ...


def node_object(name: str, node: Node) -> Object:
    taints = [{"key": "node.kubernetes.io/out-of-service"}] if node.out_of_service else []
    return {"metadata": {"name": name}, "spec": {"taints": taints}, "status": {"nodeInfo": {"bootID": node.boot}}}


def _split(path: str) -> tuple[str, str]:
    kind, _, name = path.partition(SPACE)[2].partition("/")
    return kind, name


def _there(found: Any, name: str) -> Any:
    if found is None:
        raise ApiError(404, "NotFound", f"{name} not found")
    return found


def _labels(body: Object) -> dict[str, str]:
    return dict(body["metadata"].get("labels") or {})


def _selected(found: Object, selector: str) -> bool:
    labels = found["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, _, value in (one.partition("=") for one in selector.split(",")))
