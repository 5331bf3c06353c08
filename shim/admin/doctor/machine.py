"""The doctor's report, and what it tries on this machine: state folder, index, controller, containers, commands on PATH."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from typing import TextIO

import shellingham  # type: ignore[import-untyped]

from shim.admin.doctor import BAD, GOOD, NOTE, Finding, real_slurm
from shim.control import client, launchers, paths, site, sources, starter
from shim.core.errors import ShimError
from shim.core.formats import hostlist
from shim.job import libc
from shim.job.agent import cgroup
from shim.job.container import tools as container_tools


def report(out: TextIO) -> bool:
    """Writes one line per finding; False if something that jobs need does not work."""
    fine = True
    for verdict, text in _findings():
        fine = fine and verdict != BAD
        out.write(f"{verdict:>4}  {text}\n")
    return fine


def _findings() -> Iterator[Finding]:
    yield GOOD, f"Python {sys.version.split()[0]} ({sys.executable}), SQLite {sqlite3.sqlite_version}"
    yield _state_folder()
    ours_to_use = _ours_to_use()
    not_read = sources.unread(sources.users_file(os.environ), os.environ)
    if not_read:
        yield BAD, f"configuration: {not_read}"
    try:
        clusters = site.clusters()
    except ShimError as problem:
        yield BAD, f"configuration: {problem}"
        return
    real = [cluster for cluster in clusters if cluster.backend == "slurm"]
    for cluster in real:
        yield from real_slurm.findings(cluster)
    if not real:
        yield from real_slurm.unused()
    ours = [cluster for cluster in clusters if cluster.backend != "slurm"]
    for cluster in ours:
        if cluster.backend == "kubernetes":
            from shim.admin.doctor import kubernetes

            yield from kubernetes.findings(cluster)
            continue
        names = hostlist.fold([node.name for node in cluster.nodes])
        yield GOOD, f"cluster {cluster.name} ({cluster.backend}): {len(cluster.nodes)} nodes {names}"
    if ours_to_use:
        yield _index()
    for cluster in ours:
        if cluster.backend == "local":
            yield _names(cluster.settings.get("isolation"))
            yield _groups()
            yield _containers()
    if ours_to_use:
        yield from _controller()
    yield from _commands()


def _ours_to_use() -> bool:
    try:
        paths.refuse_others()
    except paths.NotOurs:
        return False
    return True


def _state_folder() -> Finding:
    folder = paths.named()
    probe = os.path.join(folder, f".doctor.{os.getpid()}")
    try:
        paths.ensure(folder)
        with open(probe, "w") as file:
            file.write("x" * 4096)
        os.unlink(probe)
    except paths.NotOurs as problem:
        return BAD, "; ".join(line.removeprefix("error: ") for line in problem.lines)
    except OSError as problem:
        return BAD, f"state folder {folder}: {problem.strerror}; SHIM_STATE_DIR may name another"
    return GOOD, f"state folder {folder} can be written (survives kill -9 of anything, not the loss of power)"


def _index() -> Finding:
    from shim.control.index.reader import open_reader

    try:
        reader = open_reader(paths.index_path())
    except ShimError as problem:
        return BAD, "; ".join(line.removeprefix("error: ") for line in problem.lines)
    if reader is None:
        return GOOD, "no job index yet: the first job makes it"
    reader.close()
    return GOOD, "the job index can be read"


def _containers() -> Finding:
    found = container_tools.found()
    if not found:
        return NOTE, "no program for containers (--container-image, --container) is on PATH: see docs/containers.md"
    return GOOD, f"containers are started with what is there: {', '.join(found.values())}"


def _names(configured: str | None) -> Finding:
    mode, why = site.probe()
    if mode == "namespaces" and configured == "addresses":
        return NOTE, "nodes are named by loopback addresses, 127.0.0.1 and on, as configured (isolation)"
    if mode == "namespaces":
        return GOOD, f"node names resolve inside jobs ({why})"
    return NOTE, f"nodes are named by loopback addresses, 127.0.0.1 and on: {why}"


def _groups() -> Finding:
    """What becomes of processes that leave their job in every way there is."""
    try:
        return GOOD, f"jobs are held together by control groups below {cgroup.find()}"
    except OSError as problem:
        return (
            NOTE,
            f"a job that kills its own agent with -9 and hides (setsid, env -i) leaves processes: no control group is ours ({problem.strerror})",
        )


def _controller() -> Iterator[Finding]:
    from shim.control import channel
    from shim.control.index.reader import open_reader

    try:
        reader = open_reader(paths.index_path())
    except ShimError:
        reader = None  # told above
    found = channel.connect(paths.socket_path())
    if found is None:
        yield from _no_controller(reader is not None and reader.active())
    elif found.stopped():
        yield BAD, client.stopped_text(found.pid)
    else:
        yield GOOD, "a controller is running"
        for line in reader.kept() if reader is not None else ():
            yield NOTE, f"configuration: {line}"
    for one in (found, reader):
        if one is not None:
            one.close()
    try:
        os.close(libc.watch_clock())
    except OSError as problem:
        yield NOTE, f"begin times that the clock jumps over are met up to a minute late: {problem.strerror}"


def _no_controller(active: bool) -> Iterator[Finding]:
    try:
        starter.check_limits()
    except starter.TooLow as why:
        yield BAD, f"no controller is running, and none can be started from here: {why}"
        return
    if active:
        yield (
            NOTE,
            f"no controller is running though there are jobs: the next command (squeue) starts one; its log is {paths.log_path()}",
        )
    else:
        yield GOOD, "no controller is running: the first command that needs one starts it"


def _commands() -> Iterator[Finding]:
    hidden = False
    for command in ("sbatch", "srun", "squeue"):
        path = shutil.which(command)
        hidden = hidden or path is None or not _ours(path)
        if path is None:
            yield NOTE, f"{command} is not on PATH"
        elif not _ours(path):
            yield NOTE, f"{command} on PATH is {path}, not ours"
        else:
            yield GOOD, f"{command} on PATH is {path}"
    if hidden:
        file, line = _line_for_path(_bin())
        yield NOTE, f"to have ours first, add to {file}: {line}"


def _bin() -> str:
    """The folder of the commands as users run them: the checkout's, or where pip has put them."""
    checkout = os.path.join(launchers.ROOT, "bin")
    return checkout if os.path.exists(os.path.join(checkout, "sbatch")) else os.path.join(sys.prefix, "bin")


def _line_for_path(folder: str) -> tuple[str, str]:
    """The start-up file of the shell that this was called from, and the line that puts ``folder`` first on PATH."""
    try:
        shell = shellingham.detect_shell()[0]
    except shellingham.ShellDetectionFailure:
        shell = os.path.basename(os.environ.get("SHELL", ""))
    folder = shlex.quote(folder)
    if shell == "fish":
        return "~/.config/fish/config.fish", f"fish_add_path --path --move {folder}"
    if shell in ("csh", "tcsh"):
        return "~/.cshrc", f"set path = ({folder} $path)"
    file = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "ksh": "~/.kshrc"}.get(shell, "~/.profile")
    return file, f"export PATH={folder}:$PATH"


def _ours(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"shim" in file.read(4096)
    except OSError:
        return False
