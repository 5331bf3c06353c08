"""sstat, seff and sprio, of jobs that nobody runs."""

from __future__ import annotations

import pytest

from shim.core.model.job import Step
from shim.core.model.usage import Spread, Usage
from tests import reference
from tests.commands.conftest import World
from tests.commands.test_sacct import ended

EMPTY = "jobid,ntasks"


@pytest.fixture
def past(world: World) -> World:
    world.index(
        [ended(7, "COMPLETED", usage=Usage(user=30, system=2.5), request=reference.request(name="job", kind="batch"))]
    )
    return world


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("", "error: You didn't give me any jobs to stat."),
        ("-j ,", "error: You didn't give me any jobs to stat."),
        ("-j foo", "fatal: Bad job/step specified: foo"),
        ("-j -1", "fatal: Bad job/step specified: -1"),
        ("-j 7.foo", "fatal: Bad step specified: 7"),
        ("-j 7.batch.0", "fatal: Bad step specified: 7"),
        ("-j 7 -o bogus", 'error: Invalid field requested: "bogus"'),
        ("-j 7 -o all", 'error: Invalid field requested: "all"'),
        ("-j 7 -x", "invalid option -- 'x'"),
        ("--bogus", "unrecognized option '--bogus'"),
    ],
)
def test_what_sstat_does_not_understand(past: World, argv: str, said: str) -> None:
    result = past.run("sstat", *argv.split())
    assert (result.code, result.out, result.err) == (1, "", f"sstat: {said}\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("-j 99", "error: couldn't get steps for job 99"),
        ("99", "error: couldn't get steps for job 99"),
        ("-j 0", "error: No steps running for job 0"),
        ("-j 7", "error: No steps running for job 7"),
        ("-a -j 7", "error: No steps running for job 7"),
        ("-j 7.0", "error: StepId=7.0 not found running."),
        ("-j 7.extern", "error: StepId=7.extern not found running."),
    ],
)
def test_what_does_not_run_has_no_line(past: World, argv: str, said: str) -> None:
    result = past.run("sstat", "-o", "jobid%6,ntasks", *argv.split())
    assert (result.code, result.err) == (0, f"sstat: {said}\n")
    assert result.lines == [" JobID   NTasks ", "------ -------- "]


def test_the_fields_of_sstat(past: World) -> None:
    names = " ".join(past.run("sstat", "-e").lines).split()
    assert (len(names), names[0], names[-1]) == (51, "AveCPU", "TRESUsageOutTot")


def test_seff_tells_how_much_was_used(past: World) -> None:
    found = ended(8, "COMPLETED", request=reference.request(name="job", kind="batch"))
    step = Step(
        job_id=8,
        name="a.out",
        state="COMPLETED",
        tasks=2,
        usage=Usage(user=3, system=1, memory=Spread(total=1 << 20, most=600 << 10)),
    )
    past.index([found], {8: [step]})
    lines = past.run("seff", "8").lines
    assert lines[0] == "Job ID: 8"
    assert "State: COMPLETED (exit code 0)" in lines
    assert "CPU Utilized: 00:00:04" in lines
    assert "Memory Utilized: 1.17 GB (estimated maximum)" in lines
    assert past.run("seff", "-d", "8").lines[0].startswith("Slurm data: JobID ArrayJobID User Group State")


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [(["99"], 2, "Job not found."), (["x"], 2, "Job not found."), ([], 1, "Usage: seff [Options] <Jobid>")],
)
def test_seff_without_a_job(past: World, argv: list[str], code: int, said: str) -> None:
    result = past.run("seff", *argv)
    assert (result.code, result.err) == (code, f"{said}\n")


BASIC = (
    "You are not running a supported priority plugin\n(priority/basic).\nOnly 'priority/multifactor' is supported.\n"
)


@pytest.mark.parametrize(
    ("argv", "out", "err"),
    [
        ("", "", BASIC),
        ("-j", "", BASIC),
        ("-j 1,2 -n", "", BASIC),
        ("-j abc", "", "sprio: error: Invalid job id: abc\n"),
        ("-j=", "", "sprio: error: Invalid job id: =\n"),
        ("-u nobodyx", "", f"sprio: error: Invalid user: nobodyx\n\n{BASIC}"),
        ("--bogus", "", "sprio: unrecognized option '--bogus'\nTry \"sprio --help\" for more information\n"),
        (
            "extra",
            "Usage: sprio [-j jid[s]] [-u user_name[s]] [-o format] [-p partitions]\n"
            "   [--federation] [--local] [--sibling] [--usage] [-hlnvVw]\n",
            "sprio: error: Unrecognized option: extra\n",
        ),
    ],
)
def test_sprio_knows_no_factors(past: World, argv: str, out: str, err: str) -> None:
    result = past.run("sprio", *argv.split())
    assert (result.code, result.out, result.err) == (1, out, err)
