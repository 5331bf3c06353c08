"""Where a case runs: the real Slurm of cluster/slurm.py, or this checkout's commands on virtual nodes of this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from compat.case import Case
from compat.cluster import slurm, slurm_conf
from compat.cluster.processes import end_process, processes_with, wait_for
from compat.normalise import JOB_ID, Places, addresses_for_names
from compat.record import Outcome, read_files, read_steps

ROOT = Path(__file__).resolve().parents[1]
PRELUDE = Path(__file__).resolve().parent / "prelude.sh"
CASE_LIMIT = 150.0  # seconds for a whole case
WAIT_LIMIT = 60  # seconds for one wait in it

# Users of the real one are no operators.
SHAPE = f"""\
operators = []

[clusters.local]
backend = "local"
nodes = {len(slurm_conf.NODES)}
cpus = {slurm_conf.CPUS}
mail_prog = "/bin/true"
sockets = 2
memory = {slurm_conf.MEMORY}
gpus = {slurm_conf.GPUS}
kill_wait = {slurm_conf.KILL_WAIT}
first_job_id = {slurm_conf.FIRST_JOB_ID}
"""
CONFIG = f"""\
{SHAPE}
[clusters.local.partitions.debug]
default = true

[clusters.local.partitions.gpu]
nodes = "node[3-4]"
max_time = "02:00:00"
default_time = "00:30:00"
"""


class Target(Protocol):
    """A place that cases run on. ``workers``: how many cases at once it bears without seeing each other."""

    name: str
    workers: int

    def run(self, case: Case) -> tuple[Outcome, Places]:
        """Run ``case`` in a fresh work folder, and leave nothing of it behind."""
        ...


class RealSlurm:
    """The real Slurm. One case at a time, with the whole cluster for itself; as the cluster's test user.

    ``only_own``: as ``account`` (None: the caller), and only the jobs that the case named are ended, not all of the user's.
    """

    name = "slurm"
    workers = 1

    def __init__(self, account: pwd.struct_passwd | None = None, only_own: bool = False) -> None:
        test_user = pwd.getpwnam(slurm.USER)
        self.account = (account or pwd.getpwuid(os.geteuid())) if only_own else test_user
        self.only_own = only_own

    def run(self, case: Case) -> tuple[Outcome, Places]:
        environ = {**_person(self.account), "SLURM_CONF": str(slurm.CONF), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        with tempfile.TemporaryDirectory(prefix="shim-compat-") as outer:
            os.chmod(outer, 0o755)
            outcome, work = run_case(case, Path(outer), environ, self.account if os.geteuid() == 0 else None)
            jobs = ["-u", slurm.USER]
            if self.only_own:
                jobs = sorted(
                    {found.group(2) for step in outcome.steps for found in JOB_ID.finditer(step.out + step.err)}
                )
            if jobs:
                slurm.ask("scancel", *jobs)
            mine = () if not self.only_own else ("-j", ",".join([*jobs, "1"]))
            wait_for(lambda: not slurm.ask("squeue", "-h", *mine).stdout.strip(), 30, 0.1)
        return outcome, Places(work, self.account.pw_name, self.account.pw_dir, host_name())


class Local:
    """The commands of this checkout on its local backend: a state folder and a configuration for each case.

    ``account``: who calls them, if not the caller. ``config``: instead of the usual one with that ``shape``.
    """

    def __init__(
        self, workers: int = 2, shape: str = SHAPE, account: pwd.struct_passwd | None = None, config: str = ""
    ) -> None:
        self.workers = workers
        self.account = account
        self._config = config or CONFIG.replace(SHAPE, shape)
        with (
            tempfile.TemporaryDirectory(prefix="shim-compat-") as outer,
            local_session(Path(outer), config or shape) as environ,
        ):
            # Nodes are called by their addresses where the machine allows no private names.
            self._addresses = _command(environ, "sinfo", "-h", "-N", "-o", "%N").startswith("127.")
        self.name = "local-addresses" if self._addresses else "local"

    def run(self, case: Case) -> tuple[Outcome, Places]:
        account = self.account or pwd.getpwuid(os.geteuid())
        config = self._config
        if self._addresses:
            config = addresses_for_names(config)
            files = {name: addresses_for_names(text) for name, text in case.files.items()}
            case = replace(case, script=addresses_for_names(case.script), files=files)
        with tempfile.TemporaryDirectory(prefix="shim-compat-") as outer:
            if self.account is not None:
                os.chmod(outer, 0o755)
                os.chown(outer, self.account.pw_uid, self.account.pw_gid)
            with local_session(Path(outer), config, self.account) as environ:
                outcome, work = run_case(case, Path(outer), environ, self.account)
        return outcome, Places(work, account.pw_name, account.pw_dir, host_name(), self._addresses)


@contextmanager
def local_session(
    folder: Path, config: str = CONFIG, account: pwd.struct_passwd | None = None, jobs: bool = True
) -> Iterator[dict[str, str]]:
    """The environment in which the commands of this checkout use a cluster like the real one, with its state and
    configuration below ``folder``. Nothing of it runs any more when the block is left. ``account``: who will use it, if
    not the caller; the folder is theirs then. ``jobs``: end all of their jobs too (not where those are a real Slurm's).
    """
    (folder / "config.toml").write_text(config)
    environ = {
        **_person(account or pwd.getpwuid(os.geteuid())),
        "PATH": f"{ROOT / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "SHIM_STATE_DIR": str(folder / "state"),
        "SHIM_CONFIG": str(folder / "config.toml"),
        "SHIM_NO_SYSTEM_CONFIG": "1",
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    # The launchers look for the interpreter that has what the controller needs: a test knows it, a user's shell may not.
    if sys.prefix != sys.base_prefix:
        environ["SHIM_PYTHON"] = sys.executable
    try:
        yield environ
    finally:
        _end_session(environ, account, jobs)


def _end_session(environ: dict[str, str], account: pwd.struct_passwd | None, jobs: bool) -> None:
    mine = {"SHIM_STATE_DIR": environ["SHIM_STATE_DIR"]}
    if jobs and Path(environ["SHIM_STATE_DIR"]).exists():
        _command(environ, "scancel", "-Q", "-u", environ["USER"], account=account)
        wait_for(lambda: not _command(environ, "squeue", "-h", account=account).strip(), 20, 0.1)

    def ended() -> bool:
        found = sorted(processes_with(mine))  # the controller first: most of the others end with it
        for pid in found:
            end_process(pid, 5)
        return not found

    wait_for(ended, 30, 0)


def _command(environ: dict[str, str], *command: str, account: pwd.struct_passwd | None = None) -> str:
    """What a command of ours prints; "" when it cannot be run or hangs."""
    program = shutil.which(command[0], path=environ["PATH"])
    if program is None:
        return ""
    try:
        done = subprocess.run(  # type: ignore[call-overload]
            [program, *command[1:]],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=30,
            cwd="/",
            **person(account),
        )
    except subprocess.TimeoutExpired:
        return ""
    return str(done.stdout)


def acting() -> pwd.struct_passwd | None:
    """Who types on both sides of a comparison: the cluster's test user; None, the caller, for one who is not root.

    An administrator is refused less, so root does not type. ClusterError if the test user cannot run this interpreter.
    """
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam(slurm.USER)
    command = [sys.executable, "-c", "import shim"]
    try:
        tried = subprocess.run(  # type: ignore[call-overload]
            command, env={"PYTHONPATH": str(ROOT)}, cwd="/", capture_output=True, **person(account)
        )
        can = tried.returncode == 0
    except OSError:
        can = False
    if not can:
        raise slurm.ClusterError(
            f"the user {slurm.USER} cannot run {sys.executable} in {ROOT}: a checkout and an interpreter are needed that others may"
            " read (rm -r .venv; SHIM_PYTHON=/usr/bin/python3 ./dev setup)"
        )
    return account


def person(account: pwd.struct_passwd | None) -> dict[str, object]:
    """Arguments for subprocess that make the command act as ``account``; None: as the caller."""
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _person(account: pwd.struct_passwd) -> dict[str, str]:
    return {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "LIMIT": str(WAIT_LIMIT),
    }


def host_name() -> str:
    """This machine's name without its domain."""
    return socket.gethostname().partition(".")[0]


def run_case(
    case: Case, outer: Path, environ: dict[str, str], account: pwd.struct_passwd | None, limit: float = CASE_LIMIT
) -> tuple[Outcome, str]:
    """Run the case's script below ``outer``, as ``account`` unless it is None; what it showed, and its work folder.
    ``limit``: seconds for all of it.
    """
    work, recorded = outer / "work", outer / "record"
    for folder in (work, recorded):
        folder.mkdir()
    for name, text in case.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    if account is not None:
        for path in (work, recorded, *work.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid)
    failure = ""
    process = subprocess.Popen(  # type: ignore[call-overload]
        ["/bin/bash", "-c", f". {PRELUDE}\n{case.script}"],
        cwd=work,
        env={**environ, "RECORD": str(recorded)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        umask=0o022,
        start_new_session=True,
        **person(account),
    )
    try:
        said = process.communicate(timeout=limit)[1]
        if process.returncode not in (0, 99):
            failure = f"the case's script ended with {process.returncode}: {said.decode(errors='replace')[-500:]}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        failure = f"not done after {limit:.0f} s"
    if (recorded / "failure").exists():
        failure = (recorded / "failure").read_text().strip()
    return Outcome(read_steps(recorded), read_files(work, case.files), failure), str(work)
