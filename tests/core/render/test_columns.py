"""Formats of columns, orders of lines: tables, and texts of any kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.render import columns, job_fields, job_order, sinfo_fields, step_fields
from shim.core.render.job_order import letters
from shim.core.render.node_state import uses
from shim.core.render.sinfo_rows import make_rows, ordered
from shim.core.render.view import View
from tests import reference

FIELDS = {"a": ("ALPHA", lambda item, view: item), "b": ("BETA", lambda item, view: item * 2)}


def shown(text: str, item: str) -> tuple[str, str, list[str]]:
    found, unknown = columns.parse_letters(text, FIELDS)
    return columns.header(found), columns.rows(found, [item], None)[0], unknown


@pytest.mark.parametrize(
    ("text", "header", "row", "unknown"),
    [
        ("%a", "ALPHA", "xyz", []),
        ("%.8a|%8b|", "   ALPHA|BETA    |", "     xyz|xyzxyz  |", []),
        ("%.2a%2b", "ALBE", "xyxy", []),
        ("%0a", "ALPHA", "xyz", []),
        ("lit%%a%", "litALPHA", "litxyz", []),
        ("%-5a", "%-5a", "%-5a", ["-"]),
        ("%.5", "%.5", "%.5", [""]),
        ("%q %a", "%q ALPHA", "%q xyz", ["q"]),
        pytest.param(f"%{'0' * 5000}4a|", "ALPH|", "xyz |", [], id="zeros"),
        pytest.param(f"%.{'9' * 5000}a", "ALPHA".rjust(1024), "xyz".rjust(1024), [], id="wide"),
        ("", "", "", []),
        ("%all", "ALPHA|BETA|", "xyz|xyzxyz|", []),
    ],
)
def test_letters(text: str, header: str, row: str, unknown: list[str]) -> None:
    assert shown(text, "xyz") == (header, row, unknown)


@pytest.mark.parametrize(
    ("text", "row", "unknown"),
    [
        ("alpha", "xyz" + " " * 17, []),
        ("ALPHA:4,Alpha:.5", "xyz   xyz", []),
        ("alpha:2", "xy", []),
        ("alpha:0", "xyz", []),
        ("alpha:5|", "xyz  |", []),
        ("nosuch,alpha:3", "xyz", ["nosuch"]),
        ("nosuch:7 |,alpha:3,nosuch:,:4x", " |xyzx", ["nosuch", "nosuch", ""]),
        (",,alpha:3,", "xyz", []),
        pytest.param(f"alpha:{'9' * 5000}", "xyz".ljust(1024), [], id="wide"),
    ],
)
def test_names(text: str, row: str, unknown: list[str]) -> None:
    found, missing = columns.parse_names(text, {"alpha": FIELDS["a"]})
    assert (columns.rows(found, ["xyz"], None)[0], missing) == (row, unknown)


def test_uncut_letters_exceed_their_width_but_their_headers_do_not() -> None:
    found, _ = columns.parse_letters("%.2a", FIELDS, uncut="a")
    assert (columns.header(found), columns.rows(found, ["xyz"], None)) == ("AL", ["xyz"])


@given(st.text("%.0123456789abIqxZ- ", max_size=30))
def test_any_format_of_a_queue(text: str) -> None:
    view = View(reference.NOW, reference.cluster)
    found, _ = columns.parse_letters(text, job_fields.LETTERS)
    assert len(columns.rows(found, reference.queue(), view)) == 6
    columns.header(found)


@given(st.text("PtpiSjMQ-+,uUxZ?%", max_size=12))
def test_any_order_keeps_all_jobs(text: str) -> None:
    jobs = reference.queue()
    found = job_order.ordered(jobs, text, lambda _job: View(reference.NOW, reference.cluster))
    assert sorted(job.job_id for job in found) == [1, 2, 3, 4, 5, 6]


def test_every_field_of_a_job_a_step_and_a_node_can_be_shown() -> None:
    cluster = reference.cluster()
    view = View(reference.NOW, reference.cluster)
    jobs = reference.queue()
    for _, show in [*job_fields.LETTERS.values(), *job_fields.names().values()]:
        assert all(isinstance(show(job, view), str) for job in jobs)
    item = (jobs[0], reference.STEPS[1][0])
    for _, step_show in [*step_fields.LETTERS.values(), *step_fields.NAMES.values()]:
        assert isinstance(step_show(item, view), str)
    for _, row_show in [*sinfo_fields.LETTERS.values(), *sinfo_fields.names().values()]:
        for row in make_rows(cluster, uses(cluster, jobs), "PtN", wanted=lambda use: use.node.name == "n1"):
            assert isinstance(row_show(row, view), str)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("-p,i", [("p", True), ("i", False)]), ("-pi", [("p", True), ("i", False)]), ("+p,,", [("p", False)]), ("", [])],
)
def test_order_letters(text: str, expected: list[tuple[str, bool]]) -> None:
    assert letters(text) == expected


@given(st.sets(st.sampled_from("PtNcGEfn")), st.booleans(), st.booleans())
def test_rows_of_nodes_hold_each_node_once_per_partition(shown_letters: set[str], by_node: bool, exact: bool) -> None:
    cluster = reference.cluster()
    rows = make_rows(cluster, uses(cluster, reference.queue()), shown_letters, by_node=by_node, exact=exact)
    by_partition = by_node or "P" in shown_letters
    names = sorted((row.partition.name if by_partition else "", use.node.name) for row in rows for use in row.uses)
    if by_partition:
        assert names == sorted((part.name, node) for part in cluster.partitions for node in part.nodes)
    else:
        assert sorted({name for _, name in names}) == ["n1", "n2", "n3", "n4"]
        assert len(names) == 4
    assert sorted(map(id, ordered(rows, "#P,-t"))) == sorted(map(id, rows))


def test_times_of_a_clock_that_went_back() -> None:
    job = reference.running(1, start_time=reference.NOW + 100)
    assert job_fields.LETTERS["M"][1](job, View(reference.NOW)) == "0:00"
