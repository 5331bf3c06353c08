"""Which cluster, as whom; and what is said when that cannot be known."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.control.backends.kubernetes.api.access import Access, AccessError, ApiError
from tests.control.backends.kubernetes.fakeapi import FakeServer
from tests.other_user import USER, needs_root


def load(kubeconfig: str | None, context: str | None = None) -> Access:
    return asyncio.run(Access.load(kubeconfig, context))


def refusal(kubeconfig: str | None, context: str | None = None) -> str:
    with pytest.raises(AccessError) as caught:
        load(kubeconfig, context)
    return str(caught.value)


def test_the_current_context_and_a_named_one(server: FakeServer, tmp_path: Path) -> None:
    file = server.kubeconfig(tmp_path / "config")
    assert (load(file).server, load(file).namespace) == (server.url, "mine")
    assert load(file, "there").namespace == "default"


def test_the_variable_names_files_that_are_merged(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.kubeconfig(tmp_path / "config")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{tmp_path}/config")
    assert load(None).namespace == "mine"


def test_no_kubeconfig(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert refusal(None) == "no kubeconfig: KUBECONFIG is not set and there is no ~/.kube/config"
    assert refusal("/nowhere") == 'no kubeconfig: "/nowhere" does not exist'
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert refusal(None).startswith("no kubeconfig, and the pod's service account: ")


@needs_root
def test_root_does_not_log_in_by_a_file_that_others_could_have_written(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOME and KUBECONFIG survive su and sudo; a kubeconfig names programs to run."""
    file = tmp_path / ".kube" / "config"
    file.parent.mkdir()
    server.kubeconfig(file)
    monkeypatch.setenv("HOME", str(tmp_path))
    load(None)
    os.chown(file, USER, USER)
    said = f'kubeconfig "{file}" is not read: {file} belongs to uid {USER}, who could have put programs there; '
    assert refusal(None) == said + "KUBECONFIG may name one of your own"
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert refusal(None) == said + "it belongs in a file of root's own"


def test_a_pipe_is_no_kubeconfig(server: FakeServer, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config")
    assert "a regular file is wanted" in refusal(str(tmp_path / "config"))


def test_no_such_context(server: FakeServer, tmp_path: Path) -> None:
    file = server.kubeconfig(tmp_path / "config")
    assert refusal(file, "elsewhere") == f'kubeconfig "{file}" has no context "elsewhere" (it has: here, there)'


def test_no_current_context(server: FakeServer, tmp_path: Path) -> None:
    file = server.kubeconfig(tmp_path / "config")
    config = json.loads((tmp_path / "config").read_text())
    del config["current-context"]
    (tmp_path / "config").write_text(json.dumps(config))
    assert refusal(file) == f'kubeconfig "{file}" names no current context (it has: here, there)'
    assert load(file, "here").namespace == "mine"


@pytest.mark.parametrize(
    "text", ["", "[", "- 1", "a: b", '{"current-context": "x", "contexts": [], "clusters": []}', "\0"]
)
def test_files_that_are_wrong(server: FakeServer, tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    for context in (None, "here"):
        assert refusal(str(tmp_path / "config"), context).startswith(f'kubeconfig "{tmp_path}/config"')


def test_a_folder_is_no_kubeconfig(server: FakeServer, tmp_path: Path) -> None:
    assert refusal(str(tmp_path)) == f'kubeconfig "{tmp_path}" cannot be read: Is a directory'


def plugin(folder: Path, body: str) -> dict[str, object]:
    script = folder / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}
    }


CREDENTIAL = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}


def test_a_plugin_is_asked_again_when_its_token_is_refused(server: FakeServer, tmp_path: Path) -> None:
    answer = json.dumps({**CREDENTIAL, "status": {"token": "TOKEN"}})
    counting = f"echo x >>{tmp_path}/asked; echo '{answer}' | sed s/TOKEN/token$(wc -l <{tmp_path}/asked)/"
    file = server.kubeconfig(tmp_path / "config", plugin(tmp_path, counting))

    def answered(request: object) -> None:
        if request.headers["Authorization"] == "Bearer token1":  # type: ignore[attr-defined]
            request.fail(401, "Unauthorized")  # type: ignore[attr-defined]
        else:
            request.json({"ok": True})  # type: ignore[attr-defined]

    server.answer = answered

    async def go() -> None:
        access = await Access.load(file)
        access.transport._made -= 60  # the first login is a minute old
        assert await access.post("/x", {}) == {"ok": True}
        await access.close()

    asyncio.run(go())
    assert [request.headers["Authorization"] for request in server.seen] == ["Bearer token1", "Bearer token2"]


def test_a_user_whose_credentials_are_refused_is_told(server: FakeServer, tmp_path: Path) -> None:
    file = server.kubeconfig(tmp_path / "config")
    server.answer = lambda request: request.fail(401, "Unauthorized", "Unauthorized")

    async def go() -> None:
        access = await Access.load(file)
        access.transport._made -= 60
        with pytest.raises(ApiError) as caught:
            await access.get("/x")
        assert (caught.value.status, caught.value.transient) == (401, False)
        await access.close()

    asyncio.run(go())
    assert len(server.seen) == 2


def test_a_plugin_that_fails(server: FakeServer, tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    file = server.kubeconfig(tmp_path / "config", plugin(tmp_path, "echo log in first >&2; exit 3"))
    assert refusal(file) == f'kubeconfig "{file}": exec: process returned 3. log in first'
    assert logging.getLogger().handlers == before


def test_a_cluster_that_was_made_anew_is_found(server: FakeServer, tmp_path: Path) -> None:
    other = FakeServer()
    try:
        file = other.kubeconfig(tmp_path / "config")
    finally:
        other.stop()

    async def go() -> None:
        access = await Access.load(file)
        access.transport._made -= 60
        server.kubeconfig(tmp_path / "new")
        os.replace(tmp_path / "new", tmp_path / "config")
        assert await access.get("/x") == {}
        assert access.server == server.url
        await access.close()

    asyncio.run(go())


def test_nothing_dear_is_imported_before_a_login() -> None:
    script = (
        "import sys; import shim.control.backends.kubernetes.api.access, shim.control.backends.kubernetes.api.reflector;"
        "print({'kubernetes', 'urllib3', 'websocket', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
