"""The container's first moments, before there is an agent."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from shim.control.backends.kubernetes.bundle import container_command
from tests.support import wait_until


def hears_term(pid: int) -> bool:
    """Whether it is an interpreter that has asked for TERM."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    return status["Name"].startswith("python") and bool(int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1)


def test_a_pod_that_is_deleted_while_it_boots_ends_at_once(tmp_path: Path) -> None:
    """TERM without a handler means nothing to the first process of a pod: it would live on for its whole grace period."""
    (tmp_path / "agent").mkdir()
    os.mkfifo(tmp_path / "agent" / "agent.zip")  # it waits for its code
    process = subprocess.Popen(
        container_command(), env={"PATH": os.environ["PATH"], "SHIM_POD_ROOT": str(tmp_path), "SHIM_AGENT_DIGEST": "x"}
    )
    try:
        wait_until(lambda: hears_term(process.pid), "an interpreter that hears TERM")
        process.terminate()
        assert process.wait(30) == 143
    finally:
        process.kill()
        process.wait()
