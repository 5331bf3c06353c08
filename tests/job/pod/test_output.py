"""Following the batch script's files, with a clock that is set forward and links inside the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.job import libc
from shim.job.link import LocalLink, local_pair
from shim.job.loop import Loop
from shim.job.pod.output import STALLED, PodOutput
from shim.job.wire import BATCH, WINDOW
from tests.job.run_folder import spec_of


class Follower:
    """The far end of a controller's link."""

    def __init__(self, scene: Scene) -> None:
        self.near, far = local_pair(scene.loop)
        self.far: LocalLink = far
        self.data = b""
        self.ends: list[int] = []
        far.on_data = self._data
        far.on_message = lambda message: self.ends.append(message["size"])

    def _data(self, step: int, rank: int, stream: int, data: bytes) -> None:
        self.data += data


class Scene:
    """An output file that grows, and who follows it."""

    def __init__(self, folder: Path, echo: int | None) -> None:
        self.now = 0.0
        self.loop = Loop(lambda: self.now)
        self.path = folder / "slurm-7.out"
        self.path.touch()
        self.output = PodOutput(self.loop, spec_of(script=True, folder=str(folder)), echo)
        self.finished: list[bool] = []

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def follow(self, after: int = 0) -> Follower:
        one = Follower(self)
        self.output.message(one.near, {"do": "output", "stream": "stdout", "after": after})
        return one

    def take(self, one: Follower, count: int) -> None:
        self.output.message(one.near, {"do": "credit", "step": BATCH, "bytes": count, "stream": "stdout"})
        self.turn()

    def finish(self) -> None:
        self.output.finish(lambda: self.finished.append(True))
        self.turn()

    def turn(self, seconds: float = 0.1) -> None:
        for _ in range(5):
            self.loop.run_once(0)
        self.now += seconds
        for _ in range(5):
            self.loop.run_once(0)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    one = Scene(tmp_path, None)
    yield one
    one.loop.close()


def test_what_is_written_comes(scene: Scene) -> None:
    one = scene.follow()
    scene.output.begin()
    scene.write(b"hello ")
    scene.turn()
    scene.write(b"world")
    scene.turn()
    assert one.data == b"hello world"


def test_it_comes_without_inotify_too(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_paths: object) -> int:
        raise OSError

    monkeypatch.setattr(libc, "watch_writes", none)
    one = scene.follow()
    scene.output.begin()
    scene.write(b"hello")
    scene.turn(1)
    assert one.data == b"hello"


def test_no_more_than_the_credit_is_sent(scene: Scene) -> None:
    one = scene.follow()
    scene.write(b"x" * (WINDOW + 10))
    scene.output.begin()
    scene.turn()
    assert len(one.data) == WINDOW
    scene.take(one, 4)
    assert len(one.data) == WINDOW + 4


def test_one_that_comes_back_goes_on_where_it_says(scene: Scene) -> None:
    scene.write(b"0123456789")
    scene.output.begin()
    one = scene.follow(after=7)
    scene.turn()
    assert one.data == b"789"


def test_the_end_waits_until_everything_is_taken(scene: Scene) -> None:
    one = scene.follow()
    scene.output.begin()
    scene.write(b"hello")
    scene.finish()
    assert one.data == b"hello"
    assert not scene.finished
    scene.take(one, 5)
    assert scene.finished == [True]
    assert one.ends == [5]


def test_the_end_does_not_wait_for_ever_for_one_that_takes_nothing(scene: Scene) -> None:
    one = scene.follow()
    scene.output.begin()
    scene.write(b"x" * 10)
    scene.finish()
    scene.turn(STALLED - 1)
    assert not scene.finished
    scene.turn(2)
    assert scene.finished == [True]
    assert one.ends == [10]


def test_the_end_does_not_wait_for_one_that_is_gone(scene: Scene) -> None:
    one = scene.follow()
    scene.output.begin()
    scene.write(b"x")
    scene.finish()
    scene.output.gone(one.near)
    assert scene.finished == [True]


def test_a_script_that_never_ran_has_an_empty_output(scene: Scene) -> None:
    one = scene.follow()
    scene.finish()
    assert one.ends == [0]
    assert scene.finished == [True]


def test_a_full_pipe_holds_nothing_up(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    scene = Scene(tmp_path, theirs)
    scene.output.begin()
    scene.write(b"x" * 300_000)
    scene.finish()
    assert not scene.finished
    data = b""
    while len(data) < 300_000:
        data += os.read(ours, 65536)
        scene.turn()
    assert scene.finished == [True]
    scene.loop.close()
    os.close(ours)
    os.close(theirs)


def test_a_named_pipe_keeps_its_bytes_for_its_reader(tmp_path: Path) -> None:
    scene = Scene(tmp_path, None)
    scene.path.unlink()
    os.mkfifo(scene.path)
    reader = os.open(scene.path, os.O_RDWR | os.O_NONBLOCK)
    os.write(reader, b"hello")
    one = scene.follow()
    scene.output.begin()
    scene.turn(1)
    assert one.data == b""
    assert os.read(reader, 10) == b"hello"
    os.close(reader)
    scene.loop.close()
