"""sshare with priority/basic: the tables are those of a real sshare 22.05 beside a slurmdbd."""

from __future__ import annotations

import pytest

from shim.commands.accounting import listing
from shim.control import site
from tests import reference
from tests.commands.conftest import World


@pytest.fixture
def labelled(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """alice, who asks, and bob, whose job names an account."""
    monkeypatch.setattr(listing, "own_name", lambda: "alice")
    world.index([reference.job(1, user="bob", request=reference.request(account="chem"))])
    return world


def shown(world: World, *words: str) -> list[str]:
    result = world.run("sshare", *words)
    assert (result.code, result.err) == (0, "")
    return result.lines


def test_the_caller_s_shares(labelled: World) -> None:
    assert shown(labelled) == [
        "Account                    User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare ",
        "-------------------- ---------- ---------- ----------- ----------- ------------- ---------- ",
        "root                                                             0      0.000000            ",
        " chem                                    1                       0      0.000000            ",
        "  chem                    alice          1                       0      0.000000   0.000000 ",
    ]


def test_an_account_that_is_no_text_hides_nobody(world: World) -> None:
    """Any user may name such a one, and all jobs are kept for a month."""
    jobs = [
        reference.job(number, user="bob", request=reference.request(account=name))
        for number, name in ((1, "\udcfe"), (2, "chem"))
    ]
    world.index(jobs)
    found = shown(world, "-nP", "-a", "-o", "account,user")
    assert {"  chem|bob", "  \\xfe|bob"} <= set(found)


def test_who_is_shown(labelled: World) -> None:
    words = ("-nP", "-o", "account,user")
    everybody = ["root|", " root|root", " chem|", "  chem|root", "  chem|alice", "  chem|bob"]
    assert shown(labelled, *words, "-a") == everybody
    assert shown(labelled, *words, "-u", "bob,root") == ["root|", " root|root", " chem|", "  chem|root", "  chem|bob"]
    assert shown(labelled, *words, "-u", "nobody") == ["root|", " chem|"]
    assert shown(labelled, *words, "-A", "chem") == ["chem|", " chem|alice"]
    assert shown(labelled, *words, "-A", "nosuch", "-a") == []
    assert shown(labelled, *words, "-U") == ["chem|alice"]
    assert shown(labelled, "--noheader", "-U", "--format", "Account%25") == [f"{'chem':>25} "]


def test_further_columns(labelled: World) -> None:
    nothing = "cpu=0,mem=0,energy=0,node=0,billing=0,fs/disk=0,vmem=0,pages=0,gres/gpu=0"
    assert shown(labelled, "-lP", "-U") == [
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins",
        f"chem|alice|1||0||0.000000|0.000000|0.000000||{nothing}",
    ]
    assert (
        shown(labelled, "-mp", "-U")[0]
        == "Account|User|Partition|RawShares|NormShares|RawUsage|EffectvUsage|FairShare|"
    )
    assert shown(labelled, "-e") == [
        "Account           Cluster           EffectvUsage      FairShare        ",
        "GrpTRESMins       GrpTRESRaw        ID                LevelFS          ",
        "NormShares        NormUsage         Partition         RawShares        ",
        "RawUsage          TRESRunMins       User             ",
    ]
    assert shown(labelled, "-M", "ref", "-nP", "-U", "-o", "cluster,account") == ["ref|chem"]
    assert shown(labelled, "-M", "ref", "-P", "-U", "-o", "user") == ["CLUSTER: ref", "User", "alice"]


def test_what_is_said(labelled: World) -> None:
    result = labelled.run("sshare", "-v", "-A", "chem", "-nP", "-U")
    assert result.err == "Users requested:\n\t: alice\nAccounts requested:\n\t: chem\n"
    result = labelled.run("sshare", "-o", "all")
    assert (result.code, result.out, result.err) == (1, "", 'sshare: error: Invalid field requested: "all"\n')


def test_a_site_without_accounting(labelled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "clusters", lambda: (reference.cluster().replace(accounting=False),))
    assert len(shown(labelled, "-a")) == 2
