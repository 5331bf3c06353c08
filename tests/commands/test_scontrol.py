"""scontrol: records, host lists, changes to jobs, its own little shell."""

from __future__ import annotations

import io
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from shim.control import paths, site
from shim.core.model.job import NodeShare, Step
from tests import reference
from tests.commands.conftest import World

RUNNING = """JobId=1 JobName=runner
   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A
   Priority=1312 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:08 TimeLimit=00:10:00 TimeMin=N/A
   SubmitTime=2026-11-20T17:35:55 EligibleTime=2026-11-20T17:35:55
   AccrueTime=2026-11-20T17:35:55
   StartTime=2026-11-20T17:35:55 EndTime=2026-11-20T17:45:55 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-20T17:35:55 Scheduler=Main
   Partition=debug AllocNode:Sid=localhost:443
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=4 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=4,mem=4000M,node=2,billing=4,gres/gpu=2
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryCPU=1000M MinTmpDiskNode=0
   Features=fast DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/home/alice/w
   Comment=my comment 
   StdErr=/home/alice/w/slurm-1.out
   StdIn=/dev/null
   StdOut=/home/alice/w/slurm-1.out
   Power=
   TresPerNode=gres:gpu:1
   

"""  # noqa: W291, W293 - Slurm's own blanks


def test_a_running_job(busy: World) -> None:
    result = busy.run("scontrol", "show", "job", "1")
    assert (result.code, result.out, result.err) == (0, RUNNING, "")


def test_the_types_of_gpus_that_a_job_holds(world: World) -> None:
    job = reference.running(1)
    held = [NodeShare(name="n1", gpus=(0, 1), gpu_types=("a", "b")), NodeShare(name="n2", gpus=(0,), gpu_types=("a",))]
    world.index([job.replace(shares=tuple(held))])
    assert "   JOB_GRES=gpu:a:2,gpu:b:1" in world.run("scontrol", "-d", "show", "job", "1").lines


def test_one_line_and_details(busy: World) -> None:
    line = busy.run("scontrol", "-o", "show", "job", "1").out
    assert line.count("\n") == 1
    assert line.startswith("JobId=1 JobName=runner UserId=alice(1001) ")
    assert line.endswith("Power= TresPerNode=gres:gpu:1 \n")
    shown = busy.run("scontrol", "-d", "show", "job", "1").lines
    at = shown.index("   JOB_GRES=gpu:2")
    assert shown[at + 1 : at + 3] == [
        "     Nodes=n1 CPU_IDs=0-2 Mem=3000 GRES=gpu:1(IDX:0)",
        "     Nodes=n2 CPU_IDs=0 Mem=1000 GRES=gpu:1(IDX:0)",
    ]
    assert "   DerivedExitCode=0:0" in shown


@pytest.mark.parametrize(
    ("job_id", "wanted"),
    [
        ("3", "StartTime=2026-11-20T17:45:55 EndTime=2026-11-20T18:15:55 Deadline=N/A"),
        ("3", "ReqNodeList=n2 ExcNodeList=n1"),
        ("3", "MinCPUsNode=1 MinMemoryNode=2G MinTmpDiskNode=0"),
        ("3", "OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null)"),
        ("3", "NodeList="),
        ("4", "JobId=4 ArrayJobId=4 ArrayTaskId=0-3%1 ArrayTaskThrottle=1 JobName=arr"),
        ("4_2", "JobId=4 ArrayJobId=4 ArrayTaskId=2 ArrayTaskThrottle=1 JobName=arr"),
        ("5", "SubmitTime=2026-11-20T17:35:55 EligibleTime=Unknown"),
        ("5", "StartTime=Unknown EndTime=Unknown Deadline=N/A"),
        ("5", "RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A"),
        ("6", "StartTime=2026-11-20T17:35:55 EndTime=Unknown Deadline=N/A"),
    ],
)
def test_lines_of_other_jobs(busy: World, job_id: str, wanted: str) -> None:
    lines = [line.strip() for line in busy.run("scontrol", "show", "job", job_id).lines]
    assert wanted in lines


@pytest.mark.parametrize("words", [["job=1"], ["jobid", "1"], ["jobid=1"], ["j", "1"]])
def test_ways_to_name_a_job(busy: World, words: list[str]) -> None:
    assert busy.run("scontrol", "show", *words).lines[0] == "JobId=1 JobName=runner"


def test_a_task_of_every_array(busy: World) -> None:
    assert busy.run("scontrol", "show", "job", "0_3").out == busy.run("scontrol", "show", "job", "4_3").out


def test_all_jobs(busy: World) -> None:
    lines = busy.run("scontrol", "show", "jobs").lines
    assert [line.split()[0] for line in lines if line.startswith("JobId=")] == [
        f"JobId={job_id}" for job_id in range(1, 7)
    ]


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["job", "99999"], 1, "", "slurm_load_jobs error: Invalid job id specified\n"),
        (["job", "abc"], 1, "", "scontrol_print_job error: Invalid job id specified\n"),
        (["job", "1,2"], 1, "", "scontrol_print_job error: Invalid job id specified\n"),
        (["job", "4_9"], 1, "Job 4_9 not found\n", ""),
        (["job", "1", "2"], 1, "", "too many arguments for keyword:show\n"),
        (["step", "1.77"], 1, "Job step 1.77 not found\n", ""),
        (["step", "99999"], 1, "", "slurm_get_job_steps error: Invalid job id specified\n"),
        (["step", "99999.0"], 1, "", "slurm_get_job_steps error: Invalid job id specified\n"),
        (["step", "5"], 1, "Job step 5. not found\n", ""),
        (["step", "5.0"], 1, "Job step 5.0 not found\n", ""),
        (["step", "1_3.0"], 1, "Job step 1_3. not found\n", ""),
        (["job", "0_9"], 1, "Job 0_9 not found\n", ""),
        (["node", "nosuch"], 1, "Node nosuch not found\n", ""),
        (["partition", "nosuch"], 1, "Partition nosuch not found\n", ""),
        (["nosuch"], 1, "", "invalid entity:nosuch for keyword:show \n"),
        (["host", "n1"], 1, "", "invalid entity:host for keyword:show \n"),
        ([], 1, "", "too few arguments for keyword:show\n"),
        (["licenses"], 0, "No licenses configured in Slurm.\n", ""),
        (["reservation"], 0, "No reservations in the system\n", ""),
        (["topology"], 0, "", "scontrol: error: No topology information available\n"),
        (["daemons"], 0, "slurmctld slurmd\n", ""),
        (["hostnames", "n[1-2],x[08-09]"], 0, "n1\nn2\nx08\nx09\n", ""),
        (["hostnames"], 0, "", "scontrol: error: host list is empty\n"),
        (["hostlist", "n3,n1,n2"], 0, "n[3,1-2]\n", ""),
        (["hostlistsorted", "n3,n1,n2"], 0, "n[1-3]\n", ""),
    ],
)
def test_other_entities(busy: World, words: list[str], code: int, out: str, err: str) -> None:
    result = busy.run("scontrol", "show", *words)
    assert (result.code, result.out, result.err) == (code, out, err)


def test_bad_hostlists_are_named_with_code_0(world: World) -> None:
    result = world.run("scontrol", "show", "hostname", "n[3-1]")
    assert (result.code, result.out) == (0, "")
    assert result.err == "scontrol: error: _parse_single_range: Invalid range: `3-1'\nInvalid hostlist: n[3-1]\n"


def test_hostnames_of_the_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NODELIST", "n[1-2]")
    assert world.run("scontrol", "show", "hostnames").lines == ["n1", "n2"]


def test_a_node(busy: World) -> None:
    lines = [line.strip() for line in busy.run("scontrol", "show", "node", "n1").lines]
    assert lines[1].startswith("CPUAlloc=5 CPUEfctv=8 CPUTot=8 CPULoad=")
    assert "Gres=gpu:4" in lines
    assert "State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A" in lines
    assert "CfgTRES=cpu=8,mem=16000M,billing=8,gres/gpu=4" in lines
    assert "AllocTRES=cpu=5,mem=5000M,gres/gpu=1" in lines
    assert busy.run("scontrol", "-o", "show", "nodes").out.count("NodeName=") == 4


def test_a_partition(world: World) -> None:
    assert world.run("scontrol", "show", "part", "gpu").lines[:12] == [
        "PartitionName=gpu",
        "   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        "   AllocNodes=ALL Default=NO QoS=N/A",
        "   DefaultTime=00:30:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        "   MaxNodes=UNLIMITED MaxTime=02:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        "   Nodes=n[3-4]",
        "   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
        "   OverTimeLimit=NONE PreemptMode=OFF",
        "   State=UP TotalCPUs=16 TotalNodes=2 SelectTypeParameters=NONE",
        "   JobDefaults=(null)",
        "   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
        "   TRES=cpu=16,mem=32000M,node=2,billing=16,gres/gpu=8",
    ]


def test_steps(busy: World) -> None:
    result = busy.run("scontrol", "show", "step", "1")
    assert [line.split()[0] for line in result.lines if line.startswith("StepId")] == ["StepId=1.batch", "StepId=1.0"]
    assert busy.run("scontrol", "show", "step", "1.batch").lines[1] == "   State=RUNNING Partition=debug NodeList=n1"


def test_steps_with_all_that_is_known_of_them(world: World) -> None:
    step = reference.STEPS[1][0].replace(
        step_id="0", cpus=4, memory=500, gpus=2, time_limit=90, distribution="block:cyclic", srun="n1:77"
    )
    world.index([reference.running(1)], {1: (step,)})
    first, second = world.run("scontrol", "show", "step", "1").out.split("\n\n")[:2]
    assert first.startswith("StepId=1.batch UserId=1001 StartTime=2026-11-20T17:35:55 TimeLimit=UNLIMITED\n")
    assert "TRES=(null)" in first
    assert "TimeLimit=01:30:00" in second
    assert "TRES=cpu=4,mem=500M,node=2,gres/gpu=2" in second or "TRES=cpu=4,mem=500M,node=1,gres/gpu=2" in second
    assert "CPUFreqReq=Default Dist=BCyclic\n   SrunHost:Pid=n1:77" in second
    assert world.run("scontrol", "show", "step", "0").out == world.run("scontrol", "show", "step").out
    assert world.run("scontrol", "show", "step", "abc").out == world.run("scontrol", "show", "step").out
    assert world.run("scontrol", "show", "job", "0").out == world.run("scontrol", "show", "job").out


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["stepid=1.0", "timelimit=50"], ("0", 50)),
        (["step=1", "ti=infinite"], (None, -1)),
        (["timelimit=5", "stepid=1.batch"], ("batch", 5)),
    ],
)
def test_updates_of_steps(busy: World, words: list[str], sent: tuple[str | None, int]) -> None:
    result = busy.run("scontrol", "update", *words)
    assert (result.code, result.out, result.err) == (0, "", "")
    ((operation, fields),) = busy.calls
    assert (operation, fields["target"]["step"], fields["minutes"]) == ("update_step", *sent)


@pytest.mark.parametrize(
    ("limit", "change", "sent"),
    [
        (10, "+5", [15]),
        (10, "-2", [8]),
        (10, "+1-0", [1450]),
        (10, "-10", []),  # Slurm takes 0 for no word of it
        (10, "0", []),
        (10, "00:00:00", []),
        (10, "-0", [10]),
        (10, "+infinite", [-1]),
        (None, "+5", [-1]),
        (None, "-5", [-1]),
    ],
)
def test_a_steps_limit_is_moved(busy: World, limit: int | None, change: str, sent: list[int]) -> None:
    busy.index([reference.running(77)], {77: (Step(job_id=77, step_id="3", time_limit=limit),)})
    result = busy.run("scontrol", "update", "stepid=77.3", f"timelimit={change}")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert [fields["minutes"] for _, fields in busy.calls] == sent


@pytest.mark.parametrize(
    ("step", "change", "expected"),
    [
        ("77.3", "-11", "scontrol: error: TimeLimit decrement larger than current time limit (11 > 10)\n"),
        ("77.3", "+-5", "scontrol: error: Invalid TimeLimit value\n"),
        ("77.3", "-", "scontrol: error: Invalid TimeLimit value\n"),
        ("77.9", "+5", ""),  # without a word, as on Slurm
        ("77", "+5", ""),
        ("99.0", "+5", "scontrol: error: Could not load state information for step 99.0: Invalid job id specified\n"),
    ],
)
def test_a_steps_limit_that_cannot_be_moved(busy: World, step: str, change: str, expected: str) -> None:
    busy.index([reference.running(77)], {77: (Step(job_id=77, step_id="3", time_limit=10),)})
    result = busy.run("scontrol", "update", f"stepid={step}", f"timelimit={change}")
    assert (result.code, result.out, result.err, busy.calls) == (1, "", expected, [])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["stepid=abc", "timelimit=5"], "Invalid StepID parameter: stepid=abc\nRequest aborted\n"),
        (["stepid=1.0"], "No changes specified\n"),
        (["stepid=1.0", "timelimit=abc"], "scontrol: error: Invalid TimeLimit value\n"),
        (["stepid=1.0", "foo=5"], "Update of this parameter is not supported: foo=5\nRequest aborted\n"),
        (
            ["stepid=1.0", "timelimit+=5"],
            "Update of this parameter is not supported: timelimit+=5\nRequest aborted\n",
        ),
        (["step", "1", "timelimit", "5"], "Invalid input: step\nRequest aborted\nslurm_update error: No error\n"),
    ],
)
def test_updates_of_steps_that_cannot_be_read(busy: World, words: list[str], expected: str) -> None:
    result = busy.run("scontrol", "update", *words)
    assert (result.code, result.out, result.err, busy.calls) == (1, "", expected, [])


def test_config(world: World) -> None:
    result = world.run("scontrol", "show", "config")
    assert result.lines[0] == "Configuration data as of 2026-11-20T17:36:03"
    assert "KillWait                = 30 sec" in result.lines
    assert "ClusterName             = ref" in result.lines
    assert "SLURM_VERSION           = 22.05.8" in result.lines
    assert "AccountingStorageType   = accounting_storage/slurmdbd" in result.lines
    assert "AccountingStorageTRES   = cpu,mem,energy,node,billing,fs/disk,vmem,pages" in result.lines
    assert "PropagateResourceLimitsExcept = (null)" in result.lines
    values = dict(line.split(" = ", 1) for line in result.lines[1:-2])
    assert len(values) == 193
    owner = os.geteuid()
    assert values[f"{'SlurmdUser':<23}"] == f"{pwd.getpwuid(owner).pw_name}({owner})"
    assert result.lines[-1] == f"Slurmctld(primary) at {os.uname().nodename} is UP"


def test_a_site_without_accounting_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = reference.cluster().replace(accounting=False, def_mem_per_cpu=100)
    monkeypatch.setattr(site, "clusters", lambda: (bare,))
    lines = world.run("scontrol", "show", "config").lines
    assert "AccountingStorageType   = accounting_storage/none" in lines
    assert "DefMemPerCPU            = 100" in lines


@pytest.mark.parametrize(
    ("words", "operation", "ids"),
    [
        (["hold", "5"], "hold", [5]),
        (["hold", "5,6"], "hold", [5, 6]),
        (["hold", "5", "6"], "hold", [5, 6]),
        (["uhold", "job=5"], "hold", [5]),
        (["release", "JobId=5"], "release_job", [5]),
        (["requeue", "5"], "requeue", [5]),
        (["requeuehold", "5"], "requeuehold", [5]),
        (["suspend", "5"], "suspend", [5]),
        (["resume", "5"], "resume", [5]),
        (["top", "5"], "top", [5]),
        (["requeue", "incomplete", "5"], "requeue", [5]),
        (["requeuehold", "State=SpecialExit", "5,6"], "requeuehold", [5, 6]),
    ],
)
def test_actions(busy: World, words: list[str], operation: str, ids: list[int]) -> None:
    result = busy.run("scontrol", *words)
    assert (result.code, result.out, result.err) == (0, "", "")
    ((found, fields),) = busy.calls
    assert (found, [one["job_id"] for one in fields["targets"]]) == (operation, ids)


@pytest.mark.parametrize(
    ("words", "error", "expected"),
    [
        (
            ["hold", "99"],
            "Invalid job id specified",
            "Invalid job id specified for job 99\nslurm_suspend error: Invalid job id specified\n",
        ),
        (["requeue", "33"], "Job is pending execution", "Job is pending execution for job 33\n"),
        (["suspend", "33"], "Access/permission denied", "Access/permission denied for job 33\n"),
        (["update", "jobid=33", "nice=-20"], "Access/permission denied", "Access/permission denied for job 33\n"),
    ],
)
def test_actions_that_fail(busy: World, words: list[str], error: str, expected: str) -> None:
    busy.errors = [error]
    result = busy.run("scontrol", *words)
    assert (result.code, result.out, result.err) == (1, "", expected)


NO_ENTITY = (
    "No valid entity in update command\n"
    'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"\n'
)
BAD_NODE_STATE = (
    "Invalid input: {}\nRequest aborted\n"
    "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN\n"
    "Not all states are valid given a node's prior state\n"
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["hold"], "too few arguments for keyword:hold\n"),
        (
            ["hold", "runname"],
            "Invalid job id specified for job runname\nslurm_suspend error: Invalid job id specified\n",
        ),
        (["hold", "jobname=no-such-name"], "slurm_suspend error: No error\n"),
        (["update"], "too few arguments for update keyword\n"),
        (["update", "jobid=3"], "No changes specified\n"),
        (["update", "jobid=3", "UserID=root"], "No changes specified\n"),
        (["update", "jobid=3", "word"], "Invalid input: word\nRequest aborted\n"),
        (
            ["update", "jobid=3", "BadField=1"],
            "Update of this parameter is not supported: BadField=1\nRequest aborted\n",
        ),
        (["update", "jobid=3", "TimeLimit=abc"], "scontrol: error: Invalid TimeLimit value\n"),
        (
            ["update", "nodename=n1", "state=drain"],
            "You must specify a reason when DOWNING or DRAINING a node. Request denied\n",
        ),
        (["update", "foo=1"], NO_ENTITY),
        (["update", "nodename=n1"], "No changes specified\n"),
        (
            ["update", "nodename=n1", "foo=1"],
            "Update of this parameter is not supported: foo=1\nRequest aborted\n",
        ),
        (["update", "nodename=n1", "state=re"], BAD_NODE_STATE.format("state=re")),
        (["update", "nodename=n1", "state=drained", "reason=x"], BAD_NODE_STATE.format("state=drained")),
        (["update", "nodename=n1", "state=mixed"], "slurm_update error: Invalid node state specified\n"),
        (
            ["update", "nodename=n1", "weight=abc"],
            "scontrol: error: Weight value (abc) is not a valid number\nNo changes specified\n",
        ),
        (
            ["update", "nodename=n1", "state=power_down", "reason=x"],
            "scontrol: error: node state POWER_DOWN is not supported here\n",
        ),
        (["update", "nodename=n1", "gres=gpu:1"], "scontrol: error: update of gres of a node is not supported here\n"),
        (["update", "partitionname=debug"], "scontrol: error: No changes specified\n"),
        (
            ["update", "partitionname=debug", "state=bogus"],
            "scontrol: error: Invalid input: state=bogus\n"
            "scontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE\nslurm_update error: No error\n",
        ),
        (
            ["update", "partitionname=debug", "maxtime=bogus"],
            "scontrol: error: Invalid input maxtime=bogus\nslurm_update error: No error\n",
        ),
        (
            ["update", "partitionname=debug", "maxnodes=bogus"],
            'scontrol: error: Invalid numeric value "bogus" for MaxNodes.\n',
        ),
        (
            ["update", "partitionname=debug", "default=maybe"],
            "scontrol: error: Invalid input: default=maybe\n"
            "scontrol: error: Acceptable Default values are YES and NO\nslurm_update error: No error\n",
        ),
        (
            ["update", "partitionname=debug", "foo=1"],
            "scontrol: error: Update of this parameter is not supported: foo=1\n\n"
            "scontrol: error: Request aborted\nslurm_update error: No error\n",
        ),
        (
            ["update", "partitionname=debug", "gracetime=5"],
            "scontrol: error: update of gracetime of a partition is not supported here\n",
        ),
        (["nosuchcmd"], "invalid keyword: nosuchcmd\n"),
        (["write"], "too few arguments for keyword:write\n"),
        (["top", "5", "6"], "too many arguments for keyword:top\n"),
        (["notify", "5"], "too few arguments for keyword:notify\n"),
        (["wait_job"], "too few arguments for keyword:wait_job\n"),
        (["wait_job", "5", "6"], "too many arguments for keyword:wait_job\n"),
        (["wait_job", "999"], "scontrol: Problem running job 999\n"),
        (["wait_job", "5"], "scontrol: Job 5 no longer running\n"),
        (["completing", "5"], "too many arguments for keyword:completing\n"),
        (["errnumstr"], "one arguments required for keyword:errnumstr\n"),
        (["shutdown"], "scontrol: error: shutdown is not supported here\n"),
        (
            ["--json", "show", "job"],
            "scontrol: unrecognized option '--json'\nTry \"scontrol --help\" for more information\n",
        ),
    ],
)
def test_refusals_before_any_call(busy: World, words: list[str], expected: str) -> None:
    result = busy.run("scontrol", *words)
    assert (result.code, result.out, result.err, busy.calls) == (1, "", expected, [])


def test_update(busy: World) -> None:
    result = busy.run("scontrol", "update", "job", "5,4_2", "name=with space", "timelimit=10", "Dependency=")
    assert (result.code, result.err) == (0, "")
    ((operation, fields),) = busy.calls
    assert operation == "update"
    assert fields["fields"] == {"Name": "with space", "TimeLimit": "10", "Dependency": ""}
    assert fields["targets"] == [
        {"job_id": 5, "task": None, "step": None},
        {"job_id": 4, "task": 2, "step": None},
    ]


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["jobid=3", "TimeLimit+=30"], {"TimeLimit": "+30"}),
        (["jobid=3", "TimeLimit-=1:30"], {"TimeLimit": "-1:30"}),
        (["jobid=3", "TimeLimit=+30"], {"TimeLimit": "+30"}),
        (["jobid=3", "TimeLimit=-10"], {"TimeLimit": "-10"}),
        (["jobid=4_2", "TimeLimit+=infinite"], {"TimeLimit": "+infinite"}),
        (["jobid=3", "TimeLimit", "+10"], {"TimeLimit": "+10"}),
        (["jobid=3", "TimeLimit", "55", "Name", "foo"], {"TimeLimit": "55", "Name": "foo"}),
        (["job", "3", "nice", "name=x"], {"Nice": "", "Name": "x"}),
        (["name=x", "jobid=3"], {"Name": "x"}),
        (["jobid=3", "A=x", "D=singleton", "De="], {"Account": "x", "Dependency": ""}),
        (
            ["jobid=3", "F=fast", "Pa=gpu", "Na=y", "Ov=1"],
            {"Features": "fast", "Partition": "gpu", "Name": "y", "OverSubscribe": "1"},
        ),
        (["jobid=3", "Pr=", "Requ=1", "MinMemoryN=10"], {"Priority": "0", "Requeue": "1", "MinMemoryNode": "10"}),
        (
            ["jobid=3", "ReqProcs=4", "ReqNodes=1-2", "Shared=no"],
            {"NumTasks": "4", "NumNodes": "1-2", "OverSubscribe": "no"},
        ),
        (["jobid=3", "ArrayTaskThrottle=2x", "nice=5x"], {"ArrayTaskThrottle": "2", "Nice": "5"}),
        (["jobid=3", "MailType=fail,foo,end", "Res="], {"MailType": "END,FAIL", "Reservation": ""}),
        (["jobid=3", "NumCPUs=2-4", "Reboot=yes"], {"NumCPUs": "2-4", "Reboot": "yes"}),
    ],
)
def test_fields_of_an_update(busy: World, words: list[str], fields: dict[str, str]) -> None:
    result = busy.run("scontrol", "update", *words)
    assert (result.code, result.err) == (0, "")
    ((_, sent),) = busy.calls
    assert sent["fields"] == fields


# Cut too short for any field of a job, or for one that could be changed here.
TOO_SHORT = (
    "Admin ArrayTask J Jo M N NumCP NumTask NumNode ReqNode NodeLis MinT StdOu Swit TresPer R S T CPUsPerTask DelayBoot"
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["jobid=3", "TimeLimit+=+5"], "scontrol: error: Invalid syntax, variations of +=- are not accepted.\n"),
        (["jobid=3", "TimeLimit-=-5"], "scontrol: error: Invalid syntax, variations of +=- are not accepted.\n"),
        (
            ["jobid=3", "TimeLimit-=1000"],
            "scontrol: error: TimeLimit decrement larger than current time limit (1000 > 30)\n",
        ),
        (
            ["jobid=3", "TimeLimit-=infinite"],
            "scontrol: error: TimeLimit decrement larger than current time limit (4294967295 > 30)\n",
        ),
        (["jobid=3", "TimeLimit+=bad"], "scontrol: error: Invalid TimeLimit value\n"),
        (["jobid=3", "TimeLimit+="], "scontrol: error: Invalid TimeLimit value\n"),
        (["jobid=3", "TimeLimit", "+=10"], "scontrol: error: Invalid TimeLimit value\n"),
        (["jobid=3", "TimeLimit"], "Invalid input: TimeLimit\nRequest aborted\n"),
        (["jobid=3", "TimeMin+=5"], "scontrol: error: Option TimeMin+=5 does not accept [+|-]= syntax\n"),
        (["jobid=3", "TimeMin=+5"], "scontrol: error: Invalid TimeMin value\n"),
        (["jobid=3,4", "TimeLimit+=10"], "scontrol: error: Invalid job ID 3,4\n"),
        (["jobid=4_[2-3]", "TimeLimit+=10"], "scontrol: error: Invalid job ID 4_[2-3]\n"),
        (
            ["jobid=99999", "TimeLimit+=10"],
            "scontrol: error: Could not load state information for job 99999: Invalid job id specified\n",
        ),
        (["TimeLimit+=10", "jobid=3"], "scontrol: error: JobId must precede TimeLimit increment or decrement\n"),
        (["jobname=nosuch", "nice=6"], "scontrol: error: No jobs with name 'nosuch'\n"),
        (["jobid"], "Invalid input: jobid\nRequest aborted\n"),
        (["jobid="], "No changes specified\n"),
        (
            ["nodename=node1", "jobid=3"],
            "Update of this parameter is not supported: nodename=node1\nRequest aborted\n",
        ),
        (["jobid=3", "foo", "bar"], "Update of this parameter is not supported: bar\nRequest aborted\n"),
        *(
            (["jobid=3", f"{word}=1"], f"Update of this parameter is not supported: {word}=1\nRequest aborted\n")
            for word in TOO_SHORT.split()
        ),
        *(
            (["jobid=3", f"{word}={value}"], f"scontrol: error: Invalid {name} value: {value}\n")
            for word, name, value in (
                ("Pr", "Priority", "-1"),
                ("Priority", "Priority", "5x"),
                ("NumTasks", "NumTasks", "99999999999"),
                ("ReqProcs", "NumTasks", "x"),
                ("Requeue", "Requeue", "yes"),
                ("Shared", "OverSubscribe", "user"),
                ("Con", "Contiguous", "x"),
                ("Reboot", "reboot", "x"),
                ("MinCPUsNode", "MinCPUsNode", "2k"),
                ("MinMemoryNode", "MinMemoryNode", "10G"),
                ("MinTmpDiskNode", "MinTmpDiskNode", "-1"),
                ("NumCPUs", "NumCPUs", "4-2"),
                ("NumCPUs", "NumCPUs", "0"),
                ("TasksPerNode", "TasksPerNode", "65536"),
                ("wait-for-switch", "wait-for-switch", "x"),
            )
        ),
        (
            ["jobid=3", "NumCPU=5x"],
            'scontrol: error: Invalid numeric value "5x" for NumCPUs.\nscontrol: error: Invalid NumCPUs value: 5x\n',
        ),
        (["jobid=3", "ArrayTaskThrottle=-1"], "scontrol: error: Invalid ArrayTaskThrottle value\n"),
        (
            ["jobid=3", "Nice=2147483646"],
            "scontrol: error: Nice value out of range (+/- 2147483645). Value ignored\n",
        ),
        (["jobid=3", "DelayBoot=x"], "scontrol: error: Invalid DelayBoot value\n"),
        (["jobid=3", "StartTime="], "No changes specified\n"),
        (["jobid=3", "Dea=x"], "Invalid time specification (pos=0): x\nNo changes specified\n"),
        (["jobid=3", "UserID=99999999"], "Invalid UserID: 99999999\nRequest aborted\n"),
        (["jobid=3", "MailType=foo"], "Invalid MailType: foo\n"),
    ],
)
def test_updates_that_cannot_be_read(busy: World, words: list[str], expected: str) -> None:
    result = busy.run("scontrol", "update", *words)
    assert (result.code, result.out, result.err, busy.calls) == (1, "", expected, [])


def test_the_controllers_host_is_the_machine_where_a_node_is_called_otherwise(
    busy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "machine", lambda: "there")
    assert busy.run("scontrol", "ping").out == "Slurmctld(primary) at there is UP\n"
    lines = busy.run("scontrol", "show", "config").lines
    assert "SlurmctldHost[0]        = there" in lines
    assert lines[-1] == "Slurmctld(primary) at there is UP"


def test_steps_that_are_none_to_scontrol(busy: World) -> None:
    shown = busy.run("scontrol", "show", "job", "1.0")
    assert (shown.code, shown.out, shown.err) == (1, "", "scontrol_print_job error: Invalid job id specified\n")
    listed = busy.run("scontrol", "listpids", "1.batch")
    assert (listed.code, listed.err) == (0, '"1.batch" does not look like a stepid\n')
    assert listed.lines == ["PID      JOBID    STEPID   LOCALID GLOBALID"]


def test_an_end_that_is_no_time_changes_nothing(busy: World) -> None:
    result = busy.run("scontrol", "update", "jobid=3", "EndTime=x")
    assert (result.code, result.err, busy.calls) == (0, "Invalid time specification (pos=0): x\n", [])


@pytest.mark.parametrize(
    ("words", "operation", "name", "fields"),
    [
        (
            ["nodename=n1", "state=drain", "reason=bad disk"],
            "change_nodes",
            "n1",
            {"State": "DRAIN", "Reason": "bad disk"},
        ),
        (["node=n[1-2]", "stat=resu"], "change_nodes", "n[1-2]", {"State": "RESUME"}),
        (["nodename=n1", "weight=5", "Features=a,b"], "change_nodes", "n1", {"Weight": 5, "Features": "a,b"}),
        (["partitionname=debug", "state=u"], "change_partition", "debug", {"state": "UP"}),
        (["partition=debug", "AllocNode=a1,b[1-2]"], "change_partition", "debug", {"alloc_nodes": "a1,b[1-2]"}),
        (["partition=debug", "AllocNodes="], "change_partition", "debug", {"alloc_nodes": "ALL"}),
        (["partition=debug", "MinNodes=2-4"], "change_partition", "debug", {"min_nodes": 2}),
        (["partition=debug", "MinNodes=1k"], "change_partition", "debug", {"min_nodes": 1024}),
        (
            ["part=gpu", "maxtime=30", "maxnodes=unlimited", "hidden=yes", "oversubscribe=force:2", "Nodes=n[1-2]"],
            "change_partition",
            "gpu",
            {"max_time": 30, "max_nodes": None, "hidden": True, "oversubscribe": "FORCE:2", "nodes": "n[1-2]"},
        ),
    ],
)
def test_updates_of_the_site(
    busy: World, words: list[str], operation: str, name: str, fields: dict[str, object]
) -> None:
    result = busy.run("scontrol", "update", *words)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert busy.calls == [(operation, {"name": name, "fields": fields})]


def test_jobs_that_are_ready_told_and_ending(busy: World) -> None:
    result = busy.run("scontrol", "wait_job", "1")
    assert (result.code, result.err) == (0, "scontrol: Nodes are ready for job 1\n")
    assert busy.run("scontrol", "wait_job", "1.0").err == "scontrol: Nodes are ready for job 1\n"
    assert busy.run("scontrol", "notify", "1.0", "two", "words").code == 0
    assert busy.calls[-1][0] == "notify"
    assert (busy.calls[-1][1]["target"]["step"], busy.calls[-1][1]["text"]) == ("0", "two words")
    assert busy.run("scontrol", "requeue", "incomplete").code == 0
    busy.index([reference.running(77, state="COMPLETING")])
    assert busy.run("scontrol", "completing").out == (
        "JobId=77 EndTime=Unknown CompletingTime=00:00:00 Nodes(COMPLETING)=n1 \n"
    )


def test_processes_of_jobs(busy: World, state_dir: Path) -> None:
    head = "PID      JOBID    STEPID   LOCALID GLOBALID\n"
    result = busy.run("scontrol", "listpids")
    assert (result.code, result.out, result.err) == (1, head, "No job steps exist on this node.\n")
    environment = {
        "PATH": os.environ["PATH"],
        paths.HOST_VARIABLE: paths.state_dir(),
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_LOCALID": "2",
        "SLURM_PROCID": "6",
        "SLURMD_NODENAME": "n1",
    }
    task = subprocess.Popen(["sh", "-c", "echo; cat; :"], env=environment, stdin=-1, stdout=-1)
    assert task.stdin is not None
    assert task.stdout is not None
    try:
        task.stdout.readline()  # it runs its own program by now
        for words in ([], ["1"], ["1.0"], ["1", "n1"]):
            lines = busy.run("scontrol", "listpids", *words).lines
            assert lines[1] == f"{task.pid:<8} 1        0        2       6       ", words
        result = busy.run("scontrol", "listpids", "1.7")
        assert (result.code, result.err) == (1, "StepId=1.7 does not exist on node (null).\n")
        assert busy.run("scontrol", "listpids", "1", "n2").err == "JobId=1 does not exist on node n2.\n"
        assert busy.run("scontrol", "listpids", "5").err == "There are no steps for job 5 on node (null).\n"
    finally:
        task.stdin.close()
        task.wait()
        task.stdout.close()
    assert busy.run("scontrol", "listpids", "abc").err == '"abc" does not look like a jobid\n'


def test_help_names_the_commands(world: World) -> None:
    assert "  notify JOB TEXT" in world.run("scontrol", "help").out


def test_verbose_tells_how_many_records_follow(busy: World) -> None:
    first = "last_update_time=2026-11-20T17:36:03, records={}"
    for words, count in ((["job", "1"], 1), (["node", "n1"], 4), (["part"], 2), (["step", "1"], 2)):
        assert busy.run("scontrol", "-v", "show", *words).lines[0] == first.format(count), words
    assert "last_update" not in busy.run("scontrol", "show", "job", "1").out


def test_the_batch_script(busy: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert busy.run("scontrol", "write", "batch_script", "9", "-").err == (
        "job script retrieval failed: Invalid job id specified\n"
    )
    busy.script = "#!/bin/sh\ntrue\n"
    assert busy.run("scontrol", "write", "batch_script", "1", "-").out == busy.script
    assert busy.run("scontrol", "write", "batch_script", "1").out == "batch script for job 1 written to slurm-1.sh\n"
    assert (tmp_path / "slurm-1.sh").read_text() == busy.script


def test_the_shell(busy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('show hostnames n[1-2]\nfoo\n\nshow hostnames "m1"\nquit\nnever\n'))
    result = busy.run("scontrol")
    assert result.code == 1
    assert result.out == (
        'scontrol: show hostnames n[1-2]\nn1\nn2\nscontrol: foo\nscontrol: \nscontrol: show hostnames "m1"\nm1\n'
        "scontrol: quit\n"
    )
    assert result.err == "invalid keyword: foo\n"


def test_the_shell_ends_with_its_input(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    result = world.run("scontrol")
    assert (result.code, result.out) == (0, "scontrol: \n")


def test_small_verbs(world: World) -> None:
    assert world.run("scontrol", "version").out == "slurm 22.05.8\n"
    assert world.run("scontrol", "-V").out == "slurm 22.05.8\n"
    assert world.run("scontrol", "errnumstr", "2017").out == "Invalid job id specified\n"
    assert world.run("scontrol", "ping").out == f"Slurmctld(primary) at {os.uname().nodename} is UP\n"
    assert world.run("scontrol", "completing").out == ""


def test_an_empty_system(world: World) -> None:
    assert world.run("scontrol", "show", "job").out == "No jobs in the system\n"
    assert world.run("scontrol", "show", "step").out == "No job steps in the system\n"


def test_an_ended_job_and_an_allocation(world: World) -> None:
    world.index(
        [
            reference.running(
                1, state="FAILED", reason="NonZeroExitCode", exit_status=3 << 8, end_time=reference.NOW - 2
            ),
            reference.running(2, request=reference.request(kind="alloc", name="interactive")),
        ]
    )
    lines = [line.strip() for line in world.run("scontrol", "show", "job", "1").lines]
    assert "Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=3:0" in lines
    assert "StartTime=2026-11-20T17:35:55 EndTime=2026-11-20T17:36:01 Deadline=N/A" in lines
    out = world.run("scontrol", "show", "job", "2").out
    assert "BatchFlag=0" in out
    assert "AccrueTime=Unknown" in out
    assert "StdOut=" not in out


def test_some_tasks_of_an_array(world: World) -> None:
    world.errors = [None, "Job is pending execution"]
    result = world.run("scontrol", "requeue", "5_[1-2]", "7")
    assert [(one["job_id"], one["task"]) for one in world.calls[0][1]["targets"]] == [(5, 1), (5, 2), (7, None)]
    assert (result.code, result.err) == (1, "Job is pending execution for job 5_[1-2]\n")


def test_a_least_number_of_nodes_that_is_none_changes_nothing(busy: World) -> None:
    result = busy.run("scontrol", "update", "partitionname=debug", "MinNodes=x")
    assert (result.code, result.err) == (0, 'scontrol: error: "x" is not a valid node count\n')
    assert busy.calls == []
    assert busy.run("scontrol", "update", "partitionname=debug", "MinNodes=4-2", "state=up").code == 0
    assert busy.calls[0][1]["fields"] == {"state": "UP"}


def test_a_reason_of_several_words_is_one_word_of_the_record(world: World) -> None:
    world.index([reference.job(7, held="user", reason="job requeued in held state")])
    assert "Reason=job_requeued_in_held_state Dependency=" in world.run("scontrol", "show", "job", "7").out
    assert world.run("squeue", "-ho", "%r").lines == ["job requeued in held state"]
