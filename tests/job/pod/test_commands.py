"""Our commands inside a pod: only the archive's code, no index, no controller."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.control.backends.kubernetes.objects.bundle import MOST, bundle
from shim.dispatch import MODULES
from shim.inside import alive, client, paths, site
from shim.inside.index.reader import Reader
from tests.job.pod.pods import Pods
from tests.support import wait_until

Maker = Callable[..., Pods]
ROOT = Path(__file__).resolve().parents[3]
_WAIT = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\n"


@pytest.fixture
def running(pods: Maker) -> Pods:
    """Two pods whose script waits for a file ``go``."""
    job = pods(nodes=2, script=_WAIT)
    job.start_all()
    job.line("started")
    wait_until((job.run_dir(1) / "started").exists, "the second pod has started")
    return job


def test_everything_that_commands_import_is_in_the_archive(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(io.BytesIO(bundle().archive)) as outer,
        zipfile.ZipFile(io.BytesIO(outer.read("code.zip"))) as archive,
    ):
        archive.extractall(tmp_path)
    # Imports inside of functions too: every module that is named is loaded.
    names = set()
    for path in tmp_path.rglob("*.py"):
        module = ".".join(path.relative_to(tmp_path).with_suffix("").parts).removesuffix(".__init__")
        if module != "shim.job.pod.boot":
            names.add(module)
        for line in path.read_text().splitlines():
            found = re.match(r" *from (shim[\w.]*) import (\w+)|__import__\(\"(shim[\w.]*)\"", line)
            if found and "TYPE_CHECKING" not in line:
                names.add(found[1] or found[3])
                if (tmp_path / found[1].replace(".", "/") / f"{found[2]}.py").exists():
                    names.add(f"{found[1]}.{found[2]}")
    code = "import sys; sys.path.insert(0, sys.argv[1])\nfor name in sys.argv[2:]: __import__(name)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path), *sorted(names)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_what_commands_ask_of_control_can_be_answered_inside() -> None:
    known = {"client": client, "site": site, "paths": paths, "alive": alive, "reader": Reader}
    missing = set()
    for path in (ROOT / "shim/commands").glob("*.py"):
        text = path.read_text()
        for name, attribute in re.findall(r"\b(client|site|paths|alive|reader)\.([a-z_]+)\(", text):
            if (f"import {name}" in text or name == "reader") and not hasattr(known[name], attribute):
                missing.add(f"{path.name}: {name}.{attribute}")
    assert missing == set()


@pytest.mark.parametrize("index", [0, 1])
def test_squeue_shows_the_job_in_every_pod(running: Pods, index: int) -> None:
    assert running.command("squeue", "-h", "-o", "%i %j %T %D %N", index=index) == "7 job RUNNING 2 slurm-7-[0-1]\n"
    assert running.command("squeue", "-h", "--me", "-t", "PD", index=index) == ""


@pytest.mark.parametrize("words", [("squeue", "--json"), ("sacct", "--json", "-j", "7")])
def test_documents_are_made_in_a_pod_too(running: Pods, words: tuple[str, ...]) -> None:
    (job,) = json.loads(running.command(*words, index=1))["jobs"]
    assert (job["job_id"], job["name"]) == (7, "job")


def test_squeue_and_scontrol_show_steps(running: Pods) -> None:
    step = subprocess.Popen(
        [str(running.root(0) / "run/bin/srun"), "-N2", "sleep", "1000"],
        env={**running.environment, "SHIM_RUN_DIR": str(running.run_dir())},
    )
    running.line("step")
    assert running.command("squeue", "-h", "-s", "-o", "%i %j", index=1) == "7.0 sleep\n7.batch batch\n"
    assert "StepId=7.0" in running.command("scontrol", "show", "step", "7.0", index=1)
    running.command("scancel", "7.0", index=1)
    assert step.wait(60) == 137
    assert running.line("step-end")["state"] == "CANCELLED"


@pytest.mark.parametrize("index", [0, 1])
def test_scancel_ends_the_job_from_any_pod(running: Pods, index: int) -> None:
    running.command("scancel", "7", index=index)
    assert running.ended(0) == 15 + 128
    assert running.ended(1) == 0
    assert running.line("ended")["state"] == "CANCELLED"


def test_other_jobs_are_unknown_here(running: Pods) -> None:
    assert "Invalid job id specified" in running.command("scancel", "-v", "8")
    assert "Invalid job id specified" in running.command("scontrol", "show", "job", "8", code=1)


def test_scontrol_knows_job_nodes_partitions_and_host_names(running: Pods) -> None:
    assert "JobState=RUNNING" in running.command("scontrol", "show", "job", "7")
    assert running.command("scontrol", "show", "hostnames", "slurm-7-[0-1]") == "slurm-7-0\nslurm-7-1\n"
    assert "NodeName=slurm-7-1" in running.command("scontrol", "show", "node", "slurm-7-1")
    assert running.command("sinfo", "-h", "-N", "-o", "%N").split() == ["slurm-7-0", "slurm-7-1"]
    assert "UP" in running.command("scontrol", "ping", index=1)


def test_requeue_is_the_leaders_to_do(running: Pods) -> None:
    running.command("scontrol", "requeue", "7", index=1)
    assert running.line("ended")["state"] == "REQUEUED"
    assert running.ended(0) != 0


def test_the_script_can_be_had(running: Pods) -> None:
    assert running.command("scontrol", "write", "batch_script", "7", "-") == _WAIT


def test_submitting_is_refused_and_says_why(running: Pods) -> None:
    for words in (("sbatch", "--wrap", "true"), ("salloc", "true")):
        said = running.command(*words, code=1)
        assert f"{words[0]}: error:" in said
        assert "jobs on Kubernetes reach no controller from inside" in said
        assert "Traceback" not in said


def test_no_command_fails_for_want_of_a_module(running: Pods) -> None:
    for name in MODULES:
        if name not in ("shim", "scrontab"):  # that one has no such option
            assert "22.05" in running.command(name, "--version")
    for words in (("scrontab", "-l"), ("strigger", "--get")):
        assert "jobs on Kubernetes reach no controller from inside" in running.command(*words, code=1)
    assert "cluster" in running.command("sacctmgr", "-P", "show", "cluster").lower()
    assert "Top 10 Users" in running.command("sreport", "user", "top")
    assert "RawShares" in running.command("sshare")


def test_the_archive_has_room_to_grow() -> None:
    room = MOST - len(bundle().archive)
    assert room >= 30 * 1024, (
        f"the agent's archive has {room} bytes left of the {MOST} that fit a ConfigMap: leave out of it what no pod needs, or pack it "
        "better (shim/control/backends/kubernetes/objects/bundle.py)"
    )
