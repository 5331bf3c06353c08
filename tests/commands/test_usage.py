"""sstat, seff and sprio, of jobs that nobody runs; sdiag, of a controller."""

from __future__ import annotations

import pytest

from shim.control import client
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


STATS = {
    "now": 1_000_000_120.0,
    "since": 1_000_000_000.0,
    "serving": 1,
    "orders": 2,
    "jobs": {"submitted": 5, "started": 4, "completed": 3, "canceled": 1, "failed": 0},
    "pending": 1,
    "running": 0,
    "cycles": {"last": 20, "most": 90, "count": 10, "total": 300, "depth": 20, "queue": 1},
    "backfilled": 1,
    "components": 0,
    "latency": 40,
    "operations": {"submit": [5, 1000], "hold": [1, 400], "update": [1, 500], "wait": [1, 10], "stats": [1, 5]},
    "users": {"0": [8, 1915], "4000000": [1, 3]},
}


def _diagnosed(past: World, monkeypatch: pytest.MonkeyPatch, *argv: str) -> list[str]:
    monkeypatch.setattr(client, "call", lambda op, fields=None, **_: STATS if op == "stats" else {})
    result = past.run("sdiag", *argv)
    assert (result.code, result.err) == (0, "")
    return result.lines


def test_sdiag_shows_what_the_controller_counted(past: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _diagnosed(past, monkeypatch)
    assert lines[1:3] == [
        "sdiag output at Sun Sep  9 01:48:40 2001 (1000000120)",
        "Data since      Sun Sep  9 01:46:40 2001 (1000000000)",
    ]
    for line in (
        "Jobs submitted: 5",
        "Jobs canceled:  1",
        "Jobs pending:   1",
        "\tMean cycle:   30",
        "\tMean depth cycle:  2",
        "\tCycles per minute: 5",
        "\tTotal backfilled jobs (since last slurm start): 1",
        "\tREQUEST_UPDATE_JOB                      ( 3001) count:2      ave_time:450    total_time:900",
        "\t4000000         ( 4000000) count:1      ave_time:3      total_time:3",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("-a", "SUBMIT_BATCH_JOB UPDATE_JOB WAIT STATS_INFO"),
        ("-i", "WAIT STATS_INFO UPDATE_JOB SUBMIT_BATCH_JOB"),
        ("-t", "SUBMIT_BATCH_JOB UPDATE_JOB WAIT STATS_INFO"),
        ("-T", "UPDATE_JOB SUBMIT_BATCH_JOB WAIT STATS_INFO"),
    ],
)
def test_the_order_of_sdiag(past: World, monkeypatch: pytest.MonkeyPatch, option: str, names: str) -> None:
    lines = _diagnosed(past, monkeypatch, option)
    shown = [line.split()[0] for line in lines if line.startswith(("\tREQUEST_", "\tSHIM_"))]
    assert [name.partition("_")[2] for name in shown] == names.split()


def test_sdiag_resets_unless_all_is_asked_for_behind_it(past: World) -> None:
    assert past.run("sdiag", "-r").out == ""
    assert past.calls == [("stats", {"reset": True})]


def test_what_was_asked_for_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.index([])
    told = world.run("sstat", "-vv", "-n", "5,3.1").err
    assert told.startswith(
        "sstat: debug:  Jobs requested:\n\nsstat: debug:  \t: All steps for job 5\n\nsstat: debug:  \t: StepId=3.1\n\nsstat: error: "
    )
    assert "debug" not in world.run("sstat", "-v", "5").err
    told = world.run("sattach", "-vv", "7.batch").err
    assert told.startswith("sattach: defined options for program `sattach'\n")
    assert "\nsattach: job ID         : 7\nsattach: step ID        : 4294967291\n" in told
    assert "defined" not in world.run("sattach", "-v", "7.0").err
    assert (
        world.run("sattach", "-Qv", "7.0").err == "sattach: error: don't specify both --verbose (-v) and --quiet (-Q)\n"
    )


def test_what_they_say_with_v(past: World) -> None:
    told = past.run("sprio", "-v", "-j", "5,6", "-o", "%i", "-u", "root")
    rule = "-" * 29
    assert told.err == BASIC
    assert told.out == (
        f"{rule}\nformat     = %i\njob_flag   = 1\njobs       = 5,6\npartition  = (null)\nusers      = root\nverbose    = 1\n{rule}\n\n\n"
    )
    assert "jobs       = (null)" in past.run("sprio", "-v").lines
    assert past.run("sstat", "-v", "-j", "99").err == "sstat: error: couldn't get steps for job 99\n"
    assert past.run("sstat", "-vv", "-j", "99,7.1").err == (
        "sstat: debug:  Jobs requested:\n\nsstat: debug:  \t: All steps for job 99\n\nsstat: debug:  \t: StepId=7.1\n\n"
        "sstat: error: couldn't get steps for job 99\nsstat: error: StepId=7.1 not found running.\n"
    )
    told = past.run("sattach", "-vv", "99.3")
    assert told.err.splitlines()[:4] == [
        "sattach: defined options for program `sattach'",
        "sattach: --------------- ---------------------",
        "sattach: job ID         : 99",
        "sattach: step ID        : 3",
    ]
    assert told.err.splitlines()[-2:] == [
        "sattach: verbose        : 2",
        "sattach: error: Could not get job step info: Invalid job id specified",
    ]
    for words, flag in ((["-j", "99"], "1"), (["-n", "x"], "0")):
        assert f"job_flag    = {flag}" in past.run("squeue", "-v", *words).lines
