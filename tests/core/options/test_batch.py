"""sbatch's options from script, variables and command line, up to the block that -v prints and the request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.errors import ShimError, Unsupported, UsageError
from shim.core.model.request import SignalRequest
from shim.core.options.batch import settle
from shim.core.options.build import job_request
from shim.core.options.sources import COMMAND_LINE, DIRECTIVE, ENVIRONMENT, Settings, read_line
from shim.core.options.support import refuse_unsupported
from shim.core.options.validate import validate
from shim.core.options.value_parsing import PrintAndExit
from shim.core.options.values import Context
from shim.core.options.verbose import defined_options

NOW = 1_800_000_000.0


def read_file(path: str) -> str:
    if path == "hostfile":
        return "n2\nn1\nn2\n"
    raise FileNotFoundError(2, "No such file or directory", path)


def settings(header: str = "", argv: str = "", uid: int = 1001, **environ: str) -> Settings:
    found, _ = read_line("sbatch", argv.split())
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in header.split("|") if line)
    return settle(Context(NOW, uid, read_file), [found], environ, text, "job.sh", lambda settings: settings)[0]


def request(header: str = "", argv: str = "", **environ: str):
    asked, _ = validate(settings(header, argv, **environ))
    refuse_unsupported(asked)
    return job_request(asked, directory="/w", umask=0o022, name="job.sh", command="/w/job.sh")


def shown(header: str = "", argv: str = "", **environ: str) -> dict[str, str]:
    asked, _ = validate(settings(header, argv, **environ))
    lines = defined_options(asked, "/w")
    assert lines[0] == "defined options"
    assert lines[1] == lines[-2] == "-------------------- --------------------"
    assert lines[-1] == "end of defined options"
    return {line[:20].rstrip(): line[22:] for line in lines[2:-2]}


@pytest.mark.parametrize(
    "header, argv, environ, name, source",
    [
        ("-J a", "", {}, "a", DIRECTIVE),
        ("-J a|-J b", "", {}, "b", DIRECTIVE),
        ("-J a", "", {"SBATCH_JOB_NAME": "e"}, "e", ENVIRONMENT),
        ("-J a", "-J c", {"SBATCH_JOB_NAME": "e"}, "c", COMMAND_LINE),
        ("", "", {"SLURM_JOB_NAME": "outer"}, None, None),
    ],
)
def test_precedence(header: str, argv: str, environ: dict[str, str], name: str | None, source: str | None) -> None:
    asked = settings(header, argv, **environ)
    assert (asked.get("job-name"), asked.sources.get("job-name")) == (name, source)


@pytest.mark.parametrize("variable", ["SBATCH_NTASKS", "SBATCH_NODES", "SBATCH_TIME", "SBATCH_HOLD", "SLURM_NTASKS"])
def test_variables_that_are_none(variable: str) -> None:
    assert settings(**{variable: "3"}).values == {}


@pytest.mark.parametrize("header, argv", [("--time=abc", "--time=5"), ("-n4 --time=abc --nosuch", "")])
def test_a_bad_value_is_an_error_even_when_overridden(header: str, argv: str) -> None:
    with pytest.raises(ShimError, match="Invalid --time specification"):
        settings(header, argv)


@pytest.mark.parametrize("header, word", [("foo -J bar", "foo"), ("-J a b", "b"), ("-- word", "word"), ("X", "X")])
def test_a_word_that_is_no_option(header: str, word: str) -> None:
    with pytest.raises(ShimError) as refused:
        settings(header)
    assert refused.value.lines == (f"error: Invalid directive found in batch script: {word}",)
    assert refused.value.code == 255


def test_directives_cannot_set_what_is_read_before_them() -> None:
    assert settings("--wrap=x -v -Q --help").values == {}


@pytest.mark.parametrize(
    "header, argv, environ, expected",
    [
        ("-t 1:30", "", {}, {"time": "00:02:00"}),
        ("-t 0", "", {}, {"time": "UNLIMITED"}),
        ("-t -5", "", {}, {"time": "2982611-04:17:00"}),
        ("-t 100:00:00", "", {}, {"time": "4-04:00:00"}),
        ("--mem=0", "", {}, {"mem": "0?"}),
        ("--mem=1000", "", {}, {"mem": "1000"}),
        ("--mem=2048", "", {}, {"mem": "2G"}),
        ("--tmp=2T", "", {}, {"tmp": "2T"}),
        ("-N 2-4", "", {}, {"nodes": "2-4"}),
        ("-N 3-3", "", {}, {"nodes": "3"}),
        ("-B 2:4:1", "", {}, {"extra-node-info": "2:4:1"}),
        ("--gres=gpu:2,gres:shard:1", "", {}, {"gres": "gres:gpu:2,gres:shard:1"}),
        ("--signal=B:SIGUSR1@90", "", {}, {"signal": "B:USR1@90"}),
        ("--signal=usr1", "", {}, {"signal": "USR1"}),
        ("--switches=2@10", "", {}, {"switches": "2@00:10:00"}),
        ("-B 2:*:1 --priority=TOP", "", {}, {"extra-node-info": "2:1", "priority": "-3"}),
        ("--requeue --no-requeue", "", {}, {"no-requeue": "no-requeue", "requeue": "no-requeue"}),
        ("--gres=none --hint=Multithread", "", {}, {"gres": "none", "hint": "Multithread"}),
        ("--signal=USR1@ --propagate", "", {}, {"propagate": "ALL", "signal": "USR1@0"}),
        ("--mail-type=END|--mail-type=BEGIN", "", {}, {"mail-type": "BEGIN,END"}),
        ("--exclusive", "", {}, {"exclusive": "exclusive"}),
        ("--exclusive", "-s", {}, {"exclusive": "oversubscribe", "oversubscribe": "oversubscribe"}),
        ("--nice --overcommit --requeue", "", {}, {"nice": "100", "overcommit": "set", "requeue": "requeue"}),
        ("--get-user-env", "", {}, {"get-user-env": "0"}),
        (
            "-D sub -o x -e /abs -i none",
            "",
            {},
            {"chdir": "/w/sub", "error": "/abs", "input": "/dev/null", "output": "/w/sub/x"},
        ),
        ("--tasks-per-node=3", "", {}, {"ntasks-per-node": "3"}),
        ("--kill-on-invalid-dep=yes", "", {}, {"kill-on-invalid-dep": "yes"}),
        ("", "--hold -vv --wrap=true", {}, {"hold": "set", "verbose": "2", "wrap": "true"}),
        ("", "", {"SBATCH_DEBUG": "1", "SBATCH_EXCLUSIVE": ""}, {"exclusive": "exclusive", "verbose": "1"}),
        ("", "", {"SBATCH_WAIT": "0"}, {}),
        ("", "-v", {"SBATCH_DEBUG": "3"}, {"verbose": "3"}),
    ],
)
def test_defined_options(header: str, argv: str, environ: dict[str, str], expected: dict[str, str]) -> None:
    assert shown(header, argv, **environ) == expected


@pytest.mark.parametrize(
    "header, fields",
    [
        ("", {"name": "job.sh", "command": "/w/job.sh", "work_dir": "/w", "umask": 0o022, "kind": "batch"}),
        ("-J x", {"name": "x"}),
        ("--job-name=", {"name": ""}),
        ("--hint=compute_bound", {"threads_per_core": 1, "cores_per_socket": None}),
        ("--hint=memory_bound", {"threads_per_core": 1, "cores_per_socket": 1}),
        ("-A AcctA -p a,b -q q", {"account": "accta", "partition": "a,b", "qos": "q"}),
        ("-N2-4 -n8 -c2", {"min_nodes": 2, "max_nodes": 4, "ntasks": 8, "cpus_per_task": 2}),
        ("-N2", {"min_nodes": 2, "max_nodes": 2, "ntasks": None}),
        ("-N4 -n2", {"min_nodes": 2, "max_nodes": 2, "ntasks": 2}),
        ("-w n[1-2]", {"node_list": "n[1-2]", "min_nodes": None}),
        ("-w n[1-2] -N1-4", {"min_nodes": 2, "max_nodes": 4}),
        ("-B 2:4:1", {"ntasks": 8, "sockets_per_node": 2, "cores_per_socket": 4, "threads_per_core": 1}),
        ("-B 2:4:1 -n3", {"ntasks": 3}),
        ("-w n[1-3] -n2", {"node_list": "n[1-2]", "min_nodes": 2, "max_nodes": 2}),
        ("--hint=nomultithread --threads-per-core=2", {"threads_per_core": 2, "extra": {}}),
        ("--mincpus=2 -c4", {"min_cpus": 4}),
        ("--gpus=4 --gpus-per-node=2 -N1-3", {"min_nodes": 2, "max_nodes": 2}),
        ("--gpus=4 --gpus-per-node=2", {"min_nodes": None}),
        ("--hint=nomultithread", {"threads_per_core": 1, "cores_per_socket": None}),
        ("--hint=memory_bound", {"threads_per_core": 1, "cores_per_socket": 1}),
        ("--mem=2G -t 1-0 --tmp=5", {"mem_per_node": 2048, "time_limit": 1440, "tmp_disk": 5}),
        ("--gres=gres:gpu:2", {"gres": "gpu:2"}),
        ("--gres=none", {"gres": None}),
        ("--exclusive", {"exclusive": "node", "oversubscribe": False}),
        ("--exclusive=user", {"exclusive": "user"}),
        ("-s", {"exclusive": None, "oversubscribe": True}),
        ("--signal=B:USR1@90", {"signal": SignalRequest(number=10, lead=90, batch=True)}),
        ("--requeue", {"requeue": True}),
        ("--requeue --no-requeue", {"requeue": False}),
        ("-a 0-3%2 -d singleton", {"array": "0-3%2", "dependency": "singleton"}),
        ("-o out -e err -i in --open-mode=a", {"stdout": "out", "stderr": "err", "stdin": "in", "open_mode": "a"}),
        ("-D sub/", {"work_dir": "/w/sub/"}),
        ("-H --begin=now+60 --nice=5", {"hold": True, "begin": int(NOW) + 60, "nice": 5}),
        ("--export=NONE --get-user-env", {"export": "NONE", "get_user_env": True}),
        ("--profile=task --network=x", {"extra": {"profile": "Task", "network": "x"}}),
        ("-m arbitrary -w n2,n1,n2", {"distribution": "arbitrary", "node_list": "n2,n1,n2"}),
    ],
)
def test_request(header: str, fields: dict[str, object]) -> None:
    made = request(header)
    for name, value in fields.items():
        assert getattr(made, name) == value, name


@pytest.mark.parametrize(
    "header, argv, environ, line",
    [
        ("--mem=1", "--mem-per-cpu=1", {}, "fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."),
        (
            "",
            "",
            {"SBATCH_MEM_PER_CPU": "1", "SBATCH_MEM_PER_NODE": "1"},
            "fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.",
        ),
        ("-w n[1-4] -N2", "", {}, "error: invalid number of nodes (-N 4-2)"),
        ("--begin=now+60 --deadline=now+30", "", {}, "error: Incompatible begin and deadline time specification"),
        ("", "-Q -v", {}, "error: don't specify both --verbose (-v) and --quiet (-Q)"),
        (
            "-m arbitrary",
            "",
            {},
            "error: With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option",
        ),
        (
            "-n2 --gpus-per-task=1 --ntasks-per-gpu=1",
            "",
            {},
            "fatal: --gpus-per-task is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU",
        ),
        ("-S1 --thread-spec=1", "", {}, "fatal: -S/--core-spec and --thred-spec options are mutually exclusive"),
        ("--gres=gpu=2", "", {}, "error: Invalid generic resource (gres) specification"),
        ("--reboot", "", {}, "error: rebooting of nodes is only allowed for admins"),
    ],
)
def test_combinations_that_are_refused(header: str, argv: str, environ: dict[str, str], line: str) -> None:
    with pytest.raises(ShimError) as refused:
        request(header, argv, **environ)
    assert refused.value.lines[0] == line
    assert refused.value.code == 1


@pytest.mark.parametrize(
    "header, why",
    [
        (
            "--gpus-per-task=1",
            "Failed to validate job spec. --gpus-per-task used without either --gpus or -n/--ntasks is not allowed.",
        ),
        (
            "--gpus=3 --gpus-per-node=2",
            "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node",
        ),
        ("-N2 --gpus=1", "Failed to validate job spec, --gpus < -N"),
        (
            "-N3 --gpus=4 --gpus-per-node=2",
            "Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required nodes (2) doesn't fall"
            " between min_nodes (3) and max_nodes (3) boundaries.",
        ),
        ("--gpus=3 --gpus-per-task=2", "Failed to validate job spec, --gpus not multiple of --gpus-per-task"),
        ("--gpus=2 --gpus-per-node=4", "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"),
        ("-n2 --gpus-per-node=2 --gpus-per-task=3", "Failed to ensure --gpus >= --gpus-per-task"),
        ("--gpus-per-socket=1", "--gpus-per-socket option requires --sockets-per-node specification"),
        ("--gpus=2 --cpus-per-gpu=2 -c2", "--cpus-per-gpu is mutually exclusive with --cpus-per-task"),
        ("--mem-per-gpu=200", "Requested mem_per_tres=gres:gpu:200 but did not request any GPU."),
    ],
)
def test_gpu_options_that_contradict(header: str, why: str) -> None:
    with pytest.raises(ShimError) as refused:
        request(header)
    assert refused.value.lines == (f"error: {why}", "error: Invalid generic resource (gres) specification")


@pytest.mark.parametrize(
    "header",
    [
        "--gpus-per-task=1 -n4",
        "--gpus-per-task=0",
        "--gpus-per-task=1 -G4",
        "--gpus-per-task=1 -N2",
        "--cpus-per-gpu=2",
        "-N2 --gpus-per-node=8 --gpus-per-task=8",
        "-N4 -G4",
        "--gres=gpu:1 --mem-per-gpu=1",
        "-G a100:2",
    ],
)
def test_gpu_options_that_go_together(header: str) -> None:
    request(header)


def test_what_the_user_writes_beats_a_memory_variable() -> None:
    made = request("--mem-per-cpu=5", SBATCH_MEM_PER_NODE="9")
    assert (made.mem_per_cpu, made.mem_per_node) == (5, None)


@pytest.mark.parametrize(
    "header, note",
    [
        ("-N4 -n2", "Warning: can't run 2 processes on 4 nodes, setting nnodes to 2"),
        ("-N3 -n2 -w n[1-3]", "Warning: can't run 2 processes on 3 nodes, setting nnodes to 2"),
        ("-n2 -w n[1-3]", "Warning: can't run 2 processes on 3 nodes, setting nnodes to 2"),
        ("-S 2", "error: Ignoring -S since it's not allowed by configuration (AllowSpecResourcesUsage = No)"),
        (
            "--thread-spec=1",
            "error: Ignoring --thread-spec since it's not allowed by configuration (AllowSpecResourcesUsage = No)",
        ),
    ],
)
def test_warnings(header: str, note: str) -> None:
    assert validate(settings(header))[1] == [note]


def test_more_is_said_with_v() -> None:
    assert validate(settings("-B 2:3 --threads-per-core=1", "-v"))[1] == [
        "Setting --cpu-bind=threads as a default of --threads-per-core use",
        "Number of tasks implicitly set to 6.",
    ]


def test_hints_are_looked_at_last() -> None:
    with pytest.raises(ShimError, match="unrecognized --hint argument"):
        request("--hint=foo")
    with pytest.raises(PrintAndExit) as shown:
        request("--hint=help")
    assert (shown.value.code, shown.value.text[:16]) == (1, "Application hint")
    assert request("--hint=foo --threads-per-core=2").threads_per_core == 2
    assert request("--hint=multithread,compute_bound").threads_per_core == 1


def test_geometry_in_one_option_and_in_three() -> None:
    def shape(header: str) -> tuple[int | None, ...]:
        one = request(header)
        return one.sockets_per_node, one.cores_per_socket, one.threads_per_core, one.ntasks, one.min_nodes

    assert shape("-B 2:4") == (2, 4, None, 8, None)
    assert shape("--threads-per-core=3 -B 2:4") == (2, 4, None, 8, None)
    assert shape("-B 2:4 --threads-per-core=3") == (2, 4, 3, 24, None)
    assert shape("-B 1k") == (1024, None, None, 1024, None)
    assert shape("-B *:*x") == (None, None, None, None, None)
    assert shape("-B 0") == (0, None, None, None, 0)
    assert shape("-B 0 -n2") == (0, None, None, 2, None)
    assert shape("-N2 --sockets-per-node=2") == (2, None, None, 4, 2)
    assert shape("-N2 --sockets-per-node=2 --ntasks-per-node=3") == (2, None, None, None, 2)
    assert shape("-w n[1-2] --cores-per-socket=8") == (None, 8, None, 16, None)


@pytest.mark.parametrize(
    "header, environ, switches",
    [
        ("--switches=3@4", {}, "3@4:00"),
        ("--switches=1@0:30", {}, "1@0:30"),
        ("--switches=3@UNLIMITED", {}, "3"),
        ("--switches=3", {"SBATCH_WAIT4SWITCH": "2"}, "3@2:00"),
        ("--switches=3@4", {"SBATCH_REQ_SWITCH": "1"}, "1@4:00"),
        ("", {"SBATCH_REQ_SWITCH": "1", "SBATCH_WAIT4SWITCH": "0:30"}, "1@0:30"),
        ("", {"SBATCH_WAIT4SWITCH": "2"}, None),
    ],
)
def test_switches_of_options_and_variables(header: str, environ: dict[str, str], switches: str | None) -> None:
    assert request(header, **environ).switches == switches


def test_a_bundle_is_recorded() -> None:
    assert request("--container=/x").container == {"container": "/x"}


def test_an_empty_variable_asks_for_nothing() -> None:
    request(SBATCH_CONTAINER="", SBATCH_BURST_BUFFER="")


@pytest.mark.parametrize("option", ["--uid=0", "--gid=0", "--reboot"])
def test_root_is_refused_by_name_too(option: str) -> None:
    with pytest.raises(Unsupported, match="is not supported here"):
        refuse_unsupported(settings(option, uid=0))


@pytest.mark.parametrize(
    "header", ["--gres=gpu:a100:1,gpu:1", "-n1|--gres=gpu:a100:1|--gpus-per-task=1", "-G v100:1|--gpus-per-node=1"]
)
def test_gpus_with_and_without_a_type(header: str) -> None:
    with pytest.raises(ShimError, match=r"^error: Invalid GRES specification .with and without type identification.$"):
        request(header)


@pytest.mark.parametrize(
    ("header", "few"),
    [("-N2|-n4", True), ("-N2|-n5", False), ("-n1", False), ("-N2", True), ("-w a1,a2", True), ("", False)],
)
def test_planes_leave_no_node_without_tasks(header: str, few: bool) -> None:
    asked = settings(f"-m plane=4|{header}")
    if few:
        with pytest.raises(ShimError, match="error: Too few processes for the requested"):
            validate(asked)
    else:
        assert validate(asked)[1] == []


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("--gpus=1|-w a1,a2", "Failed to validate job spec, --gpus < -N"),
        ("--gpus=4|--gpus-per-task=1|-n3", "Based on --gpus and --gpus-per-task number of requested tasks differ from"),
        ("-N2|--ntasks-per-gpu=2|-n3", "-n/--ntasks has to be a multiple of --ntasks-per-gpu"),
        ("--gres=gpu:1|--gpus-per-task=1", "--gpus-per-task used without either --gpus or -n/--ntasks"),
    ],
)
def test_counts_of_gpus_tasks_and_nodes(header: str, why: str) -> None:
    with pytest.raises(ShimError, match=why):
        request(header)


def test_directives_are_one_command_line_read_after_all_lines() -> None:
    assert settings("--account|--array=1-3").get("account") == "--array=1-3"
    with pytest.raises(ShimError, match="Invalid directive found in batch script: 3"):
        settings("--account|-n 3")
    with pytest.raises(ShimError, match="Unmatched"):
        settings('--signal=foo|-C "fast')


@pytest.mark.parametrize(
    ("header", "per_node"),
    [
        ("-N2|--gpus-per-node=8|--gpus-per-task=8", 1),
        ("-N2|--gres=gpu:8|--gpus-per-task=2", 4),
        ("-N2|--gpus-per-node=8|--gpus-per-task=3", None),
        ("-n2|--gpus-per-task=1", None),
        ("-N1|--gpus-per-node=4|--gpus-per-task=4|--ntasks-per-node=1", 1),
    ],
)
def test_tasks_per_node_follow_from_gpus(header: str, per_node: int | None) -> None:
    assert request(header).ntasks_per_node == per_node


@pytest.mark.parametrize(
    ("number", "kept"), [(65533, 65533), (65534, None), (65535, None), (65536, None), (65538, 2), (131070, None)]
)
def test_tasks_of_a_node_in_the_sixteen_bits_that_slurm_keeps_of_them(number: int, kept: int | None) -> None:
    made = request(f"-N2|--ntasks-per-node={number}")
    assert (made.ntasks_per_node, made.ntasks) == (kept, None if number == kept else 2 * number)
    assert request(f"--mincpus={number}").min_cpus == kept


@pytest.mark.parametrize("header", ["-N3 -n2 -w n[1-3]", "-n2 -w n[1-3]"])
def test_more_names_than_tasks(header: str) -> None:
    found = request(header)
    assert (found.node_list, found.min_nodes, found.max_nodes) == ("n[1-2]", 2, 2)


def test_node_file_and_host_file() -> None:
    assert request("--nodefile=hostfile -m arbitrary").node_list == "n2,n1,n2"
    assert request("--nodefile=hostfile --nodelist=n7").node_list == "n7"
    assert request("--nodelist=n7 --nodefile=hostfile").node_list == "n2,n1,n2"
    for path, said in (("nosuch", "opening file nosuch, No such file"), ("", "Invalid --nodefile node file")):
        with pytest.raises(UsageError, match=said):
            request(f"--nodefile={path}")
    assert request("--nodefile=hostfile").node_list == "n2,n1,n2"
    assert request("-m arbitrary", SLURM_HOSTFILE="hostfile").node_list == "n2,n1,n2"


def test_host_file_names_the_nodes_of_the_tasks() -> None:
    for line, names, tasks, nodes in (
        ("-m block", "n2,n1,n2", 2, None),
        ("-n3", "n2,n1,n2", 3, None),
        ("-n2", "n2,n1", 2, None),
        ("-n3 -N3", "n2,n1,n2", 3, 3),
        ("-N1", "n2", 1, 1),
        ("-N1-2", "n2,n1", 2, 2),
        ("-N3", "n2,n1,n2", 2, 3),
        ("--ntasks-per-node=3", "n2,n1,n2", None, None),
    ):
        found = request(line, SLURM_HOSTFILE="hostfile")
        assert (found.node_list, found.ntasks, found.distribution) == (names, tasks, "arbitrary")
        assert found.min_nodes == nodes
    with pytest.raises(ShimError, match=r"invalid number of nodes \(-N 2-1\)"):
        request("-n3 -N1", SLURM_HOSTFILE="hostfile")
    assert request("-w n7", SLURM_HOSTFILE="nosuch").node_list == "n7"
    for line, path, said in (("-n4", "hostfile", "Too few NodeNames"), ("", "nosuch", "No such file")):
        with pytest.raises(ShimError, match=f"(?s){said}.*Failure getting NodeNames from hostfile"):
            request(line, SLURM_HOSTFILE=path)


WORDS = [
    "-N",
    "2",
    "-n4",
    "--mem=1G",
    "--gres=gpu:1",
    "-t",
    "1:00",
    "#",
    '"',
    "'",
    "\\",
    "--exclusive",
    "hetjob",
    "--nosuch",
    "-w",
    "n[1-3]",
    "-G",
    "--signal=USR1",
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=6)), st.lists(st.sampled_from(WORDS), max_size=4))
def test_any_header_becomes_a_request_or_a_refusal(header: list[str], argv: list[str]) -> None:
    try:
        asked, _ = validate(settings(" ".join(header).replace("|", "\n#SBATCH "), " ".join(argv)))
        defined_options(asked, "/w")
        refuse_unsupported(asked)
        made = job_request(asked, directory="/w", umask=0, name=None)
    except ShimError as refused:
        assert refused.code in (0, 1, 255)
    else:
        assert type(made).from_dict(made.to_dict()) == made


def test_settings_stay_as_they_were_read() -> None:
    asked = settings("-n2 -N4")
    validated, _ = validate(asked)
    assert (asked.get("nodes"), validated.get("nodes")) == ((4, 4), (2, 2))
    for one in (asked, validated, asked.changed({"ntasks": 3})):
        for values in (one.values, one.sources, one.texts):
            with pytest.raises(TypeError):
                values["ntasks"] = 7  # type: ignore[index]
        with pytest.raises(AttributeError):
            one.shared = "exclusive"
