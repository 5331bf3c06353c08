"""The runner of the pass-through: what counts as the same, and how a line is run."""

from __future__ import annotations

import os
import signal

from compat.passing_cases import CASES, Line, Signalled, Terminal
from compat.passthrough import Seen, Side, differences

SIDE = Side({"PATH": "/usr/bin:/bin", "HOME": "/"}, None)


def test_ids_times_and_places_are_apart() -> None:
    seen = SIDE.see(Line("echo Submitted batch job 700123 at 2026-11-20T17:22:40; pwd; echo 1700123 >&2"))
    assert seen == Seen(b"Submitted batch job <job> at <time>\n<dir>/work\n", b"1700123\n", 0)


def test_bytes_and_status_of_a_line() -> None:
    assert SIDE.see(Line("cat; exit 3", b"\xff\0\n")) == Seen(b"\xff\0\n", b"", 3)
    assert SIDE.see(Line("kill -9 $$")).status == -signal.SIGKILL
    assert (
        SIDE.see(Line("printf 'b\\na\\n'", any_order=True)).out
        == SIDE.see(Line("printf 'a\\nb\\n'", any_order=True)).out
    )


def test_a_terminal_is_one_and_what_is_typed_arrives() -> None:
    typed = ((b"name? ", b"alice\n"), (b"hello alice", b"\x04"))
    seen = SIDE.see(
        Terminal("test -t 0 && test -t 2 && printf 'name? ' && read n && echo hello $n && cat; exit 4", typed)
    )
    assert seen == Seen(b"name? alice\r\nhello alice\r\n", b"", 4)


def test_a_signal_reaches_the_program_itself() -> None:
    seen = SIDE.see(
        Signalled(
            "bash -c 'trap \"echo got it; exit 5\" USR1; touch ready; while :; do sleep 0.05; done'", (signal.SIGUSR1,)
        )
    )
    assert (seen.out, seen.status) == (b"got it\n", 5)


def test_differences_name_the_place() -> None:
    one, other = Seen(b"abc\n", b"", 0), Seen(b"abd\n", b"", 1)
    assert differences(one, one) == []
    assert differences(one, other) == [
        "output from byte 2: b'abc\\n' through ours b'abd\\n'",
        "status: 0 through ours 1",
    ]
    assert differences(Seen(b"", b"", "hangs"), Seen(b"", b"", "hangs"))


def test_there_are_lines_of_every_kind() -> None:
    assert len(CASES) >= 80
    assert {type(case) for case in CASES} == {Line, Terminal, Signalled}
    programs = ("sbatch", "srun", "salloc", "squeue", "sinfo", "scancel", "scontrol", "sacct")
    assert all(any(program in case.text for case in CASES) for program in programs)
    assert os.access("/usr/bin/setsid", os.X_OK)
