"""A named operator reaches another user's controller, and nothing else of that user's: no file, no other operation, no impostor."""

from __future__ import annotations

import asyncio
import os
import pwd  # noqa: F401  # loaded for the other user, who may not be able to read the interpreter's files
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.commands import entrypoint
from shim.control import channel, client, operators, paths
from shim.control.controller.connection import Connection
from shim.control.controller.listening import listen_to_operators
from shim.control.controller.server import Server
from shim.control.protocol import PROTOCOL
from shim.core.model.cluster import Cluster
from tests.other_user import MALLORY, USER, free_uid, needs_root, run_as

OPERATOR = free_uid(MALLORY + 1)
pytestmark = needs_root


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The host's part of USER's state folder, into which nobody else can look. Commands were run before: what they load is loaded."""
    assert entrypoint.run("squeue", ["-h"]) == 0
    base = Path(tempfile.mkdtemp(prefix="shim-operators-"))
    base.chmod(0o755)
    home = base / "home"
    home.mkdir(mode=0o700)
    os.chown(home, USER, USER)
    monkeypatch.setenv("SHIM_STATE_DIR", str(home / "state"))
    yield paths.named()
    shutil.rmtree(base)


@contextmanager
def serving(folder: str, uid: int) -> Iterator[None]:
    """A controller's server in a process of that user: it answers what it was asked, and has OPERATOR for its operator."""

    async def echo(connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        return {"asked": message["op"], "uid": connection.uid, "admin": connection.admin}

    async def site(connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        return {"clusters": [Cluster(name="field").to_dict()], "grammar": {}}

    async def serve(ready: int) -> None:
        operations = {**dict.fromkeys(("ping", "shutdown"), echo), "site": site}
        server = Server(operations, lambda: None, lambda uid: uid in (0, OPERATOR))
        await server.open(listen_to_operators(folder))
        os.write(ready, b"!")
        await asyncio.Event().wait()

    wait, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            asyncio.run(serve(ready))
        finally:
            os._exit(1)
    os.close(ready)
    try:
        assert os.read(wait, 1) == b"!"
        yield
    finally:
        os.close(wait)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def ping() -> None:
    print(client.call("ping"))


def test_an_operator_is_answered_as_such(folder: str) -> None:
    with serving(folder, USER):
        assert run_as(OPERATOR, ping) == str({"asked": "ping", "uid": OPERATOR, "admin": True}) + "\n"
        assert "Access/permission denied" in run_as(MALLORY, ping)
    assert not os.path.exists(folder)  # nothing was made there


def test_commands_say_why_they_do_not_work_there(folder: str) -> None:
    begin = f"error: the state folder {folder} is not safe: {Path(folder).parents[1]} belongs to uid {USER}, who could have put jobs there\n"
    end = "error: name a folder of your own in SHIM_STATE_DIR\n"

    def scancel() -> None:
        entrypoint.run("scancel", ["1"])

    def sbatch() -> None:
        entrypoint.run("sbatch", ["--wrap", "true"])

    def script() -> None:
        entrypoint.run("scontrol", ["write", "batch_script", "1", "-"])

    said = run_as(OPERATOR, scancel).replace("scancel: ", "")
    assert said.startswith(begin + "error: no controller of that user listens to operators: ") and said.endswith(end)
    with serving(folder, USER):
        said = run_as(OPERATOR, sbatch).replace("sbatch: ", "")
        assert run_as(OPERATOR, script).replace("scontrol: ", "") == said
    assert (
        said
        == begin
        + "error: an operator sees and changes the jobs that are there (squeue, scancel, scontrol), and submits none\n"
        + end
    )


def test_an_operator_may_ask_for_no_more_than_an_operator_does(folder: str) -> None:
    def raw() -> None:
        found = operators.reach("ping", refusal())
        found.send({"protocol": PROTOCOL, "op": "shutdown"})
        print(found.receive()["lines"])

    with serving(folder, USER):
        assert run_as(OPERATOR, raw) == "['error: Access/permission denied', 'error: shutdown is not for operators']\n"


def test_who_has_taken_the_address_is_told_nothing(folder: str) -> None:
    with serving(folder, MALLORY):
        assert "no controller of that user listens to operators" in run_as(OPERATOR, ping)


def test_who_has_taken_the_address_and_accepts_nobody_holds_up_nobody(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "_CONNECT", 0.01, raising=False)
    with socket.socket(socket.AF_UNIX) as squatter, socket.socket(socket.AF_UNIX) as queued:
        squatter.bind(operators.address(folder))
        squatter.listen(0)
        queued.connect(operators.address(folder))  # the queue is full
        assert "no controller of that user listens to operators" in run_as(OPERATOR, ping)


def test_a_folder_that_is_not_named_is_not_asked(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.HOST_VARIABLE, folder)
    monkeypatch.delenv("SHIM_STATE_DIR")
    with serving(folder, USER):
        assert "NotOurs" in run_as(OPERATOR, ping)


def refusal() -> paths.NotOurs:
    try:
        paths.state_dir()
    except paths.NotOurs as refused:
        return refused
    raise AssertionError("nothing was refused")


def test_addresses_fit(tmp_path: Path) -> None:
    long = "/" + "x" * 300
    assert operators.address("/a") != operators.address("/b")
    assert len(operators.address(long)) < 108 and operators.address(long) != operators.address(long + "x")
    assert channel.connect(str(tmp_path / "none")) is None
