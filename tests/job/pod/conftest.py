"""Fixtures of the pods' tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.job.pod.dns import NameServer
from tests.job.pod.pods import Pods


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Callable[..., Pods]]:
    """Makes the pods of a job; their processes end with the test."""
    made: list[Pods] = []

    def make(**fields: Any) -> Pods:
        made.append(Pods(tmp_path, **fields))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def names() -> Iterator[NameServer]:
    server = NameServer(keeps=True)
    yield server
    server.close()
