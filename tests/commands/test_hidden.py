"""Partitions that are not for everybody: listings leave them and their jobs out, as Slurm's do, unless they are asked for."""

from __future__ import annotations

import grp
import io
import os
import sys

import pytest

from shim.control import paths, site
from shim.control.index.opening import open_store
from shim.core.model.cluster import Partition
from tests import reference
from tests.commands.conftest import World

OWN_GROUP = grp.getgrgid(os.getegid()).gr_name


@pytest.fixture
def secret(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """An ordinary user's view of a cluster with a hidden partition, one for other groups and one for the user's group."""
    known = reference.cluster()
    more = (
        Partition(name="secret", nodes=("n1",), hidden=True),
        Partition(name="others", nodes=("n2",), allow_groups="nobody-is-in-it"),
        Partition(name="ours", nodes=("n3",), allow_groups=f"nobody-is-in-it,{OWN_GROUP}"),
    )
    monkeypatch.setattr(site, "clusters", lambda: (known.replace(partitions=known.partitions + more),))
    monkeypatch.setattr(os, "getuid", lambda: 1001)
    partitions = {1: "debug", 2: "secret", 3: "others", 4: "secret,debug", 5: "ours"}
    world.index([reference.job(number, partition=name) for number, name in partitions.items()])
    return world


def sinfo(world: World, *argv: str) -> list[str]:
    return world.run("sinfo", "-h", "-o", "%R", *argv).lines


def squeue(world: World, *argv: str) -> str:
    return " ".join(world.run("squeue", "-h", "-o", "%i", "-S", "i", *argv).lines)


def scontrol(world: World, *argv: str) -> list[str]:
    return [line.split()[0].partition("=")[2] for line in world.run("scontrol", "-o", *argv).lines]


def test_sinfo(secret: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sinfo(secret) == ["debug", "gpu", "ours"]
    assert sinfo(secret, "-a") == ["debug", "gpu", "secret", "others", "ours"]
    assert sinfo(secret, "-p", "secret") == ["secret"]
    assert sinfo(secret, "-p", "secret,gpu", "--hide") == ["gpu"]
    assert sinfo(secret, "--hide", "-p", "secret") == ["secret"]
    monkeypatch.setenv("SINFO_ALL", "0")
    assert "secret" in sinfo(secret)
    assert "secret" not in sinfo(secret, "--hide")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "secret" in sinfo(secret, "--hide")


def test_squeue(secret: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert squeue(secret) == "1 4 5"
    assert squeue(secret, "-u", "1001") == "1 4 5"
    assert squeue(secret, "--all") == "1 2 3 4 5"
    assert squeue(secret, "-p", "secret") == "2 4"
    assert squeue(secret, "-p", "secret", "--hide") == "4"
    assert squeue(secret, "--hide", "-j", "2,3") == "2 3"
    monkeypatch.setenv("SQUEUE_ALL", "")
    assert squeue(secret) == "1 2 3 4 5"
    assert squeue(secret, "--hide") == "1 4 5"


def test_scontrol(secret: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scontrol(secret, "show", "partition") == ["debug", "gpu", "ours"]
    assert scontrol(secret, "-a", "show", "partitions") == ["debug", "gpu", "secret", "others", "ours"]
    named = secret.run("scontrol", "show", "partition", "secret")
    assert (named.code, named.out) == (1, "Partition secret not found\n")
    assert scontrol(secret, "--hide", "-a", "show", "partition", "secret") == ["secret"]
    assert secret.run("scontrol", "-a", "--hide", "show", "partition", "secret").code == 1
    monkeypatch.setattr(sys, "stdin", io.StringIO("all\nshow partition secret\nhide\nshow partition others\n"))
    said = secret.run("scontrol").out
    assert "PartitionName=secret" in said and "Partition others not found" in said


def test_what_operators_hid_and_opened_counts(secret: World) -> None:
    store = open_store(paths.index_path())
    changes = {"gpu": {"hidden": True}, "secret": {"hidden": False}, "others": {"allow_groups": f"x,{OWN_GROUP}"}}
    with store.transaction():
        store.save_changes(site.clusters()[0].name, {"nodes": {}, "partitions": changes})
    store.close()
    assert sinfo(secret) == ["debug", "secret", "others", "ours"]
    assert scontrol(secret, "show", "partition") == ["debug", "secret", "others", "ours"]
    assert squeue(secret) == "1 2 3 4 5"
