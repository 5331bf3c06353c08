"""A local cluster and two real Slurms made of small scripts, through the launchers: one queue, one view each, jobs ended where they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.backends.slurm.fake import TELLS, Site
from tests.control.controller import processes
from tests.support import wait_until

CONFIG = """
default = "local"
[clusters.local]
nodes = 1
cpus = 2
[clusters.hpc]
backend = "slurm"
bin = "{real}"
timeout = {timeout}
[clusters.far]
backend = "slurm"
bin = "{far}"
"""
# Has one job, and a queue of one line; says how it was called on the file "calls".
SQUEUE = """#!/bin/sh
echo "{name} squeue $*" >> {calls}
case "$*" in
*--jobs={job}*) echo {job}; exit 0 ;;
*--jobs=*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
esac
case "$*" in *--noheader*) ;; *) case "$*" in *--long*) date ;; esac; echo "HEADER OF {name}" ;; esac
echo "{job} job of {name}"
"""
NOTED = """#!/bin/sh
echo "{name} ${{0##*/}} $*" >> {calls}
echo "{name} ${{0##*/}} $*"
"""


class Two(Site):
    """hpc is in ``real``, far in ``far``."""

    def __init__(self, folder: Path, timeout: int = 20) -> None:
        super().__init__(folder)
        self.far = folder / "far"
        self.far.mkdir()
        self.calls = folder / "calls"
        for name, place in (("hpc", self.real), ("far", self.far)):
            for command in ("sinfo", "sacct", "scancel", "scontrol"):
                self.script(place / command, NOTED.format(name=name, calls=self.calls))
            self.script(place / "squeue", SQUEUE.format(name=name, job=7 if name == "hpc" else 8, calls=self.calls))
        self.configure(CONFIG.format(real=self.real, far=self.far, timeout=timeout))

    def said(self, *words: str, code: int = 0, **environ: str) -> tuple[list[str], list[str]]:
        """The lines on stdout and stderr."""
        done = self.run(*words, environ=environ)
        assert done.returncode == code, done
        return done.stdout.decode().splitlines(), done.stderr.decode().splitlines()

    def called(self) -> list[str]:
        """The calls of real commands since the last look, sorted: they are made at once."""
        found = sorted(self.calls.read_text().splitlines()) if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return found


@pytest.fixture
def two(tmp_path: Path, state_dir: Path) -> Iterator[Two]:
    with processes.ended_afterwards():
        yield Two(tmp_path)


def held(two: Two) -> int:
    """A job that waits on the local cluster."""
    out, _ = two.said("sbatch", "--parsable", "-H", "-J", "mine", "-o", "/dev/null", "--wrap", "true")
    return int(out[0])


def test_one_queue_has_the_jobs_of_all(two: Two) -> None:
    job = held(two)
    assert job == 100_000_000, "above all ids of a real Slurm"
    out, err = two.said("squeue", "-o", "%i %j", "-S", "i")
    assert (out, err) == (["JOBID NAME", f"{job} mine", "7 job of hpc", "8 job of far"], [])
    assert two.called() == [f"{name} squeue --format=%i %j --sort=i --noheader" for name in ("far", "hpc")]
    assert two.said("squeue", "-h", "-o", "%i")[0] == [str(job), "7 job of hpc", "8 job of far"]


def test_each_cluster_under_its_title(two: Two) -> None:
    out, _ = two.said("squeue", "-M", "hpc,local", "-o", "%i")
    assert out == ["CLUSTER: hpc", "HEADER OF hpc", "7 job of hpc", "", "CLUSTER: local", "JOBID"]
    assert two.called() == ["hpc squeue --format=%i"]
    assert two.said("squeue", "-hM", "there", "-o", "%i")[0] == ["7 job of hpc"], "what it calls itself"
    assert two.said("squeue", SLURM_CLUSTERS="far")[0] == ["CLUSTER: far", "HEADER OF far", "8 job of far"]
    long, _ = two.said("squeue", "-l", "-M", "hpc")
    assert (long[1:], len(long)) == (["CLUSTER: hpc", "HEADER OF hpc", "7 job of hpc"], 4)
    assert two.said("squeue", "-h", "-M", "hpc,far")[0] == ["hpc        7 job of hpc", "far        8 job of far"]


def test_a_job_of_another_cluster_is_no_mistake(two: Two) -> None:
    job = held(two)
    two.called()
    assert two.said("squeue", "-h", f"-j{job}", "-o", "%i") == ([str(job)], [])
    assert two.said("sacct", "-nXP", "-j", str(job), "-o", "jobid") == ([str(job)], [])
    assert two.called() == [], "nobody else need be asked"
    assert two.said("squeue", "-h", "-j7", "-o", "%i") == (["7"], [])
    out, err = two.said("squeue", "-h", "-j99", code=1)
    assert (out, err) == ([], ["slurm_load_jobs error: Invalid job id specified"])


def test_a_cluster_that_fails_or_is_silent_hides_no_other(tmp_path: Path, state_dir: Path) -> None:
    two = Two(tmp_path, timeout=1)
    pid = tmp_path / "pid"
    two.script(two.real / "squeue", f"#!/bin/sh\necho $$ > {pid}\nsleep 300\n")
    two.script(two.far / "squeue", "#!/bin/sh\necho 'squeue: error: no way' >&2\nexit 3\n")
    out, err = two.said("squeue", "-o", "%i", code=1)
    assert out == ["JOBID"]
    assert err == ["squeue: error: hpc: no answer within 1 s", "squeue: error: far: no way"]
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    (two.far / "squeue").unlink()
    _, err = two.said("squeue", "-M", "far", code=1)
    assert err[0].startswith(f"squeue: error: far: no real squeue: {two.far}/squeue is not there")


def test_sinfo_and_sacct_ask_all(two: Two) -> None:
    assert two.said("sinfo", "-o", "%P") == (
        ["PARTITION", "debug*", "hpc sinfo --format=%P --noheader", "far sinfo --format=%P --noheader"],
        [],
    )
    assert two.said("sinfo", "-T")[0] == ["hpc sinfo --reservation", "far sinfo --reservation --noheader"]
    assert two.said("sinfo", "-T", "-M", "local")[0] == ["No reservations in the system"]
    two.called()
    out, _ = two.said("sacct", "-X", "-P", "-o", "jobid")
    assert out == [
        "JobID",
        *(f"{name} sacct --allocations --parsable2 --format=jobid --noheader" for name in ("hpc", "far")),
    ]
    assert two.said("sacct", "-M", "hpc")[0] == ["hpc sacct "]
    assert len(two.said("sacct", "-L", "-nX")[0]) == 2


def test_a_site_without_accounting_is_no_failure(two: Two) -> None:
    two.script(two.real / "sacct", "#!/bin/sh\necho Slurm accounting storage is disabled >&2\nexit 1\n")
    out, err = two.said("sacct", "-nX")
    assert (out, err) == (
        ["far sacct --allocations --noheader"],
        ["sacct: hpc: Slurm accounting storage is disabled: these are the jobs that were submitted from here"],
    )


def test_scancel_goes_where_the_job_is(two: Two) -> None:
    job = held(two)
    two.said("scancel", "7")
    assert "hpc scancel 7" in two.called()
    two.said("scancel", "-s", "USR1", "8", "7", str(job), code=1)  # ours waits: it can only be killed
    assert [line for line in two.called() if "scancel" in line] == [
        "far scancel --signal=USR1 8",
        "hpc scancel --signal=USR1 7",
    ]
    two.said("scancel", str(job))
    assert two.called() == []
    assert two.said("squeue", "-h", "-M", "local")[0] == []
    two.said("scancel", "-M", "far", "-Q", "5")
    assert two.called() == ["far scancel --quiet 5"]
    second = held(two)
    two.said("scancel", "-n", "mine")
    assert two.called() == ["far scancel --name=mine", "hpc scancel --name=mine"]
    assert two.said("squeue", "-h", "-M", "local", f"-j{second}")[0] == []


def test_scontrol_shows_and_acts_where_the_job_is(two: Two) -> None:
    job = held(two)
    two.called()
    out, _ = two.said("scontrol", "-o", "show", "jobs")
    assert out[0].startswith(f"JobId={job} ")
    assert out[1:] == [f"{name} scontrol --oneliner show jobs" for name in ("hpc", "far")]
    assert two.said("scontrol", "show", "job", "7")[0] == ["hpc scontrol show job 7"]
    assert two.said("scontrol", "show", "job", str(job))[0][0] == f"JobId={job} JobName=mine"
    assert two.said("scontrol", "show", "partition", "debug")[0][0] == "PartitionName=debug"
    assert two.said("scontrol", "show", "partition", "batch")[0] == [
        f"{name} scontrol show partition batch" for name in ("hpc", "far")
    ]
    assert two.said("scontrol", "update", "jobid=8", "name=x")[0] == ["far scontrol update jobid=8 name=x"]
    assert two.said("scontrol", "-M", "hpc", "ping")[0] == ["hpc scontrol ping"]
    assert two.said("scontrol", "hold", f"7,{job}")[0] == ["hpc scontrol hold 7"]
    _, err = two.said("scontrol", "update", f"jobid=7,{job}", "name=x", code=1)
    assert err == ["scontrol: error: these jobs are on several clusters: one command for each of them, or -M"]
    assert two.said("scontrol", "show", "hostnames", "n[1-2]")[0] == ["n1", "n2"]
    assert two.said("scontrol", "hold", str(job)) == ([], [])  # released it would run after the test


def test_only_real_slurms_bring_their_own_header(two: Two) -> None:
    two.configure(
        f'default = "hpc"\n[clusters.hpc]\nbackend = "slurm"\nbin = "{two.real}"\n'
        f'[clusters.far]\nbackend = "slurm"\nbin = "{two.far}"\n'
    )
    assert two.said("squeue")[0] == ["HEADER OF hpc", "7 job of hpc", "8 job of far"]
    assert two.said("scontrol", "ping")[0] == ["hpc scontrol ping"]
    assert two.said("scontrol", "show", "config")[0] == ["hpc scontrol show config"]


def test_scripts_are_not_wrapped_around_us(two: Two) -> None:
    """A wrapper that calls us back is found out: TELLS stands for the program behind it."""
    two.script(two.real / "squeue.real", TELLS)
    two.script(two.real / "squeue", '#!/bin/sh\nexec "$0.real" "$@"\n')
    assert two.said("squeue", "-h", "-M", "hpc")[0] == ["real squeue.real [--noheader]"]


def test_nobody_waits_for_the_job_of_another_slurm(two: Two) -> None:
    two.script(two.real / "sbatch", "#!/bin/sh\necho Submitted batch job 71\n")
    job = held(two)
    assert two.said("sbatch", "-M", "hpc", "--wrap", "true")[0] == ["Submitted batch job 71"]
    wait_until(two.rows, "its row")
    _, err = two.said("sbatch", "-M", "local", "-d", "afterok:71", "--wrap", "true", code=1)
    assert err == [
        "sbatch: error: job 71 is on hpc, a real Slurm: nothing here waits for it",
        "sbatch: error: Batch job submission failed: Job dependency problem",
    ]
    _, err = two.said("sbatch", "-M", "hpc", "-d", f"afterok:71,afterany:{job}", "--wrap", "true", code=1)
    assert err == [
        f"sbatch: error: --dependency=afterok:71,afterany:{job}: job {job} is on local, of which hpc knows nothing"
    ]
    assert two.said("sbatch", "-M", "hpc", "-d", "afterok:71", "--wrap", "true")[0] == ["Submitted batch job 71"]
    _, err = two.said("scontrol", "update", f"JobId={job}", "Dependency=afterok:71", code=1)
    assert err == [
        "scontrol: error: job 71 is on hpc, a real Slurm: nothing here waits for it",
        f"Job dependency problem for job {job}",
    ]
    assert two.said("squeue", "-hj", str(job), "-o", "%E")[0] == ["(null)"]
    for words in (["update", "JobId=71"], ["-M", "hpc", "update", "job", "71"]):
        _, err = two.said("scontrol", *words, f"depend=afterany:{job}", code=1)
        assert err == [f"scontrol: error: depend=afterany:{job}: job {job} is on local, of which hpc knows nothing"]
    assert two.said("scontrol", "update", "JobId=71", "Dependency=afterany:7")[0] == [
        "hpc scontrol update JobId=71 Dependency=afterany:7"
    ]
    _, err = two.said("sbatch", "-M", "local,hpc", "--wrap", "true", code=1)
    assert err == ["sbatch: error: --clusters=local,hpc: hpc is a real Slurm, which can only be named alone"]


def test_what_a_real_command_says_of_itself_is_no_error(two: Two) -> None:
    lines = ["scancel: plugin loaded", "scancel: error: no way", "fatal: bad", "some_call error: why"]
    text = "".join(f"echo '{line}' >&2\n" for line in lines)
    two.script(two.real / "scancel", f"#!/bin/sh\n{text}exit 1\n")
    _, err = two.said("scancel", "-n", "nosuch", code=1)
    assert err[-4:] == [
        "scancel: hpc: plugin loaded",
        "scancel: error: hpc: no way",
        "scancel: error: hpc: bad",
        "scancel: error: hpc: some_call error: why",
    ]
