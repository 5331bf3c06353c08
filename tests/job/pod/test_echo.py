"""The container's log: what it says of itself, and what is read back out of it."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from shim.job.loop import Loop
from shim.job.pod.echo import MOST_PLAIN, Echo, split
from shim.job.pod.output import _File

_PIECES = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40) | st.just(b"line\n")))


class Scene:
    """Two files that are echoed into a pipe."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.loop = Loop()
        self.files = {name: _File(str(folder / name)) for name in names}
        for name in names:
            (folder / name).write_bytes(b"")
            self.files[name].open()
        self.ours, theirs = os.pipe()
        self.theirs = theirs
        self.echo = Echo(self.loop, self.files, theirs, lambda: None)
        self.log = b""

    def write(self, name: str, data: bytes) -> None:
        with open(self.files[name].path, "ab") as file:
            file.write(data)
        self.pump()

    def pump(self) -> None:
        self.echo.pump()
        self.loop.run_once(0)
        os.set_blocking(self.ours, False)
        try:
            while data := os.read(self.ours, 65536):
                self.log += data
                self.echo.pump()
        except BlockingIOError:
            return

    def close(self) -> None:
        self.echo.end()
        while not self.echo.done:
            self.pump()
        self.pump()
        os.close(self.ours)
        os.close(self.theirs)
        for file in self.files.values():
            os.close(file.fd)
        self.loop.close()


@given(pieces=_PIECES, lost=st.integers(0, 2000), before=st.binary(max_size=20))
def test_both_streams_are_read_back_from_one_log(
    tmp_path_factory: object, pieces: list[tuple[str, bytes]], lost: int, before: bytes
) -> None:
    folder = tmp_path_factory.mktemp("log")  # type: ignore[attr-defined]
    scene = Scene(folder, "stdout", "stderr")
    for name, data in pieces:
        scene.write(name, data)
    scene.close()
    written = {name: Path(file.path).read_bytes() for name, file in scene.files.items()}
    if not any(written.values()):
        assert scene.log == b""
        return
    body = scene.log[: scene.log.rindex(b"slurm-shim: log ")]
    for log in (before + b"\n" + scene.log, scene.log[min(lost, len(body)) :]):
        found = split(log)
        assert found is not None
        for name, content in written.items():
            start, rest = found[name]
            assert content[start:] == rest
    whole = split(scene.log)
    assert whole == {name: (0, content) for name, content in written.items()}


def test_lines_of_two_streams_stay_whole(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "stdout", "stderr")
    scene.write("stdout", b"out one, ")
    scene.write("stderr", b"err\n")
    scene.write("stdout", b"and two\nend")
    scene.close()
    assert scene.log.splitlines()[:3] == [b"err", b"out one, and two", b"end"]


def test_a_short_log_of_one_stream_is_the_stream(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "stdout")
    scene.write("stdout", b"no end of a line")
    scene.close()
    assert scene.log == b"no end of a line"
    assert split(scene.log) is None


def test_a_long_log_of_one_stream_may_lose_its_beginning(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "stdout")
    content = b"".join(b"%d\n" % number for number in range(MOST_PLAIN // 4))
    scene.write("stdout", content)
    scene.close()
    found = split(scene.log[1000:])
    assert found is not None and found["stdout"] == (1000, content[1000:])
