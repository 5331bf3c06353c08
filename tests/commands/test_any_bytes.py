"""Bytes that are no text, wherever words may stand: Slurm's words and a code come back, never an internal error or a traceback.

SHIM_TEST_FUZZ=3000 makes so many invocations instead of some hundred; the same number is always the same invocations.
"""

from __future__ import annotations

import io
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.commands import entrypoint
from shim.control import client
from shim.core.options import query_options, submit_options
from shim.core.options.getopt import FLAG, Option
from tests.commands.conftest import World
from tests.commands.test_any_submission import answer

SUBMITTING = ("sbatch", "srun", "salloc")
QUERIES = ("squeue", "scancel", "sinfo", "scontrol", "sacct")
PROGRAMS = (*SUBMITTING, *QUERIES)
COUNT = int(os.environ.get("SHIM_TEST_FUZZ", "400")) // len(PROGRAMS)
# What repeats itself, asks a terminal, or copies its input to a file.
LEFT_OUT = ("iterate", "pty", "export-file", "wait", "multi-prog", "batch-script")
_GOOD = "1 4_2 5.0 n1 n[1-2] debug R PD all 1:00 gpu:1 1G root %i jobid USR1 ALL none a,b 1-3 show job partition hold update"
_VERBS = (
    "show hold release update requeue write errnumstr completing ping details job=4 jobid=1 timelimit=5 hostnames step"
)
GOOD = _GOOD.split()
VERBS = _VERBS.split()


def no_text(chance: random.Random) -> str:
    """A word of bytes, most of which are no characters."""
    data = bytes(
        chance.choice((0xFF, 0xC3, 0x80, 0xED, 0xA0, 0xF4, 0x1B, 0x0A, 0x25, 0x2C, 0x5B, 0x31)) for _ in range(5)
    )
    return os.fsdecode(data[: chance.randint(1, 5)])


def word(chance: random.Random, options: list[Option]) -> str:
    """An option, a value of one, or bytes alone."""
    kind = chance.random()
    text = no_text(chance) if chance.random() < 0.7 else chance.choice(GOOD)
    if chance.random() < 0.3:
        text = chance.choice(GOOD) + chance.choice((",", "", "=", ":", "@")) + no_text(chance)
    if kind < 0.25:
        return text
    option = chance.choice(options)
    if option.short and kind < 0.5:
        return f"-{option.short}{'' if option.arity == FLAG else text}"
    return f"--{option.long}" + ("" if option.arity == FLAG and kind < 0.95 else f"={text}")


@pytest.fixture
def place(busy: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A queue, a folder to be in, a script with bytes, and a controller that grants nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client, "open_allocation", lambda fields: answer("allocate", fields))
    monkeypatch.setattr(os, "getuid", lambda: 1001)
    queries = client.call
    monkeypatch.setattr(
        client, "call", lambda op, fields=None, **more: (answer if op == "submit" else queries)(op, fields)
    )
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield tmp_path


@pytest.mark.parametrize("program", PROGRAMS)
def test_bytes_that_are_no_text(place: Path, program: str) -> None:
    table = (submit_options if program in SUBMITTING else query_options).options_of(program)
    options = [option for option in table if option.field not in LEFT_OUT]
    variables = [name for option in options for name in option.env]
    for seed in range(COUNT):
        chance = random.Random(f"{program} {seed}")
        argv = [word(chance, options) for _ in range(chance.randint(1, 4))]
        if program in SUBMITTING and chance.random() < 0.5:
            argv.append("job.sh" if chance.random() < 0.8 else no_text(chance))
        if program == "scontrol":
            argv[:0] = [chance.choice(VERBS) for _ in range(chance.randint(1, 3))]
        directive = os.fsencode(word(chance, options).replace("\n", " "))
        (place / "job.sh").write_bytes(b"#!/bin/sh\n#SBATCH " + directive + b"\n\xff\xfe\n")
        with pytest.MonkeyPatch.context() as patch:
            if variables and chance.random() < 0.3:
                patch.setenv(chance.choice(variables), no_text(chance))
            out = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True)
            err = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True)
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = entrypoint.run(program, argv)
        said = err.buffer.getvalue()
        assert b"internal error" not in said and b"Traceback" not in said, (seed, argv, said)
        assert 0 <= code <= 255, (seed, argv)
