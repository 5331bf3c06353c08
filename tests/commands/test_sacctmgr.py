"""sacctmgr: what is known without a database. The texts are those of a real sacctmgr 22.05 beside a slurmdbd."""

from __future__ import annotations

import io
import sys

import pytest

from shim.control import site
from shim.core.model.cluster import Cluster
from tests import reference
from tests.commands.conftest import World

_CHANGES = (
    "add",
    "archive",
    "clear",
    "create",
    "delete",
    "dump",
    "load",
    "modify",
    "reconfigure",
    "remove",
    "shutdown",
)


@pytest.fixture
def labelled(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Jobs of two users with accounts and QOS; a partition that names further ones."""
    known = reference.cluster()
    gpu = known.partitions[1].replace(allow_accounts="Chem,bio", deny_qos="low")
    known = known.replace(partitions=(known.partitions[0], gpu), operators=("ops",))
    monkeypatch.setattr(site, "clusters", lambda: (known,))
    world.index(
        [
            reference.job(1, request=reference.request(account="bio", qos="high")),
            reference.job(2, user="bob", request=reference.request(account="bio", wckey="w")),
            reference.job(3, cluster="gone", user="eve", request=reference.request(account="evil")),
        ]
    )
    return world


def shown(world: World, *words: str) -> list[str]:
    result = world.run("sacctmgr", *words)
    assert (result.code, result.err) == (0, "")
    return result.lines


def test_users_with_their_level(labelled: World) -> None:
    assert shown(labelled, "show", "user") == [
        "      User   Def Acct     Admin ",
        "---------- ---------- --------- ",
        "      root       root Administ+ ",
        "     alice                 None ",
        "       bob                 None ",
        "       ops             Operator ",
    ]
    assert shown(labelled, "-nP", "list", "users", "where", "user=BOB,nosuch", "format=user,admin,user") == ["bob|None"]
    assert shown(labelled, "-np", "sho", "u", "ops", "format=admin%3,coord") == ["Operator||"]
    assert shown(labelled, "-n", "show", "user", "adminlevel=operator", "format=user%-6,admin%3") == ["ops    Op+ "]


def test_accounts_are_those_that_partitions_and_jobs_name(labelled: World) -> None:
    assert shown(labelled, "show", "acc") == [
        "   Account                Descr                  Org ",
        "---------- -------------------- -------------------- ",
        "       bio                  bio                  bio ",
        "      chem                 chem                 chem ",
        "      root default root account                 root ",
    ]
    assert shown(labelled, "-nP", "show", "qos", "format=name,priority,descr") == [
        "normal|0|Normal QOS default",
        "high|0|high",
        "low|0|low",
    ]
    assert shown(labelled, "-nP", "show", "wckey") == ["w|ref|bob"]


def test_every_user_has_every_account(labelled: World) -> None:
    assert shown(labelled, "show", "assoc", "tree", "format=account,user", "account=bio,root") == [
        "Account                    User ",
        "-------------------- ---------- ",
        "root                            ",
        " root                      root ",
        " bio                            ",
        "  bio                      root ",
        "  bio                     alice ",
        "  bio                       bob ",
        "  bio                       ops ",
    ]
    words = ["-nP", "show", "users", "withassoc", "format=account,qos", "where", "user=alice", "cluster=ref"]
    assert shown(labelled, *words) == ["bio|normal,high,low", "chem|normal,high,low"]
    assert shown(labelled, "-nPs", "list", "user", "alice", "format=account,cluster") == ["bio|ref", "chem|ref"]
    assert shown(labelled, "-nP", "show", "account", "bio", "withassoc", "user=bob", "format=parentn,user") == ["|bob"]
    assert shown(labelled, "-nP", "show", "assoc", "3", "format=id,parentid,parentname,account,lft,rgt") == [
        "3|1|root|bio|4|13"
    ]
    assert shown(labelled, "-nP", "show", "assoc", "wopinfo", "account=bio", "user=bob", "format=qos,user") == ["|bob"]


def test_the_columns_of_every_table(labelled: World) -> None:
    assert shown(labelled, "-P", "show", "cluster")[0] == (
        "Cluster|ControlHost|ControlPort|RPC|Share|GrpJobs|GrpTRES|GrpSubmit|MaxJobs|MaxTRES|MaxSubmit|MaxWall|QOS|Def QOS"
    )
    assert shown(labelled, "-nP", "show", "cluster", "format=cluster,rpc,nodecount,tres") == [
        "ref|9728|4|billing=32,cpu=32,gres/gpu=16,mem=64000M,node=4"
    ]
    assert shown(labelled, "-P", "show", "cluster", "wolimits")[0] == "Cluster|ControlHost|ControlPort|RPC"
    assert shown(labelled, "-P", "show", "assoc")[0] == (
        "Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|GrpSubmit|GrpWall|GrpTRESMins|MaxJobs|MaxTRES|"
        "MaxTRESPerNode|MaxSubmit|MaxWall|MaxTRESMins|QOS|Def QOS|GrpTRESRunMin"
    )
    assert shown(labelled, "-P", "show", "user", "withassoc", "withcoord")[0] == (
        "User|Def Acct|Admin|Cluster|Account|Partition|Share|Priority|MaxJobs|MaxNodes|MaxCPUs|MaxSubmit|MaxWall|MaxCPUMins|"
        "QOS|Def QOS|Coord Accounts"
    )
    assert shown(labelled, "show", "federation") == [
        "Federation    Cluster ID             Features     FedState ",
        "---------- ---------- -- -------------------- ------------ ",
    ]
    assert shown(labelled, "show", "tres")[-1] == "    gres             gpu   1001 "
    assert shown(labelled, "show", "run") == ["Runaway Jobs: No runaway jobs found on cluster ref"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nope", "invalid keyword: nope"),
        ("li user", "invalid keyword: li"),
        ("show user foo=1", " Unknown condition: foo=1\n Use keyword 'set' to modify value"),
        ("show user format=def", "Unknown field 'def'"),
        ("show user format=", "Unknown field ''"),
        ("show assoc x", "sacctmgr: error: Invalid value for AssocId (x)"),
        (
            "show assoc qos=x",
            "sacctmgr: error: You gave a bad qos 'x'. Valid QOS's are normal,high,low\n Unknown condition: qos=x",
        ),
        (
            "show stats",
            "sacctmgr: error: show stats: not supported here: there is no slurmdbd; `sdiag` shows what the controller has done",
        ),
        (
            "add account x",
            "sacctmgr: error: add account: not supported here: there is no accounting database; accounts and QOS are those that"
            " jobs and partitions name, users those of this machine",
        ),
    ],
)
def test_what_is_refused(labelled: World, words: str, said: str) -> None:
    result = labelled.run("sacctmgr", *words.split())
    assert (result.code, result.out, result.err) == (1, "", f"{said}\n")


@pytest.mark.parametrize("verb", _CHANGES)
def test_nothing_is_changed(labelled: World, verb: str) -> None:
    result = labelled.run("sacctmgr", "-i", verb, "user", "name=x")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"sacctmgr: error: {verb} user: not supported here: there is no accounting database;")


@pytest.mark.parametrize("word", ["", "nope", "coordinator", "qoss"])
def test_an_entity_that_is_none(labelled: World, word: str) -> None:
    result = labelled.run("sacctmgr", "show", *filter(None, [word]))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("No valid entity in list command\nInput line must include ")


@pytest.mark.parametrize(
    ("answer", "lines"), [("n\n", ["(N/y): ", "Aborted"]), ("", ["(N/y): ", "Aborted"]), ("x\ny\n", ["Y or N please"])]
)
def test_conditions_of_associations_without_them(
    labelled: World, monkeypatch: pytest.MonkeyPatch, answer: str, lines: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    result = labelled.run("sacctmgr", "-nP", "show", "user", "account=bio", "format=user")
    assert result.code == 0
    assert result.lines[0] == "You requested options that are only valid when querying with the withassoc option."
    assert set(lines) <= set(result.lines)
    assert ("alice" in result.lines) == answer.endswith("y\n")


def test_commands_line_by_line(labelled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("parsable2\nshow user bob format=user\nnope\n!!\nquit\nshow user\n"))
    result = labelled.run("sacctmgr", "-n")
    assert (result.code, result.err) == (1, "invalid keyword: nope\n" * 2)
    assert "bob" in result.lines
    assert result.lines[-1] == "sacctmgr: quit"


def test_a_site_without_accounting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[Cluster, ...]:
        return (reference.cluster().replace(accounting=False),)

    monkeypatch.setattr(site, "clusters", none)
    for words in ("show user", "add account x", "help", ""):
        result = world.run("sacctmgr", *words.split())
        assert (result.code, result.out) == (1, "")
        assert result.err == (
            "You are not running a supported accounting_storage plugin\n"
            "Only 'accounting_storage/slurmdbd' is supported.\n"
        )
