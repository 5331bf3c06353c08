"""sreport, of jobs that are known to the second. The tables are in the form of a real sreport 22.05."""

from __future__ import annotations

import io
import sys

import pytest

from shim.control import site
from shim.core.model.job import Job, NodeShare
from tests import reference
from tests.commands.conftest import World

DAY = 1_795_132_800.0  # 2026-11-20 00:00 UTC; it is 17:36:03 of that day
LINE = "-" * 80


def ran(job_id: int, begin: float, end: float, cpus: int = 1, **fields: object) -> Job:
    """A job that ran from ``begin`` to ``end``, seconds of that day."""
    request = reference.request(kind="batch", account=fields.pop("account", None))
    values: dict[str, object] = {
        "state": "COMPLETED",
        "request": request,
        "submit_time": DAY + begin,
        "eligible_time": DAY + begin,
        "start_time": DAY + begin,
        "end_time": DAY + end,
        "cpus": cpus,
        "shares": (NodeShare(name="n1", cpus=cpus, memory=cpus * 1000),),
        **fields,
    }
    return reference.job(job_id, **values)


@pytest.fixture
def past(world: World) -> World:
    """One o'clock to two: alice has 4 CPUs for half an hour and 2 for the whole, bob 8 for a quarter; one job of his waits for that quarter."""
    world.index(
        [
            ran(1, 3600, 5400, 4, account="chem"),
            ran(2, 0, 9000, 2, account="bio"),
            ran(3, 3600, 4500, 8, user="bob", account="chem"),
            ran(4, 4500, 4600, 16, user="bob", submit_time=DAY + 3600, eligible_time=DAY + 3600),
        ]
    )
    return world


def shown(world: World, *words: str) -> list[str]:
    result = world.run("sreport", *words)
    assert (result.code, result.err) == (0, "")
    return [line.rstrip() for line in result.lines]


HOUR = ("start=01:00", "end=02:00")


def test_how_a_cluster_was_used(past: World) -> None:
    assert shown(past, "cluster", "utilization", *HOUR) == [
        LINE,
        "Cluster Utilization 2026-11-20T01:00:00 - 2026-11-20T01:59:59",
        "Usage reported in CPU Minutes",
        LINE,
        "  Cluster Allocate     Down PLND Dow     Idle  Planned Reported",
        "--------- -------- -------- -------- -------- -------- --------",
        "      ref      387        0        0     1293      240     1920",
    ]
    words = ("-nP", "cluster", "uti", *HOUR, "format=cluster,tresname,trescount,allocated,over")
    assert shown(past, *words) == ["ref|cpu|32|387|0"]
    assert shown(past, "-nP", "-T", "mem,gres/gpu,node", "clu", "util", *HOUR) == [
        "ref|mem|386667|0|0|3213333|240000|3840000",
        "ref|gres/gpu|0|0|0|960|0|960",
    ]
    assert shown(past, "-nP", "-t", "percent", "cluster", "util", *HOUR) == [
        "ref|20.14%|0.00%|0.00%|67.36%|12.50%|100.00%"
    ]


def test_nodes_that_are_out_of_service(past: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known = reference.cluster()
    down = known.nodes[3].replace(state="DOWN", reason="x", reason_time=DAY + 5400)
    monkeypatch.setattr(site, "clusters", lambda: (known.replace(nodes=(*known.nodes[:3], down)),))
    assert shown(past, "-nP", "cluster", "utilization", *HOUR) == ["ref|387|240|0|1053|240|1920"]


def test_only_what_is_known_is_reported(past: World) -> None:
    """The first job came at midnight; what is to come is not there yet."""
    words = ("-nP", "-t", "hourper", "cluster", "util", "format=reported")
    assert shown(past, *words, "start=2026-11-19", "end=2026-11-20T02:00") == ["64(7.69%)"]
    assert shown(past, *words, "start=17:00", "end=18:00") == ["19(60.08%)"]
    assert shown(past, *words) == ["0(0.00%)"]  # yesterday


def test_who_used_most(past: World) -> None:
    assert shown(past, "user", "top", *HOUR) == [
        LINE,
        "Top 10 Users 2026-11-20T01:00:00 - 2026-11-20T01:59:59 (3600 secs)",
        "Usage reported in CPU Minutes",
        LINE,
        "  Cluster     Login     Proper Name         Account     Used   Energy",
        "--------- --------- --------------- --------------- -------- --------",
        "      ref     alice                            chem      120        0",
        "      ref     alice                             bio      120        0",
        "      ref       bob                            chem      120        0",
        "      ref       bob                                       27        0",
    ]
    words = ("-nP", "-t", "secper", "user", "topusage", *HOUR)
    assert shown(past, *words, "group", "format=login,account,used") == [
        "alice|chem,bio|14400(12.50%)",
        "bob|chem,|8800(7.64%)",
    ]
    assert shown(past, *words, "topcount=1", "format=login") == ["alice"]
    assert shown(past, *words, "users=bob", "accounts=chem", "format=l,u") == ["bob|7200(6.25%)"]
    assert shown(past, "-P", "-T", "cpu,mem", "user", "top", "users=bob", "accounts=chem", *HOUR)[-3:] == [
        "Cluster|Login|Proper Name|Account|TRES Name|Used",
        "ref|bob||chem|cpu|120",
        "ref|bob||chem|mem|120000",
    ]


def test_the_sizes_of_jobs(past: World) -> None:
    assert shown(past, "job", "sizesbyaccount", *HOUR) == [
        LINE,
        "Job Sizes 2026-11-20T01:00:00 - 2026-11-20T01:59:59 (3600 secs)",
        "Time reported in Minutes",
        LINE,
        "  Cluster   Account     0-49 CPUs   50-249 CPUs  250-499 CPUs  500-999 CPUs  >= 1000 CPUs % of cluster",
        "--------- --------- ------------- ------------- ------------- ------------- ------------- ------------",
        "      ref      root           387             0             0             0             0      100.00%",
    ]
    assert shown(past, "-P", "job", "sizes", *HOUR, "flatview", "grouping=4,8", "printjobcount")[2:] == [
        "Units are in number of jobs ran",
        LINE,
        "Cluster|Account|0-3 CPUs|4-7 CPUs|>= 8 CPUs|% of cluster",
        "ref||0|0|1|25.00%",
        "ref|bio|1|0|0|25.00%",
        "ref|chem|0|1|1|50.00%",
    ]
    words = ("-nP", "-t", "seconds", "job", "sizes", *HOUR)
    assert shown(past, *words, "grouping=individual", "accounts=chem") == ["ref|chem|7200|7200|100.00%"]
    assert shown(past, *words, "grouping=individual", "jobs=1,2") == ["ref|root|7200|7200|100.00%"]
    assert shown(past, *words, "grouping=8", "nodes=n[1-2]", "partitions=debug", "format=account") == [
        "root|14400|8800|100.00%"
    ]
    assert shown(past, *words, "nodes=n4") == []
    assert shown(past, "-nP", "-T", "mem", "-t", "minper", "job", "sizes", *HOUR, "grouping=3000", "jobs=1,2") == [
        "ref|root|120000(50.00%)|120000(50.00%)|100.00%"
    ]


def test_a_run_before_a_requeue_counts(world: World) -> None:
    from shim.control import paths
    from shim.control.index.opening import open_store

    again = ran(1, 7200, 7260, 2).replace(restarts=1)
    world.index([again])
    store = open_store(paths.index_path())
    first = store.jobs()[0] if store.jobs() else store.job(None, 1)
    assert first is not None
    for state, at in (("CONFIGURING", 3600), ("RUNNING", 3600), ("REQUEUED", 5400)):
        store.transition(first.replace(restarts=0, state=state), "", DAY + at)
    store.close()
    assert shown(world, "-nP", "user", "top", *HOUR, "format=login,used") == ["alice|60"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nope", "invalid keyword: nope"),
        ("c util", "invalid keyword: c"),
        ("cluster", "too few arguments for keyword:cluster"),
        ("user nope", 'Not valid report nope\nValid user reports are, "Top"'),
        ("-T nope user top", "sreport: fatal: No valid TRES given"),
        (
            "-T all job sizes",
            " Job report only supports a single --tres type.\n Generate a separate report for each TRES type.",
        ),
        (
            "cluster accountu",
            "sreport: error: cluster accountutilizationbyuser: not supported here: there are cluster utilization, user topusage and"
            " job sizesbyaccount",
        ),
    ],
)
def test_what_is_refused(past: World, words: str, said: str) -> None:
    result = past.run("sreport", *words.split())
    assert (result.code, result.out, result.err) == (1, "", f"{said}\n")


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ("user top foo=1", " Unknown condition: foo=1\nUse keyword set to modify value\n", 1),
        ("user top format=login,nope", " Unknown field 'nope'\n", 1),
        ("user top topcount=x", "sreport: error: Invalid value for TopCount (x)\n", 1),
        ("user top start=bogus", "Invalid time specification (pos=0): bogus\n", 0),
        ("-t bogus user top", "unknown time format bogus\n", 0),
        ("job sizes users=nobodyx", "sreport: error: Invalid user id: nobodyx\n", 0),
    ],
)
def test_what_is_wrong_and_does_not_end_it(past: World, words: str, said: str, code: int) -> None:
    result = past.run("sreport", *words.split())
    assert (result.code, result.err) == (code, said)
    assert result.lines[0] == LINE


def test_clusters_are_named(past: World) -> None:
    assert shown(past, "-nP", "user", "top", "bogus", *HOUR) == []
    assert shown(past, "-nP", "-M", "nosuch", "user", "top", *HOUR) == []
    assert len(shown(past, "-nP", "-M", "ref", "user", "top", *HOUR)) == 4
    assert len(shown(past, "-nPa", "user", "top", *HOUR)) == 4


def test_commands_line_by_line(past: World, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"time hours\nparsable2\nuser top {' '.join(HOUR)} users=bob accounts=chem format=used\nnonparsable\ntime\nquit\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    result = past.run("sreport", "-n")
    assert (result.code, result.err) == (1, "too few arguments for keyword:time\n")
    assert result.lines[3] == "2"


def test_a_site_without_accounting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "clusters", lambda: (reference.cluster().replace(accounting=False),))
    result = world.run("sreport", "cluster", "utilization")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("You are not running a supported accounting_storage plugin\n")
