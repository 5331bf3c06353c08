"""sinfo's listings and what running jobs make of the nodes."""

from __future__ import annotations

import pytest

from shim.control import site
from tests import reference
from tests.commands.conftest import World


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            [],
            [
                "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
                "debug*       up   infinite      2    mix n[1-2]",
                "debug*       up   infinite      2   idle n[3-4]",
                "gpu          up    2:00:00      2   idle n[3-4]",
            ],
        ),
        (
            ["-N"],
            [
                "NODELIST   NODES PARTITION STATE ",
                "n1             1    debug* mix   ",
                "n2             1    debug* mix   ",
                "n3             1    debug* idle  ",
                "n3             1       gpu idle  ",
                "n4             1    debug* idle  ",
                "n4             1       gpu idle  ",
            ],
        ),
        (
            ["-l"],
            [
                "Fri Nov 20 17:36:03 2026",
                "PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE NODELIST",
                "debug*       up   infinite 1-infinite   no       NO        all      2       mixed n[1-2]",
                "debug*       up   infinite 1-infinite   no       NO        all      2        idle n[3-4]",
                "gpu          up    2:00:00 1-infinite   no       NO        all      2        idle n[3-4]",
            ],
        ),
        (
            ["-s"],
            [
                "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST",
                "debug*       up   infinite          2/2/0/4 n[1-4]",
                "gpu          up    2:00:00          0/2/0/2 n[3-4]",
            ],
        ),
        (
            ["-h", "-Nl", "-n", "n1"],
            [
                "n1             1    debug*       mixed 8       2:4:1  16000        0      1 fast,cpu none                "
            ],
        ),
        (["-R"], ["REASON               USER      TIMESTAMP           NODELIST"]),
        (
            ["-h", "-n", "n1"],
            ["debug*       up   infinite      1    mix n1", "gpu          up    2:00:00      0    n/a "],
        ),
        (["-h", "-t", "alloc,mix", "-o", "%P %D"], ["debug* 2", "gpu 0"]),
        (["-p", "nosuch"], ["PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST"]),
        (["-h", "-p", "gpu", "-o", "%R|%F|%A"], ["gpu|0/2/0/2|0/2"]),
        (["-h", "-o", "%C"], ["6/26/0/32"]),
        (["-h", "-o", "%G %f"], ["gpu:4 fast,cpu", "gpu:a100:4 slow,cpu"]),
        (["-h", "-t", "alloc", "-o", "%n"], []),
        (["-h", "-S", "-P,N", "-o", "%P %N %t"], ["gpu n[3-4] idle", "debug* n[1-2] mix", "debug* n[3-4] idle"]),
        (["-h", "-N", "-S", "-N", "-o", "%N"], ["n4", "n4", "n3", "n3", "n2", "n1"]),
        (["-N", "-O", "NodeList:8,Gres:12,GresUsed:25", "-h", "-n", "n2,n3"], None),
        (["-d", "-h"], ["debug*       up   infinite      0    n/a ", "gpu          up    2:00:00      0    n/a "]),
        (["foo", "-h", "-o", "%R"], ["debug", "gpu"]),
        (["-T"], ["No reservations in the system"]),
    ],
)
def test_listings(busy: World, argv: list[str], expected: list[str] | None) -> None:
    result = busy.run("sinfo", *argv)
    assert (result.code, result.err) == (0, "")
    if expected is None:
        expected = [
            f"{'n2':8}{'gpu:4':12}{'gpu:1':25}",
            *[f"{'n3':8}{'gpu:a100:4':12}{'gpu:a100:0(IDX:N/A)':25}"] * 2,
        ]
    assert result.lines == expected


def test_cluster_title_and_variables(busy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    titled = busy.run("sinfo", "-M", "ref").lines
    assert titled[0] == "CLUSTER: ref"
    assert busy.run("sinfo", "-M", "ref", "-h").lines == titled[2:]
    monkeypatch.setenv("SINFO_FORMAT", "%P|%t")
    monkeypatch.setenv("SINFO_PARTITION", "gpu")
    assert busy.run("sinfo").lines == ["PARTITION|STATE", "gpu|idle"]


def test_states_of_nodes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = reference.cluster()
    states = {"n2": "DRAIN", "n3": "DRAIN", "n4": "DOWN"}
    nodes = tuple(
        node.replace(state=states.get(node.name, ""), reason="test" if node.name in states else "")
        for node in cluster.nodes
    )
    monkeypatch.setattr(site, "clusters", lambda: (cluster.replace(nodes=nodes),))
    world.index([reference.running(1, "n1", 8), reference.running(2, "n3", 2)])
    assert world.run("sinfo", "-hN", "-p", "debug", "-o", "%N %t %T %E").lines == [
        "n1 alloc allocated none",
        "n2 drain drained test",
        "n3 drng draining test",
        "n4 down down test",
    ]
    assert world.run("sinfo", "-h", "-o", "%C").lines == ["10/0/22/32"]
    assert world.run("sinfo", "-hR", "-o", "%N").lines == ["n[2-4]"]
    assert world.run("sinfo", "-hN", "-t", "draining", "-o", "%N", "-p", "debug").lines == ["n3"]


def test_an_ending_job_leaves_its_node_completing(world: World) -> None:
    world.index([reference.running(1, "n1", 8, state="COMPLETING")])
    assert world.run("sinfo", "-h", "-p", "debug", "-o", "%t %N").lines == ["comp n1", "idle n[2-4]"]


def test_sizes_that_differ(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = reference.cluster()
    nodes = (cluster.nodes[0].replace(cpus=4), *cluster.nodes[1:])
    monkeypatch.setattr(site, "clusters", lambda: (cluster.replace(nodes=nodes),))
    assert world.run("sinfo", "-h", "-p", "debug", "-o", "%c").lines == ["4+"]
    assert world.run("sinfo", "-h", "-p", "debug", "-e", "-o", "%c").lines == ["4", "8"]


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (["-t", "bad"], 1, 'sinfo: error: Bad state string: "bad"\nsinfo: error: valid states: unknown,down,'),
        (["-i", "abc"], 1, "sinfo: error: Error: invalid entry for --iterate=abc\n"),
        (
            ["--yaml=x"],
            1,
            "sinfo: option '--yaml' doesn't allow an argument\nTry \"sinfo --help\" for more information\n",
        ),
        (["-O", "nosuch", "-h"], 0, "sinfo: error: Invalid job format specification: nosuch\n"),
        (["-o", "%q", "-h"], 0, "Invalid node format specification: q\n"),
    ],
)
def test_refusals(world: World, argv: list[str], code: int, error: str) -> None:
    result = world.run("sinfo", *argv)
    assert result.code == code
    assert result.err.startswith(error)


def test_a_default_partition_keeps_its_mark_where_its_name_is_cut(world: World) -> None:
    assert world.run("sinfo", "-h", "-O", "partition:5", "-p", "debug").lines == ["debu*"]
    assert world.run("sinfo", "-h", "-O", "share:4", "-p", "debug").lines == ["NO  "]
    assert world.run("sinfo", "-h", "-o", "%3P|%.5P|%8P|%3R", "-p", "debug").lines == ["de*|debu*|debug*  |deb"]


def test_a_document_has_every_node(busy: World) -> None:
    import json

    found = json.loads(busy.run("sinfo", "--json", "-n", "nosuch", "-p", "nosuch").out)
    nodes = {node["name"]: node for node in found["nodes"]}
    assert (list(found), nodes["n1"]["state"], nodes["n1"]["partitions"][0]) == (
        ["meta", "errors", "nodes"],
        "mixed",
        "debug",
    )
    yaml = busy.run("sinfo", "--yaml").lines
    assert yaml[:2] == ["%YAML 1.1", "--- !!map"] and "  !!str name: !!str n1" in yaml and yaml[-1] == "..."


@pytest.mark.parametrize(
    ("option", "columns"),
    [
        ("-lv", "time:.10 ,size:.10 ,root:.4 ,oversubscribe:.8 ,groups:.10 ,nodes:.6 ,statelong:.11 ,nodelist:0"),
        ("-sv", "time:.10 ,nodeaiot:.16 ,nodelist:0"),
        ("-v", "time:.10 ,nodes:.6 ,statecompact:.6 ,nodelist:0"),
    ],
)
def test_what_the_columns_of_a_listing_are_called_with_v(world: World, option: str, columns: str) -> None:
    assert f"format      = partition:9 ,available:.5 ,{columns}" in world.run("sinfo", option).lines
