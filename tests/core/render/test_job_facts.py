"""What is derived from a job's record: memory, TRES, times and limits, as measured."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.model.cluster import Cluster, Partition
from shim.core.model.job import Job
from shim.core.render import job_facts as facts
from shim.core.render import job_fields
from shim.core.render.scontrol_job import job_record
from shim.core.render.view import View
from tests import reference

PLAIN = reference.cluster().replace(def_mem_per_cpu=None)


def view(default_memory: bool = False) -> View:
    cluster = reference.cluster() if default_memory else PLAIN
    return View(reference.NOW, lambda: cluster)


def waiting(cpus: int = 1, nodes: int = 1, tasks: int = 1, **fields: Any) -> Job:
    return reference.job(1, cpus=cpus, nodes=nodes, tasks=tasks, request=reference.request(**fields))


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (waiting(), "cpu=1,mem=16000M,node=1,billing=1"),
        (waiting(2, 2, 2, min_nodes=2), "cpu=2,mem=32000M,node=2,billing=2"),
        (waiting(9, 2, 9, ntasks=9), "cpu=9,mem=16000M,node=1,billing=9"),
        (waiting(4, 2, 4, min_nodes=2, mem_per_node=2048), "cpu=4,mem=4G,node=2,billing=4"),
        (waiting(6, 1, 3, mem_per_cpu=500), "cpu=6,mem=3000M,node=1,billing=6"),
        (waiting(gpus="2", mem_per_gpu=100), "cpu=1,mem=200M,node=1,billing=1"),
        (reference.running(1, "n1,n2", 2), "cpu=4,mem=4000M,node=2,billing=4"),
        (reference.queue()[0], "cpu=4,mem=4000M,node=2,billing=4,gres/gpu=2"),
    ],
)
def test_tres(job: Job, expected: str) -> None:
    assert facts.tres(job, view()) == expected


@pytest.mark.parametrize(
    ("fields", "default", "expected"),
    [
        ({}, False, (0, False)),
        ({}, True, (1000, True)),
        ({"mem_per_node": 0}, True, (0, False)),
        ({"mem_per_cpu": 5}, True, (5, True)),
    ],
)
def test_memory_asked_for(fields: dict[str, Any], default: bool, expected: tuple[int, bool]) -> None:
    assert facts.min_memory(waiting(**fields), view(default)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0),
        ({"gres": "gpu:a100:2"}, 6),
        ({"gres": "shard:2"}, 0),
        ({"gpus_per_node": "2"}, 6),
        ({"gpus": "a100:1,v100:3"}, 4),
        ({"gpus_per_task": "2"}, 8),
    ],
)
def test_gpus_asked_for(fields: dict[str, Any], expected: int) -> None:
    assert facts.gpu_total(waiting(4, 3, 4, **fields)) == expected


@pytest.mark.parametrize(
    ("partition", "limit", "expected"),
    [("debug", None, -1), ("gpu", None, 30), ("gpu,debug", None, 30), ("gpu", 5, 5), ("gone", None, -1)],
)
def test_the_limit_of_a_job_that_named_none_is_its_partitions(partition: str, limit: int | None, expected: int) -> None:
    assert facts.time_limit(reference.job(1, partition=partition, time_limit=limit), view()) == expected


@pytest.mark.parametrize(
    ("partitions", "enforced", "in_all", "expected"),
    [
        ("some,free", False, False, 60),
        ("some,free", True, False, 60),
        ("some,free", True, True, -1),
        ("free,some", False, False, -1),
        ("free,some", True, True, 60),
        ("free,high", False, False, 20),  # the highest tier is tried first
        ("free,high", True, True, -1),
        ("some,short", True, True, 90),  # MaxTime of the last, not its DefaultTime
        ("short,some", True, True, 30),  # DefaultTime of the first, whatever is tried
    ],
)
def test_of_several_partitions_the_limit_of_the_one_tried_last_is_shown(
    partitions: str, enforced: bool, in_all: bool, expected: int
) -> None:
    """As a real controller showed it."""
    of = Cluster(
        name="local",
        enforce_part_limits=enforced,
        enforce_in_all=in_all,
        partitions=(
            Partition(name="some", max_time=60),
            Partition(name="free"),
            Partition(name="high", max_time=20, priority_tier=10),
            Partition(name="short", default_time=30, max_time=90),
        ),
    )
    assert (
        facts.time_limit(reference.job(1, partition=partitions, time_limit=None), View(reference.NOW, lambda: of))
        == expected
    )


def test_ends_and_durations() -> None:
    job = reference.running(1, time_limit=10)
    assert facts.end_time(job, view()) == reference.START + 600
    assert facts.end_time(job.replace(time_limit=-1), view()) == 0
    ended = job.replace(state="FAILED", end_time=reference.START + 5)
    assert facts.end_time(ended, view()) == ended.end_time
    assert facts.time_used(ended, reference.NOW) == 5
    stopped = job.replace(state="SUSPENDED", suspend_time=reference.START + 3)
    assert facts.time_used(stopped, reference.NOW) == 3
    assert facts.time_used(reference.job(1, start_time=5), reference.NOW) == 0


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"spread_job": True}, "   SpreadJob=Yes\n"),
        ({"switches": "1"}, "   Switches=1@00:05:00\n"),
        ({"switches": "0@3"}, "\n"),
        ({"switches": "2@01:00:00"}, "   Switches=2@00:05:00\n"),
        ({"prefer": "a,b"}, "   Features=(null) DelayBoot=00:00:00\n   Prefer=a&b\n   OverSubscribe=OK "),
        ({"constraint": "a,b"}, "   Features=a&b DelayBoot="),
        ({"mem_per_cpu": 0}, " MinMemoryNode=0 "),
        ({"node_list": "n3,n1,n3"}, "   ReqNodeList=n[1,3] "),
        (
            {"extra": {"gres-flags": "enforce-binding"}, "kill_on_invalid_dep": True},
            "   GresEnforceBind=YesKillOInInvalidDependent=Yes\n",
        ),
        ({"extra": {"network": "sn"}}, " Network=sn\n"),
        ({"deadline": 1_900_000_000}, " TimeMin=00:01:00\n"),
        ({"deadline": 1_900_000_000, "time_limit": 5}, " TimeMin=N/A\n"),
        ({"switches": "2@1"}, "   Switches=2@00:01:00\n"),
        ({"kill_on_invalid_dep": True}, "   KillOInInvalidDependent=Yes\n"),
        ({"kill_on_invalid_dep": False}, "   KillOInInvalidDependent=No\n"),
        ({"gpus": "2", "ntasks_per_gpu": 2}, "   TresPerJob=gres:gpu:2\n   NtasksPerTRES=2\n"),
        ({"extra": {"gpu-bind": "closest"}}, "   TresBind=gpu:closest\n"),
        ({"exclude": "n3,n2"}, " ExcNodeList=n[2-3]\n"),
        ({"ntasks_per_node": 4, "ntasks": 1, "cpus_per_task": 3}, "   MinCPUsNode=3 "),
        ({"ntasks_per_node": 4, "ntasks": 2}, "   MinCPUsNode=4 "),
        ({"ntasks_per_node": 8, "overcommit": True}, "   MinCPUsNode=1 "),
        ({"stdout": "%N-%J-%4j-%j-%x"}, "   StdOut=/home/alice/w/%N-%J-%4j-1-job\n"),
        ({"threads_per_core": 1}, "ReqB:S:C:T=0:0:*:1\n"),
        ({"ntasks_per_node": 2, "ntasks_per_core": 1}, "NtasksPerN:B:S:C=2:0:*:1 "),
        ({"mail_type": "END", "mail_user": "a@b"}, "   MailUser=a@b MailType=END\n"),
        ({"mail_type": "ALL"}, "   MailUser=alice MailType=ALL\n"),
        ({"gpus": "2", "cpus_per_gpu": 2}, "   CpusPerTres=gres:gpu:2\n   TresPerJob=gres:gpu:2\n"),
        ({"command": "/w/job.sh", "arguments": ("a", "b c")}, "   Command=/w/job.sh a b c\n"),
        ({"kind": "run", "command": "./app", "arguments": ("a",)}, "   Command=./app\n"),
        ({"kind": "alloc", "command": "./app", "arguments": ("a",)}, "   Command=(null)\n"),
        ({"min_nodes": 2, "max_nodes": 3}, "   NumNodes=1-3 "),
    ],
)
def test_lines_of_a_record(fields: dict[str, Any], line: str) -> None:
    assert line in job_record(waiting(**fields), view())


def test_a_reason_of_several_words_is_one_word_in_a_record() -> None:
    record = job_record(reference.job(1, reason="job requeued in held state"), view())
    assert "Reason=job_requeued_in_held_state Dependency=" in record


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, ("/home/alice/w/slurm-1.out", "/home/alice/w/slurm-1.out", "/dev/null")),
        ({"stdout": "x%A_%a"}, ("/home/alice/w/x%A_%a", "/home/alice/w/x%A_%a", "/dev/null")),
        ({"stdout": "/o/%j", "stderr": "none", "stdin": "in%%"}, ("/o/%j", "/dev/null", "/home/alice/w/in%%")),
    ],
)
def test_squeue_shows_files_as_they_were_asked_for(fields: dict[str, Any], shown: tuple[str, ...]) -> None:
    job = waiting(**fields)
    names = ("stdout", "stderr", "stdin")
    assert tuple(job_fields.names()[name][1](job, view()) for name in names) == shown
    task = job.replace(job_id=9, array_job_id=7, array_task_id=2)
    assert job_fields.names()["stdout"][1](task, view()) == shown[0].replace("slurm-1", "slurm-9")


@pytest.mark.parametrize(
    ("name", "header", "text"),
    [
        ("shared", "OVER_SUBSCRIBE", "YES"),
        ("cpuspertask", "CPUS_PER_TASK", "2"),
        ("packjobid", "HET_JOB_ID", "7"),
        ("packjobidset", "HET_JOB_ID_SET", "7-8"),
        ("packjoboffset", "HET_JOB_OFFSET", "1"),
        ("prefer", "PREFER", "fast"),
    ],
)
def test_older_names_of_columns_mean_what_they_mean_on_slurm(name: str, header: str, text: str) -> None:
    job = waiting(oversubscribe=True, cpus_per_task=2, prefer="fast").replace(het_job_id=7, het_size=2, het_offset=1)
    found, show = job_fields.names()[name]
    assert (found, show(job, view())) == (header, text)


def test_a_held_job_is_eligible_when_it_was_asked_to_begin() -> None:
    job = waiting(begin=int(reference.NOW) + 60).replace(eligible_time=0)
    assert facts.eligible_time(job) == reference.NOW + 60
    assert facts.eligible_time(waiting().replace(eligible_time=0)) == 0
    past = waiting(begin=int(job.submit_time) - 60).replace(eligible_time=0)
    assert facts.eligible_time(past) == 0


@pytest.mark.parametrize(
    ("tasks", "label", "shown"),
    [
        ("0-3%1", "7_[0-3%1]", "0-3%1"),
        (",".join(map(str, range(1, 60, 2))), "7_[1,3,5,7,9,11,13,15,17,19,21,", None),
    ],
)
def test_long_arrays_are_cut(tasks: str, label: str, shown: str | None) -> None:
    job = reference.job(7, array_job_id=7, array_tasks=tasks)
    assert facts.label(job) == label
    assert facts.array_tasks(tasks) == (shown or tasks[:60] + "...")
