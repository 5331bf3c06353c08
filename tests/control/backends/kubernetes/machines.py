"""Machines beside the real cluster, each with a host name, a home, a state folder and credentials of its own; all of them on this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.cluster.kubernetes import existing
from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from tests import leftovers
from tests.control.backends.kubernetes.home import COMMANDS, CONFIG, LIMIT, until

LEASE = 5
ROLE = Path(__file__).parents[4] / "docs" / "kubernetes-role.yaml"


class Machine:
    """``name``: of the host. Its folder has what a home has, and the kubeconfig."""

    def __init__(self, folder: Path, name: str, kubeconfig: str, namespace: str) -> None:
        self.folder = folder / name
        self.name = name
        (self.folder / "work").mkdir(parents=True)
        words = {"kubeconfig": kubeconfig, "namespace": namespace, "image": IMAGE_PYTHON}
        (self.folder / "shim.toml").write_text(CONFIG.format(**words) + f"lease = {LEASE}\n")

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One of our commands, as it is run on this machine."""
        environment = {
            **os.environ,
            "HOME": str(self.folder),
            "SHIM_CONFIG": str(self.folder / "shim.toml"),
            "SHIM_STATE_DIR": str(self.state),
        }
        command, *rest = words
        return subprocess.run(
            ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name, str(COMMANDS / command), *rest],
            cwd=self.folder / "work", env=environment, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        """What it prints; it succeeds."""
        done = self.ask(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def submit(self, script: str, *words: str) -> str:
        """The job's id."""
        path = self.folder / "work" / "job.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        return self.run("sbatch", "--parsable", *words, str(path)).strip()

    def shown(self, job: str, fields: str = "%T") -> str:
        """As squeue has it; "" for a job of which this machine has not heard yet."""
        done = self.ask("squeue", "-h", "-t", "all", "-j", job, "-o", fields)
        assert done.returncode == 0 or "Invalid job id" in done.stderr, done.stderr
        return done.stdout.strip()

    def signal(self, number: signal.Signals) -> int:
        """Sends its controller, and all that would start another one, a signal; how many got it."""
        count = 0
        own = os.readlink("/proc/self/ns/mnt")
        for process in leftovers.knowing(str(self.state)):
            try:
                if (
                    os.readlink(f"/proc/{process.pid}/ns/mnt") == own
                ):  # else it is of a pod: its node is this machine too
                    os.kill(process.pid, number)
                    count += 1
            except (ProcessLookupError, FileNotFoundError):
                pass  # it has just ended
        return count

    def end(self) -> None:
        """The machine is switched off."""
        until(lambda: not self.signal(signal.SIGKILL), "the end of all that runs there")


class Site:
    """A namespace, and the machines beside it."""

    def __init__(self, folder: Path, kubeconfig: str, namespace: str) -> None:
        self.folder, self.kubeconfig, self.namespace = folder, kubeconfig, namespace
        self.machines: list[Machine] = []

    def machine(self, name: str, kubeconfig: str = "") -> Machine:
        made = Machine(self.folder, name, kubeconfig or self.kubeconfig, self.namespace)
        self.machines.append(made)
        return made

    def kubectl(self, *words: str) -> str:
        """What kubectl prints, as an administrator."""
        command = [existing.kubectl(), "--kubeconfig", self.kubeconfig, "-n", self.namespace, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def user(self, name: str) -> str:
        """The kubeconfig of a service account that has the documented role, and nothing else."""
        self.kubectl("create", "serviceaccount", name)
        self.kubectl("apply", "-f", str(ROLE))
        account = f"--serviceaccount={self.namespace}:{name}"
        self.kubectl("create", "rolebinding", f"slurm-shim-{name}", "--role=slurm-shim", account)
        self.kubectl(
            "create",
            "clusterrolebinding",
            f"slurm-shim-{self.namespace}-{name}",
            "--clusterrole=slurm-shim-nodes",
            account,
        )
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        config["users"][0]["user"] = {"token": self.kubectl("create", "token", name).strip()}
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return str(path)

    def holder(self) -> str:
        """Who orders the jobs."""
        return self.kubectl("get", "lease", "slurm-controller", "-o", "jsonpath={.spec.holderIdentity}")

    def close(self) -> None:
        for machine in self.machines:
            machine.end()
        bindings = self.kubectl("get", "clusterrolebindings", "-o", "name").split()
        own = [one for one in bindings if f"/slurm-shim-{self.namespace}-" in one]
        if own:
            self.kubectl("delete", *own)


@pytest.fixture
def site(tmp_path: Path, kubeconfig: str, namespace: str) -> Iterator[Site]:
    made = Site(tmp_path, kubeconfig, namespace)
    yield made
    made.close()
