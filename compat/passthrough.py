#!/usr/bin/env python3
"""Command lines to a real Slurm, directly and through our commands: ``passthrough.py [NUMBER…]``.

Standard output, standard error (on a terminal: all that appears) and the exit status must be the same, byte for byte; ids and
times apart. ``list``: the lines. Exit code 0 when all are the same, 1 when not, 2 when there is no real Slurm.
"""

from __future__ import annotations

import os
import pty
import pwd
import re
import select
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat.cluster import packages, slurm
from compat.cluster.processes import wait_for
from compat.passing_cases import BLOB, CASES, JOB, Case, Line, Signalled
from compat.targets import acting, local_session, person

LIMIT = 90.0  # seconds for one line
CONFIG = """\
default = "compat"

[clusters.compat]
backend = "slurm"
"""
NAMES = ("passing", "a b", "listed", "variable", "x")  # of the jobs that lines leave behind
APART = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rb"(?<!\d)7\d{5}(?!\d)", b"<job>"),
        (rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", b"<time>"),
        # What the state of other jobs decides, and the moment: these lines may come or not.
        (rb"srun: (error: )?(Job|job) \S+ (queued|has been allocated|step creation)[^\n]*\n", b""),
        (rb"salloc: (Pending job allocation|job) [^\n]*\n", b""),
        (rb"salloc: Job allocation \S+ has been revoked\.\r?\n", b""),
        (rb"on node\d", b"on <node>"),
        # Whether the task or the step ends first.
        (rb"slurmstepd\S*: error: \*\*\* STEP [^\n]*\n", b""),
        (rb"srun: error: \S+: task 0: Interrupt\r?\n", b""),
        (rb"srun: Job step aborted: [^\n]*\n", b""),
    )
)


@dataclass
class Seen:
    """What a line did."""

    out: bytes
    err: bytes
    status: int | str


class Side:
    """Somebody who types: ``environ`` says which commands are found."""

    def __init__(self, environ: Mapping[str, str], account: pwd.struct_passwd | None) -> None:
        self.environ = dict(environ)
        self.account = account

    def see(self, case: Case) -> Seen:
        """Run ``case`` in a fresh folder."""
        with tempfile.TemporaryDirectory(prefix="shim-compat-") as outer:
            os.chmod(outer, 0o755)
            folder = Path(outer, "work")
            folder.mkdir()
            (folder / "job.sh").write_text(JOB)
            (folder / "blob").write_bytes(BLOB)
            if self.account is not None:
                for path in (folder, folder / "job.sh"):
                    os.chown(path, self.account.pw_uid, self.account.pw_gid)
            seen = self._run(case, folder)
        out, err = (_apart(text.replace(os.fsencode(outer), b"<dir>")) for text in (seen.out, seen.err))
        if isinstance(case, Line) and case.any_order:
            out = b"\n".join(sorted(out.split(b"\n")))
        if isinstance(case, Signalled):  # several daemons say what became of the task
            err = b"\n".join(sorted(err.split(b"\n")))
        return Seen(out, err, seen.status)

    def _run(self, case: Case, folder: Path) -> Seen:
        if isinstance(case, Line):
            return self._line(case, folder)
        if isinstance(case, Signalled):
            return self._signalled(case, folder)
        return self._terminal(["/bin/bash", "-c", case.text], case.typed, folder)

    def _start(self, words: list[str], folder: Path, **streams: object) -> subprocess.Popen[bytes]:
        program = words[0] if "/" in words[0] else _found(words[0], self.environ["PATH"])
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [program, *words[1:]], cwd=folder, env=self.environ, **streams, **person(self.account)
        )

    def _line(self, case: Line, folder: Path) -> Seen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self._start(["/bin/bash", "-c", case.text], folder, start_new_session=True, **pipes) as process:
            try:
                out, err = process.communicate(case.stdin, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return Seen(b"", b"", "hangs")
        return Seen(out, err, process.returncode)

    def _signalled(self, case: Signalled, folder: Path) -> Seen:
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = self._start(
                shlex.split(case.text), folder, start_new_session=True, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
            with process:
                if wait_for((folder / "ready").exists, LIMIT):
                    for number in case.signals:
                        time.sleep(0.3)
                        process.send_signal(number)
                try:
                    status: int | str = process.wait(LIMIT)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    status = "hangs"
        return Seen((folder / "out").read_bytes(), (folder / "err").read_bytes(), status)

    def _terminal(self, words: list[str], typed: tuple[tuple[bytes, bytes], ...], folder: Path) -> Seen:
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        if self.account is not None:
            os.fchown(theirs, self.account.pw_uid, self.account.pw_gid)
        # setsid makes the terminal the controlling one.
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        with self._start(
            ["/usr/bin/setsid", "--ctty", "--wait", *words], folder, start_new_session=True, **streams
        ) as process:
            os.close(theirs)
            try:
                out = _talk(ours, typed, lambda: process.poll() is not None)
                status: int | str = process.wait(1) if out is not None else "hangs"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)
                os.close(ours)
        return Seen(out or b"", b"", status)


def _talk(terminal: int, typed: tuple[tuple[bytes, bytes], ...], ended: Callable[[], bool]) -> bytes | None:
    """All that appeared until the program ended; None when it does not end."""
    seen, waiting, since = b"", list(typed), 0
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        over = ended()
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65536)
                over = False
            except OSError:  # the last program on the other side has gone
                return seen if wait_for(ended, 10) else None
        if over:
            return seen
        if waiting and waiting[0][0] in seen[since:]:
            since = len(seen)
            # Somebody who types is slower than the line discipline of a shell that begins.
            time.sleep(0.7)
            os.write(terminal, waiting.pop(0)[1])
    return None


def _found(name: str, path: str) -> str:
    return next(f"{folder}/{name}" for folder in path.split(":") if os.access(f"{folder}/{name}", os.X_OK))


def _apart(text: bytes) -> bytes:
    for pattern, replacement in APART:
        text = pattern.sub(replacement, text)
    return text


@contextmanager
def sides() -> Iterator[tuple[Side, Side]]:
    """Directly, and through our commands."""
    account = acting()
    with tempfile.TemporaryDirectory(prefix="shim-compat-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        with local_session(folder, CONFIG, account, jobs=False) as ours:
            ours = {**ours, "SLURM_CONF": str(slurm.CONF), "SBATCH_JOB_NAME": NAMES[0], "PS1": "$ ", "TERM": "dumb"}
            direct = {key: value for key, value in ours.items() if not key.startswith("SHIM_")}
            direct["PATH"] = ours["PATH"].partition(":")[2]
            yield Side(direct, account), Side(ours, account)


def differences(left: Seen, right: Seen) -> list[str]:
    """A line for each thing that is not the same."""
    found = []
    for what, one, other in (("output", left.out, right.out), ("errors", left.err, right.err)):
        if one != other:
            at = next(
                (place for place, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), min(len(one), len(other))
            )
            start = max(0, at - 60)
            found.append(f"{what} from byte {at}: {one[start : at + 200]!r} through ours {other[start : at + 200]!r}")
    if left.status != right.status or "hangs" in (left.status, right.status):
        found.append(f"status: {left.status} through ours {right.status}")
    return found


def main(argv: list[str]) -> int:
    """The command line; see the module's text."""
    if argv == ["list"]:
        for number, case in enumerate(CASES, 1):
            print(f"{number:4} {type(case).__name__:9} {case.text}")
        return 0
    wanted = {int(word) for word in argv}
    cases = [(number, case) for number, case in enumerate(CASES, 1) if not wanted or number in wanted]
    begin = time.monotonic()
    wrong = 0
    try:
        slurm.up()
        with sides() as (direct, ours), ThreadPoolExecutor(2) as pool:
            for number, case in cases:
                lines = compared(case, direct, ours, pool)
                if lines:
                    wrong += 1
                    print("\n".join([f"\n{number}: {case.text}", *(f"    {line}" for line in lines)]))
            for name in NAMES:
                slurm.ask("scancel", "-u", direct.environ["USER"], "-n", name)
    except (slurm.ClusterError, packages.PackageError) as problem:
        print(f"passthrough.py: {problem}", file=sys.stderr)
        return 2
    print(f"\n{len(cases)} command lines directly and through ours in {time.monotonic() - begin:.0f} s: {wrong} differ")
    return 1 if wrong else 0


def compared(case: Case, direct: Side, ours: Side, pool: ThreadPoolExecutor) -> list[str]:
    """What differs; both run at once, so that they see the same cluster.

    A difference counts when it comes three times: who ends first, and says so, the real one leaves to luck.
    """
    lines: list[str] = []
    for _ in range(3):
        left, right = pool.map(lambda side: side.see(case), (direct, ours))
        lines = differences(left, right)
        if not lines:
            break
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
