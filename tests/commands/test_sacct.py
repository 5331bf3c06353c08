"""sacct's listings, windows, filters and refusals, as Slurm prints them."""

from __future__ import annotations

import os

import pytest

from shim.control import paths
from shim.control.index.opening import open_store
from shim.core.model.job import Job, NodeShare, Step
from shim.core.model.usage import Spread, Usage
from tests import reference
from tests.commands.conftest import World

HEADER = "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode "
DASHES = "------------ ---------- ---------- ---------- ---------- ---------- -------- "
MIDNIGHT = reference.NOW - 17 * 3600 - 36 * 60 - 3
T = reference.NOW - 60


def ended(job_id: int, state: str, status: int = 0, name: str = "job", **fields: object) -> Job:
    """A job that has run for two seconds on n1."""
    asked = reference.request(name=name, account="research")
    values = {"state": state, "exit_status": status, "start_time": T, "end_time": T + 2, "request": asked, **fields}
    return reference.running(job_id).replace(**values)


def queue() -> list[Job]:
    """What accounting saw: failed, running, held, cancelled while it waited; an array; yesterday's job; another user's."""
    acc1 = ended(
        23,
        "FAILED",
        3 << 8,
        request=reference.request(name="acc1", account="research"),
        comment="cmt",
        submit_line="sbatch -J acc1",
        shares=(
            NodeShare(name="n1", cpus=3, memory=3000, gpus=(0,), gpu_types=("",)),
            NodeShare(name="n2", cpus=1, memory=1000, gpus=(0,), gpu_types=("",)),
        ),
        cpus=4,
        nodes=2,
        derived_status=3 << 8,
        time_limit=10,
        submit_time=T - 1,
        eligible_time=T - 1,
    )
    array = {"array_job_id": 25, "array_spec": "0-1"}
    waits = reference.request(name="pend5", account="research", mem_per_node=2048)
    return [
        acc1,
        ended(24, "FAILED", 255 << 8, "acc2"),
        ended(29, "COMPLETED", 0, "acc3", array_task_id=0, **array),
        ended(25, "COMPLETED", 0, "acc3", array_task_id=1, **array),
        reference.running(26, request=reference.request(name="acc4", account="research"), start_time=T),
        reference.job(27, request=waits, reason="JobHeldUser", held="user", eligible_time=0, submit_time=T),
        reference.job(28, state="CANCELLED", cancelled_by=1001, start_time=T + 3, end_time=T + 3, eligible_time=0),
        ended(31, "CANCELLED", 15, "killed", cancelled_by=0),
        ended(32, "OUT_OF_MEMORY", 125, "oom", uid=1002, user="bob"),
        ended(5, "COMPLETED", 0, "old", eligible_time=MIDNIGHT - 95, start_time=MIDNIGHT - 90, end_time=MIDNIGHT - 60),
        reference.job(59, array_job_id=59, array_tasks="1,3,5,7,9%2", array_spec="1-9:2%2", request=waits),
    ]


STEPS = {
    23: (
        Step(job_id=23, step_id="1", name="hostname", nodes=("n1",), cpus=3, start_time=T + 1, state="COMPLETED"),
        Step(
            job_id=23,
            step_id="0",
            name="sleep",
            nodes=("n1", "n2"),
            tasks=4,
            cpus=4,
            start_time=T,
            end_time=T + 2,
            state="CANCELLED",
            exit_status=9,
            cancelled_by=1002,
        ),
    )
}


@pytest.fixture
def past(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    world.index(queue(), STEPS)
    return world


def table(world: World, *argv: str) -> list[str]:
    """The lines of ``sacct -nP`` with these arguments."""
    result = world.run("sacct", "-nP", *argv)
    assert (result.code, result.err) == (0, "")
    return result.lines


def test_the_default_listing_is_today_s_jobs_with_their_steps(past: World) -> None:
    assert past.run("sacct").lines == [
        HEADER,
        DASHES,
        "23                 acc1      debug   research          4     FAILED      3:0 ",
        "23.batch          batch              research          3     FAILED      3:0 ",
        "23.0              sleep              research          4 CANCELLED+      0:9 ",
        "23.1           hostname              research          3  COMPLETED      0:0 ",
        "24                 acc2      debug   research          1     FAILED    127:0 ",
        "24.batch          batch              research          1     FAILED    127:0 ",
        "26                 acc4      debug   research          1    RUNNING      0:0 ",
        "26.batch          batch              research          1    RUNNING      0:0 ",
        "31               killed      debug   research          1 CANCELLED+      0:0 ",
        "31.batch          batch              research          1  CANCELLED     0:15 ",
        "32                  oom      debug   research          1 OUT_OF_ME+    0:125 ",
        "32.batch          batch              research          1 OUT_OF_ME+    0:125 ",
        "25_0               acc3      debug   research          1  COMPLETED      0:0 ",
        "25_0.batch        batch              research          1  COMPLETED      0:0 ",
        "25_1               acc3      debug   research          1  COMPLETED      0:0 ",
        "25_1.batch        batch              research          1  COMPLETED      0:0 ",
        "59_[1,3,5,7+      pend5      debug   research          1    PENDING      0:0 ",
    ]


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        ("-X", "23 24 26 31 32 25_0 25_1 59_[1,3,5,7,9%2]"),
        ("-X -S now-2days", "5 23 24 26 31 32 25_0 25_1 59_[1,3,5,7,9%2]"),
        ("-X -S now-2days -E 00:00", "5"),
        ("-X -S 2020-01-01 -E 2020-01-02", ""),
        ("-j 27,28 -X", "27 28"),
        ("-j 0 -X", "5 23 24 26 27 28 31 32 25_0 25_1 59_[1,3,5,7,9%2]"),
        ("-j 99999", ""),
        ("-j 23.0", "23.0"),
        ("-j 23.batch,24", "23.batch 24 24.batch"),
        ("-j 25_0", "25_0 25_0.batch"),
        ("-j 25 -X", "25_0 25_1"),
        ("-j 59_1", ""),
        ("-j 59", "59_[1,3,5,7,9%2]"),
        ("-s R", "26 26.batch"),
        ("-s PD", "59_[1,3,5,7,9%2]"),
        ("-s CD", ""),
        ("-s cd -X -S now-1hour", "25_0 25_1"),
        ("-s F,CA -X -S today", "23 24 28 31"),
        ("-s R -X -j 23,26,27", "23 26"),
        ("-s PD -j 23,26,27", "23 26"),
        ("-X -u bob_is_nobody,1002", None),
        ("-X -u 1002", "32"),
        ("-X --name=acc1,oom", "23 32"),
        ("-X -N n2", "23"),
        ("-X -N n[2-3]", "23"),
        ("-X -i 2", "23"),
        ("-X -I 2-8", "23"),
        ("-X -k 5 -K 15", "23"),
        ("-X -r gpu", ""),
        ("-X -A research -q normal -g 1001 -s F -S today", "23 24"),
        ("-X -A nosuch", ""),
        ("-X -q high", ""),
        ("-X --reason=jobhelduser -j 0", "27"),
        ("-X -C fast", ""),
        ("-X -x 4", ""),
        ("-X -F SchedMain -s R", "26"),
        ("-X -F SchedBackfill -s R", ""),
        ("-X -M nosuch", None),
        ("-X -M ref -s R", "26"),
        ("-X -L -s R", "26"),
    ],
)
def test_what_is_listed(past: World, argv: str, ids: str | None) -> None:
    result = past.run("sacct", "-nP", "-o", "jobid", *argv.split())
    assert " ".join(result.lines) == (ids or "")
    assert result.code == (1 if ids is None else 0)


def test_users_see_their_own_jobs_unless_they_say_more(past: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1002)
    assert table(past, "-X", "-o", "jobid") == ["32"]
    assert table(past, "-X", "-a", "-o", "jobid", "--name", "acc1,oom") == ["23", "32"]
    assert table(past, "-X", "-j", "23", "-o", "jobid") == ["23"]


def test_formats(past: World) -> None:
    assert past.run("sacct", "-b", "-X", "-j", "28").lines == [
        "JobID             State ExitCode ",
        "------------ ---------- -------- ",
        "28           CANCELLED+      0:0 ",
    ]
    assert past.run("sacct", "-j", "23.0", "-o", "JobID%-10,State%5,jobn%20").lines == [
        "JobID      State              JobName ",
        "---------- ----- -------------------- ",
        "23.0       CANC+                sleep ",
    ]
    assert past.run("sacct", "-p", "-j", "28", "-o", "jobid,state").lines == [
        "JobID|State|",
        "28|CANCELLED by 1001|",
    ]
    assert past.run("sacct", "-P", "--delimiter=,", "-j", "28", "-o", "jobid,state,,user").lines == [
        "JobID,State",
        "28,CANCELLED by 1001",
    ]
    assert past.run("sacct", "-X", "-nj", "23", "-o", "jobid%20,end%2").lines == ["                  23 2+ "]
    names = past.run("sacct", "-P", "-j", "23", "-o", "ALL").lines[0].split("|")
    assert (len(names), names[0], names[-1]) == (109, "Account", "WorkDir")
    assert past.run("sacct", "--helpformat").lines[0] == (
        "Account             AdminComment        AllocCPUS           AllocNodes         "
    )
    assert past.run("sacct", "-lP", "-j", "23").lines[0].startswith("JobID|JobIDRaw|JobName|Partition|MaxVMSize|")


def test_sacct_format_is_the_default_format(past: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACCT_FORMAT", "jobid,user")
    assert table(past, "-X", "-j", "23") == ["23|alice"]


def test_times_and_limits(past: World) -> None:
    fields = "jobid,start,end,submit,eligible,elapsed,elapsedraw,timelimit,timelimitraw,reserved,resvcpuraw,cputime"
    assert table(past, "-j", "23,26,27", "-o", fields) == [
        "23|2026-11-20T17:35:03|2026-11-20T17:35:05|2026-11-20T17:35:02|2026-11-20T17:35:02|00:00:02|2|00:10:00|10|00:00:01|4|00:00:08",
        "23.batch|2026-11-20T17:35:03|2026-11-20T17:35:05|2026-11-20T17:35:03|2026-11-20T17:35:03|00:00:02|2|||||00:00:06",
        "23.0|2026-11-20T17:35:03|2026-11-20T17:35:05|2026-11-20T17:35:03|2026-11-20T17:35:03|00:00:02|2|||||00:00:08",
        "23.1|2026-11-20T17:35:04|Unknown|2026-11-20T17:35:04|2026-11-20T17:35:04|00:00:59|59|||||00:02:57",
        "26|2026-11-20T17:35:03|Unknown|2026-11-20T17:35:55|2026-11-20T17:35:55|00:01:00|60|UNLIMITED|UNLIMITED|00:00:00|0|00:01:00",
        "26.batch|2026-11-20T17:35:03|Unknown|2026-11-20T17:35:03|2026-11-20T17:35:03|00:01:00|60|||||00:01:00",
        "27|Unknown|Unknown|2026-11-20T17:35:03|Unknown|00:00:00|0|Partition_Limit|Partition_Limit|00:00:00|0|00:00:00",
    ]
    cut = table(past, "-T", "-S", "17:35:04", "-E", "17:35:30", "-X", "-j", "23,26", "-o", "start,end,elapsedraw")
    assert cut == [
        "2026-11-20T17:35:04|2026-11-20T17:35:05|1",
        "2026-11-20T17:35:04|2026-11-20T17:35:30|26",
    ]


def test_resources(past: World) -> None:
    fields = "jobid,reqtres,alloctres,ncpus,nnodes,ntasks,alloccpus,allocnodes,reqcpus,reqnodes,reqmem,nodelist"
    assert table(past, "-j", "23,27", "-o", fields) == [
        "23|billing=4,cpu=4,gres/gpu=2,mem=4000M,node=2|billing=4,cpu=4,gres/gpu=2,mem=4000M,node=2|4|2||4|2|4|2|4000M|n[1-2]",
        "23.batch||cpu=3,gres/gpu=1,mem=3000M,node=1|3|1|1|3|1|3|1||n1",
        "23.0||cpu=4,gres/gpu=2,mem=4000M,node=2|4|2|4|4|2|4|2||n[1-2]",
        "23.1||cpu=3,gres/gpu=1,mem=3000M,node=1|3|1|1|3|1|3|1||n1",
        "27|billing=1,cpu=1,mem=2G,node=1||1|1||1|0|1|1|2G|None assigned",
    ]
    assert table(past, "-j", "27", "-o", "reqmem", "--noconvert") == ["2048M"]
    assert table(past, "-j", "23", "-X", "-o", "reqmem", "--units=G") == ["3.91G"]


def test_who_and_what(past: World) -> None:
    fields = "user,uid,group,gid,account,qos,partition,cluster,workdir,submitline,comment,reason,flags,derivedexitcode"
    assert table(past, "-X", "-j", "23", "-o", fields) == [
        "alice|1001|alice|1001|research|normal|debug|ref|/home/alice/w|sbatch -J acc1|cmt|None|SchedMain,StartRecieved|3:0"
    ]
    assert table(past, "-j", "25_0", "-o", "jobid,jobidraw") == ["25_0|29", "25_0.batch|29.batch"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ("-j abc", "sacct: fatal: Bad job/step specified: abc"),
        ("-s BAD", "sacct: fatal: unrecognized job state value 'BAD'"),
        ("--reason=Resources,z", "sacct: fatal: unrecognized job reason value 'z'"),
        ("-o nosuch", 'sacct: error: Invalid field requested: "nosuch"'),
        ("-S bad", "Invalid time specification (pos=0): bad"),
        (
            "-S 2030-01-01",
            "sacct: error: Start time (2030-01-01T00:00:00) requested is after end time (2026-11-20T17:36:04).",
        ),
        ("-u nosuch-user", "sacct: error: Invalid user id: nosuch-user"),
        ("-g nosuch-group", "sacct: error: Invalid group id: nosuch-group"),
        ("-i many", "sacct: error: Invalid range: many"),
        ("-k x", "sacct: error: Invalid time limit specification"),
        ("--units=Q", "sacct: fatal: Invalid unit type specified: Q"),
        ("-j", "sacct: option requires an argument -- 'j'"),
        ("-R None", "sacct: invalid option -- 'R'"),
        ("--nosuch", "sacct: unrecognized option '--nosuch'"),
        ("-c", "Slurm job completion is disabled"),
        ("-B", "sacct: error: --batch-script needs --jobs"),
    ],
)
def test_refusals(past: World, argv: str, text: str) -> None:
    result = past.run("sacct", *argv.split())
    assert (result.code, result.out, result.err) == (1, "", text + "\n")


def test_what_is_asked_several_times_adds_up(past: World) -> None:
    assert table(past, "-X", "-j", "23", "-j", "24,31", "-o", "jobid", "-o", "state") == [
        "23|FAILED",
        "24|FAILED",
        "31|CANCELLED by 0",
    ]
    assert table(past, "-X", "-s", "OOM", "-s", "NF", "-o", "jobid", "-S", "00:00", "-u", "1002", "-u", "7") == ["32"]
    assert table(past, "-X", "--name=acc1", "--name=oom", "-o", "jobid") == ["23", "32"]
    assert table(past, "-X", "-r", "debug", "-r", "gpu", "-A", "none", "-A", "research", "-j", "23", "-o", "jobid") == [
        "23"
    ]
    assert table(past, "-X", "-j", "23", "-o", "jobname", "-b") == ["acc1|23|FAILED|3:0"]


def test_of_several_lists_of_nodes_the_first_counts(past: World) -> None:
    result = past.run("sacct", "-nPX", "-o", "jobid", "-N", "n2", "-N", "n1", "--nodelist=n3")
    assert result.lines == ["23"]
    assert result.err == "sacct: error: Already asked for nodes 'n2'\n" * 2


def test_scripts(past: World) -> None:
    assert past.run("sacct", "-B", "-j", "23").lines == ["Batch Script for 23", "-" * 80, "NONE", ""]
    past.script = "#!/bin/sh\ntrue\n"
    assert past.run("sacct", "-B", "-j", "23").lines[2:] == ["#!/bin/sh", "true", ""]


def test_runs_before_a_requeue_are_duplicates(world: World) -> None:
    first = ended(7, "RUNNING", restarts=0, end_time=0)
    now = ended(7, "COMPLETED", restarts=1, start_time=T + 30, end_time=T + 31)
    store = open_store(paths.index_path())
    with store.transaction():
        kept = store.add_job(now)
        store.transition(first.replace(key=kept.key), "PENDING", T)
        store.transition(first.replace(key=kept.key, state="REQUEUED"), "RUNNING", T + 2)
        store.transition(now.replace(key=kept.key, state="PENDING"), "REQUEUED", T + 2)
        store.save_step(kept.key, Step(job_id=7, step_id="0", name="first", nodes=("n1",), start_time=T + 1))
        store.save_step(kept.key, Step(job_id=7, restart=1, step_id="0", name="second", nodes=("n1",), start_time=T))
    store.close()
    fields = "jobid,jobname,state,elapsedraw"
    assert table(world, "-j", "7", "-o", fields)[0] == "7|job|COMPLETED|1"
    assert [line for line in table(world, "-D", "-j", "7", "-o", fields) if "batch" not in line] == [
        "7|job|REQUEUED|2",
        "7.0|first|RUNNING|59",
        "7|job|COMPLETED|1",
        "7.0|second|RUNNING|60",
    ]


def test_no_index_is_an_empty_listing(world: World) -> None:
    assert world.run("sacct").lines == [HEADER, DASHES]


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (
            Usage(user=1.5, system=0.25, memory=Spread(most=86524, most_task=3, most_node="n2")),
            "00:01.500|00:00.250|00:01.750|86524K|n2|3",
        ),
        (Usage(user=60, system=2, memory=Spread(most=2048)), "00:01:00|00:00:02|00:01:02|2M||0"),
        (Usage(user=3600.5, system=90000, memory=Spread(most=1536)), "01:00:00|1-01:00:00|1-02:00:00|1.50M||0"),
        (Usage(memory=Spread(most=512)), "00:00:00|00:00:00|00:00:00|512K||0"),
        (None, "00:00:00|00:00:00|00:00:00|||"),
    ],
)
def test_what_was_used(world: World, usage: Usage | None, shown: str) -> None:
    world.index([ended(7, "COMPLETED", usage=usage, request=reference.request(name="job", kind="batch"))])
    columns = "UserCPU,SystemCPU,TotalCPU,MaxRSS,MaxRSSNode,MaxRSSTask"
    assert world.run("sacct", "-nPaj7.batch", "-o", columns).lines == [shown]
    of_the_job = [*shown.split("|")[:3], "", "", ""]
    assert world.run("sacct", "-nXPaj7", "-o", columns).lines == ["|".join(of_the_job)]


def test_memory_in_other_units(world: World) -> None:
    world.index([ended(7, "COMPLETED", usage=Usage(memory=Spread(most=1536)), request=reference.request(kind="batch"))])
    assert world.run("sacct", "-nPaj7.batch", "--units=G", "-o", "MaxRSS").lines == ["0.00G"]
    assert world.run("sacct", "-nPaj7.batch", "--units=M", "-o", "MaxRSS").lines == ["1.50M"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("-v", "Jobs Eligible in the time window from Fri Nov 20 00:00:00 2026 to Fri Nov 20 17:36:04 2026"),
        ("-v -j 23", "Jobs Eligible in the time window from Epoch 0 to Fri Nov 20 17:36:04 2026"),
        (
            "-v -s R,f",
            "Jobs RUNNING,FAILED in the time window from Fri Nov 20 17:36:03 2026 to Fri Nov 20 17:36:04 2026",
        ),
        ("-v -S now+1", "Jobs Eligible at the time instant Fri Nov 20 17:36:04 2026"),
        (
            "-v -E now+1hour",
            "Jobs Eligible in the time window from Fri Nov 20 00:00:00 2026 to Fri Nov 20 18:36:03 2026",
        ),
    ],
)
def test_the_window_is_told(past: World, argv: str, said: str) -> None:
    result = past.run("sacct", "-n", *argv.split())
    assert (result.code, result.err) == (0, f"sacct: {said}\n")


def test_options_are_told(past: World) -> None:
    result = past.run("sacct", "-vv", "-X", "-o", "jobid", "-o", "state", "-j", "23")
    assert result.err.splitlines()[1:] == [
        "sacct: debug:  Options selected:",
        "\topt_completion=no",
        "\topt_dup=no",
        "\topt_field_list=jobid,state,",
        "\topt_help=0",
        "\topt_no_steps=yes",
        "\topt_whole_hetjob=(null)",
    ]


def test_states_without_a_begin_are_asked_for_now(past: World) -> None:
    result = past.run("sacct", "-s", "F", "-E", "now-1hour")
    assert (result.code, result.err) == (
        1,
        "sacct: error: Start time (2026-11-20T17:36:03) requested is after end time (2026-11-20T16:36:03).\n",
    )


def test_both_seconds_of_a_window_count(world: World) -> None:
    begin = int(T)
    world.index([ended(7, "FAILED", 256, start_time=begin + 0.7, end_time=begin + 5.9, eligible_time=begin - 3.5)])

    def found(state: str, since: int, until: int) -> bool:
        at = (str(since - int(reference.NOW)), str(until - int(reference.NOW)))
        return table(world, "-aX", "-s", state, "-S", f"now{at[0]}", "-E", f"now{at[1]}", "-o", "jobid") == ["7"]

    assert found("R", begin - 9, begin) and found("R", begin + 5, begin + 9)
    assert not found("R", begin - 9, begin - 1) and not found("R", begin + 6, begin + 9)
    assert found("PD", begin - 9, begin - 4) and found("PD", begin, begin + 1)
    assert not found("PD", begin - 9, begin - 5) and not found("PD", begin + 1, begin + 2)
    assert found("F", begin + 5, begin + 5) and not found("F", begin + 6, begin + 7)


@pytest.mark.parametrize(
    ("status", "shown"),
    [(None, "COMPLETED|0:0"), (15, "CANCELLED|0:15"), (9 << 8, "FAILED|9:0"), (9, "CANCELLED|0:9")],
)
def test_the_script_of_a_job_at_its_limit_has_an_end_of_its_own(world: World, status: int | None, shown: str) -> None:
    asked = reference.request(name="job", kind="batch")
    world.index([ended(7, "TIMEOUT", script_status=status, request=asked)])
    lines = world.run("sacct", "-nPaj7", "-o", "jobid,state,exitcode").lines
    assert lines == ["7|TIMEOUT|0:0", f"7.batch|{shown}"]
