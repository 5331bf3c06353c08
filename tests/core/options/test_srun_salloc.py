"""srun's and salloc's options: variables and the command line, as a job and as a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.admission.refusals import check_request
from shim.core.errors import ShimError, Unsupported
from shim.core.model.cluster import Cluster, Partition
from shim.core.model.request import JobRequest, StepRequest
from shim.core.options.build import job_request, step_request
from shim.core.options.srun_salloc import settle
from shim.core.options.support import refuse_unsupported
from shim.core.options.value_parsing import PrintAndExit
from shim.core.options.values import Context


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


CONTEXT = Context(0.0, 1001, no_file)


def step(line: str, **environ: str) -> tuple[StepRequest, list[str]]:
    (one,) = settle("srun", line.split(), environ, CONTEXT)
    return step_request(one.settings, one.words), one.notes


def job(command: str, line: str, **environ: str) -> JobRequest:
    (one,) = settle(command, line.split(), environ, CONTEXT)
    refuse_unsupported(one.settings)
    return job_request(one.settings, directory="/w", umask=0, name="interactive")


@pytest.mark.parametrize(
    "line, environ, fields",
    [
        ("true -n 5", {}, {"argv": ("true", "-n", "5"), "ntasks": None}),
        ("-n2 -c3 x", {"SRUN_CPUS_PER_TASK": "9"}, {"ntasks": 2, "cpus_per_task": 3}),
        ("x", {"SRUN_CPUS_PER_TASK": "9", "SLURM_CPUS_PER_TASK": "4"}, {"cpus_per_task": 9}),
        ("x", {"SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2"}, {"ntasks": 4, "min_nodes": 2, "max_nodes": 2}),
        ("-N1 x", {"SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2"}, {"ntasks": 4, "min_nodes": 1, "max_nodes": 1}),
        ("-l -u -K -Q x", {}, {"label": True, "unbuffered": True, "kill_on_bad_exit": True, "quiet": True}),
        ("--kill-on-bad-exit=0 x", {}, {"kill_on_bad_exit": False}),
        ("x", {"SLURM_LABELIO": "1", "SLURM_KILL_BAD_EXIT": "1"}, {"label": True, "kill_on_bad_exit": True}),
        ("--exclusive x", {}, {"exclusive": True}),
        ("--exact --overlap x", {}, {"exact": True, "overlap": True, "exclusive": False}),
        ("-s x", {}, {"exclusive": False}),
        ("--gres=none x", {}, {"gres": "none"}),
        ("--gres=gpu:1 x", {}, {"gres": "gpu:1"}),
        (
            "-W 2 -r 1 -w n1 -x n2 -t 5 x",
            {},
            {"wait": 2, "relative": 1, "node_list": "n1", "exclude": "n2", "time_limit": 5},
        ),
        ("-o out -e err -i none x", {}, {"stdout": "out", "stderr": "err", "stdin": "/dev/null"}),
        ("-D /tmp -J name --pty x", {}, {"work_dir": "/tmp", "name": "name", "pty": True}),
        ("--export=NONE x", {"SLURM_EXPORT_ENV": "ALL"}, {"export": "NONE"}),
        ("-vv x", {}, {"verbose": 2}),
        ("--mem=5 x", {"SLURM_MEM_PER_CPU": "7"}, {"mem_per_node": 5, "mem_per_cpu": None}),
    ],
)
def test_step(line: str, environ: dict[str, str], fields: dict[str, object]) -> None:
    made, _ = step(line, **environ)
    for name, value in fields.items():
        assert getattr(made, name) == value, name


def test_warnings_of_steps() -> None:
    made, notes = step("-n1 x", SLURM_JOB_NUM_NODES="2")
    assert (made.min_nodes, notes) == (1, ["Warning: can't run 1 processes on 2 nodes, setting nnodes to 1"])
    made, notes = step("-N2 -n3 --ntasks-per-node=2 x")
    assert made.ntasks_per_node is None
    assert notes == [
        "Warning: can't honor --ntasks-per-node set to 2 which doesn't match the requested tasks 3 with the number of "
        "requested nodes 2. Ignoring --ntasks-per-node."
    ]
    made, notes = step("-n2 x", SLURM_JOB_NUM_NODES="2", SLURM_NTASKS_PER_NODE="4")
    assert (made.ntasks_per_node, notes) == (4, [])
    made, notes = step("-N2 -n5 --ntasks-per-node=2 x")
    assert (made.ntasks_per_node, notes) == (2, [])  # there is no place for a fifth task: the controller says so
    assert step("-N1-2 -n6 --ntasks-per-node=4 x")[0].ntasks_per_node is None
    assert step("-n1 --slurmd-debug=debug x")[1] == step("--slurmd-debug=5 x")[1]
    assert step("-n1 --slurmd-debug=foo x")[1] == ["Using srun's max debug increment of 4"]
    assert step("-n1 --slurmd-debug=verbose x")[1] == []
    made, notes = step("-n4 x", SLURM_JOB_NUM_NODES="2", SLURM_NTASKS_PER_NODE="3")
    assert made.ntasks_per_node is None
    assert len(notes) == 1


def test_names_beyond_the_number_of_nodes_are_dropped() -> None:
    made, notes = step("-w n[2,1,10] -N2 x")
    assert (made.node_list, made.min_nodes, made.max_nodes) == ("n[1-2]", 2, 2)
    assert notes == [
        "error: Required nodelist includes more nodes than permitted by max-node count (3 > 2). "
        "Eliminating nodes from the nodelist."
    ]


@pytest.mark.parametrize(
    "line, code, lines",
    [
        ("-Ix true", 1, ('error: Invalid numeric value "x" for immediate.',)),
        ("--accel-bind=x true", 255, ("error: Invalid --accel-bind specification",)),
        (
            "--cpu-bind=cores,foo true",
            1,
            (
                "cluster configuration lacks support for cpu binding",
                'error: unrecognized --cpu-bind argument "foo"',
                "fatal: Failed to parse --cpu-bind= values.",
            ),
        ),
        (
            "--cpu-bind=map_cpu:x true",
            1,
            (
                "cluster configuration lacks support for cpu binding",
                "error: Failed to validate number: x, the offending character is x",
                "fatal: Failed to parse --cpu-bind= values.",
            ),
        ),
        (
            "--cpu-bind=mask_cpu true",
            1,
            (
                "cluster configuration lacks support for cpu binding",
                'error: missing list for "--cpu-bind=mask_cpu:<list>"',
                "fatal: Failed to parse --cpu-bind= values.",
            ),
        ),
        *(
            (
                f"--cpu-bind={word} true",
                1,
                (
                    "cluster configuration lacks support for cpu binding",
                    f"error: {why}",
                    "fatal: Failed to parse --cpu-bind= values.",
                ),
            )
            for word, why in (
                ("mask_cpu:0x1,0xz", "Failed to validate number: z, the offending character is z"),
                ("mask_cpu:0x1,1g", "Failed to validate number: 1g, the offending character is g"),
                ("mask_cpu:0x1*2,zz", 'unrecognized --cpu-bind argument "zz"'),
                ("map_cpu:0,0xg", "Failed to validate number: 0xg, the offending character is x"),
                ("map_cpu:0,x", 'unrecognized --cpu-bind argument "x"'),
            )
        ),
        ("--jobid=0 true", 1, ('error: Invalid numeric value "0" for --jobid.',)),
        ("--jobid= true", 1, ('error: Invalid numeric value "" for --jobid.',)),
        ("--exact --whole true", 1, ("error: --exact and --whole are mutually exclusive.",)),
        ("--pty -e x true", 1, ("error: --error/--input/--output are incompatible with --pty",)),
        ("--propagate=foo true", 1, ("error: Bad rlimit name: foo", "error: --propagate=foo is not valid.")),
    ],
)
def test_refusals_of_srun(line: str, code: int, lines: tuple[str, ...]) -> None:
    with pytest.raises(ShimError) as refused:
        step(line)
    assert (refused.value.code, refused.value.lines) == (code, lines)


def test_a_longer_node_list_beats_the_variable_of_the_job() -> None:
    made, _ = step("-w n[1-3] x", SLURM_JOB_NUM_NODES="2")
    assert (made.min_nodes, made.max_nodes) == (3, 3)


@pytest.mark.parametrize(
    "command, line, environ, fields",
    [
        ("salloc", "-I -N1 bash", {}, {"kind": "alloc", "immediate": 0, "min_nodes": 1}),
        ("salloc", "", {"SALLOC_PARTITION": "p", "SALLOC_JOB_NAME": "no"}, {"partition": "p", "name": "interactive"}),
        (
            "srun",
            "-I5 -o out true",
            {"SLURM_PARTITION": "p"},
            {"kind": "run", "immediate": 5, "partition": "p", "stdout": None},
        ),
    ],
)
def test_job(command: str, line: str, environ: dict[str, str], fields: dict[str, object]) -> None:
    made = job(command, line, **environ)
    for name, value in fields.items():
        assert getattr(made, name) == value, name


@pytest.mark.parametrize(
    "command, line",
    [
        ("srun", "--mpi=pmix x"),
        ("salloc", "--x11"),
    ],
)
def test_refused_by_name(command: str, line: str) -> None:
    with pytest.raises(Unsupported):
        job(command, line)


def test_the_error_of_each_command() -> None:
    for command, text in (("salloc", "Job submit/allocate failed"), ("srun", "Unable to allocate resources")):
        with pytest.raises(ShimError, match=f"error: {text}: Invalid Trackable RESource"):
            check_request(
                job(command, "--gres= x"),
                Cluster(name="one", partitions=(Partition(name="debug", default=True),)),
                1001,
                0,
            )


@pytest.mark.parametrize(
    "option, start", [("--help", "Usage: srun"), ("--usage", "Usage: srun"), ("-V", "slurm 22.05.8")]
)
def test_texts(option: str, start: str) -> None:
    with pytest.raises(PrintAndExit) as shown:
        settle("srun", [option], {}, CONTEXT)
    assert shown.value.text.startswith(start)


@given(
    st.lists(
        st.text(max_size=8)
        | st.sampled_from(["-n2", "-N", "3", "--mem", "--gres=gpu:2", "-I", "--mpi=none", "-l", ":", "--het-group=1"])
    )
)
def test_any_words_are_read_or_refused(argv: list[str]) -> None:
    for command in ("srun", "salloc"):
        try:
            for one in settle(command, argv, {}, CONTEXT):
                step_request(one.settings, one.words)
                job_request(one.settings, directory="/w", umask=0, name="x")
        except ShimError as refused:
            assert refused.code in (0, 1, 255)
