"""A request said as options again is the same request."""

from __future__ import annotations

import pytest

from shim.core.model.request import JobRequest
from shim.core.options import rebuilt, values
from shim.core.options.batch import settle
from shim.core.options.merge import first_pass
from shim.core.options.request import job_request
from shim.core.options.verify import verify


def request_of(argv: list[str]) -> JobRequest:
    context = values.Context(1_700_000_000, 1001, lambda path: "")
    found, _ = first_pass("sbatch", argv, context)
    settings = settle(context, [found], {}, "#!/bin/sh\n", "script", lambda part: None)[0]
    verify(settings)
    request = job_request(settings, directory="/w", umask=0o22, name="script")
    return request.replace(extra={name: text for name, text in request.extra.items() if name != "submit_dir"})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-J name -N2-4 -n 8 -c 2 -t 1-2:03 --time-min=5 -p gpu,debug -A lab -q high",
        "-N 3 --ntasks-per-node=4 --mem=3G --tmp=2T -C fast&big --exclusive -o out.%j -e err --open-mode=append",
        "--mem-per-cpu=500 -w n1,n2 -x n3 --contiguous --nice=5 --requeue --signal=B:USR1@120 --overcommit",
        "--mem-per-gpu=2G --gpus=4 --gpus-per-node=2 --cpus-per-gpu=3 --gres=gpu:2",
        "--gpus-per-task=1 -n 4 --no-requeue -k --spread-job --use-min-nodes -H --exclusive=user",
        "-a 0-7:2%3 -L matlab:2 --mail-type=END,FAIL --mail-user=me --comment=two --wckey=k --export=NONE,A=b",
        "-b 2030-01-02T03:04:05 --deadline=2031-01-01 -m block:cyclic --threads-per-core=1 --mincpus=2 -t UNLIMITED",
        "--kill-on-invalid-dep=yes --switches=2@10 --cpu-freq=High --profile=task --wait-all-nodes=1 -s --mem=0",
    ],
)
def test_said_again_it_is_the_same(line: str) -> None:
    request = request_of(line.split())
    options, given_up = rebuilt.arguments(request)
    assert given_up == []
    assert request_of(options) == request


def test_options_of_newer_slurms_are_given_up() -> None:
    request = JobRequest(extra={"segment": "4", "network": "x", "submit_dir": "/w"}, work_dir="/w")
    assert rebuilt.arguments(request) == (["--chdir=/w", "--network=x"], ["--segment"])
