"""File name patterns and the files of a batch script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.environ.filenames import Names, expand, job_files
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest

BATCH = Names(job_id=497, job_name="wrap", user="alice", host="vm.example.org")
TASK = Names(job_id=526, job_name="", user="alice", host="n2", node=1, task=3, step="0")


@pytest.mark.parametrize(
    ("pattern", "names", "expected"),
    [
        ("o/%j-%J-%A-%a-%x-%N-%n-%t-%u-%s-%b.txt", BATCH, "o/497-497-497-4294967294-wrap-vm-0-0-alice-batch-%b.txt"),
        ("t-%t-n%n-N%N-s%s-j%j-J%J-%x.txt", TASK, "t-3-n1-Nn2-s0-j526-J526.0-(null).txt"),
        ("%3j-%5j-%10j-%03j-%2A", BATCH, "497-00497-0000000497-497-497"),
        ("%99j", BATCH, "0000000497"),
        pytest.param(f"%{'9' * 5000}j", BATCH, "0000000497", id="wide"),
        ("%2t", TASK, "03"),
        ("%4x%4u", BATCH, "wrapalice"),
        ("%%j-100%%", BATCH, "%j-100%"),
        ("%q-%z-%", BATCH, "%q-%z-%"),
        ("%5q-%5", BATCH, "%5q-%5"),
        ("back\\%j.txt", BATCH, "back%j.txt"),
        ("a\\\\b%j", BATCH, "a\\b%j"),
        ("%A_%4a", BATCH.replace(array_job_id=513, array_task_id=2), "513_0002"),
        ("%N", BATCH.replace(host="127.0.0.1"), "127.0.0.1"),
        ("", BATCH, ""),
    ],
)
def test_expand(pattern, names, expected):
    assert expand(pattern, names) == expected


@given(st.text(alphabet="%jAaxN\\0129q/", max_size=20))
def test_any_pattern_expands(pattern):
    text = expand(pattern, BATCH)
    if "%" not in pattern and "\\" not in pattern:
        assert text == pattern


def files(array: tuple[int, int | None] = (0, None), **options: str) -> tuple[str, str, str]:
    job = Job(
        job_id=33,
        user="alice",
        array_job_id=array[0],
        array_task_id=array[1],
        request=JobRequest(work_dir="/home/alice/w", name="n", **options),
        shares=(NodeShare(name="n1"),),
    )
    return job_files(job)


def test_default_files():
    assert files() == ("/home/alice/w/slurm-33.out", "/home/alice/w/slurm-33.out", "/dev/null")
    assert files((30, 4))[0] == "/home/alice/w/slurm-30_4.out"
    assert files((33, None))[0] == "/home/alice/w/slurm-33_4294967294.out"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stdout": "o.%j"}, ("/home/alice/w/o.33", "/home/alice/w/o.33", "/dev/null")),
        ({"stdout": "/tmp/%x"}, ("/tmp/n", "/tmp/n", "/dev/null")),
        ({"stderr": "e"}, ("/home/alice/w/slurm-33.out", "/home/alice/w/e", "/dev/null")),
        ({"stdout": "none", "stdin": "in.%u"}, ("/dev/null", "/dev/null", "/home/alice/w/in.alice")),
        ({"stdout": "o", "stderr": "/dev/null"}, ("/home/alice/w/o", "/dev/null", "/dev/null")),
        ({"stdout": "%N"}, ("/home/alice/w/n1", "/home/alice/w/n1", "/dev/null")),
    ],
)
def test_files_that_were_asked_for(options, expected):
    assert files(**options) == expected


def test_a_job_that_has_no_nodes_yet():
    assert job_files(Job(job_id=5, request=JobRequest(stdout="/o/%N-%j")))[0] == "/o/-5"
