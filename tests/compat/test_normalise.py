"""The normaliser: what it hides, and that it hides nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compat.normalise import Places, addresses_for_names, clean, name_jobs, number_jobs

LONG = Places("/tmp/x/here", "shimcompat", "/home/shimcompat", "vm")
ROOT = Places("/tmp/x/here", "root", "/root", "vm")
ADDRESSES = Places("/tmp/x/here", "root", "/root", "vm", addresses=True)


@pytest.mark.parametrize(
    ("places", "text", "cleaned"),
    [
        (LONG, "StdOut=/tmp/x/here/out", "StdOut=<dir>/out"),
        (LONG, "at 2026-11-20T17:22:40.", "at <time>."),
        (LONG, "Fri Nov  6 17:22:43 2026", "<date>"),
        (LONG, "slurm-wlm 22.05.8", "slurm 22.05.8"),
        (LONG, "slurmstepd-node1: error: x", "slurmstepd: error: x"),
        (LONG, "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\nx", "x"),
        (LONG, "x\nsrun: Step created for job 7\n", "x\n"),
        (LONG, "Waiting up to 32 seconds", "Waiting up to <n> seconds"),
        (LONG, "Priority=4294901745 Nice=0", "Priority=<n> Nice=0"),
        (LONG, "Priority=0 Nice=0", "Priority=0 Nice=0"),
        (LONG, "RunTime=00:00:07 TimeLimit=1", "RunTime=<elapsed> TimeLimit=1"),
        (LONG, "AllocNode:Sid=localhost:77", "AllocNode:Sid=<host>:<sid>"),
        (LONG, "UserId=shimcompat(1001) GroupId=shimcompat(1001)", "UserId=<user>(<uid>) GroupId=<user>(<uid>)"),
        (ROOT, "UserId=root(0) GroupId=root(0)", "UserId=<user>(<uid>) GroupId=<user>(<uid>)"),
        (LONG, "SLURM_JOB_UID=1001", "SLURM_JOB_UID=<uid>"),
        (LONG, "$0 is /var/spool/node1/job00012/slurm_script", "$0 is <spool>/slurm_script"),
        (LONG, "/home/shimcompat/a /home/shimcompat2", "<home>/a /home/shimcompat2"),
        (LONG, "Slurmctld(primary) at vm is UP", "Slurmctld(primary) at <host> is UP"),
        (LONG, "vms and vm-2 and x/vm", "vms and vm-2 and x/vm"),
        (LONG, "SLURM_JOB_USER=shimcompat", "SLURM_JOB_USER=<user>"),
        (LONG, "127.0.0.1", "127.0.0.1"),
        (ADDRESSES, "127.0.0.1 on 127.0.0.2,127.0.0.3,127.0.0.4", "node1 on node[2-4]"),
        (ADDRESSES, "127.0.0.1      1 debug", "node1          1 debug"),
        (ADDRESSES, "127.0.0.2,127.0.0.4 1127.0.0.1 127.0.0.1.5", "node[2,4] 1127.0.0.1 127.0.0.1.5"),
    ],
)
def test_what_is_hidden(places: Places, text: str, cleaned: str) -> None:
    assert clean(text, places) == cleaned


def test_a_column_of_users_keeps_its_width() -> None:
    for places, line in ((LONG, "    1 debug shimcomp  R"), (ROOT, "    1 debug     root  R")):
        assert clean(line, places) == "    1 debug   <user>  R"


def test_ends_of_tasks_read_the_same_however_they_were_put_together() -> None:
    together = "srun: error: node1: tasks 0-2: Killed\nnext\n"
    apart = "srun: error: node1: task 2: Killed\nsrun: error: node1: tasks 0,1: Killed\nnext\n"
    assert clean(together, LONG) == clean(apart, LONG)
    assert clean(together, LONG) == "".join(f"srun: error: node1: task {n}: Killed\n" for n in range(3)) + "next\n"


def test_what_a_case_asks_for_where_names_are_addresses() -> None:
    assert (
        addresses_for_names("-w node[1-2,4] node3 nodes node12")
        == "-w 127.0.0.1,127.0.0.2,127.0.0.4 127.0.0.3 nodes node12"
    )


def test_rules_of_the_case_come_last() -> None:
    rules = [(re.compile(r"^at <time>$", re.MULTILINE), "then")]
    assert clean("at 2026-11-20T17:22:40\nx", LONG, rules) == "then\nx"


def test_job_ids_are_numbered_in_their_order() -> None:
    names = number_jobs(["job 700012 and 700003", "slurm-700003.out 0000700012 42 1700003 7000031"])
    assert names == {"700003": "<job1>", "700012": "<job2>"}
    assert name_jobs("700012_1 0000700003 17000030", names) == "<job2>_1 0000<job1> 17000030"


@given(st.text(st.sampled_from("abcdefgh XYZ:=,;()[]%\n"), max_size=60))
def test_nothing_else_is_touched(text: str) -> None:
    assert clean(text, LONG) == text
