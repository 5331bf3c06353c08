"""Finding pods by name: which questions are asked when, and what is made of answers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.job.loop import Loop
from shim.job.pod.resolver import KEPT, KINDS, PROBES, Lookup, addresses_in, question, servers_of
from tests.job.pod.dns import NameServer
from tests.job.pod.pods import free_port
from tests.support import wait_until

NAME = "slurm-7-0.slurm.test.svc.cluster.local"


class Asking:
    """A lookup with a clock that is set forward."""

    def __init__(self, server: NameServer) -> None:
        self.now = 0.0
        self.loop = Loop(lambda: self.now)
        self.found: list[str] = []
        self.server = server
        self.lookup = Lookup(self.loop, [("127.0.0.1", server.port)], NAME, self.found.append, self.loop.now)

    def advance(self, seconds: float) -> None:
        """In steps of a tenth; whatever was asked is answered before time goes on."""
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            before = len(self.server.asked)
            self.loop.run_once(0)
            if len(self.server.asked) > before or self.lookup._open:
                wait_until(self._settled, "an answer")

    def _settled(self) -> bool:
        self.loop.run_once(0)
        return not self.lookup._open

    def close(self) -> None:
        self.lookup.close()
        self.loop.close()


@pytest.fixture
def asking(names: NameServer) -> Iterator[Asking]:
    one = Asking(names)
    yield one
    one.close()


def test_no_kind_of_question_is_repeated_while_an_answer_may_be_kept(asking: Asking) -> None:
    times: dict[tuple[str, int, bool, bool], list[float]] = {}
    for _ in range(1200):
        count = len(asking.server.asked)
        asking.advance(0.1)
        for key in asking.server.asked[count:]:
            times.setdefault(key, []).append(asking.now)
    assert not {(NAME, 1, False, False), (NAME, 28, False, False)}.intersection(times)
    assert set(times) <= {(NAME, *kind) for kind in (*KINDS, *PROBES)}
    assert len(times) > len(PROBES)
    for moments in times.values():
        assert all(later - sooner > 30 for sooner, later in pairwise(moments))


@pytest.mark.parametrize("late", [0.0, 0.2, 1.0, 3.0, 8.0, 15.0])
def test_a_name_that_comes_late_is_found_though_its_absence_is_kept(asking: Asking, late: float) -> None:
    asking.advance(late)
    asking.server.names[NAME] = "10.1.2.3"
    asking.advance(1)
    assert asking.found == ["10.1.2.3"]


def test_one_that_comes_later_still_is_found_when_answers_have_expired(asking: Asking) -> None:
    asking.advance(25)
    asking.server.names[NAME] = "10.1.2.3"
    asking.server.forget()
    asking.advance(KEPT)
    assert asking.found == ["10.1.2.3"]


def _answer(ident: int, *records: tuple[bytes, int, bytes], flags: int = 0x8180) -> bytes:
    body = question(0, NAME, (1, False, True))[12:]
    head = struct.pack(">HHHHHH", ident, flags, 1, len(records), 0, 0)
    packed = b"".join(owner + struct.pack(">HHIH", rtype, 1, 5, len(data)) + data for owner, rtype, data in records)
    return head + body + packed


_SAME = b"\xc0\x0c"


def test_addresses_of_both_families_are_read() -> None:
    six = bytes.fromhex("20010db8000000000000000000000001")
    answer = _answer(9, (_SAME, 1, bytes((10, 0, 0, 1))), (_SAME, 28, six), (b"\x05other\0", 1, bytes(4)))
    assert addresses_in(answer, 9, NAME.upper()) == ["10.0.0.1", "2001:db8::1"]


@pytest.mark.parametrize(
    "answer",
    [
        _answer(8, (_SAME, 1, bytes(4))),  # to another question
        _answer(9, (_SAME, 1, bytes(4)), flags=0),  # no answer at all
        _answer(9, (_SAME, 1, bytes(3))),
        _answer(9, (b"\xc0\xff", 1, bytes(4))),
        _answer(9, (_SAME, 1, bytes(4)))[:-1],
        b"",
    ],
)
def test_what_is_no_answer_gives_nothing(answer: bytes) -> None:
    assert addresses_in(answer, 9, NAME) == []


@given(st.binary(max_size=200))
def test_any_bytes_are_no_more_than_no_answer(data: bytes) -> None:
    assert isinstance(addresses_in(b"\0\x09\x81\x80" + data, 9, NAME), list)


def test_resolv_conf_names_the_servers(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text(
        "search a b\nnameserver 10.0.0.1\n# nameserver 1.1.1.1\nnameserver fd00::1\nnameserver 127.0.0.1#53053\n"
    )
    assert servers_of(str(file)) == [("10.0.0.1", 53), ("fd00::1", 53), ("127.0.0.1", 53053)]
    assert servers_of(str(tmp_path / "none")) == [("127.0.0.1", 53)]


def test_a_server_that_is_not_there_is_passed_over(names: NameServer) -> None:
    loop = Loop()
    found: list[str] = []
    names.names[NAME] = "10.1.2.3"
    lookup = Lookup(loop, [("127.0.0.1", free_port()), ("127.0.0.1", names.port)], NAME, found.append)

    def turned() -> bool:
        loop.run_once(0.05)
        return bool(found)

    wait_until(turned, "an answer of the second server")
    lookup.close()
    loop.close()
