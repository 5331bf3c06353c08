"""Values of options: what each text means, and Slurm's complaint about each that means nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.errors import ShimError, plain
from shim.core.limits import RLIMITS
from shim.core.options import keyword_values, value_parsing, values
from shim.core.options.submit_options import options_of

NOW = 1_800_000_000.0


def read_file(path: str) -> str:
    if path == "hosts":
        return "n1 n2 # two\n\nn[3,5]\n"
    raise FileNotFoundError(2, "No such file or directory", path)


CONTEXT = values.Context(NOW, 1001, read_file)
BY_NAME = {option.long: option for command in ("salloc", "srun", "sbatch") for option in options_of(command)}


def value(name: str, text: str | None):
    return values.value_of(BY_NAME[name], text, CONTEXT)


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("ntasks", "4", 4),
        ("ntasks", " +4", 4),
        ("ntasks", "04", 4),
        ("relative", "0", 0),
        ("nodes", "2", (2, 2)),
        ("nodes", "2-4", (2, 4)),
        ("nodes", "1k", (1024, 1024)),
        ("nodes", "1M", (1048576, 1048576)),
        ("nodes", "-1", (1, 1)),
        ("nodes", "0", (0, 0)),
        ("nodes", "2-0", (2, 0)),
        ("time", "1-2:3", 1563),
        ("time", "INFINITE", -1),
        ("mem", "1500K", 2),
        ("mem", "1gb", 1024),
        ("tmp", "2T", 2097152),
        ("begin", "now+60", int(NOW) + 60),
        ("sockets-per-node", "2", 2),
        ("extra-node-info", "2-4:1:1:9", (2, 1, 1)),
        ("switches", "1@x", (1, -2)),
        ("priority", "abc", "abc"),
        ("wait-all-nodes", "1", 1),
        ("extra-node-info", "2", (2, None, None)),
        ("extra-node-info", "2:*:1", (2, None, 1)),
        ("switches", "2", (2, None)),
        ("switches", "2@1:00:00", (2, 3600)),
        ("switches", "1@0:30", (1, 30)),
        ("nice", None, 100),
        ("nice", "7", 7),
        ("nice", "-7", -7),
        ("nice", "abc", 0),
        ("priority", "TOP", "TOP"),
        ("no-kill", None, True),
        ("no-kill", "off", False),
        ("get-user-env", None, "0"),
        ("get-user-env", "5L", "5L"),
        ("output", "none", "/dev/null"),
        ("output", "x%j", "x%j"),
        ("exclusive", None, "exclusive"),
        ("exclusive", "", "exclusive"),
        ("exclusive", "USER", "user"),
        ("open-mode", "append", "a"),
        ("open-mode", "t", "t"),
        ("distribution", "Block:Cyclic", "block:cyclic"),
        ("distribution", "block,NoPack", "block,nopack"),
        ("distribution", "pack", "pack"),
        ("distribution", "plane=4", "plane=4"),
        ("distribution", "arbitrary", "arbitrary"),
        ("distribution", "*:fcyclic:*", "block:fcyclic:cyclic"),
        ("mail-type", "end,begin", "BEGIN,END"),
        ("mail-type", "ALL", "INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT"),
        ("mail-type", "ALL,ARRAY_TASKS", "ARRAY_TASKS,INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT"),
        ("mail-type", "BEGIN,REQUE", "BEGIN"),
        ("mail-type", "FAIL, END", "FAIL"),
        ("mail-type", "NONE", "NONE"),
        ("profile", "task,Energy", "Energy,Task"),
        ("profile", "all", "Energy,Lustre,Network,Task"),
        ("profile", "none", "None"),
        ("propagate", None, "ALL"),
        ("gpu-bind", "closest", "closest"),
        ("gpu-bind", "verbose,single:2", "verbose,single:2"),
        ("gpu-bind", "map_gpu:0,1", "map_gpu:0,1"),
        ("cpu-bind", "verbose,cores", "verbose,cores"),
        ("cpu-bind", "mask_cpu:0x1,0x2", "mask_cpu:0x1,0x2"),
        ("cpu-freq", "low-high:ondemand", "Low-High:OnDemand"),
        ("gpu-freq", "low,memory=high", "low,memory=high"),
        ("mem-bind", "verbose,local", "verbose,local"),
        ("acctg-freq", "task=5,energy=3", "task=5,energy=3"),
        ("cpu-freq", "2400000", "2400000"),
        ("cpu-freq", "2000x", "2000"),
        ("cpu-freq", "him1", "Highm1"),
        ("cpu-freq", "1-2x:perf", "1-2:Performance"),
        ("mem-bind", "map_mem:0,1,local", "local"),
        ("mem-bind", "map_mem=1", "map_mem:1"),
        ("acctg-freq", "30energy=030network", "30energy=030network"),
        ("acctg-freq", ",5", ",5"),
        ("gpu-freq", "900,", "900,"),
        ("get-user-env", "10Sx", "10S"),
        ("ntasks", "4294967298", 2),
        ("nodes", "4294967297-4294967298", (1, 2)),
        ("gres-flags", "enforce-binding", "enforce-binding"),
        ("kill-on-invalid-dep", "YES", True),
        ("kill-on-bad-exit", None, 1),
        ("kill-on-bad-exit", "0", 0),
        ("kill-command", None, 15),
        ("kill-command", "USR1", 10),
        ("immediate", None, 0),
        ("immediate", "3", 3),
        ("immediate", "1", 0),
        ("immediate", "0", None),
        ("immediate", "4294967296", None),
        ("immediate", "99999999999", 1215752191),
        ("mpi", "openmpi", "none"),
        ("mpi", "pmix_v4", "pmix_v4"),
        ("signal", "B:USR1@90", "B:USR1@90"),
    ],
)
def test_value(name: str, text: str | None, expected: object) -> None:
    assert value(name, text) == expected


@pytest.mark.parametrize("name, text", [(name, "x!") for name in ("time", "mem", "mem-per-cpu", "tmp", "signal")])
def test_usual_complaint(name: str, text: str) -> None:
    with pytest.raises(ShimError) as refused:
        value(name, text)
    assert (refused.value.lines, refused.value.code) == ((f"error: Invalid --{name} specification",), 255)


@pytest.mark.parametrize(
    "name, text, code, lines",
    [
        ("ntasks", "abc", 1, ['error: Invalid numeric value "abc" for --ntasks.']),
        ("ntasks", "0", 1, ['error: Invalid numeric value "0" for --ntasks.']),
        ("ntasks", "-2", 1, ['error: Invalid numeric value "-2" for --ntasks.']),
        ("ntasks", "=2", 1, ['error: Invalid numeric value "=2" for --ntasks.']),
        ("cpus-per-task", "", 1, ['error: Invalid numeric value "" for --cpus-per-task.']),
        ("mincpus", "1.5", 1, ['error: Invalid numeric value "1.5" for --mincpus.']),
        ("switches", "abc", 1, ['error: Invalid numeric value "abc" for --switches.']),
        ("switches", "@5", 1, ['error: Invalid numeric value "" for --switches.']),
        ("nodes", "abc", 255, ['error: "abc" is not a valid node count']),
        ("nodes", "=2", 255, ['error: "=2" is not a valid node count']),
        ("nodes", "1,3", 255, ['error: "1,3" is not a valid node count']),
        ("nodes", "k", 255, ['error: "k" is not a valid node count']),
        ("nodes", "2-x", 255, ['error: "x" is not a valid node count']),
        ("nodes", "4-2", 255, ["error: Maximum node count 2 is less than minimum node count 4"]),
        ("nodes", "2-", 255, ["error: Maximum node count -1 is less than minimum node count 2"]),
        (
            "begin",
            "abc",
            255,
            [plain("Invalid time specification (pos=0): abc"), "error: Invalid --begin specification"],
        ),
        ("nice", "5000000000", 255, ["error: Invalid --nice value, out of range (+/- 2147483645)"]),
        ("uid", "0", 255, ["error: --uid only permitted by root user"]),
        ("gid", "0", 255, ["error: --gid only permitted by root user"]),
        ("exclusive", "foo", 255, ["error: Invalid --exclusive specification"]),
        ("open-mode", "w", 255, ["error: Invalid --open-mode specification"]),
        ("distribution", "foo", 255, ["error: Invalid --distribution specification"]),
        ("distribution", "block:foo", 255, ["error: Invalid --distribution specification"]),
        (
            "distribution",
            "plane",
            255,
            ["error: Invalid plane size or size not specified", "error: Invalid --distribution specification"],
        ),
        ("mail-type", "REQUE", 255, ["error: Invalid --mail-type specification"]),
        ("profile", "foo", 255, ["error: invalid --profile=foo option"]),
        ("sockets-per-node", "2-4", 1, ['error: Invalid numeric value "2-4" for --sockets-per-node.']),
        ("extra-node-info", "2:x", 1, ['error: Invalid numeric value "x" for second arg of -B.']),
        ("wait-all-nodes", "2", 255, ["error: Invalid --wait-all-nodes specification"]),
        ("wait-all-nodes", "x", 1, ['error: Invalid numeric value "x" for --wait-all-nodes.']),
        ("begin", "", 255, ["error: Invalid --begin specification"]),
        ("gpu-freq", "foo", 255, ["error: Invalid --gpu-freq argument: gpu:foo"]),
        ("mem-bind", "foo", 255, ['error: unrecognized --mem-bind argument "foo"']),
        ("mem-bind", "rank,map_mem:0x2", 255, ["error: Failed to validate number: 0x2, the offending character is x"]),
        ("mem-bind", ",prefer", 255, ['error: unrecognized --mem-bind argument ""']),
        ("mem-bind", "mask_mem0", 255, ['error: missing list for "--mem-bind=mask_mem:<list>"']),
        ("acctg-freq", "x", 255, ["error: Invalid --acctg-freq specification: x"]),
        (
            "acctg-freq",
            "=,3,task=x",
            255,
            [f"error: Invalid --acctg-freq specification: {word}" for word in ("=", "task=x")],
        ),
        ("ntasks", "2147483648", 1, ["error: invalid number of tasks (-n -2147483648)"]),
        ("ntasks", "9" * 25, 1, ["error: Numeric argument (9223372036854775807) to big for --ntasks."]),
        (
            "gpu-bind",
            "map_gpu:x",
            255,
            [
                "error: Failed to validate x, offending character is x",
                "error: Invalid --gpu-bind argument: gpu:map_gpu:x",
            ],
        ),
        (
            "cpu-freq",
            "high:ondemand",
            255,
            ["error: gov on cpu-frec (ondemand) illegal without max", "error: Invalid --cpu-freq argument"],
        ),
        ("gpu-bind", "foo", 255, ["error: Invalid --gpu-bind argument: gpu:foo"]),
        (
            "cpu-freq",
            "foo",
            255,
            ['error: unrecognized --cpu-freq argument "foo"', "error: Invalid --cpu-freq argument"],
        ),
        ("gres-flags", "foo", 255, ["error: Invalid --gres-flags specification"]),
        ("kill-on-invalid-dep", "maybe", 255, ["error: Invalid --kill-on-invalid-dep specification"]),
    ],
)
def test_complaints(name: str, text: str, code: int, lines: list[str]) -> None:
    with pytest.raises(ShimError) as refused:
        value(name, text)
    assert (list(refused.value.lines), refused.value.code) == (lines, code)


def test_limits_to_pass_on() -> None:
    assert keyword_values.limits_to_pass("ALL") == keyword_values.limits_to_pass("") == list(RLIMITS)
    assert keyword_values.limits_to_pass("NONE") == []
    assert keyword_values.limits_to_pass("RLIMIT_CORE,STACK") == ["CORE", "STACK"]
    for text, name in (("FOO", "FOO"), ("stack", "stack"), ("ALL,CORE", "ALL")):
        with pytest.raises(ShimError) as refused:
            keyword_values.limits_to_pass(text)
        assert refused.value.lines == (f"error: Bad rlimit name: {name}", f"error: --propagate={text} is not valid.")
        assert refused.value.code == 1


def test_an_unknown_mpi_type() -> None:
    with pytest.raises(ShimError) as refused:
        value("mpi", "foo")
    assert len(refused.value.lines) == 5
    assert refused.value.lines[-1] == "error: Invalid MPI type 'foo', --mpi=list for acceptable types"


@pytest.mark.parametrize(
    "name, text, code, start",
    [
        ("gres", "help", 0, "Valid gres options"),
        ("mpi", "list", 0, "MPI plugin types"),
    ],
)
def test_texts_that_are_asked_for(name: str, text: str, code: int, start: str) -> None:
    with pytest.raises(value_parsing.PrintAndExit) as shown:
        value(name, text)
    assert shown.value.code == code
    assert shown.value.text.startswith(start)


@pytest.mark.parametrize(
    "text, on",
    [("", True), ("1", True), ("-1", True), ("Yes", True), ("0", False), ("no", False), ("true", False), ("1x", False)],
)
def test_flags_from_variables(text: str, on: bool) -> None:
    assert value("overcommit", text) is on


@given(st.sampled_from(sorted(BY_NAME)), st.text(max_size=12) | st.integers().map(str))
def test_any_text_is_a_value_or_a_refusal(name: str, text: str) -> None:
    try:
        value(name, text)
    except ShimError as refused:
        assert refused.code in (0, 1, 255)
        assert refused.lines or isinstance(refused, value_parsing.PrintAndExit)


def test_the_names_that_gres_help_lists() -> None:
    option = options_of("sbatch").named("gres")
    context = values.Context(0.0, 1001, str, None, lambda: ["gpu", "nvme"])
    with pytest.raises(value_parsing.PrintAndExit) as shown:
        values.value_of(option, "help", context)
    assert shown.value.text == "Valid gres options are:\ngpu[[:type]:count]\nnvme[[:type]:count]\n"


def test_a_signal_that_is_none_is_no_kill_command() -> None:
    with pytest.raises(ShimError, match="Invalid --kill-command specification"):
        value("kill-command", "0")
    assert value("kill-command", "-1") == -1
