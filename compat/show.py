"""What shows on the real Kubernetes have in common: a namespace, a folder that pods share, homes that submit, and how it all went."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from compat.cluster.kubernetes.settings import IMAGE_PYTHON, KUBECONFIG
from compat.cluster.kubernetes.tenant import CLAIM, Tenant, kubectl

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300.0  # seconds for all jobs of a show
GARBAGE = 180.0  # seconds for controllers to leave, and for the cluster's garbage collector: one whose API server was killed lags
_CONFIG = """\
[clusters.k8s]
backend = "kubernetes"
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
image = "{image}"
cpu_request = 1
kill_wait = 5
bind_wait = 5
lease = 10
spread = {spread}
mounts = [{{ path = "{folder}", {source} }}]
{more}
"""
# Who may not list nodes describes them.
NODES = 'nodes = 3\nnode_names = "node[1-3]"\ncpus = 8\nmemory = 16000\ngpus = 4\n'
ONCE = "#!/bin/sh\necho s $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} >> marks\n"
"""The beginning of a script that leaves a mark."""
UNTIL_GO = (
    f"{ONCE}srun sh -c 'until [ -e go.$SLURM_JOB_ID ]; do sleep 0.2; done'\necho e $SLURM_JOB_ID >> marks\nexit 4\n"
)


class Show:
    """``restricted``: the commands' user has the documented Role and nothing else, the namespace enforces `restricted`, and the shared
    folder is a claim. ``more``: lines of configuration."""

    def __init__(self, *, restricted: bool, spread: bool = True, more: str = "") -> None:
        self.namespace = f"shim-faults-{secrets.token_hex(3)}"
        self.folder = Path(tempfile.mkdtemp(prefix="shim-faults-"))
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self._tenant: Tenant | None = None
        self._kept = False
        if restricted:
            self._tenant = Tenant(str(KUBECONFIG), self.namespace, self.shared, self.folder)
            kubeconfig, source, more = self._tenant.kubeconfig, f'pvc = "{CLAIM}"', more or NODES
        else:
            self.kubectl("create", "namespace", self.namespace)
            kubeconfig, source, more = KUBECONFIG, f'host_path = "{self.shared}"', f'identity = "image"\n{more}'
        words = {"kubeconfig": kubeconfig, "namespace": self.namespace, "image": IMAGE_PYTHON, "folder": self.shared}
        text = _CONFIG.format(**words, source=source, spread=str(spread).lower(), more=more)
        (self.folder / "shim.toml").write_text(text)

    def __enter__(self) -> Show:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for home in [path.name for path in self.folder.iterdir() if path.is_dir()]:
            found = self.controller(home)
            if found is not None:
                os.kill(found, signal.SIGTERM)
        if self._kept:
            print(f"kept: namespace {self.namespace}, with the controllers' logs in {self.folder}", file=sys.stderr)
            return
        if self._tenant is not None:
            self._tenant.close()
        else:
            self.kubectl("delete", "namespace", self.namespace, "--wait=false")
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self) -> None:
        """Namespace, folder and logs stay when the show is over, for whoever looks for what went wrong."""
        self._kept = True

    def kubectl(self, *words: str) -> str:
        """As an administrator."""
        return kubectl(str(KUBECONFIG), *words)

    def run(self, *words: str, home: str = "a") -> str:
        """What one of our commands prints on standard output."""
        own = {"SHIM_STATE_DIR": str(self.folder / home), "SHIM_CONFIG": str(self.folder / "shim.toml")}
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SHIM_", "SLURM_"))}
        done = subprocess.run(
            [str(ROOT / "bin" / words[0]), *words[1:]],
            cwd=self.shared, env={**clean, **own, "SHIM_NO_SYSTEM_CONFIG": "1"},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        if done.returncode:
            print(f"{words[0]}: {done.stderr.strip()}", file=sys.stderr)
        return done.stdout

    def submit(self, script: str, *words: str, home: str = "a") -> str:
        """The job's id; its batch output is dropped, what counts are the marks."""
        path = self.shared / "job.sh"
        if not path.exists() or path.read_text() != script:
            path.write_text(script)
        return self.run("sbatch", "--parsable", "-o", "/dev/null", *words, str(path), home=home).strip()

    def state(self, job: str, home: str = "a") -> str:
        """The state in squeue; "" when it has ended."""
        return self.run("squeue", "-h", "-j", job, "-o", "%T", home=home).strip()

    def ended(self, job: str, home: str = "a") -> str:
        """``STATE|exit code`` as sacct has it."""
        return self.run("sacct", "-n", "-X", "-P", "-o", "state,exitcode", "-j", job, home=home).strip()

    def wait(self, *homes: str, limit: float = PATIENCE) -> bool:
        """Whether all jobs end in time; those that do not are printed."""
        left: list[str] = []

        def none() -> bool:
            left[:] = filter(None, (self.run("squeue", "-h", home=home) for home in homes or ("a",)))
            return not left

        ended = until(none, limit)
        if not ended:
            print("not ended in time:", *left, sep="\n", file=sys.stderr)
        return ended

    def marks(self) -> Counter[str]:
        """The lines that scripts have left, counted."""
        path = self.shared / "marks"
        return Counter(path.read_text().split("\n")[:-1]) if path.exists() else Counter()

    def twice(self) -> int:
        """How many runs began twice. A job that is queued again is another run."""
        return sum(times > 1 for line, times in self.marks().items() if line.startswith("s "))

    def controller(self, home: str = "a") -> int | None:
        """The process id of the home's controller, if one runs."""
        for path in (self.folder / home).glob("*/controller.lock"):
            text = path.read_text().strip()
            if text and b"shim.control.controller" in command_of(int(text)):
                return int(text)
        return None

    def pods(self, job: str) -> list[tuple[int, str, str]]:
        """(index, name, node) of a job's pods."""
        label = f"slurm-shim.io/job-id={job}"
        found = json.loads(self.kubectl("-n", self.namespace, "get", "pods", "-l", label, "-o", "json"))
        key = "batch.kubernetes.io/job-completion-index"
        return [
            (int(one["metadata"]["labels"][key]), one["metadata"]["name"], one["spec"].get("nodeName", ""))
            for one in found["items"]
        ]

    def left(self) -> list[str]:
        """Objects and files of jobs that are still there when their controllers had time to remove them."""
        objects: list[str] = []

        def none() -> bool:
            text = self.kubectl("-n", self.namespace, "get", "jobs,pods,secrets,podgroups", "-o", "name")
            records = self.kubectl(
                "-n", self.namespace, "get", "configmaps", "-l", "slurm-shim.io/kind=record", "-o", "name"
            )
            holder = "jsonpath={.items[*].spec.holderIdentity}"  # a Lease that was given back stays, with no holder
            held = self.kubectl("-n", self.namespace, "get", "leases", "-o", holder)
            objects[:] = [*text.split(), *records.split(), *(f"Lease of {one}" for one in held.split())]
            return not objects

        until(none, GARBAGE)
        return [*objects, *(path.name for path in self.shared.glob(".slurm-*"))]


def until(condition: Callable[[], bool], limit: float = PATIENCE) -> bool:
    """Whether the condition came in time (seconds)."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def expect(condition: Callable[[], bool], what: str, limit: float = PATIENCE) -> None:
    """Waits for it; SystemExit if it does not come."""
    if not until(condition, limit):
        raise SystemExit(f"not in time: {what}")


def command_of(pid: int) -> bytes:
    """The command line of a process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def jobs_of(marks: Iterable[str]) -> set[str]:
    """The jobs that have left marks: their second word."""
    return {line.split()[1] for line in marks}
