"""scancel: what it asks of the controller, what it says, what it returns."""

from __future__ import annotations

import io
import os

import pytest

from tests.commands.conftest import World

UNKNOWN = "Invalid job id specified"
FINISHED = "Job/step already completing or completed"
DENIED = "Access/permission denied"


def targets(world: World) -> list[tuple[int, int | None, str | None]]:
    """The targets of the only call."""
    ((operation, fields),) = world.calls
    assert operation == "cancel"
    return [(one["job_id"], one["task"], one["step"]) for one in fields["targets"]]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["5"], [(5, None, None)]),
        (["5", "6"], [(5, None, None), (6, None, None)]),
        (["4_1,4_3"], [(4, 1, None), (4, 3, None)]),
        (["4_[1-2]"], [(4, 1, None), (4, 2, None)]),
        (["1.0"], [(1, None, "0")]),
        (["4_1.2"], [(4, 1, "2")]),
        (["-n", "runner"], [(1, None, None)]),
        (["-u", "1002"], [(2, None, None), (5, None, None)]),
        (["-u", "1001", "-t", "PD"], [(3, None, None), (4, None, None)]),
        (["-p", "debug", "-t", "running"], [(1, None, None), (2, None, None), (6, None, None)]),
        (["-n", "arr"], [(4, task, None) for task in range(4)]),
        (["-w", "n2"], [(1, None, None)]),
        (["-n", "runner,held", "1"], [(1, None, None)]),
    ],
)
def test_what_is_meant(busy: World, argv: list[str], expected: list[tuple[int, int | None, str | None]]) -> None:
    result = busy.run("scancel", *argv)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert targets(busy) == expected


@pytest.mark.parametrize(
    ("argv", "signal", "scope"),
    [
        (["5"], None, "default"),
        (["-s", "USR1", "5"], 10, "default"),
        (["--signal=SIGTERM", "-b", "5"], 15, "batch"),
        (["-s", "9", "-f", "5"], 9, "full"),
        (["-s", "USR1", "-b", "-f", "5"], 10, "full"),
        (["-b", "-f", "5"], None, "batch"),
    ],
)
def test_signals(busy: World, argv: list[str], signal: int | None, scope: str) -> None:
    busy.run("scancel", *argv)
    fields = busy.calls[0][1]
    assert (fields["signal"], fields["scope"]) == (signal, scope)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        ([], "scancel: error: No job identification provided\n"),
        (["abc", "5"], "scancel: error: Invalid job id abc\n"),
        (["0"], "scancel: error: Invalid job id 0\n"),
        (["12_["], "scancel: error: Invalid job id 12_[\n"),
        (["1],2"], "scancel: error: Invalid job id 1],2\n"),
        (["1_2_3"], "scancel: error: Invalid job id 1_2_3\n"),
        (["12.x"], "scancel: error: Invalid job id 12.x\n"),
        (["12.batch"], "scancel: error: Invalid job id 12.batch\n"),
        ([""], "scancel: error: Invalid job id \n"),
        (["-u", "no-such-user"], "scancel: error: Invalid user name: no-such-user\n"),
        (
            ["-t", "BAD"],
            "Invalid job state specified: BAD\nValid job states are PENDING, RUNNING, and SUSPENDED\n",
        ),
        (["-s", "FOO", "5"], "Unknown job signal: FOO\n"),
        (["-j", "5"], "scancel: invalid option -- 'j'\nTry \"scancel --help\" for more information\n"),
    ],
)
def test_refusals_cancel_nothing(busy: World, argv: list[str], error: str) -> None:
    result = busy.run("scancel", *argv)
    assert (result.code, result.out, result.err) == (1, "", error)
    assert busy.calls == []


@pytest.mark.parametrize(
    ("argv", "answer", "code", "error"),
    [
        (["99"], UNKNOWN, 0, ""),
        (["99"], FINISHED, 0, ""),
        (
            ["-v", "99"],
            UNKNOWN,
            0,
            f"scancel: Terminating job 99\nscancel: error: Kill job error on job id 99: {UNKNOWN}\n",
        ),
        (["-v", "4_9"], None, 0, "scancel: Terminating job 4_9\n"),
        (
            ["-v", "99.0"],
            UNKNOWN,
            1,
            f"scancel: error: Kill job error on job step id 99.0: {UNKNOWN}\n",
        ),
        (["6"], DENIED, 210, f"scancel: error: Kill job error on job id 6: {DENIED}\n"),
        (["-Q", "6"], DENIED, 210, ""),
    ],
)
def test_what_becomes_of_failures(busy: World, argv: list[str], answer: str | None, code: int, error: str) -> None:
    busy.errors = [answer]
    result = busy.run("scancel", *argv)
    assert (result.code, result.out, result.err) == (code, "", error)


def test_filters_that_match_nothing(busy: World) -> None:
    result = busy.run("scancel", "-n", "zz", "-p", "debug")
    assert (result.code, result.err, busy.calls) == (0, "", [])
    result = busy.run("scancel", "-v", "-n", "zz", "-p", "debug", "-t", "PD")
    assert result.err == (
        "scancel: error: No active jobs match ALL job filters, including: job_name=zz partition=debug state=PENDING \n"
    )


@pytest.mark.parametrize(("typed", "asked"), [("y\n", True), ("n\n", False), ("", False), ("what\nyes\n", True)])
def test_interactive(busy: World, monkeypatch: pytest.MonkeyPatch, typed: str, asked: bool) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    result = busy.run("scancel", "-i", "6")
    assert result.code == 0
    assert result.out.startswith("Cancel job_id=6 name=onerun partition=debug [y/n]? ")
    assert bool(busy.calls) is asked


def test_interactive_with_an_unknown_id(busy: World) -> None:
    result = busy.run("scancel", "-i", "99999")
    assert result.code == 1
    assert result.err == f"scancel: error: Kill job error on job id 99999: {UNKNOWN}\n"


def test_interactive_with_steps(busy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\nn\n"))
    result = busy.run("scancel", "-i", "-v", "1.0", "99.1", "6")
    assert result.code == 1
    assert result.out == (
        "Cancel step_id=1.0 name=runner partition=debug [y/n]? Cancel job_id=6 name=onerun partition=debug [y/n]? "
    )
    assert result.err == (
        f"scancel: error: Kill job error on job step id 99.1: {UNKNOWN}\nscancel: Terminating step 1.0\n"
    )
    assert targets(busy) == [(1, None, "0")]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("5", "Terminating job 5"),
        ("-f 5", "Terminating full job 5"),
        ("-b 5", "Terminating batch job 5"),
        ("-b -f 5", "Terminating full job 5"),
        ("-s USR1 5", "Signal 10 to job 5"),
        ("-s KILL -f -b 5", "Signal 9 to full job 5"),
        ("-s 12 -b 5", "Signal 12 to batch job 5"),
        ("-s USR1 1.0", "Signal 10 to step 1.0"),
        ("1.0", "Terminating step 1.0"),
        ("4_[1,3]", "Terminating job 4_[1,3]"),
        ("-n runner", "Terminating job 1"),
        ("-n runner 1.0", "Terminating step 1.0"),
    ],
)
def test_what_is_signalled_is_told(busy: World, argv: str, said: str) -> None:
    result = busy.run("scancel", "-v", *argv.split())
    assert (result.code, result.out, result.err) == (0, "", f"scancel: {said}\n")


@pytest.mark.parametrize("argv", ["-s USR1 99", "-b 99", "99.0", "-s TERM 99.0"])
def test_what_cannot_be_signalled_is_an_error(busy: World, argv: str) -> None:
    busy.errors = [FINISHED]
    result = busy.run("scancel", *argv.split())
    assert (result.code, result.err.endswith(f": {UNKNOWN}\n")) == (1, True)
    assert busy.run("scancel", "-Q", *argv.split()).err == ""


def test_a_job_has_no_siblings(busy: World) -> None:
    result = busy.run("scancel", "--sibling=other", "5", "99")
    assert (result.code, busy.calls) == (191, [])
    assert result.err == "scancel: error: Kill job error on job id 5: Not a valid federated job\n"


def test_options_are_told(busy: World) -> None:
    result = busy.run("scancel", "-vvv", "-b", "-p", "debug", "-t", "pd", "4_[1-2]", "6.1")
    lines = [line.removeprefix("scancel: ") for line in result.err.splitlines()]
    assert lines[:5] == [
        "account        : (null)",
        "batch          : true",
        "ctld           : false",
        "full           : false",
        "hurry          : false",
    ]
    assert lines[8:] == [
        "partition      : debug",
        "qos            : (null)",
        "reservation    : (null)",
        "sibling        : (null)",
        "state          : PENDING",
        "user_id        : 0",
        "user_name      : (null)",
        "verbose        : 3",
        "wckey          : (null)",
        "job_id[0]      : 4_1",
        "job_id[1]      : 4_2",
        "job_step_id[2] : 6.1",
        "Terminating batch job 4_[1-2]",
    ]


def test_a_step_that_is_not_there_is_an_error_whatever_q_says(busy: World) -> None:
    busy.gone = True
    result = busy.run("scancel", "-Q", "6.99")
    error = f"scancel: error: Kill job error on job step id 6: {UNKNOWN}\n"
    assert (result.code, result.out, result.err) == (225, "", error)


@pytest.mark.parametrize("state", ["CD", "COMPLETED", "cg", "Resizing", "STOPPED", "ST"])
def test_every_state_has_a_name_and_most_of_them_select_nothing(busy: World, state: str) -> None:
    result = busy.run("scancel", "-t", state, "-u", str(os.getuid()))
    assert (result.code, result.err, busy.calls) == (0, "", [])


def test_with_filters_ids_that_are_no_job_s_are_told(busy: World) -> None:
    result = busy.run("scancel", "-t", "PD", "99998", "99999.1")
    assert (result.code, busy.calls) == (1, [])
    assert result.err == (
        "scancel: error: Kill job error on job id 99998: Invalid job id specified\n"
        "scancel: error: Kill job error on job step id 99999.1: Invalid job id specified\n"
    )


def test_jobs_that_are_not_there_are_told_first_where_a_step_is_named(busy: World) -> None:
    """Slurm looks for all of them then."""
    busy.errors = [UNKNOWN, None]
    result = busy.run("scancel", "-v", "99", "1.0")
    assert (result.code, result.err) == (
        1,
        f"scancel: error: Kill job error on job id 99: {UNKNOWN}\nscancel: Terminating step 1.0\n",
    )


def test_without_a_filter_none_is_told_of(busy: World) -> None:
    assert busy.run("scancel", "-v", "-i", "99").err == f"scancel: error: Kill job error on job id 99: {UNKNOWN}\n"
