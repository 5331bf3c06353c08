"""sacct where a real Slurm keeps no accounting: its jobs that were submitted here, by what it says of them and said before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.core.model import slurm_job_snapshots
from tests.commands.test_real_slurm import Two
from tests.control.controller import processes
from tests.support import wait_until

NOTE = "sacct: hpc: Slurm accounting storage is disabled: these are the jobs that were submitted from here"
DISABLED = "#!/bin/sh\necho Slurm accounting storage is disabled >&2\nexit 1\n"


@pytest.fixture
def two(tmp_path: Path, state_dir: Path) -> Iterator[Two]:
    with processes.ended_afterwards():
        two = Two(tmp_path)
        for name, job in (("hpc", 71), ("far", 81)):
            folder = two.real if name == "hpc" else two.far
            two.script(folder / "sbatch", f"#!/bin/sh\necho Submitted batch job {job}\n")
        two.script(two.real / "sacct", DISABLED)
        two.script(two.far / "sacct", "#!/bin/sh\necho line of far\n")
        for name in ("hpc", "far"):
            two.said("sbatch", "-M", name, "-J", f"on-{name}", "--wrap", "true")
        wait_until(lambda: len(two.rows()) == 2, "rows of both")
        yield two


def says(two: Two, code: int, **fields: str) -> None:
    """What squeue of hpc answers."""
    given = {"JobID": "71", "ArrayJobID": "71", "EligibleTime": "60", "NumNodes": "1", "NumCPUs": "2", **fields}
    columns = [word.split(":") for word in slurm_job_snapshots.FORMAT.split(",")]
    text = "".join(given.get(name, "N/A").ljust(int(width)) for name, width in columns) if fields else ""
    (two.folder / "answer").write_text(text + "\n")
    two.script(
        two.real / "squeue",
        f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $*" >> {two.calls}\ncat {two.folder}/answer\nexit {code}\n',
    )


def listed(two: Two, *words: str, code: int = 0) -> tuple[list[str], list[str]]:
    return two.said("sacct", "-P", "-X", "-o", "jobid,jobname,state,exitcode,nodelist", *words, code=code)


def test_jobs_as_they_are_and_as_they_were_seen(two: Two) -> None:
    says(two, 0, State="RUNNING", StartTime="100", NodeList="n[1-2]")
    ours = two.said("sbatch", "--parsable", "--wait", "-J", "mine", "-o", "/dev/null", "--wrap", "true")[0][0]
    node = two.said("sinfo", "-hNM", "local", "-o", "%N")[0][-1]
    header = "JobID|JobName|State|ExitCode|NodeList"
    own = f"{ours}|mine|COMPLETED|0:0|{node}"
    assert listed(two) == ([header, own, "71|on-hpc|RUNNING|0:0|n[1-2]", "line of far"], [NOTE])
    (call,) = (call for call in two.called() if "--Format" in call)
    assert call == f"%s --noheader --states=all --jobs=71 --Format={slurm_job_snapshots.FORMAT}"

    says(two, 0, State="FAILED", StartTime="100", EndTime=str(int(time.time()) + 9), exit_code="768", NodeList="n1")
    assert listed(two, "-M", "hpc") == ([header, "71|on-hpc|FAILED|3:0|n1"], [NOTE])
    wait_until(lambda: two.rows()[0].state == "FAILED", "what was seen is kept")
    says(two, 0, State="RUNNING")
    assert listed(two, "-nM", "hpc", "-j71")[0] == ["71|on-hpc|FAILED|3:0|n1"], "an end is an end"


def test_what_nobody_knows_any_more_is_said_to_be_so(two: Two) -> None:
    says(two, 1)
    two.script(two.real / "squeue", "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")
    row = ["71|on-hpc|PENDING|0:0|None assigned"]
    gone = "sacct: hpc: what became of 71 is not known: shown as seen last"
    assert listed(two, "-nM", "hpc") == (row, [NOTE, gone])
    wait_until(lambda: two.rows()[0].system_comment, "that is kept")
    says(two, 0, State="RUNNING")
    assert listed(two, "-nM", "hpc") == (row, [NOTE, gone]), "and it is not asked again"


def test_a_slurm_that_does_not_answer(two: Two) -> None:
    two.script(two.real / "squeue", "#!/bin/sh\necho no way >&2\nexit 1\n")
    out, err = listed(two, "-nM", "hpc", code=1)
    assert out == ["71|on-hpc|PENDING|0:0|None assigned"]
    assert err == [NOTE, "sacct: error: hpc: no way: its jobs are shown as they were seen last"]


def test_only_what_is_asked_for(two: Two) -> None:
    says(two, 0, State="RUNNING", StartTime="100", NodeList="n1")
    for words in (["-j", "72"], ["--name", "other"], ["-s", "PD"], ["-u", "nobody"], ["-r", "other"]):
        assert listed(two, "-nM", "hpc", *words)[0] == [], words
    for words in (["-j", "71"], ["--name", "on-hpc"], ["-s", "R"]):
        assert len(listed(two, "-nM", "hpc", *words)[0]) == 1, words
