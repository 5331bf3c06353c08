#!/usr/bin/env python3
"""A real Slurm on this machine for the suite: ``slurm.py up``, ``slurm.py down``, ``slurm.py status``.

Debian's slurm-wlm (installed when missing), four nodes on one host, a folder, a munge key, ports and a test user of its
own. A Slurm or munge that the machine has already is neither used nor touched. Needs root. ``up`` may be repeated: it
starts only what does not run. ``down`` ends what ``up`` started, the cluster's jobs included, and removes the folder.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from compat.cluster import packages, slurm_conf
from compat.cluster.processes import Registry, end_process, processes_with, wait_for

FOLDER = Path("/var/lib/shim-compat/slurm")
CONF = FOLDER / "slurm.conf"
USER = "shimcompat"
FIRST_PORT = 26800
DAEMONS = (*(f"slurmd-{node}" for node in slurm_conf.NODES), "slurmctld", "munged")


class ClusterError(Exception):
    """The cluster could not be brought up; the text says what was waited for and what the log ends with."""


def environ() -> dict[str, str]:
    """Environment of the daemons, and the least that a client needs."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SLURM_CONF": str(CONF)}


def ask(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a client command against the cluster as the caller; a client that hangs counts as failed."""
    try:
        return subprocess.run(
            command, env=environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=15
        )
    except (subprocess.TimeoutExpired, FileNotFoundError) as problem:
        return subprocess.CompletedProcess(command, 1, "", str(problem))


def idle_nodes() -> int:
    """How many nodes can take jobs."""
    answer = ask("sinfo", "-h", "-N", "-p", "debug", "-t", "idle,mix,alloc", "-o", "%N %t")
    return sum(1 for line in answer.stdout.splitlines() if not line.endswith("*"))


def is_up() -> bool:
    """Whether every daemon runs, the controller answers and every node can take jobs."""
    if not CONF.exists() or packages.program("sinfo") is None:
        return False
    # The controller takes minutes to notice that a node's daemon was killed.
    registry = Registry(FOLDER / "daemons.json")
    return all(registry.pid(name) is not None for name in DAEMONS) and idle_nodes() == len(slurm_conf.NODES)


def up() -> None:
    """Bring the cluster up; raises ClusterError or PackageError."""
    if os.geteuid() != 0:
        raise ClusterError("a real Slurm on this machine needs root")
    packages.install()
    if is_up() and _has_user():
        return
    registry = Registry(FOLDER / "daemons.json")
    if not registry.any_alive():
        # What a reboot or a kill left: its ports may be taken, its host name another's, its jobs are gone.
        down()
    _make_user()
    _make_folder()
    _start_munge(registry)
    _start_slurm(registry)


def _has_user() -> bool:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True


def _make_user() -> None:
    if not _has_user():
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", USER], check=True, capture_output=True)


def _make_folder() -> None:
    # munged refuses a socket or key below a folder that others may write to.
    for path in (FOLDER.parent, FOLDER, FOLDER / "munge"):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
    for name in ("log", "run", "state", "spool", "gpu"):
        (FOLDER / name).mkdir(exist_ok=True)
    for number in range(slurm_conf.GPUS):
        card = FOLDER / "gpu" / f"card{number}"
        # slurmd wants a device; this one needs no right to make devices.
        if not card.is_symlink():
            card.symlink_to("/dev/null")
    key = FOLDER / "munge" / "key"
    if not key.exists():
        key.touch(mode=0o400)
        key.write_bytes(secrets.token_bytes(1024))
    if not CONF.exists():
        host = socket.gethostname().partition(".")[0]
        CONF.write_text(slurm_conf.slurm_conf(FOLDER, host, _free_ports(1 + len(slurm_conf.NODES))))
        (FOLDER / "gres.conf").write_text(slurm_conf.gres_conf(FOLDER))
        (FOLDER / "cgroup.conf").write_text(slurm_conf.CGROUP_CONF)


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on, at a fixed place when it is free: below the range the kernel hands out to clients."""
    found: list[int] = []
    for port in range(FIRST_PORT, FIRST_PORT + 1000):
        with socket.socket() as probe:
            # Connections of an earlier cluster that linger are no hindrance to the daemons either.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ClusterError(f"no {count} free ports from {FIRST_PORT}")


def _daemon(name: str) -> str:
    path = packages.program(name)
    if path is None:
        raise ClusterError(f"{name} is not installed")
    return path


def _start_munge(registry: Registry) -> None:
    folder = FOLDER / "munge"
    command = [_daemon("munged"), "--foreground", "--force", f"--key-file={folder}/key", f"--socket={folder}/socket"]
    command += [f"--pid-file={folder}/pid", f"--seed-file={folder}/seed", f"--log-file={FOLDER}/log/munged.log"]
    if registry.pid("munged") is None:
        for stale in ("socket", "socket.lock", "pid"):
            (folder / stale).unlink(missing_ok=True)
    registry.start("munged", command, environ(), FOLDER / "log" / "munged.out")

    def answers() -> bool:
        made = ask(_daemon("munge"), "-n", "-S", f"{folder}/socket")
        return made.returncode == 0

    _wait(answers, 20, "munged to answer", FOLDER / "log" / "munged.log")


def _start_slurm(registry: Registry) -> None:
    log = FOLDER / "log"
    if registry.pid("slurmctld") is None:
        (FOLDER / "run" / "slurmctld.pid").unlink(missing_ok=True)
    registry.start("slurmctld", [_daemon("slurmctld"), "-D", "-f", str(CONF)], environ(), log / "slurmctld.out")
    _wait(lambda: ask("scontrol", "ping").returncode == 0, 40, "slurmctld to answer", log / "slurmctld.log")
    for name in slurm_conf.NODES:
        if registry.pid(f"slurmd-{name}") is None:
            (FOLDER / "run" / f"slurmd-{name}.pid").unlink(missing_ok=True)
            (FOLDER / "spool" / name).mkdir(exist_ok=True)
        registry.start(
            f"slurmd-{name}", [_daemon("slurmd"), "-D", "-N", name, "-f", str(CONF)], environ(), log / f"{name}.out"
        )
    if not wait_for(is_up, 30, 0.2):
        # After a crash of the machine a node may be kept down until somebody says that it is well.
        ask("scontrol", "update", f"NodeName={','.join(slurm_conf.NODES)}", "State=RESUME")
        _wait(is_up, 60, "all nodes to be idle", log / "slurmctld.log")


def _wait(condition: Callable[[], bool], limit: float, what: str, log: Path) -> None:
    if not wait_for(condition, limit, 0.1):
        tail = log.read_text(errors="replace")[-1500:] if log.exists() else "(no log)"
        raise ClusterError(f"waited {limit:.0f} s in vain for {what}; {log} ends with:\n{tail}")


def down() -> None:
    """End the cluster with its jobs, and remove its folder. Nothing happens when there is none."""
    if not FOLDER.exists():
        return
    registry = Registry(FOLDER / "daemons.json")
    if registry.pid("slurmctld") is not None:
        ask("scancel", "-u", USER)
        wait_for(lambda: not ask("squeue", "-h").stdout.strip(), 15, 0.2)
    for name in DAEMONS:
        registry.stop(name)
    # What a job left behind, and step daemons that wait for it: both carry the cluster's settings and more than a
    # shell has that merely exported SLURM_CONF.
    for pid in list(processes_with({"SLURM_CONF": str(CONF), "SLURM_JOB_ID": None})):
        end_process(pid, 2)
    for pid in list(processes_with({"SLURM_CONF": str(CONF)})):
        if _program_of(pid) == "slurmstepd":
            end_process(pid, 2)
    shutil.rmtree(FOLDER)
    if not any(FOLDER.parent.iterdir()):
        FOLDER.parent.rmdir()


def _program_of(pid: int) -> str:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""


def main(argv: list[str]) -> int:
    """The command line; 0 when done (status: when it is up), 1 when not, 2 when not understood."""
    verb = argv[0] if len(argv) == 1 else ""
    try:
        if verb == "up":
            up()
            print(f"up: SLURM_CONF={CONF}, user {USER}")
            return 0
        if verb == "down":
            down()
            return 0
        if verb == "status":
            running = is_up()
            print(f"up: SLURM_CONF={CONF}, user {USER}" if running else "down")
            return 0 if running else 1
    except (ClusterError, packages.PackageError, OSError, subprocess.CalledProcessError) as problem:
        print(f"slurm.py: {problem}", file=sys.stderr)
        return 1
    print("usage: slurm.py up|down|status", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
