"""Commands against a written index: no controller is started, time stands still, the site has the reference cluster."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shim.commands import entrypoint
from shim.control import alive, client, paths, site
from shim.core.admission import partition_rules
from shim.core.model.job import Job, Step
from shim.core.routing import ClusterRef
from tests import reference


class Result:
    """What a command printed and returned."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def lines(self) -> list[str]:
        """Standard output by line."""
        return self.out.splitlines()


class World:
    """The machine that a command under test sees."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.gone = False  # whether the steps of the next call's targets are not there
        self.errors: list[str | None] = []  # of the next call's targets, in their order; missing ones succeed
        self.script: str | None = None

    def index(self, jobs: list[Job], steps: dict[int, tuple[Step, ...]] | None = None) -> None:
        """Writes these jobs into the index."""
        reference.write_index(paths.index_path(), jobs, steps)

    def call(self, op: str, fields: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        """Stands where the client's call would."""
        fields = fields or {}
        self.calls.append((op, fields))
        if op == "script":
            if self.script is None:
                from shim.core.errors import ShimError

                raise ShimError("error: Invalid job id specified")
            return {"script": self.script}
        errors = [*self.errors, *[None] * len(fields.get("targets", ()))]
        more = {"gone": True} if self.gone else {}
        return {
            "results": [
                {"target": one, "error": error, **more} for one, error in zip(fields.get("targets", ()), errors)
            ]
        }

    def run(self, program: str, *argv: str) -> Result:
        """Runs the program in this process."""
        out, err = _stream(), _stream()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = entrypoint.run(program, list(argv))
        return Result(code, _written(out), _written(err))


def _stream() -> io.TextIOWrapper:
    """A standard stream as ``shim.main`` opens it: bytes that are no text go out as they came in."""
    return io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", newline="", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.buffer.read().decode(errors="backslashreplace")


@pytest.fixture
def greenwich() -> Iterator[None]:
    """The time zone of the expected texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def world(greenwich: None, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world without jobs."""
    found = World()
    known = reference.cluster()
    monkeypatch.setattr(time, "time", lambda: reference.NOW)
    monkeypatch.setattr(site, "clusters", lambda: (known,))
    monkeypatch.setattr(
        site, "cluster_refs", lambda: tuple(ClusterRef(one.name, one.backend) for one in site.clusters())
    )
    monkeypatch.setattr(site, "backends", lambda: {cluster.name: cluster.backend for cluster in site.clusters()})
    monkeypatch.setattr(
        site, "restricted", lambda: {one.name: partition_rules.restricted_partitions(one) for one in site.clusters()}
    )
    monkeypatch.setattr(alive, "freshen", lambda reader, program="": None)
    monkeypatch.setattr(client, "call", found.call)
    return found


@pytest.fixture
def busy(world: World) -> World:
    """A world with the reference queue."""
    world.index(reference.queue(), reference.STEPS)
    return world
