"""`shim top` against a written index: its figures are those of squeue, sinfo and `shim why`."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.admin.top.session import Session
from shim.admin.top.snapshot import TARGET
from shim.admin.top.watch import Index
from shim.control import paths
from shim.control.index.opening import open_store
from shim.control.index.reader import Reader
from shim.core import memo
from tests import reference
from tests.commands.conftest import World
from tests.reference import NOW, job, running


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    yield
    memo.let_go()


@pytest.fixture
def session(busy: World) -> Iterator[Session]:
    found = Session()
    found.look()
    found.settle()
    yield found
    found.close()


def test_a_page_has_the_figures_of_squeue_sinfo_and_why(busy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("LINES", "40")
    found = busy.run("shim", "top", "--once")
    assert (found.code, found.err) == (0, "")
    shown = [line.split() for line in found.lines]
    for line in busy.run("squeue", "-h", "-o", "%i %u %t %M %D").lines:
        assert any(set(line.split()) <= set(words) for words in shown), line
    for line in busy.run("sinfo", "-h", "-N", "-p", "debug", "-o", "%n %t").lines:
        name, state = line.split()
        assert any(words[place : place + 2] == [name, state] for words in shown for place in range(len(words))), line
    assert "n1        mix       5/8" in found.out
    assert "cpus ##........ 6/32" in found.out


def test_a_record_that_stays_the_same_is_decoded_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = Reader.decoded

    def noted(self: Reader, key: int, record: str) -> Any:
        decoded.append(key)
        return decode(self, key, record)

    monkeypatch.setattr(Reader, "decoded", noted)
    session.look()
    assert decoded == []
    store = open_store(paths.index_path())
    (one,) = [entry.job() for entry in session.snapshot.entries if entry.job_id == 6]
    assert one is not None
    store.save_job(one.replace(comment="another"))
    store.close()
    session.look()
    assert decoded == [one.key]


def test_jobs_that_wait_are_not_decoded_unless_they_are_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.index([running(1), *(job(number) for number in range(2, 200))])
    found = Session()
    found.look()
    found.settle()
    decoded = [entry for entry in found.snapshot.entries if entry._job is not None]  # type: ignore[attr-defined]
    assert [entry.job_id for entry in decoded] == [1]
    found.close()


def test_jobs_that_have_ended_are_there_when_they_are_asked_for(world: World) -> None:
    world.index(
        [running(1), running(2, state="FAILED", end_time=NOW - 5), running(3, state="FAILED", end_time=NOW - 9999)]
    )
    found = Session()
    found.look()
    assert [entry.job_id for entry in found.snapshot.entries] == [1]
    found.state = found.state.replace(filter="ended")
    found.look()
    found.settle()
    assert [entry.job_id for entry in found.listed] == [2]
    found.close()


def test_an_arrays_rest_is_meant_without_what_has_started(session: Session) -> None:
    (rest,) = [entry for entry in session.snapshot.entries if entry.job_id == 4]
    assert rest.cells(NOW)["i"] == "4_[0-3%1]"
    assert rest.cells(NOW)[TARGET] == "4_[0-3]"


def test_when_the_selected_job_goes_the_next_one_takes_its_place(session: Session) -> None:
    keys = [entry.key for entry in session.listed]
    session.state = session.state.replace(selected=keys[2])
    session.settle()
    store = open_store(paths.index_path())
    chosen = session.chosen and session.chosen.job()
    assert chosen
    store.save_job(chosen.replace(state="CANCELLED", end_time=NOW))
    store.close()
    session.look()
    session.settle()
    assert session.state.selected == keys[3]


def test_one_that_is_asked_about_stays_the_one(session: Session) -> None:
    chosen = session.listed[0].job()
    assert chosen
    session.state = session.state.replace(selected=session.listed[0].key, asked="Cancel it")
    session.settle()
    store = open_store(paths.index_path())
    store.save_job(chosen.replace(state="CANCELLED", end_time=NOW))
    store.close()
    session.look()
    session.settle()
    assert session.state.selected == f"ref {chosen.key}"
    assert session.chosen is not None and session.chosen.job_id == chosen.job_id


def test_what_a_real_slurm_or_the_index_cannot_tell_is_said(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from shim.control.index.errors import IndexUnavailable

    def broken(self: Reader, query: object) -> list[tuple[Any, ...]]:
        raise IndexUnavailable(paths.index_path(), "a fault of the disk")

    monkeypatch.setattr(Reader, "outlines", broken)
    session.look()
    session.settle()
    text = "\n".join("".join(part for part, _ in line) for line in session.lines((80, 24)))
    assert "! " in text and paths.index_path()[:30] in text
    assert "runner" in text  # as it was seen last
    assert session.snapshot.now == reference.NOW


def test_the_kernel_tells_when_the_output_has_grown(world: World, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("one\n")
    world.index([running(1, stdout=str(out))])
    found = Session()
    found.look()
    found.settle()
    assert found.selected.told.output == ("one",)
    assert select.select([found.selected.file], [], [], 0)[0] == []
    with open(out, "a") as file:
        file.write("two\n")
    assert select.select([found.selected.file], [], [], 30)[0] == [found.selected.file]
    found.selected.read()
    assert found.selected.told.output == ("one", "two")
    assert select.select([found.selected.file], [], [], 0)[0] == []
    out.unlink()
    out.write_text("anew\n")  # another file of that name
    found.selected.read()
    assert found.selected.told.output == ("anew",)
    found.close()


def test_the_kernel_tells_when_the_index_was_written(world: World) -> None:
    world.index([running(1)])
    watched = Index()
    assert watched.changed()  # it was not known
    watched.writes.take()
    assert not watched.changed()
    store = open_store(paths.index_path())
    store.add_job(job(2))
    assert select.select([watched.writes.file], [], [], 30)[0] == [watched.writes.file]
    assert watched.changed()
    assert not watched.changed()
    store.close()
    watched.close()
