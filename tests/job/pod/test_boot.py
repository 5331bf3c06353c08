"""The container's first moments, before there is an agent."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from shim.control.backends.kubernetes.objects.bundle import Bundle, bundle, container_command
from shim.job.pod.ending import UNBEGUN
from tests.job.pod.pods import Pods
from tests.support import wait_until

STEP = "#!/bin/sh\nsrun -n1 echo from a step\nsacct --helpformat >/dev/null && echo from a command\n"


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
        assert (tmp_path / "termination-log").read_text().strip() == UNBEGUN
    finally:
        process.kill()
        process.wait()


def for_another_version() -> Bundle:
    """The archive as an interpreter sees it whose byte code is not in it."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle().archive)) as archive, zipfile.ZipFile(made, "w") as other:
        other.writestr("code.zip", archive.read("code.zip"), zipfile.ZIP_DEFLATED)
        other.writestr("00000000.code", b"nothing of ours", zipfile.ZIP_DEFLATED)
    return Bundle(archive=made.getvalue(), digest=hashlib.sha256(made.getvalue()).hexdigest())


def test_byte_code_is_all_that_a_job_with_a_step_unpacks(pods: Callable[..., Pods]) -> None:
    job = pods(script="#!/bin/sh\nsrun -n1 echo from a step\n")
    job.start(0)
    assert job.ended() == 0
    assert job.out.read_text() == "from a step\n"
    assert sorted(path.name for path in (job.root(0) / "run/code").iterdir()) == ["modules", "sources"]


def test_a_command_that_is_seldom_called_comes_from_the_sources(pods: Callable[..., Pods]) -> None:
    job = pods(script=STEP)
    job.start(0)
    assert job.ended() == 0
    assert job.out.read_text() == "from a step\nfrom a command\n"
    assert (job.root(0) / "run/code/tree/shim/commands/accounting/sacct.py").exists()


def test_an_interpreter_of_another_version_takes_the_sources(pods: Callable[..., Pods]) -> None:
    job = pods(script=STEP)
    job.code = for_another_version()
    job.start(0)
    assert job.ended() == 0
    assert job.out.read_text() == "from a step\nfrom a command\n"
    assert not (job.root(0) / "run/code/modules").exists()


def test_a_pod_that_does_not_lead_loads_nothing_of_a_leader_and_no_steps_before_the_start() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import shim.job.pod.main; "
        "print(*[name for name in sys.modules if name.startswith('shim.')])"
    )
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-I", "-S", "-c", code, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    loaded = done.stdout.split()
    assert "shim.job.pod.agent" in loaded
    assert not [name for name in loaded if name.startswith(("shim.job.agent.leader", "shim.job.agent.step_manager"))]
    assert not {"shim.job.agent.node.step", "shim.job.pod.leading", "shim.job.pod.staging"}.intersection(loaded)
