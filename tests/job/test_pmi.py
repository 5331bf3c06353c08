"""PMI: how requests are read, where ranks are said to be, what crosses a fence, and tasks of srun that find each other by it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.job.pmi.fence import Fence, messages
from shim.job.pmi.wire import BadRequest, answer, mapping, take
from tests.job.run_folder import LiveRun, spec_of

CLIENT = Path(__file__).with_name("pmi_client.py")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0=\n"), min_size=1)


@pytest.mark.parametrize(
    ("version", "data", "expected", "rest"),
    [
        (
            0,
            b"cmd=init pmi_version=1 pmi_subversion=1\nx",
            {"cmd": "init", "pmi_version": "1", "pmi_subversion": "1"},
            b"x",
        ),
        (
            1,
            b"cmd=put kvsname=a key=b value=c d=e\n",
            {"cmd": "put", "kvsname": "a", "key": "b", "value": "c d=e"},
            b"",
        ),
        (1, b"cmd=barrier_in", None, b"cmd=barrier_in"),
        (1, b"mcmd=spawn\nnprocs=1\n", None, b"mcmd=spawn\nnprocs=1\n"),
        (1, b"mcmd=spawn\nnprocs=1\nendcmd\ncmd", {"cmd": "spawn", "nprocs": "1"}, b"cmd"),
        (2, b"000023cmd=kvs-put;value=a;;b;", {"cmd": "kvs-put", "value": "a;b"}, b""),
        (2, b"    23cmd=kvs-put;value=a;;b;0", {"cmd": "kvs-put", "value": "a;b"}, b"0"),
        (2, b"000023cmd=kvs-put", None, b"000023cmd=kvs-put"),
        (2, b"0000", None, b"0000"),
    ],
)
def test_a_request_is_taken_when_it_is_whole(
    version: int, data: bytes, expected: dict[str, str] | None, rest: bytes
) -> None:
    buffer = bytearray(data)
    assert take(buffer, version) == expected
    assert bytes(buffer) == rest


@pytest.mark.parametrize(
    ("version", "data"), [(1, b"hello\n"), (1, b"x" * (1 << 21)), (2, b"abcdef"), (2, b"-00001x"), (2, b"000003a=b")]
)
def test_what_is_no_request_is_refused(version: int, data: bytes) -> None:
    with pytest.raises(BadRequest):
        take(bytearray(data), version)


@given(st.dictionaries(TEXT, TEXT.map(lambda text: text + ";")))
def test_an_answer_of_pmi_2_is_read_as_it_was_written(fields: dict[str, str]) -> None:
    fields = {name.replace(";", ""): value.strip(";") for name, value in fields.items() if name.replace(";", "")}
    data = bytearray(answer(2, "x", [(name, value) for name, value in fields.items() if name != "cmd"]))
    fields.pop("cmd", None)
    assert take(data, 2) == {"cmd": "x", **fields} and not data


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([0], "(vector,(0,1,1))"),
        ([0, 0, 1, 1], "(vector,(0,2,2))"),
        ([0, 0, 0, 1], "(vector,(0,1,3),(1,1,1))"),
        ([0, 1, 0, 1], "(vector,(0,2,1))"),
        ([0, 1, 2, 0, 1], "(vector,(0,3,1),(0,2,1))"),
        ([1, 0], "(vector,(1,1,1),(0,1,1))"),
    ],
)
def test_where_ranks_are(nodes: list[int], expected: str) -> None:
    assert mapping(dict(enumerate(nodes))) == expected


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_a_mapping_says_of_every_rank_where_it_is(nodes: list[int]) -> None:
    text = mapping(dict(enumerate(nodes)))
    blocks = [[int(word) for word in block.split(",")] for block in text[len("(vector,(") : -2].split("),(")]
    once = [first + more for first, count, ranks in blocks for more in range(count) for _ in range(ranks)]
    assert len(nodes) % len(once) == 0 and once * (len(nodes) // len(once)) == nodes


def test_a_fence_opens_for_all_when_the_last_node_has_come_and_pairs_travel_in_pieces() -> None:
    sent: list[tuple[int, dict[str, Any]]] = []
    fence = Fence(3, {0, 2}, lambda node, message: sent.append((node, message)))
    big = {f"k{number}": "v" * 100_000 for number in range(8)}
    pieces = list(messages(3, big))
    assert [piece["last"] for piece in pieces] == [False, False, True]
    for round_ in range(2):
        sent.clear()
        for piece in pieces:
            fence.came(0, piece)
        assert not sent, round_
        fence.came(2, {"pairs": {"mine": "x"}, "last": True})
        for node in (0, 2):
            arrived: dict[str, str] = {}
            for index, message in sent:
                if index == node:
                    assert (message["do"], message["step"]) == ("pmi", 3)
                    arrived.update(message["pairs"])
            assert arrived == {**big, "mine": "x"}
            assert [message["last"] for index, message in sent if index == node].count(True) == 1


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    """An allocation of two nodes."""
    run = LiveRun(tmp_path_factory.mktemp("pmi"), spec_of(nodes=2, cpus=4, kill_wait=5))
    run.wait_for("started")
    yield run
    run.close()


def tasks(run: LiveRun, *words: str, options: tuple[str, ...] = ("-n4", "-N2")) -> tuple[int, list[str], str]:
    code, out, err = run.srun("--mpi=pmi2", *options, sys.executable, str(CLIENT), *words)
    return code, sorted(out.splitlines()), err


def test_tasks_of_pmi_1_find_each_other(run: LiveRun) -> None:
    assert tasks(run, "1") == (0, [f"{rank}|4|0|0|0|0|(vector,(0,2,2))|-1" for rank in range(4)], "")


def test_tasks_of_pmi_2_find_each_other(run: LiveRun) -> None:
    values = "|".join(f"a;b=c {rank}" for rank in range(3))
    expected = [f"{rank}|3|{values}|(vector,(0,1,2),(1,1,1))|FALSE" for rank in range(3)]
    assert tasks(run, "2", options=("-n3", "-N2")) == (0, expected, "")


def test_an_abort_ends_the_step(run: LiveRun) -> None:
    code, out, err = tasks(run, "1", "abort")
    assert (code, out) == (137, [])
    assert "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n" in err
    assert "*** STEP 7." in err and "srun: error: n2: tasks 2-3: Killed\n" in err


def test_spawning_is_refused_by_name(run: LiveRun) -> None:
    code, out, err = tasks(run, "1", "spawn", options=("-n1", "-N1"))
    assert (code, out[-1]) == (0, "cmd=spawn_result rc=-1 info=not_supported")
    assert err == "slurmstepd: error: mpi/pmi2: task 0: spawning processes is not supported here\n"


def test_a_task_that_talks_nonsense_loses_its_connection_alone(run: LiveRun) -> None:
    code, out, err = tasks(run, "1", "nonsense", options=("-n1", "-N1"))
    assert (code, out) == (0, ["b''"])
    assert err == "slurmstepd: error: mpi/pmi2: task 0: no request: hello\n"


def test_tasks_know_the_type_and_without_one_nothing(run: LiveRun) -> None:
    shown = run.srun("--mpi=pmi2", "-n1", "-N1", "sh", "-c", "echo $SLURM_MPI_TYPE $PMI_RANK $PMI_SIZE $PMI_JOBID")[
        1
    ].split()
    assert shown[:3] == ["pmi2", "0", "1"] and shown[3].startswith("7.")
    assert run.srun("--mpi=none", "-n1", "-N1", "sh", "-c", "echo $SLURM_MPI_TYPE$PMI_RANK$PMI_FD")[1] == "\n"
