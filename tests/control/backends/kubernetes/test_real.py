"""The same against a real API server, kubelet and container."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from shim.control.backends.kubernetes.api.access import Access, ApiError
from shim.control.backends.kubernetes.api.exec_stream import ExecStream
from shim.control.backends.kubernetes.api.reflector import Reflector

pytestmark = pytest.mark.kubernetes
LIMIT = 120.0  # seconds; only ends a test that has failed
MEBIBYTE = 1024 * 1024
POD = {
    "metadata": {"name": "x", "labels": {"app": "x"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [
            {"name": "agent", "image": IMAGE_PYTHON, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "600"]}
        ],
    },
}


class Road:
    """A way to the API server that can be blocked: connections break and new ones are refused."""

    def __init__(self, kubeconfig: str, path: Path) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster = config["clusters"][0]["cluster"]
        self._goal = urlsplit(cluster["server"])
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._address = self._listening.getsockname()
        cluster["server"] = f"https://127.0.0.1:{self._address[1]}"
        cluster["tls-server-name"] = self._goal.hostname
        path.write_text(json.dumps(config))
        self.kubeconfig = str(path)
        threading.Thread(target=self._serve, args=(self._listening,), daemon=True).start()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
                there = socket.create_connection((str(self._goal.hostname), self._goal.port or 443))
            except OSError:
                return
            self._open += [connection, there]
            for one, other in ((connection, there), (there, connection)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def block(self) -> None:
        for one in [self._listening, *self._open]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        self._open.clear()

    def open(self) -> None:
        self._listening = socket.create_server(self._address)
        threading.Thread(target=self._serve, args=(self._listening,), daemon=True).start()


class Followed:
    """A reflector of the namespace's pods, and ways to wait for what it tells."""

    def __init__(self, access: Access, namespace: str) -> None:
        self.told: list[tuple[str, str]] = []
        self._more = asyncio.Event()
        self.synced = asyncio.Event()
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.reflector = Reflector(access, self.path, "app=x", on_event=self._event, on_synced=self.synced.set)

    def _event(self, kind: str, one: dict[str, Any]) -> None:
        self.told.append((kind, one["status"]["phase"]))
        self._more.set()

    async def until(self, *wanted: tuple[str, str]) -> None:
        """Returns when one of these was told."""
        async with asyncio.timeout(LIMIT):
            while not set(wanted) & set(self.told):
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def running(kubeconfig: str, namespace: str) -> AsyncIterator[tuple[Access, Followed]]:
    """An Access, and the pod x of the namespace once it runs."""
    access = await Access.load(kubeconfig)
    followed = Followed(access, namespace)
    followed.reflector.start()
    await asyncio.wait_for(followed.synced.wait(), LIMIT)
    await access.post(followed.path, POD)
    try:
        await followed.until(("MODIFIED", "Running"), ("ADDED", "Running"))  # added, where it was listed anew
        yield access, followed
    finally:
        await followed.reflector.close()
        await access.close()


async def failure(work: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await work
    return caught.value


def test_objects_are_made_changed_and_deleted(kubeconfig: str, namespace: str) -> None:
    async def go() -> None:
        access = await Access.load(kubeconfig)
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        made = await access.post(path, {"metadata": {"name": "a"}, "data": {"one": "1"}})
        assert (await failure(access.post(path, {"metadata": {"name": "a"}}))).reason == "AlreadyExists"
        await access.patch(f"{path}/a", {"data": {"two": "2"}})
        stale = await failure(access.put(f"{path}/a", made))
        assert (stale.reason, stale.conflict) == ("Conflict", True)
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"one": "3"}}
        assert (await failure(access.patch(f"{path}/a", applied, kind="apply"))).conflict
        changed = await access.patch(f"{path}/a", applied, kind="apply", force=True)
        assert changed["data"] == {"one": "3", "two": "2"}
        assert (await failure(access.delete(f"{path}/a", uid="another"))).conflict
        await access.delete(f"{path}/a", uid=made["metadata"]["uid"])
        assert (await failure(access.get(f"{path}/a"))).missing
        assert await access.can("create", "pods", subresource="exec", namespace=namespace)
        invalid = await failure(access.post(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "x"}}))
        assert (invalid.status, invalid.reason, invalid.transient) == (422, "Invalid", False)
        await access.close()

    asyncio.run(go())


def test_a_pod_its_log_and_programs_in_it(kubeconfig: str, namespace: str) -> None:
    async def go() -> None:
        async with running(kubeconfig, namespace) as (access, followed):
            stream = await access.exec(namespace, "x", "agent", ["sh", "-c", "read a; echo $a; echo no >&2; exit 7"])
            await stream.write(b"hello\n")
            assert await stream.read() == b"hello\n"
            assert (await stream.read(), await stream.status(), stream.stderr) == (b"", 7, b"no\n")
            await stream.close()
            cat = await access.exec(namespace, "x", "agent", ["cat"])
            await cat.write(b"all")
            cat.line.shutdown(socket.SHUT_WR)
            assert (await cat.read(), await cat.read(), await cat.status()) == (b"all", b"", 0)
            await cat.close()
            missing = await access.exec(namespace, "x", "agent", ["/no/such/program"])
            assert "no such file" in str(await failure(missing.status()))
            await missing.close()
            assert (await failure(access.exec(namespace, "y", "agent", ["true"]))).missing
            assert await access.log(namespace, "x", "agent") == b""
            await access.delete(f"{followed.path}/x", grace=0)
            await followed.until(("DELETED", "Running"))
            assert followed.reflector.objects == {}

    asyncio.run(go())


def test_a_program_sees_the_end_of_its_stream(kubeconfig: str, namespace: str) -> None:
    async def go() -> None:
        async with running(kubeconfig, namespace) as (access, _):
            first = await access.exec(namespace, "x", "agent", ["sh", "-c", "cat >/tmp/got; touch /tmp/ended"])
            await first.write(b"x" * MEBIBYTE)
            await first.close()
            wait = "while [ ! -e /tmp/ended ]; do sleep 0.1; done; wc -c </tmp/got"
            second = await access.exec(namespace, "x", "agent", ["sh", "-c", wait])
            assert int(await asyncio.wait_for(second.read(), LIMIT)) == MEBIBYTE
            await second.close()

    asyncio.run(go())


async def rate(stream: ExecStream, sent: int, work: Any) -> str:
    before = time.perf_counter()
    await asyncio.wait_for(work(stream), LIMIT)
    assert await stream.status() == 0
    await stream.close()
    return f"{sent / (time.perf_counter() - before) / 1e6:.0f} MB/s"


def test_64_mebibytes_each_way(kubeconfig: str, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    size = 64 * MEBIBYTE
    write = f"import os\nfor _ in range({size >> 16}): os.write(1, bytes(65536))"
    read = f"import os\nleft = {size}\nwhile left: left -= len(os.read(0, min(left, 1 << 20)))\nprint('all')"

    async def down(stream: ExecStream) -> None:
        found = 0
        while data := await stream.read(MEBIBYTE):
            found += len(data)
        assert found == size

    async def up(stream: ExecStream) -> None:
        for _ in range(64):
            await stream.write(bytes(MEBIBYTE))
        assert await stream.read() == b"all\n"

    async def go() -> None:
        async with running(kubeconfig, namespace) as (access, _):
            downwards = await rate(await access.exec(namespace, "x", "agent", ["python3", "-c", write]), size, down)
            upwards = await rate(await access.exec(namespace, "x", "agent", ["python3", "-c", read]), size, up)
            with capsys.disabled():
                print(f"\nexec: down {downwards}, up {upwards}")

    asyncio.run(go())


def test_nothing_is_missed_by_connections_that_break(kubeconfig: str, namespace: str, tmp_path: Path) -> None:
    road = Road(kubeconfig, tmp_path / "by-the-road")

    async def go() -> None:
        direct, access = await Access.load(kubeconfig), await Access.load(road.kubeconfig)
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        seen: dict[str, str] = {}
        trouble: list[bool] = []
        changed = asyncio.Event()

        def on_event(kind: str, one: dict[str, Any]) -> None:
            name = one["metadata"]["name"]
            if kind == "DELETED":
                del seen[name]
            else:
                assert (kind == "ADDED") == (name not in seen)
                seen[name] = one["data"]["round"]
            changed.set()

        def told(text: str | None) -> None:
            trouble.append(text is not None)
            changed.set()

        async def until(condition: Callable[[], bool]) -> None:
            async with asyncio.timeout(LIMIT):
                while not condition():
                    changed.clear()
                    await changed.wait()

        reflector = Reflector(access, path, "app=x", on_event=on_event, on_trouble=told)
        reflector.start()
        for number in range(1, 6):
            made = {"metadata": {"name": f"m{number}", "labels": {"app": "x"}}, "data": {"round": str(number)}}
            await direct.post(path, made)
            await until(lambda: f"m{number}" in seen)  # noqa: B023
            road.block()
            for other in range(1, number):
                await direct.patch(f"{path}/m{other}", {"data": {"round": str(number)}})
            await until(lambda: trouble[-1:] == [True])
            road.open()
            assert (await access.get(path, {"labelSelector": "app=x"}))["items"]
            await until(lambda: trouble[-1:] == [False] and all(one == str(number) for one in seen.values()))  # noqa: B023
        road.block()
        await direct.delete(f"{path}/m1")
        road.open()
        await until(lambda: "m1" not in seen)
        assert set(seen) == {"m2", "m3", "m4", "m5"} == set(reflector.objects)
        await reflector.close()
        await access.close()
        await direct.close()

    try:
        asyncio.run(go())
    finally:
        road.block()
