"""Listings say which clusters their controller cannot ask just now."""

from __future__ import annotations

import pytest

from shim.control import paths, site
from shim.control.index.opening import open_store
from shim.core.routing import ClusterRef
from tests.commands.conftest import World


@pytest.fixture(autouse=True)
def elsewhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site has a cluster of that name too; no controller runs, so what the index tells counts."""
    here = site.cluster_refs()
    monkeypatch.setattr(site, "cluster_refs", lambda: (*here, ClusterRef("k8s", "kubernetes")))


@pytest.mark.parametrize("program", ["squeue", "sinfo", "sacct"])
def test_a_cluster_that_cannot_be_asked_is_named(busy: World, program: str) -> None:
    store = open_store(paths.index_path())
    assert busy.run(program).err == ""
    store.set_trouble("k8s", "no connection")
    before = busy.run(program)
    assert before.err == f"{program}: warning: k8s: no connection; it is shown as it was seen last\n"
    assert (before.code, len(before.lines) > 1) == (0, True)
    assert busy.run(program, "-M", store.jobs()[0].cluster).err == "", "another cluster is asked for"
    store.set_trouble("k8s", "")
    assert busy.run(program).err == ""
    store.set_trouble("k8s", "no connection")
    store.forget_troubles()
    assert busy.run(program).err == ""
    store.close()


def test_a_listing_of_single_jobs_says_nothing(busy: World) -> None:
    store = open_store(paths.index_path())
    store.set_trouble("k8s", "no connection")
    assert busy.run("squeue", "-j1").err == busy.run("sacct", "-j1").err == ""
    store.close()
