"""A machine with jobs is killed, another one carries on with them, the first one comes back: on a real cluster, by the real commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.cluster.kubernetes import existing
from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from tests.control.controller import processes
from tests.support import wait_until

pytestmark = pytest.mark.kubernetes
COMMANDS = Path(__file__).parents[4] / "bin"
KINDS = "jobs,pods,secrets,leases,podgroups"
LIMIT = 120.0  # seconds; only ends a test that has failed
CONFIG = """\
[clusters.k8s]
backend = "kubernetes"
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
image = "{image}"
identity = "image"
cpu_request = 10
kill_wait = 5
lease = 10
"""
LONG = (
    "#!/bin/sh\necho begun $SLURM_JOB_ID\nsrun hostname\nuntil [ -e /tmp/go ]; do sleep 0.2; done\necho over\nexit 3\n"
)
SHORT = "#!/bin/sh\nuntil [ -e /tmp/go ]; do sleep 0.2; done\n"


def until(condition: Callable[[], bool], what: str) -> None:
    """Returns when it is so. A look is a process or two, which take time from the pods."""
    wait_until(condition, what, LIMIT, pause=0.3)


class Homes:
    """Two machines of one user: each has a state folder and a controller of its own."""

    def __init__(self, folder: Path, kubeconfig: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.kubeconfig, self.namespace = kubeconfig, namespace
        self._monkeypatch = monkeypatch
        config = folder / "shim.toml"
        config.write_text(CONFIG.format(kubeconfig=kubeconfig, namespace=namespace, image=IMAGE_PYTHON))
        monkeypatch.setenv("SHIM_CONFIG", str(config))
        (folder / "work").mkdir()

    def enter(self, name: str) -> None:
        """From here on everything happens on this machine."""
        self._monkeypatch.setenv("SHIM_STATE_DIR", str(self.folder / name))

    def run(self, command: str, *words: str, **more: str) -> str:
        """What one of our commands prints."""
        done = subprocess.run(
            [str(COMMANDS / command), *words],
            cwd=self.folder / "work",
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, script: str, *words: str) -> str:
        path = self.folder / "work" / "job.sh"
        path.write_text(script)
        return self.run("sbatch", "--parsable", *words, str(path)).strip()

    def state(self, job: str) -> str:
        """State and exit code, as sacct has them."""
        return self.run("sacct", "-n", "-X", "-P", "-j", job, "-o", "state,exitcode").strip()

    def kubectl(self, *words: str) -> str:
        """What kubectl prints."""
        command = [existing.kubectl(), "--kubeconfig", self.kubeconfig, "-n", self.namespace, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def empty(self) -> bool:
        """Whether nothing of jobs is left in the namespace."""
        return not self.kubectl("get", KINDS, "-o", "name").split()


@pytest.fixture
def homes(tmp_path: Path, kubeconfig: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Homes]:
    made = Homes(tmp_path, kubeconfig, namespace, monkeypatch)
    try:
        yield made
    finally:
        for name in ("first", "second"):
            made.enter(name)
            with processes.ended_afterwards():
                pass


def test_jobs_of_a_killed_machine_are_carried_on_with_and_left_alone_by_it(homes: Homes) -> None:
    homes.enter("first")
    long, short = homes.submit(LONG, "-N2"), homes.submit(SHORT)
    for job in (long, short):
        until(lambda job=job: homes.run("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING\n", "a start")  # type: ignore[misc]
    assert processes.kill()
    homes.kubectl("exec", f"job/slurm-{short}", "--", "touch", "/tmp/go")  # it ends, and no controller hears of it
    homes.enter("second")
    # Its controller is killed whenever it has made a record.
    told = homes.run("shim", "adopt", SHIM_TEST_CRASH="adopted")
    assert "they are taken over if nothing is heard of it for 10 s" in told
    until(lambda: homes.state(short) == "COMPLETED|0:0", "the end of the short job")
    until(lambda: homes.state(long) == "RUNNING|0:0", "the journal of the long job")
    assert homes.run("srun", "--jobid", long, "-N1", "-n1", "sh", "-c", "hostname; >/tmp/go") == f"slurm-{long}-0\n"
    until(lambda: homes.state(long) == "FAILED|3:0", "the end of the long job")
    (shown,) = [line for line in homes.run("scontrol", "show", "job", long).split("\n") if "StdOut=" in line]
    names = [f"slurm-{long}-0", f"slurm-{long}-1"]
    lines = Path(shown.split("=")[1]).read_text().split()
    assert (lines[:2], sorted(lines[2:4]), lines[4:]) == (["begun", long], names, ["over"])
    steps = homes.run("sacct", "-n", "-P", "-j", long, "-o", "jobid,state").split()
    assert f"{long}.0|COMPLETED" in steps
    homes.enter("first")
    homes.run("squeue")
    for job in (long, short):
        until(lambda job=job: homes.state(job) == "CANCELLED|0:0", "the news of the first machine")  # type: ignore[misc]
    assert homes.run("squeue", "-h") == ""
    try:
        until(homes.empty, "nothing in the namespace")
    except AssertionError as problem:
        raise AssertionError(homes.kubectl("get", KINDS, "-o", "yaml")) from problem
