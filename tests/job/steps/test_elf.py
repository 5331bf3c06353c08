"""The libraries that ELF programs name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.job.steps.elf import needed
from tests.support import elf_program

LIBRARIES = ["libmpi.so.40", "libc.so.6"]


def of(data: bytes) -> list[str]:
    return needed(lambda offset, size: data[offset : offset + size])


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("little", [True, False])
def test_what_a_program_needs(wide: bool, little: bool) -> None:
    assert of(elf_program(LIBRARIES, wide, little)) == LIBRARIES


def test_the_interpreter_that_runs_this() -> None:
    assert any(name.startswith("libc.") for name in of(Path(sys.executable).resolve().read_bytes()))


@pytest.mark.parametrize(
    "data", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF" + bytes(60), b"\x7fELF\x09\x09" + bytes(90)]
)
def test_what_is_none(data: bytes) -> None:
    assert of(data) == []


@given(st.binary(max_size=80), st.integers(0, 400), st.booleans(), st.booleans())
def test_a_damaged_program_names_what_it_can(noise: bytes, place: int, wide: bool, little: bool) -> None:
    program = elf_program(LIBRARIES, wide, little)
    damaged = program[:6] + (program[6:place] + noise + program[place + len(noise) :])
    assert isinstance(of(damaged), list)
    assert isinstance(of(program[:place]), list)
