"""A command in a job knows that the job runs, whatever the index says by then."""

from __future__ import annotations

from typing import Any

import pytest

from shim.control import alive, channel, paths
from shim.control.index.reader import open_reader
from shim.core.model import states
from tests import reference


class Connected:
    """A controller that is well."""

    def stopped(self) -> bool:
        return False

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.asked.append((message["op"], message.get("job_id", 0)))

    def receive(self) -> dict[str, Any]:
        return {"ok": True}

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("own", "state", "asked"),
    [
        ("1", states.CONFIGURING, [("reach", 1)]),
        ("1", states.RUNNING, []),
        ("2", states.CONFIGURING, []),
        ("", states.CONFIGURING, []),
        ("x", states.CONFIGURING, []),
    ],
)
def test_a_listing_in_a_job_waits_for_the_start_of_its_own(
    own: str, state: str, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference.write_index(paths.index_path(), [reference.running(1).replace(state=state)])
    connected = Connected()
    monkeypatch.setattr(alive, "_outdated", lambda reader: False)
    monkeypatch.setattr(channel, "connect", lambda path: connected)
    monkeypatch.setenv("SLURM_JOB_ID", own)
    alive.freshen(open_reader(paths.index_path()), "squeue")
    assert connected.asked == asked
