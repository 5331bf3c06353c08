"""The journal: numbers, what is on disk, what a full disk and a torn line do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shim.job.agent.journal import Journal, read_journal


def open_journal(folder: Path) -> Journal:
    return Journal(str(folder / "journal"), lambda: 100.5)


def test_lines_are_numbered_and_read_back(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    assert journal.append("started", hosts=["n1"])
    assert journal.append("ended", state="COMPLETED")
    journal.close()
    lines = read_journal(str(tmp_path / "journal"))
    assert lines == [
        {"n": 1, "at": 100.5, "kind": "started", "hosts": ["n1"]},
        {"n": 2, "at": 100.5, "kind": "ended", "state": "COMPLETED"},
    ]


def test_there_is_no_journal(tmp_path: Path) -> None:
    assert read_journal(str(tmp_path / "journal")) == []


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    first = open_journal(tmp_path)
    first.append("started")
    first.close()
    second = open_journal(tmp_path)
    assert second.has("started")
    second.append("ended")
    assert [line["n"] for line in second.lines] == [1, 2]
    second.close()


def test_a_torn_line_is_no_line_and_harms_no_later_one(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'{"n":1,"at":1,"kind":"started"}\n{"n":2,"at":1,"ki')
    journal = open_journal(tmp_path)
    assert len(journal.lines) == 1
    journal.append("ended")
    journal.close()
    assert [line["kind"] for line in read_journal(str(path))] == ["started", "ended"]


def test_a_full_disk_holds_lines_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(tmp_path)
    real = os.write
    room = [10]  # bytes that still fit

    def write(fd: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real(fd, data[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write)
    assert not journal.append("started")  # cut short
    assert not journal.append("step", step="0")  # refused
    assert journal.lines == []
    assert journal.has("step")
    room[0] = 1 << 20
    assert journal.flush()
    monkeypatch.undo()
    journal.close()
    assert [(line["n"], line["kind"]) for line in read_journal(str(tmp_path / "journal"))] == [
        (1, "started"),
        (2, "step"),
    ]
