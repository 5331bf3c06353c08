"""Usage of several tasks together, from what agents tell of each, and in the columns of sacct and sstat."""

from __future__ import annotations

import pytest

from shim.core.model.usage import FREQUENCY, Spread, Usage, of_task, sampling
from shim.core.render.usage import FIELDS, Sizes, show_exact

# Four tasks of a step of the real Slurm on two nodes, as its sstat --noconvert has shown them.
STEP = (
    ("node1", {"memory": [57064, 57064], "virtual": [62784, 62784], "pages": [2, 2]}),
    ("node1", {"memory": [105888, 105888], "virtual": [111600, 111600], "pages": [2, 2]}),
    ("node1", {"memory": [154576, 154576], "virtual": [160452, 160452], "pages": [2, 2]}),
    ("node2", {"memory": [203388, 203388], "virtual": [209268, 209268], "pages": [1, 1]}),
)


@pytest.fixture
def step() -> Usage:
    used = None
    for rank, (node, seen) in enumerate(STEP):
        told = {"user": 0.25, "system": 0, "read": [51926, 51926], "written": [10000001, 10000001], **seen}
        used = of_task(told, rank, node).plus(used)
    assert used is not None
    return used


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("MaxRSS", "203388K"),
        ("MaxRSSNode", "node2"),
        ("MaxRSSTask", "3"),
        ("AveRSS", "130229K"),
        ("MaxVMSize", "209268K"),
        ("AveVMSize", "136026K"),
        ("MaxPages", "2"),
        ("MaxPagesTask", "0"),
        ("AvePages", "1"),
        ("MinCPU", "00:00:00"),
        ("AveCPU", "00:00:00"),
        ("MaxDiskRead", "51926"),
        ("AveDiskWrite", "10000001"),
        ("TRESUsageInTot", "cpu=00:00:01,energy=0,fs/disk=207704,mem=520916K,pages=7,vmem=544104K"),
        ("TRESUsageInAve", "cpu=00:00:00,energy=0,fs/disk=51926,mem=130229K,pages=1,vmem=136026K"),
        ("TRESUsageInMaxNode", "cpu=node1,energy=node1,fs/disk=node1,mem=node2,pages=node1,vmem=node2"),
        ("TRESUsageInMaxTask", "cpu=0,fs/disk=0,mem=3,pages=0,vmem=3"),
        ("TRESUsageInMinTask", "cpu=0,fs/disk=0,mem=0,pages=3,vmem=0"),
        ("TRESUsageOutTot", "energy=0,fs/disk=40000004"),
        ("TRESUsageOutMinTask", "fs/disk=0"),
    ],
)
def test_a_step_is_shown_as_sstat_does(step: Usage, field: str, shown: str) -> None:
    assert FIELDS[field](step, Sizes()) == shown


def test_sacct_shows_what_was_moved_by_the_mebibyte_and_units_as_asked(step: Usage) -> None:
    assert FIELDS["MaxDiskRead"](step, Sizes(in_mib=True)) == "0.05M"
    assert FIELDS["MaxDiskWrite"](step, Sizes(in_mib=True)) == "9.54M"
    assert FIELDS["MaxRSS"](step, Sizes(raw=True)) == "208269312"
    assert FIELDS["MaxRSS"](step, Sizes("M")) == "198.62M"
    nothing = of_task({"user": 0, "system": 0, "read": [0, 0]}, 0, "n1")
    assert FIELDS["MaxDiskRead"](nothing, Sizes(in_mib=True)) == "0"


def test_what_was_not_seen_is_not_shown() -> None:
    unseen = of_task({"user": 1, "system": 0}, 2, "n1")
    assert FIELDS["MaxRSS"](unseen, Sizes()) == FIELDS["MaxRSSTask"](unseen, Sizes()) == ""
    assert FIELDS["TRESUsageInMax"](unseen, Sizes()) == "cpu=00:00:01,energy=0"
    assert FIELDS["TRESUsageInMaxNode"](unseen, Sizes()) == "cpu=n1,energy=n1"


def test_usage_comes_back_from_json_also_from_what_earlier_versions_wrote(step: Usage) -> None:
    assert Usage.from_dict(step.to_dict()) == step
    old = Usage.from_dict({"user": 1.5, "rss": 2048, "task": 3, "node": "n2"})
    assert old.memory == Spread(total=2048, most=2048, most_task=3, most_node="n2")


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(1023, "1023"), (1536, "1.50K"), (208269312, "203388K"), (2 << 30, "2G"), (1537, "1537"), (3 << 19, "1.50M")],
)
def test_a_size_is_shown_in_the_largest_unit_that_half_of_it_divides(amount: int, shown: str) -> None:
    assert show_exact(amount) == shown


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (None, FREQUENCY),
        ("5", 5),
        ("task=7", 7),
        ("energy=3,task=9", 9),
        ("energy=3", FREQUENCY),
        ("0", 0),
        ("Task=0", 0),
    ],
)
def test_how_often_tasks_are_looked_at(asked: str | None, seconds: int) -> None:
    assert sampling(asked) == seconds
