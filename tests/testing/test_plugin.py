"""What the plugin promises to those who install it, whether they use it or not."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from shim.control.index.query import JobQuery
from shim.core.model.job import Job as Record
from shim.testing import Cluster, NotInTime, SubmitError, Submitted, faults
from tests.testing.test_recipes import ROOT, run

_UNUSED = """
import sys

def test_nothing_is_loaded():
    ours = sorted(name for name in sys.modules if name.startswith("shim") or name == "psutil")
    assert ours == ["shim", "shim.pytest_plugin"]
"""


def test_a_suite_that_does_not_use_it_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_unused.py").write_text(_UNUSED)
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "shim.pytest_plugin")
    assert done.returncode == 0, done.stdout


def test_pytest_finds_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"slurm-shim": "shim.pytest_plugin"}
    assert "pytest" in project["optional-dependencies"]


def test_nothing_is_left(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as slurm:
        slurm.submit("#!/bin/bash\ntrap '' TERM\necho there\nwhile sleep 1; do :; done\n").wait_output("there")
        state = slurm.state_dir
        assert faults.processes(state)
    assert not faults.processes(state)


def test_the_environment_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "mine")
    monkeypatch.setenv("HOME", "/mine")
    with Cluster(tmp_path / "cluster") as slurm:
        assert slurm.run("sh", "-c", "echo ${SBATCH_PARTITION-none} $HOME").stdout == f"none {tmp_path}/cluster/home\n"
    assert slurm.run("sh", "-c", "echo $SBATCH_PARTITION $HOME").stdout == "mine /mine\n"


@pytest.mark.slurm(slurm_conf="site.conf")
class TestOfASite:
    @pytest.fixture
    def slurm_shape(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
        monkeypatch.chdir(tmp_path)
        Path("site.conf").write_text(
            "ClusterName=big\nNodeName=c[1-64] CPUs=128 RealMemory=512000\nPartitionName=batch Nodes=ALL Default=YES MaxTime=60\n"
        )
        return {}

    def test_the_shape_is_the_site_s(self, slurm: Cluster) -> None:
        job = slurm.submit("#!/bin/bash\n", nodes=64).wait()
        assert job.record.cpus == 64
        assert job.nodes[-1] == "c64"
        with pytest.raises(SubmitError, match="CPU count per node can not be satisfied"):
            slurm.submit("#!/bin/bash\n", cpus_per_task=129)


def test_time_is_the_cluster_s_alone(slurm: Cluster) -> None:
    began = time.time()
    job = slurm.submit("#!/bin/bash\n", begin="now+3days")
    assert (job.state, job.reason) == ("PENDING", "BeginTime")
    slurm.advance("3-00:00:00")
    job.wait()
    assert began + 3 * 86400 <= job.record.start_time <= time.time() + 3 * 86400
    line = slurm.run("sacct", "-nX", "-o", "state,elapsed").stdout.split()
    assert line[0] == "COMPLETED"
    assert time.time() - began < 3600
    with Cluster(slurm.folder / "another") as other:
        assert other.submit("#!/bin/bash\n").wait().record.start_time < began + 3600


def test_a_day_of_a_recurring_job(slurm: Cluster) -> None:
    table = slurm.folder / "table"
    table.write_text("#SCRON --output=runs.%j --open-mode=append\n@hourly echo $SLURM_RESTART_COUNT; exit 2\n")
    assert slurm.run("scrontab", str(table)).stderr == ""

    def record() -> Record:
        return slurm.records(JobQuery())[0]

    job_id = record().job_id
    for hours in range(1, 25):
        slurm.advance(3600)
        slurm.until(lambda hours=hours: record().restarts == hours, lambda: f"it has run {record().restarts} times")
    assert (record().state, record().exit_status, record().job_id) == ("PENDING", 512, job_id)
    runs = (slurm.folder / "home" / f"runs.{job_id}").read_text().split()
    assert runs == [str(number) for number in range(1, 24)]
    slurm.run("scancel", str(job_id))
    assert slurm.run("scrontab", "-l").stdout.startswith("#DISABLED: #SCRON --output")


def test_a_limit_passes_while_no_controller_lives(slurm: Cluster) -> None:
    """The agents keep the time themselves."""
    job = slurm.submit("#!/bin/bash\necho there\nsleep 1000\n", time="1-00:00:00").wait_output("there")
    slurm.run("shim", "controller", "stop", "--now")
    slurm.advance("1-00:00:00")
    assert job.wait().state == "TIMEOUT"
    assert job.record.end_time - job.record.start_time >= 86400


def test_kill_wait_passes_too(slurm: Cluster) -> None:
    job = slurm.submit("#!/bin/bash\ntrap 'echo not I' TERM\necho there\nwhile :; do sleep 0.05; done\n", time="1")
    job.wait_output("there")
    slurm.advance("1")
    job.wait_output("not I")
    slurm.advance(30)
    assert job.wait().state == "TIMEOUT"


def test_a_step_has_a_limit_of_its_own(slurm: Cluster) -> None:
    job = slurm.submit("#!/bin/bash\nsrun --time=10 bash -c 'echo there; sleep 1000'\necho after\n").wait_output(
        "there"
    )
    slurm.advance("10")
    job.wait_output("after").wait()
    assert job.steps[0].state == "TIMEOUT"


def test_a_node_crashes(slurm: Cluster) -> None:
    job = slurm.submit("#!/bin/bash\nsrun bash -c 'echo there; sleep 1000'\n", nodes=2, no_requeue=True)
    job.wait_output("there", times=2)
    slurm.node_crash(job.nodes[1])
    assert job.wait().state == "NODE_FAIL"
    with pytest.raises(LookupError):
        slurm.node_crash("node4")


def test_a_job_is_preempted(slurm: Cluster) -> None:
    script = "#!/bin/bash\nsrun bash -c 'trap \"echo asked; exit\" TERM; echo there; while :; do sleep 0.05; done'\nsleep 1000\n"
    job = slurm.submit(script, requeue=True, open_mode="append").wait_output("there")
    slurm.preempt(job, grace=60)
    job.wait_restarted()
    assert "asked" in job.output
    last = slurm.submit(script, requeue=False, no_requeue=True).wait_output("there")
    slurm.preempt(last)
    assert last.wait().state == "CANCELLED"


def test_memory_runs_out(slurm: Cluster) -> None:
    job = slurm.submit("#!/bin/bash\nsleep 1000\n", mem="50M").wait_for("RUNNING")
    slurm.oom(job)
    slurm.until(lambda: [step.state for step in job.steps] == ["OUT_OF_MEMORY"], lambda: str(job.steps))
    unlimited = slurm.submit("#!/bin/bash\nsleep 1000\n").wait_for("RUNNING")
    with pytest.raises(ValueError, match="no limit of memory"):
        slurm.oom(unlimited)


def test_a_failure_says_how_things_stand(slurm: Cluster) -> None:
    job = slurm.submit("#!/bin/bash\necho the last words\nexit 3\n").wait()
    assert (job.state, job.exit_code, job.signal) == ("FAILED", 3, 0)
    with pytest.raises(NotInTime, match=r"(?s)it is not RUNNING: job 1 is FAILED.*the last words"):
        job.wait_for("RUNNING")


def test_what_sbatch_says() -> None:
    told = Submitted()
    assert told == "Submitted batch job 12\n"
    assert told.job_id == 12
    assert told != "Submitted batch job 13\n"
    assert Submitted(cluster="far") == "Submitted batch job 12 on cluster far\n"
    assert Submitted(cluster="far") != "Submitted batch job 12\n"
    for text in ("submitted batch job 12", "Submitted batch job 12\n\n", "x Submitted batch job 12", ""):
        assert Submitted() != text


def test_a_cluster_without_jobs_has_no_process(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", nodes="n[1-2]", partitions={"a": {}, "b": {"default": True}}) as slurm:
        assert slurm.run("sinfo", "-h", "-o", "%P %N").stdout == "a n[1-2]\nb* n[1-2]\n"
        assert slurm.records(JobQuery()) == []
        assert not faults.processes(slurm.state_dir)
