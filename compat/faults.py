#!/usr/bin/env python3
"""Faults on the real Kubernetes, counted: what is killed or deleted while jobs run, and how often each script ran all the same.

    compat/cluster/k8s.py up
    compat/faults.py gangs 20       two jobs that each need two of three GPU nodes, from two homes at once
    compat/faults.py kills 100      submissions, the controller killed at random moments
    compat/faults.py kubelet 3      a kubelet is killed under a running job
    compat/faults.py before 6       the pod of a leader or of a worker is deleted before the start

Every script leaves a line on a shared folder when it runs: "twice" must be 0. It uses a namespace of its own, which it removes;
a line with figures is printed, and the exit code is 1 where something was lost, ran twice or was left behind.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compat.cluster.kubernetes.settings import FOLDER, IMAGE_PYTHON, KUBECONFIG  # noqa: E402

PATIENCE = 300.0  # seconds for all jobs of a show
_CONFIG = """\
[clusters.k8s]
backend = "kubernetes"
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
image = "{image}"
identity = "image"
cpu_request = 10
kill_wait = 5
bind_wait = 5
spread = {spread}
mounts = [{{ path = "{folder}", host_path = "{folder}" }}]
"""


class Show:
    """A namespace, a folder that all nodes see, and homes that submit from it."""

    def __init__(self, *, spread: bool = True) -> None:
        self.namespace = f"shim-faults-{secrets.token_hex(3)}"
        self.folder = Path(tempfile.mkdtemp(prefix="shim-faults-"))
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o777)
        words = {"kubeconfig": KUBECONFIG, "namespace": self.namespace, "image": IMAGE_PYTHON, "folder": self.shared}
        (self.folder / "shim.toml").write_text(_CONFIG.format(**words, spread=str(spread).lower()))
        self.kubectl("create", "namespace", self.namespace)

    def kubectl(self, *words: str) -> str:
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(KUBECONFIG), *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout

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
        path = self.shared / "job.sh"
        if not path.exists() or path.read_text() != script:
            path.write_text(script)
        return self.run("sbatch", "--parsable", "-o", "/dev/null", *words, str(path), home=home).strip()

    def state(self, job: str, home: str = "a") -> str:
        return self.run("squeue", "-h", "-j", job, "-o", "%T", home=home).strip()

    def wait(self, *homes: str) -> bool:
        """Whether all jobs end in time."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if not any(self.run("squeue", "-h", home=home) for home in homes or ("a",)):
                return True
            time.sleep(0.3)
        return False

    def marks(self) -> Counter[str]:
        path = self.shared / "marks"
        return Counter(path.read_text().split("\n")) if path.exists() else Counter()

    def controller(self, home: str = "a") -> int | None:
        for path in (self.folder / home).glob("*/controller.lock"):
            text = path.read_text().strip()
            if text and b"shim.control.controller" in _command(int(text)):
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
        """What is left of the jobs once their controllers had time to remove it."""
        end = time.monotonic() + 30
        while True:
            text = self.kubectl("-n", self.namespace, "get", "jobs,pods,secrets,podgroups", "-o", "name")
            if not text or time.monotonic() > end:
                return text.split()
            time.sleep(1)

    def close(self) -> None:
        for home in [path.name for path in self.folder.iterdir() if path.is_dir()]:
            found = self.controller(home)
            if found is not None:
                os.kill(found, signal.SIGTERM)
        self.kubectl("delete", "namespace", self.namespace, "--wait=false")
        shutil.rmtree(self.folder, ignore_errors=True)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def gangs(rounds: int) -> bool:
    """Two jobs, two homes, three nodes: never two halves."""
    show, worst, jobs, begun = Show(), 0.0, 0, time.monotonic()
    script = '#!/bin/sh\necho "s $SLURM_JOB_ID" >> marks\nsrun sh -c "echo t $SLURM_JOB_ID >> marks"\necho "e $SLURM_JOB_ID" >> marks\n'
    ended = True
    try:
        for _ in range(rounds):
            at = time.monotonic()
            for home in "ab":
                jobs += bool(show.submit(script, "-N2", "--gpus-per-node=4", "--no-requeue", home=home))
            ended = show.wait("a", "b") and ended
            worst = max(worst, time.monotonic() - at)
        marks = show.marks()
        whole = sum(marks[f"s {job}"] == marks[f"e {job}"] == 1 and marks[f"t {job}"] == 2 for job in _ids(marks))
        twice = sum(marks[f"s {job}"] > 1 for job in _ids(marks))
        left = show.left()
    finally:
        show.close()
    print(
        f"gangs: {rounds} rounds, {jobs} jobs, {whole} ran whole, {twice} twice, worst round {worst:.1f} s,"
        f" all {time.monotonic() - begun:.0f} s, left {left}"
    )
    return ended and whole == jobs == 2 * rounds and not left


def _ids(marks: Counter[str]) -> set[str]:
    return {line.split()[1] for line in marks if line}


def kills(count: int) -> bool:
    """Submissions while the controller is killed again and again."""
    show, killed, begun, ids = Show(spread=False), 0, time.monotonic(), []
    chance = random.Random(count)
    script = "#!/bin/sh\necho s $SLURM_JOB_ID >> marks\nsleep 0.$(($SLURM_JOB_ID % 10))\n"
    try:
        for _ in range(count):
            ids.append(show.submit(script, "--no-requeue", f"-N{chance.choice((1, 1, 2))}"))
            found = show.controller()
            if found is not None and chance.random() < 0.5:
                time.sleep(chance.random() / 4)
                try:
                    os.kill(found, signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
        submitted = time.monotonic() - begun
        ended = show.wait()
        marks = show.marks()
        ran = [marks[f"s {job}"] for job in ids]
        once, twice = ran.count(1), sum(times > 1 for times in ran)
        text = show.run("sacct", "-n", "-X", "-P", "-o", "state", "-j", ",".join(ids))
        left = show.left()
    finally:
        show.close()
    print(
        f"kills: {len(ids)} submitted in {submitted:.0f} s, {killed} kills, {once} ran once, {twice} twice,"
        f" {dict(Counter(text.split()))}, all {time.monotonic() - begun:.0f} s, left {left}"
    )
    return ended and once == len(set(ids)) == count and not left


def kubelet(rounds: int) -> bool:
    """A kubelet dies under a running job, and comes back."""
    show, good, begun = Show(), 0, time.monotonic()
    script = "#!/bin/sh\necho s $SLURM_JOB_ID >> marks\nsrun sleep 15\necho e $SLURM_JOB_ID >> marks\nexit 4\n"
    try:
        for number in range(rounds):
            job = show.submit(script, "-N2", "--no-requeue")
            _until(lambda job=job: show.state(job) == "RUNNING")
            node = next(node for index, _name, node in show.pods(job) if index == number % 2)
            os.kill(_kubelet_of(node), signal.SIGKILL)
            show.wait()
            state = show.run("sacct", "-n", "-X", "-P", "-o", "state,exitcode", "-j", job).strip()
            marks = show.marks()
            good += state == "FAILED|4:0" and marks[f"s {job}"] == marks[f"e {job}"] == 1
        left = show.left()
    finally:
        show.close()
    print(
        f"kubelet: {rounds} killed under running jobs, {good} jobs went on and ended with their exit code, left {left}, {time.monotonic() - begun:.0f} s"
    )
    return good == rounds and not left


def _kubelet_of(node: str) -> int:
    first = json.loads((FOLDER / "processes.json").read_text())[node][0]
    below = {first}
    for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent in below:
            below.add(int(path.name))
            if _command(int(path.name)).split(b"\0")[0].endswith(b"/kubelet"):
                return int(path.name)
    raise SystemExit(f"no kubelet below process {first} of {node}")


def before(rounds: int) -> bool:
    """A pod is deleted before the start: the job waits again, and runs once."""
    show, good, hit, begun = Show(), 0, 0, time.monotonic()
    ended: Counter[str] = Counter()
    script = (
        "#!/bin/sh\necho s $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} >> marks\nsrun true\necho e $SLURM_JOB_ID >> marks\n"
    )
    try:
        for number in range(rounds):
            job = show.submit(script, "-N2")
            _until(lambda job=job: len(show.pods(job)) == 2)
            time.sleep(number / 6 % 1)
            name = next(name for index, name, _node in show.pods(job) if index == number % 2)
            show.kubectl("-n", show.namespace, "delete", "pod", name, "--wait=false")
            hit += not any(line.startswith(f"s {job} ") for line in show.marks())
            show.wait()
            state = show.run("sacct", "-n", "-X", "-P", "-o", "state", "-j", job).strip()
            ended[state] += 1
            good += state == "COMPLETED" and show.marks()[f"e {job}"] == 1
        # One that had begun is queued again, as after a lost node: that is another run.
        twice = sum(times > 1 for line, times in show.marks().items() if line.startswith("s "))
        left = show.left()
    finally:
        show.close()
    print(
        f"before: {rounds} pods deleted (leader, worker in turn), {hit} before the script ran, {good} COMPLETED, {dict(ended)}, {twice} runs"
        f" began twice, left {left}, {time.monotonic() - begun:.0f} s"
    )
    return good == rounds and not left


def _until(condition: object) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit("it did not come so far in time")
        time.sleep(0.05)


SHOWS = {"gangs": gangs, "kills": kills, "kubelet": kubelet, "before": before}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHOWS or not sys.argv[2].isdigit():
        raise SystemExit(__doc__)
    raise SystemExit(not SHOWS[sys.argv[1]](int(sys.argv[2])))
