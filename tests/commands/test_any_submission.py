"""Whatever is typed or stands in a script, sbatch, srun and salloc answer with words and a code, and soon.

How long an answer takes is counted in calls of functions, not in seconds: a busy machine changes nothing.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shim.commands import entrypoint
from shim.control import client
from shim.core.admission import feasibility, refusals
from shim.core.errors import ShimError
from shim.core.model.request import JobRequest
from shim.core.options.submit_options import options_of
from tests import reference

_OF_ALL_KINDS = (
    "1 0 -1 2-4 4-2 2k 1,2 abc 1:00:00 1-2:3 UNLIMITED 1G 1.5G none help ALL NONE n1 n[1-2] n[1 n[3-1] n[1-999999999] 0-3%2 0-3:0"
    " afterok:1 afterok:1?after:2+5 singleton now+1hour 25:61 2026-13-01 USR1@90 B:10@99999 gpu:a100:2 gpu:-1 gpu:9999999999"
    " a&b (a|b)*2 ((( %j %99999999999j /nosuch /dev/null , : = # [ ] é \udcff 99999999999999999999999 plane=0 block:cyclic,pack"
    " map_cpu:0,x mask_cpu:zz low-high:ondemand END,FAIL"
)
_VALUES = _OF_ALL_KINDS.split(" ")
_NAMES = sorted({f"--{option.long}" for command in ("sbatch", "srun", "salloc") for option in options_of(command)})
_LETTERS = [f"-{letter}" for letter in "aAbBcCdDeEFGhHiIJkKlLmMnNoOpPqQrsStTuvVwWxXZz"]
_texts = st.text(max_size=8).map(lambda text: text.replace("\0", ""))
_values = st.sampled_from(_VALUES) | _texts
_words = (
    st.sampled_from([*_NAMES, *_LETTERS, "--", "-", ":", "--tim", "--n", "--no"])
    | st.builds("{}={}".format, st.sampled_from(_NAMES), _values)
    | st.builds("{}{}".format, st.sampled_from(_LETTERS), _values)
    | _values
)
_lines = st.lists(_words, max_size=5)
MOST = 400_000  # calls; an ordinary submission makes 3,000
CLUSTER = reference.cluster()


def answer(op: str, fields: dict[str, Any] | None = None, **_: Any) -> Any:
    """Stands where the controller would: judges as it does, and refuses what would be granted."""
    if fields and "request" in fields:
        request = JobRequest.from_dict(fields["request"])
        refusals.check_request(request, CLUSTER, 1001, int(reference.NOW))
        feasibility.pending_reason(request, CLUSTER)
    if op == "submit" and not (fields or {}).get("test_only"):
        return {"job_id": 7, "cluster": "ref", "notes": []}
    raise ShimError("error: enough")


def counted(call: Callable[[], int]) -> tuple[int, int]:
    """The result of ``call`` and how many functions, of Python and of C, were called meanwhile."""
    calls = 0

    def count(frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return result, calls


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, and no controller."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client, "call", answer)
    monkeypatch.setattr(client, "open_allocation", lambda fields: answer("allocate", fields))
    monkeypatch.setattr(os, "getuid", lambda: 1001)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    return tmp_path


def run(program: str, argv: list[str]) -> None:
    """Fails if the program breaks, or works for long."""
    said = io.StringIO()  # takes any text, as the commands' own streams do
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", io.StringIO())
        patch.setattr("sys.stderr", said)
        patch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
        code, calls = counted(lambda: entrypoint.run(program, argv))
        sys.stdin.close()
    assert "internal error" not in said.getvalue(), (argv, said.getvalue())
    assert code in (0, 1, 255), argv
    assert calls < MOST, argv


quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.mark.parametrize("program", ["sbatch", "srun", "salloc"])
@quick
@given(argv=_lines)
@example(argv=["-" + "H" * 3000])
@example(argv=["--constraint=" + "(" * 3000])
@example(argv=["--constraint=" + "a&" * 3000 + "b"])
@example(argv=["--array=0-4000000000", "-wn[1-4000000000]", "-n2147483647", "-N2147483647"])
@example(argv=["--licenses=" + "a:1," * 3000, "--export=" + "A=1," * 3000, "--mail-type=" + "END," * 3000])
@example(argv=["--dependency=" + "afterok:1," * 3000 + "singleton"])
@example(argv=["-t" + "9" * 5000, "--mem=" + "9" * 5000, "-c" + "9" * 5000])
def test_no_words_break_a_submission(place: Path, program: str, argv: list[str]) -> None:
    # What must not happen here: nothing is copied to a file, no terminal is asked for, nobody is waited for.
    argv = [word for word in argv if not word.startswith(("--export-file", "--pty", "-W", "--wait", "--mpi=list"))]
    run(program, [*argv, "job.sh"])
    run(program, argv)


@quick
@given(words=st.lists(_lines, max_size=4), blanks=st.sampled_from([" ", "\t", "  \v", "\xa0"]))
def test_no_directives_break_a_submission(place: Path, words: list[list[str]], blanks: str) -> None:
    lines = ["#!/bin/sh", *("#SBATCH " + blanks.join(line) for line in words), "true", ""]
    (place / "job.sh").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    run("sbatch", ["job.sh"])


@quick
@given(header=st.binary(max_size=120), magic=st.sampled_from([b"#SBATCH", b"#SBATCH ", b"#PBS ", b"#BSUB ", b"#"]))
@example(header=b"\"'" * 40, magic=b"#SBATCH ")
@example(header=b"\t -H \t" * 2000, magic=b"#SBATCH ")
@example(header=b"x\\" * 3000, magic=b"#SBATCH --comment=")
@example(header=b"-l nodes=" + b"1+" * 3000, magic=b"#PBS ")
def test_no_bytes_break_a_submission(place: Path, header: bytes, magic: bytes) -> None:
    (place / "job.sh").write_bytes(b"#!/bin/sh\n" + magic + header + b"\n" + magic + header)
    run("sbatch", ["-H", "job.sh"])


@pytest.mark.parametrize("program", ["sbatch", "srun", "salloc"])
@quick
@given(data=st.data(), value=_values)
def test_no_variables_break_a_submission(place: Path, program: str, data: st.DataObject, value: str) -> None:
    names = sorted({name for option in options_of(program) for name in option.env} | {"SLURM_HOSTFILE"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(data.draw(st.sampled_from(names)), value)
        run(program, ["job.sh"])
