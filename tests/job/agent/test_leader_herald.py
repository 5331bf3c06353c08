"""The herald starts what it was told to, as often as it is rung, and holds nothing of its maker's open."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from shim.job.agent.leader_herald import Herald, begin
from tests.support import wait_until


def test_it_starts_a_process_each_time(tmp_path: Path) -> None:
    said = tmp_path / "said"
    herald = Herald(begin(), ["/bin/sh", "-c", f"echo started >> {said}"])
    try:
        for count in (1, 2):
            herald.ring()
            wait_until(lambda count=count: said.exists() and len(said.read_text().split()) == count, "a start")  # type: ignore[misc]
    finally:
        herald.close()


def test_it_holds_no_lock_of_its_maker(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    said = tmp_path / "said"
    herald = Herald(begin(), ["/bin/sh", "-c", f": > {said}"])
    try:
        herald.ring()
        wait_until(said.exists, "a start")
        os.close(lock)
        again = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(again)
    finally:
        herald.close()


def test_a_program_that_is_not_there_harms_nobody(tmp_path: Path) -> None:
    herald = Herald(begin(), ["/nosuch/program"])
    herald.ring()
    herald.ring()
    herald.close()
