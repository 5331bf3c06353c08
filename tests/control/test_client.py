"""The client's side of the wire: lost connections, strangers, long paths."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.control import alive, channel, client, paths, starter
from shim.control.channel import Channel, ChannelClosed
from shim.core.errors import ShimError
from tests.other_user import USER, needs_root


class FakeController:
    """Listens where a controller would and answers each connection with the next of ``answers``."""

    def __init__(self, answers: list[Callable[[Channel], None]]) -> None:
        self.requests: list[dict[str, Any]] = []
        paths.ensure(paths.state_dir())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with channel.Address(paths.socket_path()) as address:
            self._socket.bind(address)
        self._socket.listen(8)
        self._thread = threading.Thread(target=self._serve, args=(answers,))
        self._thread.start()

    def _serve(self, answers: list[Callable[[Channel], None]]) -> None:
        for answer in answers:
            connection, _ = self._socket.accept()
            one = Channel(connection)
            self.requests.append(one.receive())
            answer(one)
            one.close()

    def close(self) -> None:
        self._thread.join()
        self._socket.close()


Fake = Callable[..., FakeController]


@pytest.fixture
def controller(state_dir: Path) -> Iterator[Fake]:
    made: list[FakeController] = []

    def make(*answers: Callable[[Channel], None]) -> FakeController:
        made.append(FakeController(list(answers)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def say(*messages: dict[str, Any]) -> Callable[[Channel], None]:
    def answer(one: Channel) -> None:
        for message in messages:
            one.send(message)

    return answer


def test_a_reply_is_returned_and_events_are_told(controller: Fake) -> None:
    events: list[dict[str, Any]] = []
    controller(say({"event": "queued"}, {"ok": True, "job_id": 7}))
    assert client.call("submit", {"name": "x"}, on_event=events.append) == {"job_id": 7}
    assert events == [{"event": "queued"}]


def test_a_refusal_is_raised_with_its_lines_and_code(controller: Fake) -> None:
    controller(say({"ok": False, "lines": ["error: no", "error: never"], "code": 7}))
    with pytest.raises(ShimError) as caught:
        client.call("submit")
    assert (caught.value.lines, caught.value.code) == (("error: no", "error: never"), 7)


def test_a_lost_connection_is_asked_again_with_the_same_token(controller: Fake) -> None:
    fake = controller(say(), say(), say({"ok": True, "job_id": 7}))
    assert client.call("submit", {"script": "x"}) == {"job_id": 7}
    tokens = {request["token"] for request in fake.requests}
    assert len(fake.requests) == 3
    assert len(tokens) == 1
    assert len(tokens.pop()) == 32


def test_any_text_and_bytes_survive_the_wire(controller: Fake) -> None:
    odd = "ü\udcff\n\0\ud83d"
    fake = controller(say({"ok": True, "text": odd}))
    assert client.call("ping", {"text": odd}) == {"text": odd}
    assert fake.requests[0]["text"] == odd


def test_an_allocation_attaches_again_and_tells_nothing_twice(controller: Fake) -> None:
    fake = controller(
        say({"event": "submitted", "job_id": 7}, {"event": "queued", "job_id": 7}),
        say(
            {"event": "queued", "job_id": 7},
            {"event": "granted", "job": {}},
            {"event": "notice", "text": "a"},
            {"event": "notice", "text": "a"},  # said twice
            {"ok": True, "state": "COMPLETED"},
        ),
    )
    allocation = client.open_allocation({"keep": False})
    kinds = []
    while not kinds or kinds[-1] != "ended":
        event = allocation.next_event()
        assert event is not None
        kinds.append(event["event"])
    allocation.close()
    assert kinds == ["submitted", "queued", "granted", "notice", "notice", "ended"]
    assert [request["op"] for request in fake.requests] == ["allocate", "attach"]
    assert fake.requests[1]["token"] == fake.requests[0]["token"]
    assert fake.requests[1]["job_id"] == 7


def test_asking_without_waiting(controller: Fake) -> None:
    go = threading.Event()

    def answer(one: Channel) -> None:
        data = channel.pack({"event": "submitted", "job_id": 7})
        one._sock.send(data[:5])
        go.wait(30)
        one._sock.send(data[5:])

    controller(answer)
    allocation = client.open_allocation({})
    assert allocation.next_event(block=False) is None
    go.set()
    assert allocation.next_event() == {"event": "submitted", "job_id": 7}
    allocation.close()


def test_a_stranger_is_no_controller(controller: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    controller()
    monkeypatch.setattr(channel, "peer_uid", lambda _sock: 4711)
    assert channel.connect(paths.socket_path()) is None
    assert not alive.alive()


def test_what_is_no_message_ends_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send((2**31).to_bytes(4, "big"))
        with pytest.raises(ChannelClosed, match="too long"):
            Channel(ours).receive()
        with pytest.raises(ChannelClosed, match="unreadable"):
            channel.unpack(b"[1]")
        with pytest.raises(ChannelClosed, match="unreadable"):
            channel.unpack(b"\xff")


def test_paths_of_any_length(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 120)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        with channel.Address(str(folder / "s")) as address:
            server.bind(address)
        server.listen()
        assert (folder / "s").exists()
        found = channel.connect(str(folder / "s"))
        assert found is not None
        found.close()
    assert channel.connect(str(tmp_path / "nothing")) is None


def test_a_state_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path / "file" / "state"))
    with pytest.raises(client.Unreachable, match="it cannot be started: Not a directory"):
        client.call("ping")


def test_a_controller_reaches_a_cluster_as_its_caller_does() -> None:
    way = {
        "HOME": "/home/me",
        "KUBECONFIG": "/k",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "HTTPS_PROXY": "http://proxy",
        "no_proxy": "localhost",
        "AWS_PROFILE": "research",
        "SSL_CERT_FILE": "/ca.pem",
    }
    kept = starter.environment({**way, "AWSOME": "x", "MY_HTTPS_PROXY": "x"})
    here = os.path.abspath("k1")
    assert starter.environment({"KUBECONFIG": "k1::/k2"})["KUBECONFIG"] == f"{here}:/k2"
    assert kept == {**way, "XDG_CONFIG_HOME": "/home/me/.config", "SHIM_SERVICE": "controller"}


def test_a_controller_gets_nothing_of_the_callers_shell_or_job() -> None:
    kept = starter.environment(
        {
            "HOME": "/home/a",
            "PYTHONHOME": "/nosuch",
            "VIRTUAL_ENV": "/v",
            "SLURM_JOB_ID": "7",
            "SHIM_RUN_DIR": "/run/7.0",
            "SHIM_STATE_DIR": "/s",
            "XDG_CONFIG_HOME": "/c",
            "LD_PRELOAD": "x",
        }
    )
    assert kept == {
        "HOME": "/home/a",
        "SHIM_STATE_DIR": "/s",
        "XDG_CONFIG_HOME": "/c",
        starter.SERVICE_VARIABLE: "controller",
    }
    assert starter.argv()[1:3] == ["-I", "-S"]
    assert os.path.isdir(os.path.join(starter.argv()[-1], "shim"))


@needs_root
def test_the_owner_of_the_folder_answers_there(controller: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    controller()
    monkeypatch.setattr(channel, "peer_uid", lambda _sock: USER)
    assert channel.connect(paths.socket_path()) is None
    os.chown(paths.state_dir(), USER, -1)
    found = channel.connect(paths.socket_path())
    assert found is not None
    found.close()
