#!/usr/bin/env python3
"""Headers of batch scripts, given to sbatch: ``headers.py VERB [NUMBER…]`` (NUMBER: lines of headers.jsonl from 1).

    verify    a real controller against what was measured
    record    ask a real controller, and keep what it does
    check     this checkout's commands against what was measured

Exit code 0 when everything is the same, 1 when not, 2 when not understood. As root, cases run as the test user of
cluster/slurm.py: an administrator is refused less.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat.cluster import packages, slurm
from compat.cluster.controller import controller, write_conf
from compat.header_case import GIVEN, differences, measured, read_cases, waits, words, write_cases
from compat.targets import acting, local_session, person

Case = dict[str, Any]
CONFIG = """\
operators = []

[clusters.local]
backend = "local"
slurm_conf = "{conf}"
first_job_id = 700001
max_jobs = 50000
"""


class Caller:
    """Somebody who calls Slurm's commands: ``variables`` are all of the environment but the case's own."""

    def __init__(self, variables: dict[str, str], account: pwd.struct_passwd | None) -> None:
        self.variables = variables
        self.account = account

    def call(
        self, folder: str, env: dict[str, str], command: list[str], text: bytes | None = None
    ) -> tuple[int, str, str]:
        """The command's exit code and output."""
        source: dict[str, object] = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
        done = subprocess.run(  # type: ignore[call-overload]
            command,
            cwd=folder,
            env={**self.variables, **env},
            capture_output=True,
            timeout=60,
            **source,
            **person(self.account),
        )
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def seen_of(caller: Caller, case: Case, *, verbose: bool = True) -> Case:
    """What the commands make of the header. ``verbose``: what -vv says of it too."""
    with tempfile.TemporaryDirectory(prefix="shim-compat-") as folder:
        os.chmod(folder, 0o755)
        script = case.get("script", "").encode(errors="surrogateescape")
        if "script" in case and not case.get("stdin"):
            path = Path(folder, "job.sh")
            path.write_bytes(script)
            path.chmod(0o755)
        if caller.account is not None:
            os.chown(folder, caller.account.pw_uid, caller.account.pw_gid)
        text, env = (script if case.get("stdin") else None), case.get("env", {})
        code, out, err = caller.call(folder, env, ["sbatch", waits(case), *words(case)], text)
        # The variables of the case are input to sbatch only; those of the other commands must not act here.
        job_id = _job_id(out) if code == 0 else ""
        record = (
            caller.call(folder, {}, ["scontrol", "-o", "show", "job", job_id])[1]
            if job_id and not case.get("later")
            else None
        )
        second, told = "", ""
        if verbose:
            _, second, told = caller.call(folder, env, ["sbatch", "-vv", waits(case), *words(case)], text)
        ids = [one for one in (job_id, _job_id(second)) if one]
        if ids:
            caller.call(folder, {}, ["scancel", "-Q", *ids])
        return measured((folder, caller.variables["USER"]), code, out, err, told, record, job_id)


def _job_id(out: str) -> str:
    found = re.search(r"7\d{5}", out)
    return found.group() if found else ""


def _person(account: pwd.struct_passwd) -> dict[str, str]:
    return {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name, "LANG": "C.UTF-8"}


@contextmanager
def real(enforce: str) -> Iterator[Caller]:
    """A real controller with that EnforcePartLimits."""
    account = pwd.getpwnam(slurm.USER)
    with controller(enforce) as conf:
        yield Caller({**_person(account), "PATH": "/usr/bin:/bin", "SLURM_CONF": str(conf)}, account)


@contextmanager
def ours(enforce: str) -> Iterator[Caller]:
    """The commands of this checkout, with the same slurm.conf."""
    account = acting()
    with tempfile.TemporaryDirectory(prefix="shim-compat-") as name:
        folder = Path(name)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        conf = write_conf(folder, enforce=enforce)
        with local_session(folder, CONFIG.format(conf=conf), account) as environ:
            yield Caller(environ, account)


Side = Callable[[str], "AbstractContextManager[Caller]"]


def see_all(cases: list[tuple[int, Case]], side: Side) -> list[Case]:
    """What the commands of one side make of the cases, one cluster after the other."""
    seen: dict[int, Case] = {}
    for enforce in sorted({_enforced(case) for _, case in cases}):
        these = [(number, case) for number, case in cases if _enforced(case) == enforce]
        with side(enforce) as caller, ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda one, caller=caller: seen_of(caller, one[1]), these)
            seen.update(zip((number for number, _ in these), found))
    return [seen[number] for number, _ in cases]


def _enforced(case: Case) -> str:
    return str(case.get("enforce", "NO"))


def compare(cases: list[tuple[int, Case]], seen: list[Case], known: bool) -> int:
    """Print what is not as measured; how many cases are not and should be. ``known``: some differ by design."""
    same = wrong = 0
    for (number, case), found in zip(cases, seen, strict=True):
        lines = differences(case, found)
        same += not lines
        if lines and known and "differs" in case:
            print(f"{number}: differs by design: {case['differs']}")
        elif lines:
            wrong += 1
            print(
                f"{number}: sbatch {' '.join(words(case))} {case.get('env', '')} {_enforced(case)}\n{case.get('script', '')!r}"
            )
            print("".join(f"    {line}\n" for line in lines))
    print(f"{same} of {len(cases)} as measured")
    return wrong


def main(argv: list[str]) -> int:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(
        prog="headers.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("verb", choices=("verify", "record", "check"))
    parser.add_argument("number", nargs="*", type=int)
    options = parser.parse_args(argv)
    everything = read_cases()
    cases = [(number, case) for number, case in enumerate(everything, 1) if number in (options.number or (number,))]
    try:
        slurm.up()
        seen = see_all(cases, ours if options.verb == "check" else real)
        if options.verb != "record":
            return 1 if compare(cases, seen, options.verb == "check") else 0
        for (number, case), found in zip(cases, seen, strict=True):
            everything[number - 1] = {**_given(case), **found}
    except (slurm.ClusterError, packages.PackageError) as problem:
        print(f"headers.py: {problem}", file=sys.stderr)
        return 2
    write_cases(everything)
    return 0


def _given(case: Case) -> Case:
    return {key: value for key, value in case.items() if key in GIVEN}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
