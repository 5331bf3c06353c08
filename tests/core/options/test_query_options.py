"""Command lines and variables of the query commands."""

from __future__ import annotations

import pytest

from shim.core.errors import UsageError
from shim.core.options.query_options import read


@pytest.mark.parametrize(
    "command, argv, environ, values, words",
    [
        ("squeue", ["-hj5", "--sort=i"], {}, {"noheader": "", "jobs": "5", "sort": "i"}, []),
        ("squeue", ["-j", "5", "-l"], {}, {"jobs": "", "long": ""}, ["5"]),
        ("squeue", ["--job=5", "--user=me", "--node=n1"], {}, {"jobs": "5", "users": "me", "nodelist": "n1"}, []),
        ("squeue", [], {"SQUEUE_ALL": "no", "SQUEUE_FORMAT": "%i"}, {"all": "", "format": "%i"}, []),
        ("squeue", ["-o%j"], {"SQUEUE_FORMAT": "%i"}, {"format": "%j"}, []),
        ("squeue", ["--json"], {}, {"json": ""}, []),
        ("scancel", ["5_3", "-s", "USR1", "6"], {}, {"signal": "USR1"}, ["5_3", "6"]),
        ("scancel", ["-vv", "--jobname=x"], {}, {"verbose": "vv", "name": "x"}, []),
        ("sinfo", ["-Nlp", "debug", "word"], {}, {"Node": "", "long": "", "partition": "debug"}, ["word"]),
        ("scontrol", ["show", "job", "5", "-o"], {}, {"oneliner": ""}, ["show", "job", "5"]),
    ],
)
def test_read(command: str, argv: list[str], environ: dict[str, str], values: dict[str, str], words: list[str]) -> None:
    assert read(command, argv, environ) == (values, words)


def test_given_twice() -> None:
    assert read("sacct", ["-j1", "-o", "a", "-j", "2", "--jobs=3,4", "-o", "b"], {"SACCT_FORMAT": "c"})[0] == {
        "jobs": "1,2,3,4",
        "format": "a,b",
    }
    assert read("squeue", ["-j1", "-j2", "-n", "a", "-n", "b"], {})[0] == {"jobs": "2", "name": "b"}


def test_variables_can_be_left_out() -> None:
    assert read("squeue", [], {"SQUEUE_ALL": "1"}, from_environment=False) == ({}, [])


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--nosuch"], "unrecognized option '--nosuch'"),
        (["--us=x"], "option '--us=x' is ambiguous; possibilities: '--usage' '--user' '--users'"),
        (["-Z"], "invalid option -- 'Z'"),
    ],
)
def test_refused_with_code_1(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read("squeue", argv, {})
    assert refused.value.lines == (message, '\0Try "squeue --help" for more information')
    assert refused.value.code == 1


def test_names_of_one_option_are_no_ambiguity() -> None:
    assert read("squeue", ["--user=x", "--clusters=c"], {})[0] == {"users": "x", "clusters": "c"}
    assert read("squeue", ["--cl=c"], {})[0] == {"clusters": "c"}
