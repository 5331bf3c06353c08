"""The grammar of getopt_long, on tables of real commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.errors import UsageError
from shim.core.options import query_options, submit_options
from shim.core.options.getopt import parse

SBATCH = submit_options.options_of("sbatch")


def found(argv: list[str], permute: bool = False) -> tuple[list[tuple[str, str | None]], list[str]]:
    options, words = parse("sbatch", argv, SBATCH, permute)
    return [(option.long, value) for option, value in options], words


@pytest.mark.parametrize(
    "argv, options, words",
    [
        ([], [], []),
        (["--time=5"], [("time", "5")], []),
        (["--time", "5"], [("time", "5")], []),
        (["--time="], [("time", "")], []),
        (["--time=a=b"], [("time", "a=b")], []),
        (["-t5"], [("time", "5")], []),
        (["-t", "5"], [("time", "5")], []),
        (["-t=5"], [("time", "=5")], []),
        (["-Hn4", "-N", "2"], [("hold", None), ("ntasks", "4"), ("nodes", "2")], []),
        (["-HQ"], [("hold", None), ("quiet", None)], []),
        (["-J", "-x"], [("job-name", "-x")], []),
        (["-J", "--"], [("job-name", "--")], []),
        (["--exclusive", "user"], [("exclusive", None)], ["user"]),
        (["--exclusive=user"], [("exclusive", "user")], []),
        (["-k", "off"], [("no-kill", None)], ["off"]),
        (["-koff"], [("no-kill", "off")], []),
        (["a.sh", "-t5"], [], ["a.sh", "-t5"]),
        (["-", "-t5"], [], ["-", "-t5"]),
        (["--", "-t5"], [], ["-t5"]),
        (["-qos=debug"], [("qos", "os=debug")], []),
        (["--threads=1"], [("threads-per-core", "1")], []),
        (["--ntasks=3"], [("ntasks", "3")], []),
        (["--ntasks-per-n=3"], [("ntasks-per-node", "3")], []),
        (["--tasks=3"], [("tasks-per-node", "3")], []),
        (["--out=x"], [("output", "x")], []),
        (["--cluster=x"], [("cluster", "x")], []),
    ],
)
def test_reads(argv: list[str], options: list[tuple[str, str | None]], words: list[str]) -> None:
    assert found(argv) == (options, words)


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--nosuch"], "unrecognized option '--nosuch'"),
        (["--nosuch=3"], "unrecognized option '--nosuch=3'"),
        (["--TIME=3"], "unrecognized option '--TIME=3'"),
        (["-Z"], "invalid option -- 'Z'"),
        (["-HZ"], "invalid option -- 'Z'"),
        (["-é"], "invalid option -- '\udcc3'"),
        (["-n"], "option requires an argument -- 'n'"),
        (["--mem"], "option '--mem' requires an argument"),
        (["--job-na"], "option '--job-name' requires an argument"),
        (["--hold=1"], "option '--hold' doesn't allow an argument"),
        (["--verb=1"], "option '--verbose' doesn't allow an argument"),
        (["--tim=5"], "option '--tim=5' is ambiguous; possibilities: '--time' '--time-min'"),
        (["--nod=1"], "option '--nod=1' is ambiguous; possibilities: '--nodefile' '--nodelist' '--nodes'"),
        (["--cpus=2"], "option '--cpus=2' is ambiguous; possibilities: '--cpus-per-gpu' '--cpus-per-task'"),
        (["--pty"], "unrecognized option '--pty'"),
        (["--immediate"], "unrecognized option '--immediate'"),
    ],
)
def test_refuses(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        found(argv)
    assert refused.value.lines == (message, '\0Try "sbatch --help" for more information')
    assert refused.value.code == 255


def test_all_names_of_an_ambiguous_letter() -> None:
    with pytest.raises(UsageError) as refused:
        found(["--n=1"])
    assert refused.value.lines[0].split(": ")[1].split()[:7] == [
        "'--network'",
        "'--nice'",
        "'--no-kill'",
        "'--no-requeue'",
        "'--nodefile'",
        "'--nodelist'",
        "'--nodes'",
    ]


def test_query_commands_find_options_behind_words() -> None:
    options, words = parse(
        "scancel", ["12", "-s", "USR1", "13", "--", "-14"], query_options.options_of("scancel"), True
    )
    assert [(option.long, value) for option, value in options] == [("signal", "USR1")]
    assert words == ["12", "13", "-14"]


def test_what_stood_before_a_mistake_is_kept() -> None:
    before: list = []
    with pytest.raises(UsageError):
        parse("sbatch", ["-n4", "--nosuch"], SBATCH, found=before)
    assert [(option.long, value) for option, value in before] == [("ntasks", "4")]


@given(st.lists(st.text(max_size=8) | st.sampled_from(["--", "-", "-n", "--time", "--exclusive", "-Hk"])))
def test_any_words_are_read_or_refused(argv: list[str]) -> None:
    for permute in (False, True):
        try:
            _, words = parse("sbatch", argv, SBATCH, permute)
        except UsageError as refused:
            assert refused.lines[0]
        else:
            assert len(words) <= len(argv)
