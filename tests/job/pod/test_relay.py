"""The byte pipe into a pod."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable

import pytest

from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.pod.relay import relay
from shim.job.session import ClientSession
from tests.job.pod.pods import Pods
from tests.job.run_folder import KEY

Maker = Callable[..., Pods]


class Pipe:
    """A relay in a thread, with all its outer ends."""

    def __init__(self) -> None:
        self.leader, theirs = socket.socketpair()
        self.theirs = theirs
        self.source, self.to_relay = os.pipe()
        self.from_relay, self.sink = os.pipe()
        self.thread = threading.Thread(target=self._run, args=(theirs.fileno(), self.source, self.sink))
        self.thread.start()

    def _run(self, leader: int, source: int, sink: int) -> None:
        relay(leader, source, sink)
        os.close(sink)

    def over(self) -> None:
        self.thread.join(30)
        assert not self.thread.is_alive()
        os.close(self.from_relay)
        os.close(self.source)
        self.leader.close()
        self.theirs.close()


def _read_all(fd: int) -> bytes:
    data = b""
    while True:
        piece = os.read(fd, 65536)
        if not piece:
            return data
        data += piece


def test_bytes_pass_both_ways_and_the_leaders_end_ends_it() -> None:
    pipe = Pipe()
    os.write(pipe.to_relay, b"up")
    assert pipe.leader.recv(10) == b"up"
    sender = threading.Thread(
        target=lambda: (pipe.leader.sendall(b"x" * 3_000_000), pipe.leader.shutdown(socket.SHUT_RDWR))
    )
    sender.start()
    data = b""
    while len(data) < 3_000_000:
        data += os.read(pipe.from_relay, 65536)
    sender.join(30)
    os.close(pipe.to_relay)
    assert data + _read_all(pipe.from_relay) == b"x" * 3_000_000
    pipe.over()


def test_what_a_client_sends_when_the_leader_has_ended_ends_nothing() -> None:
    """An API server that cannot pass it on drops what the program has said last."""
    pipe = Pipe()
    pipe.leader.sendall(b"the last words")
    pipe.leader.close()
    assert os.read(pipe.from_relay, 100) == b"the last words"
    for _ in range(10):
        os.write(pipe.to_relay, b"credit")
        pipe.thread.join(0.01)
        assert pipe.thread.is_alive()
    os.close(pipe.to_relay)
    pipe.over()


def test_a_client_that_does_not_go_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.job.pod.relay._LINGER", 10)
    pipe = Pipe()
    pipe.leader.close()
    pipe.over()
    os.close(pipe.to_relay)


def test_the_last_words_of_a_leader_that_takes_nothing_come() -> None:
    pipe = Pipe()
    pipe.leader.sendall(b"the last words")
    pipe.leader.shutdown(socket.SHUT_RD)  # whoever writes gets EPIPE
    os.write(pipe.to_relay, b"credit")
    assert os.read(pipe.from_relay, 100) == b"the last words"
    os.write(pipe.to_relay, b"credit")
    pipe.leader.sendall(b", and more")
    assert os.read(pipe.from_relay, 100) == b", and more"
    pipe.leader.close()
    os.close(pipe.to_relay)
    pipe.over()


def test_the_end_of_stdin_ends_it_though_nobody_reads_stdout() -> None:
    pipe = Pipe()
    pipe.leader.setblocking(False)
    try:
        while True:
            pipe.leader.send(b"y" * 65536)
    except BlockingIOError:
        pass  # everything on the way is full
    os.close(pipe.to_relay)
    pipe.over()


def test_the_relay_of_a_pod_leads_to_its_leader(pods: Maker) -> None:
    job = pods(script="#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n")
    job.start_all()
    job.line("started")
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([f"{job.root(0)}/run/relay"], stdin=theirs, stdout=theirs)
    loop = Loop()
    ours.setblocking(False)
    link = SessionLink(ClientSession(loop, ours, KEY, "controller", {}))
    kinds: list[str] = []
    link.on_message = lambda message: kinds.append(message["line"]["kind"])
    link.send({"do": "watch", "after": 0})
    while "started" not in kinds:
        loop.run_once(30)
    (job.work_dir / "go").touch()
    while "ended" not in kinds:
        loop.run_once(30)
    link.send({"do": "forget"})
    assert job.ended() == 0
    link.finish(loop.stop)
    loop.run()
    loop.close()
    assert process.wait(30) == 0
