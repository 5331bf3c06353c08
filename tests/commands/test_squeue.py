"""squeue's listings, filters and refusals, as Slurm prints them."""

from __future__ import annotations

import json
import os

import pytest

from shim.control import paths
from shim.core.model.job import SPECIAL_EXIT
from tests import reference
from tests.commands.conftest import World

HEADER = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"


def test_default_listing_is_by_partition_state_and_priority(busy: World) -> None:
    assert busy.run("squeue").lines == [
        HEADER,
        "                 3     debug     pend    alice PD       0:00      3 (None)",
        "         4_[0-3%1]     debug      arr    alice PD       0:00      1 (BeginTime)",
        "                 5     debug     held      bob PD       0:00      2 (JobHeldUser)",
        "                 1     debug   runner    alice  R       0:08      2 n[1-2]",
        "                 2     debug a_very_l      bob  R       0:08      1 n1",
        "                 6     debug   onerun    alice  R       0:08      1 n1",
    ]


def test_no_index_is_an_empty_queue(world: World) -> None:
    result = world.run("squeue")
    assert (result.code, result.out, result.err) == (0, HEADER + "\n", "")


def test_long_listing_has_a_date_and_limits(busy: World) -> None:
    lines = busy.run("squeue", "-l").lines
    assert lines[0] == "Fri Nov 20 17:36:03 2026"
    assert lines[1].endswith("    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)")
    assert (
        lines[3] == "         4_[0-3%1]     debug      arr    alice  PENDING       0:00 2-00:00:00      1 (BeginTime)"
    )
    assert lines[1].count("TIME_LIMI") == 1
    assert busy.run("squeue", "-hl").lines[0].startswith("                 3 ")


def test_expected_starts(busy: World) -> None:
    lines = busy.run("squeue", "--start").lines
    assert lines[0].endswith("ST          START_TIME  NODES SCHEDNODES           NODELIST(REASON)")
    assert [line.split()[0] for line in lines[1:]] == ["3", "4_[0-3%1]", "5"]
    assert lines[1].endswith("PD 2026-11-20T17:45:55      3 (null)               (None)")
    assert lines[3].endswith("PD                 N/A      2 (null)               (JobHeldUser)")


def test_steps(busy: World) -> None:
    assert busy.run("squeue", "-s").lines == [
        "         STEPID     NAME PARTITION     USER      TIME NODELIST",
        "            1.0    sleep     debug    alice      0:07 n[1-2]",
        "        1.batch    batch     debug    alice      0:08 n1",
        "        2.batch    batch     debug      bob      0:08 n1",
        "        6.batch    batch     debug    alice      0:08 n1",
    ]
    assert busy.run("squeue", "-hs", "1.batch").lines == []
    assert busy.run("squeue", "-s", "1").err == "squeue: error: Invalid job_step id: 1.??\n"
    shown = busy.run("squeue", "-s", "1.0", "-o", "%i %N %A %j %u %M").lines
    assert shown == ["STEPID NODELIST TASKS NAME USER TIME", "1.0 n[1-2] 4 sleep alice 0:07"]


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        (["-u", "1001"], "3 4_[0-3%1] 1 6"),
        (["-u", "1001,1002"], "3 4_[0-3%1] 5 1 2 6"),
        (["-t", "PD"], "3 4_[0-3%1] 5"),
        (["-t", "running"], "1 2 6"),
        (["-t", "all"], "3 4_[0-3%1] 5 1 2 6"),
        (["-n", "runner,held"], "5 1"),
        (["-w", "n2"], "1"),
        (["-w", "n[1-2]"], "1 2 6"),
        (["-j", "1,5"], "5 1"),
        (["-j1"], "1"),
        (["-j", "4_2"], "4_2"),
        (["-j", "4_[1-2]"], "4_[1-2]"),
        (["-j", "4"], "4_[0-3%1]"),
        (["-p", "gpu"], ""),
        (["-p", "debug", "-t", "R"], "1 2 6"),
        (["-q", "normal"], ""),
        (["-A", "nobody"], ""),
        (["-r"], "3 4_0 4_1 4_2 4_3 5 1 2 6"),
        (["-S", "i"], "1 2 3 4_[0-3%1] 5 6"),
        (["-S", "-i"], "6 5 4_[0-3%1] 3 2 1"),
        (["-S", "-p,i"], "3 1 2 4_[0-3%1] 6 5"),
        (["-S", "t,-i"], "5 4_[0-3%1] 3 6 2 1"),
        (["-S", "j"], "2 4_[0-3%1] 5 6 3 1"),
        (["-S", "?,"], "1 2 3 4_[0-3%1] 5 6"),
        (["-M", "ref", "-t", "R"], "1 2 6"),
    ],
)
def test_filters_and_orders(busy: World, argv: list[str], ids: str) -> None:
    result = busy.run("squeue", "-h", "-o", "%i", *argv)
    lines = [line for line in result.lines if not line.startswith("CLUSTER: ")]
    assert (result.code, result.err, " ".join(lines)) == (0, "", ids)


def test_variables_and_command_line(busy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i|%j")
    monkeypatch.setenv("SQUEUE_STATES", "R")
    monkeypatch.setenv("SQUEUE_SORT", "-i")
    assert busy.run("squeue", "-h").lines == ["6|onerun", "2|a_very_long_job_name_that_overflows", "1|runner"]
    assert busy.run("squeue", "-h", "-t", "PD", "-o", "%i").lines == ["5", "4_[0-3%1]", "3"]
    assert busy.run("squeue", "-h", "-O", "jobid:4,name:.8").lines[0] == "6     onerun"


def test_widths_literals_and_unknown_letters(busy: World) -> None:
    result = busy.run("squeue", "-S", "i", "-o", "[%i][%.10i][%10i][%-10i][%3j]")
    assert result.lines[:2] == [
        "[JOBID][     JOBID][JOBID     ][%-10i][NAM]",
        "[1][         1][1         ][%-10i][run]",
    ]
    assert result.err == "squeue: error: Invalid job format specification: -\n"
    assert busy.run("squeue", "-h", "-j1", "-o", "%i\\t%j\\n").lines == ["1\\trunner\\n"]
    assert busy.run("squeue", "-h", "-j1", "-o", "lit%%Aeral %i%").lines == ["lit1eral 1"]
    assert busy.run("squeue", "-h", "-j1", "-o", "").out == "\n"


def test_fields_by_name(busy: World) -> None:
    result = busy.run("squeue", "-j1", "-O", "JobID:5,Name:.10,nosuchfield,State:12,tres-alloc:60")
    assert result.code == 0
    assert result.err == "squeue: error: Invalid job format specification: nosuchfield\n"
    assert result.lines[1].rstrip() == "1        runnerRUNNING     cpu=4,mem=4000M,node=2,billing=4,gres/gpu=2"


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (["-j", "99999"], 1, "slurm_load_jobs error: Invalid job id specified\n"),
        (["-j", "abc"], 1, "squeue: error: Invalid job id: abc\n"),
        (["-s", "abc"], 1, "squeue: error: Invalid job_step id: abc.??\n"),
        (["-w", "nosuch"], 1, "squeue: error: Invalid node name nosuch\n"),
        (["-i", "0"], 1, "squeue: error: --iterate=0\n\n"),
        (["-o", "%i", "-O", "jobid"], 1, "squeue: error: -O (--Format) is incompatible with -o (--format)\n"),
        (
            ["--json=x"],
            1,
            "squeue: option '--json' doesn't allow an argument\nTry \"squeue --help\" for more information\n",
        ),
        (
            ["--nosuch"],
            1,
            "squeue: unrecognized option '--nosuch'\nTry \"squeue --help\" for more information\n",
        ),
        (["-M", "nosuch"], 1, "squeue: error: No cluster 'nosuch' known by database.\n"),
    ],
)
def test_refusals(busy: World, argv: list[str], code: int, error: str) -> None:
    result = busy.run("squeue", *argv)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(error)


def test_words_and_repeated_ids_are_usage_errors(busy: World) -> None:
    result = busy.run("squeue", "-j", "1", "-j", "5", "-o", "%i")
    assert result.code == 1
    assert result.err == "squeue: error: Unrecognized option: 5\n"
    assert result.out.startswith("Usage: squeue ")


def test_several_ids_and_unknown_users_are_no_errors(busy: World) -> None:
    result = busy.run("squeue", "-j", "98,99999")
    assert (result.code, result.lines, result.err) == (0, [HEADER], "")
    result = busy.run("squeue", "-u", "no-such-user")
    assert (result.code, result.lines) == (0, [HEADER])
    assert result.err == "squeue: error: Invalid user: no-such-user\n\n"


def test_bad_state_lists_the_valid_ones(busy: World) -> None:
    result = busy.run("squeue", "-t", "PD,BAD")
    assert result.code == 1
    first, second, _ = result.err.split("\n", 2)
    assert first == "squeue: error: Invalid job state specified: BAD"
    assert second.startswith("squeue: error: Valid job states include: PENDING,RUNNING,SUSPENDED,COMPLETED,")


def test_ended_jobs_are_shown_on_request_until_they_are_forgotten(world: World) -> None:
    ended = {"state": "FAILED", "reason": "NonZeroExitCode", "start_time": reference.START}
    world.index(
        [
            reference.running(1, **{**ended, "end_time": reference.NOW - 5}),
            reference.running(2, **{**ended, "end_time": reference.NOW - 301}),
        ]
    )
    assert world.run("squeue", "-h").out == ""
    assert world.run("squeue", "-h", "-t", "all", "-o", "%i %t %R %M").lines == ["1 F (NonZeroExitCode) 0:03"]
    assert world.run("squeue", "-h", "-j", "1").code == 0
    assert world.run("squeue", "-h", "-j", "2").code == 1


def test_time_format(busy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%s")
    assert busy.run("squeue", "-h", "-j1", "-o", "%S").lines == [str(int(reference.START))]


def test_a_newer_index_is_named(world: World) -> None:
    import sqlite3

    from shim.control import paths

    world.index([])
    connection = sqlite3.connect(paths.index_path())
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    result = world.run("squeue")
    assert result.code == 1
    assert "has format 99, this version knows formats up to" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("program", ["squeue", "sacct", "sinfo", "scontrol show jobs", "scancel -n job"])
def test_an_index_that_cannot_be_looked_at_is_not_no_index(world: World, program: str) -> None:
    path = paths.index_path()
    paths.ensure(os.path.dirname(path))
    os.symlink(path, path)  # not even root can follow it
    name, *argv = program.split()
    result = world.run(name, *argv)
    said = f"{name}: error: cannot use the job index {path}: Too many levels of symbolic links\n"
    assert (result.code, result.out, result.err) == (1, "", said)
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    with open(os.path.dirname(path), "w"):
        assert world.run(name, *argv).err.endswith(f"{path}: Not a directory\n")


def test_a_damaged_index_is_named(world: World) -> None:
    from pathlib import Path

    from shim.control import paths

    world.index([])
    Path(paths.index_path()).write_bytes(b"this is no database, it only is as long as one " * 100)
    result = world.run("squeue")
    assert (result.code, result.out) == (1, "")
    assert "is damaged (" in result.err
    assert "move it away" in result.err


def test_version_and_help(world: World) -> None:
    assert world.run("squeue", "-V").out == "slurm 22.05.8\n"
    assert world.run("squeue", "--help").out.startswith("Usage: squeue ")


def test_a_special_exit_is_no_pending_job(world: World) -> None:
    held = reference.job(7, held="user", reason="job requeued in held state")
    world.index([held.replace(request=held.request.replace(extra={SPECIAL_EXIT: "1"})), reference.running(8, "n1", 1)])
    assert world.run("squeue", "-ht", "SE", "-o", "%i %t").lines == ["7 SE"]
    assert world.run("squeue", "-ht", "special_exit,R", "-o", "%i").lines == ["8", "7"], "as on Slurm, after all others"
    assert world.run("squeue", "-ht", "PD").lines == []


def test_the_batch_script_of_a_job_is_a_step_though_nobody_recorded_one(world: World) -> None:
    script = reference.running(8, "n1", 1)
    world.index([script, reference.running(9, "n2", 1, request=script.request.replace(kind="alloc"))])
    assert world.run("squeue", "-hs", "-o", "%i %j %N %A").lines == ["8.batch batch n1 1"]


def test_a_document_has_every_job_whatever_else_is_asked(busy: World) -> None:
    found = json.loads(busy.run("squeue", "--json", "-t", "R", "-u", "nobody", "-h").out)
    assert (list(found), found["errors"]) == (["meta", "errors", "jobs"], [])
    jobs = {job["job_id"]: job for job in found["jobs"]}
    assert {1, 2, 3, 4, 5, 6} <= set(jobs)
    assert (jobs[1]["job_state"], jobs[1]["nodes"], jobs[1]["job_resources"]["allocated_hosts"]) == (
        "RUNNING",
        "n[1-2]",
        2,
    )
    assert (jobs[4]["array_task_string"], jobs[4]["array_max_tasks"], jobs[4]["batch_host"]) == ("0-3%1", 1, "")
    assert (jobs[5]["state_reason"], "job_resources" in jobs[5]) == ("JobHeldUser", False)
