"""The pieces of a working directory: whose they are, and what becomes of those that cannot be kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.job.link import local_pair
from shim.job.loop import Loop
from shim.job.pod.staging import ARCHIVE, LeaderStage, NodeStage


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def test_what_an_earlier_connection_has_under_way_is_no_part_of_the_archive(loop: Loop, tmp_path: Path) -> None:
    stage = LeaderStage(loop, str(tmp_path), str(tmp_path / "work"), given=False)
    (old, _), (new, _) = local_pair(loop), local_pair(loop)
    stage.message(old, {"do": "stage", "bytes": 8})
    stage.data(old, b"old ")
    stage.message(new, {"do": "stage", "bytes": 8})
    stage.data(old, b"old.")
    stage.data(new, b"new ")
    stage.data(old, b"old.")
    stage.data(new, b"new.")
    assert (tmp_path / ARCHIVE).read_bytes() == b"new new."


def test_a_disk_that_was_full_before_the_nodes_were_there_ends_the_run(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).symlink_to("/dev/full")
    stage = LeaderStage(loop, str(tmp_path), str(tmp_path / "work"), given=False)
    link, _ = local_pair(loop)
    stage.message(link, {"do": "stage", "bytes": 8})
    stage.data(link, b"first ..")
    told: list[str] = []
    stage.start({0: link}, told.append)
    assert told == ["the working directory cannot be kept: No space left on device"]


def test_a_folder_that_cannot_be_written_to_ends_the_run(loop: Loop, tmp_path: Path) -> None:
    stage = LeaderStage(loop, str(tmp_path / "gone"), str(tmp_path / "work"), given=False)
    link, _ = local_pair(loop)
    told: list[str] = []
    stage.start({0: link}, told.append)
    stage.message(link, {"do": "stage", "bytes": 8})
    assert told == ["the working directory cannot be kept: No such file or directory"]


def test_a_node_tells_once_that_its_disk_is_full(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).symlink_to("/dev/full")
    stage = NodeStage(loop, str(tmp_path), str(tmp_path / "work"))
    link, other = local_pair(loop)
    got: list[dict[str, Any]] = []
    other.on_message = got.append
    stage.message(link, {"do": "stage", "bytes": 8})
    stage.data(link, b"1234")
    stage.data(link, b"5678")
    loop.run_once(0)
    wrong = "the working directory cannot be kept: No space left on device"
    assert [one for one in got if one["do"] == "staged"] == [{"do": "staged", "error": wrong}]
