"""shim move to a real Slurm made of small scripts: submitted once, released once, whoever is killed on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.backends.slurm.fake import ROOT, Site
from tests.control.controller import processes

# sbatch keeps each submission on a line of "jobs": id, comment, and how it was called; what else is called is on "calls".
SBATCH = """#!/bin/sh
for word; do
    case $word in --comment=*) mark=${{word#*=}} ;; esac
    last=$word
done
id=$((77 + $(wc -l < {folder}/jobs)))
echo "$id|$mark|$PWD|$MINE|$*" >> {folder}/jobs
cp "$last" {folder}/script
{then}
echo $id
"""
SQUEUE = """#!/bin/sh
case "$*" in *--format=%r*) cat {folder}/reason ;; *) cut -d'|' -f1,2 {folder}/jobs ;; esac
"""
MOVE = """
import sys
from shim.admin import move
from shim.core.errors import ShimError
try:
    move.report(*sys.argv[1:], sys.stdout)
except ShimError as error:
    sys.exit("\\n".join(error.lines))
"""
NOTED = '#!/bin/sh\necho "${{0##*/}} $*" >> {folder}/calls\n{then}\n'


class There(Site):
    """A local cluster whose nodes are taken, and the real Slurm ``hpc``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "jobs").touch()
        (folder / "reason").write_text("JobHeldUser\n")
        self.behave("sbatch")
        self.behave("scontrol")
        self.behave("scancel")
        self.script(self.real / "squeue", SQUEUE.format(folder=folder))
        self.configure(
            f'default = "local"\n[clusters.local]\n[clusters.hpc]\nbackend = "slurm"\nbin = "{self.real}"\n'
            "[clusters.hpc.partitions.batch]\n"
        )

    def behave(self, program: str, then: str = "") -> None:
        """What the program does at its end."""
        text = SBATCH if program == "sbatch" else NOTED
        self.script(self.real / program, text.format(folder=self.folder, then=then))

    def submit(self, *options: str) -> int:
        """A job of ours that waits."""
        far = "now+1day"
        out = self.run(
            "sbatch",
            "--parsable",
            "-b",
            far,
            "-o",
            "/dev/null",
            *options,
            "--wrap",
            "echo here",
            environ={"MINE": "yes"},
        )
        return int(out.stdout)

    def move(self, job: int, cluster: str = "hpc") -> tuple[int, str, str]:
        """``shim move`` in a process of its own, without the command line."""
        done = self.run(sys.executable, "-c", MOVE, str(job), cluster, environ={"PYTHONPATH": str(ROOT)})
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def jobs(self) -> list[list[str]]:
        """What was submitted there."""
        return [line.split("|") for line in (self.folder / "jobs").read_text().splitlines()]

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def shown(self, job: int, form: str) -> str:
        return self.run("sacct", "-nPX", "-M", "local", "-j", str(job), "-o", form).stdout.decode().strip()


@pytest.fixture
def there(tmp_path: Path, state_dir: Path) -> Iterator[There]:
    with processes.ended_afterwards():
        yield There(tmp_path)


RELEASED = ["scontrol update JobId=77 Comment=own words", "scontrol release 77"]


def test_it_is_submitted_held_and_released_when_it_has_ended_here(there: There) -> None:
    job = there.submit(
        "-J", "name", "-N2", "-n", "3", "--mem=1G", "-p", "debug", "--comment=own words", "-t", "1:00:00"
    )
    code, out, err = there.move(job)
    assert (code, err) == (0, "")
    assert out == (
        f"job {job} is on cluster hpc as job 77\n  --partition=debug: not on hpc; its default partition is used\n"
    )
    ((_id, mark, folder, mine, words),) = there.jobs()
    assert (folder, mine) == (str(there.folder), "yes")
    assert len(mark) == 16
    wanted = "--hold --job-name=name --nodes=2-2 --ntasks=3 --mem=1024M --time=60 --parsable"
    assert set(wanted.split()) <= set(words.split())
    assert "--partition" not in words
    assert (there.folder / "script").read_text().endswith("echo here\n")
    assert there.calls() == RELEASED
    assert there.shown(job, "state,comment").startswith("CANCELLED by ")
    assert there.shown(job, "comment") == "moved to hpc as job 77"
    assert [(row.cluster, row.job_id, row.name) for row in there.rows()] == [("hpc", 77, "name")]
    assert there.run("squeue", "-h", "-M", "local").stdout == b""


def test_killed_after_the_submission_it_is_found_there(there: There) -> None:
    there.behave("sbatch", "kill -9 $PPID")
    job = there.submit("--comment=own words")
    assert there.move(job)[0] == -9
    assert there.shown(job, "state,reason") == "PENDING|JobHeldAdmin"
    refused = there.run("scontrol", "release", str(job))
    assert refused.stderr.decode().startswith(f"Job is being moved to another cluster for job {job}\n")
    assert there.calls() == []
    assert there.move(job)[:2] == (0, f"job {job} is on cluster hpc as job 77\n")
    assert len(there.jobs()) == 1
    assert there.calls() == RELEASED
    assert there.shown(job, "state").startswith("CANCELLED by ")


def test_killed_before_the_release_it_is_released_by_the_next(there: There) -> None:
    there.behave("scontrol", "kill -9 $PPID")
    job = there.submit("--comment=own words")
    there.move(job)
    assert there.shown(job, "comment") == "moved to hpc as job 77"
    assert there.calls() == RELEASED[:1]
    there.behave("scontrol")
    assert there.move(job)[:2] == (0, f"job {job} is on cluster hpc as job 77\n")
    assert (len(there.jobs()), there.calls()[1:]) == (1, RELEASED)
    (there.folder / "reason").write_text("Resources\n")
    assert there.move(job)[0] == 0
    assert len(there.calls()) == 3, "it runs already"


def test_what_is_refused_there_stays_as_it_was(there: There) -> None:
    there.behave("sbatch", "echo 'sbatch: error: Batch job submission failed: no' >&2; exit 1")
    job = there.submit()
    code, out, err = there.move(job)
    assert (code, out, err) == (1, "", "error: hpc: Batch job submission failed: no\n")
    assert there.shown(job, "state,reason") == "PENDING|BeginTime"
    held = there.submit("-H")
    there.move(held)
    assert there.shown(held, "state,reason") == "PENDING|JobHeldUser"


def test_a_job_on_its_way_can_be_taken_back(there: There) -> None:
    there.behave("sbatch", "kill -9 $PPID")
    job = there.submit()
    there.move(job)
    assert there.move(job, "local")[0] == 0
    assert there.shown(job, "state,reason") == "PENDING|BeginTime"
    assert there.calls() == [], "what was submitted there stays held"


def test_one_that_was_cancelled_meanwhile_is_cancelled_there(there: There) -> None:
    job = there.submit()
    there.behave("sbatch", f"{Path(there.environ['PATH'].split(':')[0]) / 'scancel'} {job} 2>&1")
    code, _, err = there.move(job)
    assert (code, err) == (1, f"error: only a pending job can be moved: {job} is CANCELLED\n")
    assert there.calls() == ["scancel 77"]


def test_what_cannot_go_is_said(there: There) -> None:
    first = there.submit()
    chained = there.submit("-d", f"afterok:{first}")
    code, _, err = there.move(chained)
    assert (code, err) == (1, f"error: job {chained} depends on other jobs here: they are not known on hpc\n")
    assert there.move(first)[0] == 0
    assert there.move(77, "local") == (
        1,
        "",
        "error: job 77 is on hpc, a real Slurm: jobs are moved to one, not away from it\n"
        f"error: to run it elsewhere, cancel it and submit it again: {there.rows()[0].submit_line}\n",
    )
