"""strigger: what it says, and what it asks of the controller. Texts are those of a real strigger 22.05."""

from __future__ import annotations

from typing import Any

import pytest

from shim.core.triggers import Trigger
from tests.commands.conftest import World

KNOWN = [
    Trigger(id=1, type="fini", job_id=7, user="alice", uid=1001, program="/bin/x"),
    Trigger(id=2, type="down", user="root", uid=0, program="/bin/y"),
    Trigger(id=3, type="up", nodes="n[1-2]", user="root", uid=0, program="/bin/z"),
]
LINES = [one.line() for one in KNOWN]


@pytest.fixture
def asked(world: World, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the controller was asked; it has the known triggers."""
    found: list[dict[str, Any]] = []
    from shim.control import client

    def call(op: str, fields: dict[str, Any], **_: Any) -> dict[str, Any]:
        assert op == "trigger"
        found.append(fields)
        return {"triggers": [one.to_dict() for one in KNOWN]}

    monkeypatch.setattr(client, "call", call)
    return found


@pytest.mark.parametrize(
    ("words", "which"),
    [
        ([], [0, 1, 2]),
        (["-j", "7"], [0]),
        (["--fini", "-j7"], [0]),
        (["-i", "3"], [2]),
        (["-i", "abc"], [0, 1, 2]),
        (["-n"], [1, 2]),
        (["-nn2"], [1, 2]),
        (["-nn4"], [1]),
        (["--user=root"], [1, 2]),
        (["--up"], [2]),
        (["-D"], []),
    ],
)
def test_the_listing(world: World, asked: list[dict[str, Any]], words: list[str], which: list[int]) -> None:
    result = world.run("strigger", "-N", "--get", *words)
    assert (result.code, result.err) == (0, "")
    assert result.lines == [LINES[at] for at in which]


def test_a_header_and_a_count(world: World, asked: list[dict[str, Any]]) -> None:
    result = world.run("strigger", "--get", "-v", "-i2")
    assert result.lines[0].startswith("TRIG_ID RES_TYPE   RES_ID TYPE  ")
    assert result.err == "strigger: Read 1 trigger records\n"
    assert world.run("strigger", "--get", "--id=9").out == ""


def test_what_is_set_and_cleared(world: World, asked: list[dict[str, Any]]) -> None:
    assert world.run("strigger", "--set", "-j", "7", "--time", "-o", "-60", "-p", "/bin/sh a b").code == 0
    assert world.run("strigger", "--set", "-nn[1-2]", "-d", "--flags=perm", "--program=/bin/sh").code == 0
    assert world.run("strigger", "--clear", "--id=1", "--user=root").code == 0
    wanted = [
        Trigger(id=0, type="time", job_id=7, offset=-60, program="/bin/sh a b"),
        Trigger(id=0, type="down", nodes="n[1-2]", permanent=True, program="/bin/sh"),
    ]
    assert asked == [
        *({"do": "set", "trigger": one.to_dict()} for one in wanted),
        {"do": "clear", "id": 1, "uid": 0},
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "You must use exactly one of the following options: --set, --get or --clear"),
        ("--set --get", "You must use exactly one of the following options: --set, --get or --clear"),
        ("--set --jobid=7 --fini", "You must specify a --program value"),
        ("--set --fini -p /bin/sh", "You must specify a --jobid value"),
        ("--get --time", "You must specify a --jobid value"),
        ("--set -d -p sh", 'The --program value must start with "/"'),
        ("--set -d -p /nosuch", "Invalid --program value, file not found"),
        ("--set -d -p /bin", "Invalid --program value, not regular file"),
        ("--set -j abc --fini -p /bin/sh", "Invalid jobid abc"),
        ("--set -j 0 --fini -p /bin/sh", "Invalid jobid 0"),
        ("--set -d -o 70000 -p /bin/sh", "The --offset parameter must be between +/-32000"),
        ("--set -d --flags=nope -p /bin/sh", "Invalid flags nope"),
        ("--get --user=nobodyx", "Invalid user nobodyx"),
        ("--clear", "You must specify a --id, --jobid, or --user to clear"),
        ("--set -d -u -p /bin/sh", "a trigger is of one event here: --down, --up"),
        ("--set --idle -p /bin/sh", "--idle is not supported here: since when a node is idle is not recorded"),
        ("--set -B -p /bin/sh", "--backup_slurmctld_failure is not supported here: there is no backup controller"),
        ("--set -h -p /bin/sh", "--primary_database_failure is not supported here: there is no slurmdbd"),
    ],
)
def test_what_is_refused(world: World, asked: list[dict[str, Any]], words: str, said: str) -> None:
    result = world.run("strigger", *words.split())
    assert (result.code, result.out, result.err) == (1, "", f"strigger: error: {said}\n")
    assert asked == []


def test_an_event_is_needed(world: World, asked: list[dict[str, Any]]) -> None:
    result = world.run("strigger", "--set", "-p", "/bin/sh")
    assert result.code == 1
    assert result.err.startswith("strigger: error: You must specify a trigger (--down, --up, --reconfig, ")
    assert "--primary_database_failure, or \n" in result.err
    assert result.err.endswith("resumed_operation)\n\n")


def test_an_id_of_many_digits_is_that_of_nothing(world: World, asked: list[dict[str, Any]]) -> None:
    many = "9" * 30
    assert world.run("strigger", "--clear", "--id", many, "-j", many).code == 0
    assert world.run("strigger", "--clear", "--id", f"-{many}").code == 0
    assert asked == [{"do": "clear", "id": 0xFFFFFFFF, "job_id": 0xFFFFFFFF}, {"do": "clear", "id": -1}]


def test_quiet_says_nothing_of_what_is_not_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from shim.control import client
    from shim.core.errors import ShimError, plain

    def call(op: str, fields: dict[str, Any], **_: Any) -> dict[str, Any]:
        raise ShimError(plain("slurm_clear_trigger: No such process"))

    monkeypatch.setattr(client, "call", call)
    result = world.run("strigger", "--clear", "--id=9")
    assert (result.code, result.err) == (1, "slurm_clear_trigger: No such process\n")
    result = world.run("strigger", "--clear", "-Q", "--id=9")
    assert (result.code, result.err) == (0, "")
