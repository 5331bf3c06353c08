"""The whole suite in two processes, as ``./dev test`` runs it: which tests are never at work at the same time."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]


class ByFile(LoadScopeScheduling):
    """The tests of a file in one process, in their order, and those of all files that ask the same real cluster too."""

    def __init__(self, config: pytest.Config, log: Producer | None) -> None:
        # In the order of collection: with the files of most tests first, the few slow ones would come last, and alone.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid.partition("::")[0])


@functools.cache
def together(path: str) -> str:
    """What the tests of this file share with those of others of the same answer: a real cluster; else the file's name."""
    text = (ROOT / path).read_text()
    return next((name for name in ("slurm", "kubernetes") if f"mark.{name}" in text), path)


def sendable(report: Any) -> Any:
    """The report with every text in it valid: execnet refuses one that is not, and the whole run breaks off."""
    if isinstance(report, str):
        return report.encode(errors="backslashreplace").decode()
    if isinstance(report, dict):
        return {sendable(key): sendable(value) for key, value in report.items()}
    if isinstance(report, (list, tuple)):
        return type(report)(map(sendable, report))
    return report
