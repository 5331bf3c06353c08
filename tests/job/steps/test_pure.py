"""The pure parts of srun: exit lines, labels, streams, multi-prog files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.errors import ShimError
from shim.core.model.request import StepRequest
from shim.job.steps.exits import Exits, code_of, status_lines
from shim.job.steps.lines import LONGEST, LineWriter
from shim.job.steps.multiprog import parse, programs_of
from shim.job.steps.parts import Asked, Part, asked_for, parts_of
from shim.job.steps.streams import Stream, stream_of, streams_of

STEP = Part("7.0", range(9), 9, {})


def exits_of(*ends: tuple[str, int, int]) -> Exits:
    exits = Exits()
    for host, rank, status in ends:
        exits.add(STEP, host, rank, status)
    return exits


@pytest.mark.parametrize(
    ("ends", "code", "lines"),
    [
        ([("n1", 0, 0)], 0, []),
        ([("n1", 0, 3 << 8)], 3, ["error: n1: task 0: Exited with exit code 3"]),
        (
            [("n1", 0, 768), ("n1", 1, 768), ("n1", 2, 768)],
            3,
            ["error: n1: tasks 0-2: Exited with exit code 3"],
        ),
        ([("n1", 0, 256), ("n1", 2, 256), ("n1", 1, 0)], 1, ["error: n1: tasks 0,2: Exited with exit code 1"]),
        (
            [("n2", 3, 768), ("n1", 0, 768), ("n1", 1, 768)],
            3,
            ["error: n2: task 3: Exited with exit code 3", "error: n1: tasks 0-1: Exited with exit code 3"],
        ),
        ([("n1", 0, 9)], 137, ["error: n1: task 0: Killed", "Force Terminated StepId=7.0"]),
        ([("n1", 0, 15)], 143, ["error: n1: task 0: Terminated", "Force Terminated StepId=7.0"]),
        ([("n1", 0, 11)], 139, ["error: n1: task 0: Segmentation fault"]),
        ([("n1", 0, 11 | 0x80)], 139, ["error: n1: task 0: Segmentation fault (core dumped)"]),
        (
            [("n1", 0, 512), ("n1", 1, 9)],
            137,
            [
                "error: n1: task 0: Exited with exit code 2",
                "error: n1: task 1: Killed",
                "Force Terminated StepId=7.0",
            ],
        ),
    ],
)
def test_what_srun_says_at_the_end(ends: list[tuple[str, int, int]], code: int, lines: list[str]) -> None:
    exits = exits_of(*ends)
    assert exits.last_lines(aborted=False) == lines
    assert exits.code == code


def test_an_aborted_step_is_not_called_forced() -> None:
    assert exits_of(("n1", 0, 9)).last_lines(aborted=True) == ["error: n1: task 0: Killed"]


def test_lines_are_said_once() -> None:
    exits = exits_of(("n1", 0, 9))
    assert exits.pending
    assert exits.take_lines() == ["error: n1: task 0: Killed"]
    assert not exits.pending
    assert exits.last_lines(aborted=False) == ["Force Terminated StepId=7.0"]


def test_each_part_of_a_step_counts_its_own_tasks() -> None:
    first, second = Part("7.0", [0], 3, {}), Part("8.0", [1, 2], 3, {})
    exits = Exits()
    exits.add(first, "n1", 0, 0)
    exits.add(second, "n2", 2, 9)
    exits.add(second, "n2", 1, 9)
    assert exits.code == 137
    assert exits.last_lines(False) == ["error: n2: tasks 0-1: Killed", "Force Terminated StepId=8.0"]
    assert [status_lines(part, exits.ended) for part in (first, second)] == [
        ["StepId=7.0 task 0: exited"],
        ["StepId=8.0 tasks 0-1: exited abnormally"],
    ]


def test_parts_as_they_are_asked_for_and_made() -> None:
    request = StepRequest(argv=("a",))
    plain = asked_for([Asked(request, {"A": "1"})])
    assert plain == {"request": {"argv": ["a"]}, "environment": {"A": "1"}}
    two = asked_for([Asked(request, {}), Asked(request, {}, 1, True)])
    assert [(one.get("group"), one.get("named")) for one in two["parts"]] == [(None, None), (1, True)]
    (part,) = parts_of({"ntasks": 4, "parts": [{"id": "7.0", "ranks": [1, 2, 3], "files": {}}]})
    assert (list(part.ranks), part.local(3), part.ntasks) == ([1, 2, 3], 2, 4)


def test_out_of_memory_is_named() -> None:
    exits = Exits()
    exits.add(STEP, "n1", 0, 9, oom=True)
    assert exits.take_lines() == ["error: n1: task 0: Out Of Memory"]


@given(st.integers(0, 0xFF), st.booleans())
def test_a_code_is_one_byte(number: int, signalled: bool) -> None:
    status = (number & 0x3F or 1) if signalled else number << 8
    assert code_of(status) == (128 + status if signalled else number)


def test_the_state_of_the_tasks() -> None:
    assert status_lines(Part("48.0", range(4), 4, {}), {1: 0, 3: 256}) == [
        "StepId=48.0 tasks 0,2: running",
        "StepId=48.0 task 1: exited",
        "StepId=48.0 task 3: exited abnormally",
    ]


# Lines


def test_without_labels_bytes_are_not_changed() -> None:
    writer = LineWriter(2)
    assert writer.feed(0, b"A") == b""
    assert writer.feed(1, b"x\n") == b"x\n"
    assert writer.feed(0, b"B\nC") == b"AB\n"
    assert writer.finish(0) == b"C"


def test_labels_are_as_wide_as_the_highest_rank() -> None:
    writer = LineWriter(12, label=True)
    assert writer.feed(3, b"a\n\nb") == b" 3: a\n 3: \n"
    assert writer.finish(3) == b" 3: b\n"
    assert writer.feed(11, b"x\n") == b"11: x\n"


def test_unbuffered_output_passes_at_once() -> None:
    writer = LineWriter(2, unbuffered=True)
    assert writer.feed(0, b"A") == b"A"
    assert writer.finish(0) == b""


def test_a_line_without_end_does_not_fill_memory() -> None:
    writer = LineWriter(1)
    data = b"x" * (LONGEST + 1)
    assert writer.feed(0, data) == data


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=20)), max_size=30), st.booleans())
def test_every_byte_of_a_task_arrives_in_order(pieces: list[tuple[int, bytes]], unbuffered: bool) -> None:
    writer = LineWriter(3, unbuffered=unbuffered)
    sent = {0: b"", 1: b"", 2: b""}
    seen = {0: b"", 1: b"", 2: b""}
    for rank, data in pieces:
        sent[rank] += data
        seen[rank] += writer.feed(rank, data)
    for rank in sent:
        seen[rank] += writer.finish(rank)
    assert seen == sent


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=20)), max_size=30))
def test_labelled_lines_are_the_tasks_lines(pieces: list[tuple[int, bytes]]) -> None:
    writer = LineWriter(3, label=True)
    sent = {0: b"", 1: b"", 2: b""}
    out = b""
    for rank, data in pieces:
        sent[rank] += data
        out += writer.feed(rank, data)
    out += b"".join(writer.finish(rank) for rank in sent)
    lines = out.split(b"\n")
    assert lines.pop() == b""
    for rank, data in sent.items():
        mine = [line[3:] for line in lines if line.startswith(b"%d: " % rank)]
        expected = data.split(b"\n")
        if expected[-1] == b"":
            expected.pop()
        assert mine == expected
    assert all(line[:1] in b"012" and line[1:3] == b": " for line in lines)


# Streams


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, Stream(kind="srun")),
        ("all", Stream(kind="srun")),
        ("none", Stream(kind="none")),
        ("1", Stream(kind="task", rank=1)),
        ("o/all", Stream(kind="shared", pattern="o/all")),
        ("out.%j", Stream(kind="shared", pattern="out.%j")),
        ("out.%t", Stream(kind="files", pattern="out.%t")),
        ("out.%3t", Stream(kind="files", pattern="out.%3t")),
        ("%j-%N", Stream(kind="files", pattern="%j-%N")),
        ("50%", Stream(kind="shared", pattern="50%")),
        ("%%t", Stream(kind="shared", pattern="%%t")),
        ("o/back\\%t", Stream(kind="shared", pattern="o/back\\%t")),
    ],
)
def test_what_an_option_stands_for(text: str | None, expected: Stream) -> None:
    assert stream_of(text) == expected


def test_stderr_goes_where_stdout_goes() -> None:
    _stdin, out, err = streams_of(None, "o/one.txt", None)
    assert err is out
    _stdin, out, err = streams_of(None, "none", "o/e")
    assert (out.kind, err.kind) == ("none", "shared")


# --multi-prog


def test_a_multi_prog_file() -> None:
    programs = parse("# comment\n0 echo zero %t %o\n1-2 sh -c x\\\n y\n* other %t:%o\n", "mp.conf", ("extra",))
    assert programs_of(programs, 5, "mp.conf") == [
        ("echo", "zero", "0", "0", "extra"),
        ("sh", "-c", "x", "y", "extra"),
        ("sh", "-c", "x", "y", "extra"),
        ("other", "3:3", "extra"),
        ("other", "4:4", "extra"),
    ]


def test_the_offset_counts_inside_the_range() -> None:
    assert programs_of(parse("2-3 cmd t=%t o=%o\n0-1 a", "f"), 4, "f")[2:] == [
        ("cmd", "t=2", "o=0"),
        ("cmd", "t=3", "o=1"),
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("0 a\n0 b\n", ("error: Duplicate record for task 0", "error: Line 2 of configuration file mp.conf invalid")),
        ("0\n", ("error: Line 1 of configuration file mp.conf invalid",)),
        ("x a\n", ("error: Line 1 of configuration file mp.conf invalid",)),
    ],
)
def test_bad_records(text: str, lines: tuple[str, ...]) -> None:
    with pytest.raises(ShimError) as refused:
        parse(text, "mp.conf")
    assert refused.value.lines == lines


def test_a_task_without_a_record() -> None:
    with pytest.raises(ShimError, match="no record for task id 4"):
        programs_of(parse("0-3 a", "mp.conf"), 5, "mp.conf")


@given(st.text(max_size=60), st.integers(1, 5))
def test_any_text_is_read_or_refused(text: str, ntasks: int) -> None:
    try:
        assert len(programs_of(parse(text, "f"), ntasks, "f")) == ntasks
    except ShimError as refused:
        assert refused.lines
