"""A request said as options again is the same request."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.core.errors import ShimError
from shim.core.model.request import JobRequest
from shim.core.options import to_argv, values
from shim.core.options.batch import settle
from shim.core.options.build import job_request
from shim.core.options.getopt import FLAG, Option
from shim.core.options.sources import first_pass
from shim.core.options.submit_options import options_of
from shim.core.options.validate import validate
from tests.core.options.test_round_trips import GPUS, ONE_WAY, TEXTS, listed, numbers


def request_of(argv: list[str]) -> JobRequest:
    context = values.Context(1_700_000_000, 1001, lambda path: "")
    found, _ = first_pass("sbatch", argv, context)
    read = settle(context, [found], {}, "#!/bin/sh\n", "script", lambda settings: settings)[0]
    settled, _ = validate(read)
    request = job_request(settled, directory="/w", umask=0o22, name="script")
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
        "--hint=nomultithread -n4",
        "--hint=memory_bound -w n1 --cores-per-socket=1",
        "--hint=Memory_Bound,compute_bound -N2 --cores-per-socket=2",
        "-C fast --batch=fast --bb=capacity=1",
        "--gpus=a100:2 --gpus-per-node=a100 --gpus-per-task=a100",
        "-N2 --gpus=4 --gpus-per-node=2 --gpus-per-task=1 --ntasks-per-node=2",
    ],
)
def test_said_again_it_is_the_same(line: str) -> None:
    request = request_of(line.split())
    options, given_up = to_argv.to_sbatch_argv(request)
    assert given_up == []
    assert request_of(options) == request


# What is told otherwise: the jobs of a dependency have other ids there, the environment is handed over, a file's nodes are listed.
OTHERWISE = {"dependency", "export-file", "nodefile"}
SAID = [option for option in options_of("sbatch") if option.long not in ONE_WAY | OTHERWISE and option.kind != "root"]
OWN_TEXTS = {
    "array": st.sampled_from(["0-7:2%3", "1,5,9", "4"]),
    "gres": st.sampled_from(["gpu", "gres:gpu:2", "gpu:a100,shard:a:3", "x:2K", "none", "None"]),
    **dict.fromkeys(("ntasks-per-gpu", "ntasks-per-tres"), st.sampled_from(["1", "2", "4"])),
    "hint": listed("multithread", "nomultithread") | listed("Memory_Bound", "compute_bound"),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task"), GPUS),
}
# Options that are taken only with others beside them.
BESIDE = {
    "distribution": "-wn1,n2 -n9",
    "gpus-per-socket": "--sockets-per-node=2",
    "gpus-per-task": "-n4",
    "mem-per-gpu": "--gpus=1",
    "ntasks-per-gpu": "-n4",
    "ntasks-per-tres": "-n4",
}


# Several options together are multiplied, and more than 32 bits hold is not what anybody means.
SMALL = {"count": numbers(1, 9), "geometry": st.lists(numbers(1, 9), min_size=1, max_size=3).map(":".join)}


def word(option: Option, small: bool = False) -> st.SearchStrategy[str]:
    """The option with one of its values."""
    if option.arity == FLAG:
        return st.just(f"--{option.long}")
    of_kind = {**TEXTS, **SMALL} if small else TEXTS
    texts = OWN_TEXTS.get(option.long, of_kind[option.kind])
    return texts.map(lambda text: f"--{option.long}" if text is None else f"--{option.long}={text}")


@pytest.mark.parametrize("option", SAID, ids=lambda option: option.long)
@settings(max_examples=20)
@given(data=st.data())
def test_any_value_of_any_option_said_again_is_the_same(option: Option, data: st.DataObject) -> None:
    argv = [*BESIDE.get(option.long, "").split(), data.draw(word(option))]
    compare(argv, request_of(argv))


@given(st.lists(st.sampled_from(SAID).flatmap(lambda option: word(option, small=True)), max_size=6))
def test_any_options_said_again_are_the_same(argv: list[str]) -> None:
    try:
        request = request_of(argv)
    except ShimError:
        return  # some exclude each other
    compare(argv, request)


def compare(argv: list[str], request: JobRequest) -> None:
    options, given_up = to_argv.to_sbatch_argv(request)
    assert given_up == [], argv
    assert request_of(options) == request, argv


def test_options_of_newer_slurms_are_given_up() -> None:
    request = JobRequest(extra={"segment": "4", "network": "x", "submit_dir": "/w"}, work_dir="/w")
    assert to_argv.to_sbatch_argv(request) == (["--chdir=/w", "--network=x"], ["--segment"])
