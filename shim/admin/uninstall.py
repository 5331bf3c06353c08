"""`shim uninstall`: what an installation leaves behind on this machine, and its removal. Only what is known to be ours is removed."""

from __future__ import annotations

import fcntl
import fnmatch
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import TextIO

from shim.admin.data_files import BASH, FISH, ZSH
from shim.control import paths, site, sources
from shim.control.controller.triggering import TRIGGERS
from shim.control.index.query import JobQuery
from shim.control.index.reader import open_reader
from shim.core import jsonlite
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.value import Value
from shim.dispatch import MODULES

# What the commands and the controller make in the state folder of a host.
STATE = (
    "adopted",
    "bin",
    "cgroups*",
    "controller.lock",
    "controller.log*",
    "controller.sock*",
    "index.db*",
    "owner*",
    "pods",
    "private.*",
    "probe",
    "run",
    "simulated-time",
    "site.cache*",
    "skypilot",
    "spool",
)
_MADE = "made by `shim completion"
_SOURCED = "shim completion"
_SHELL_FILES = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".config/fish/config.fish")
_LOCK = "controller.lock"
_MOST = 20  # ids that are named
_PATIENCE = 10.0  # seconds for a controller to be gone
_PAUSE = 0.05


class Leftovers(Value):
    """``ours``: files and folders that are removed. ``others``: lines about what is not, and why."""

    ours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def report(out: TextIO, *, yes: bool, dry_run: bool, ask: Callable[[str], bool]) -> bool:
    """Tells what there is and removes it, once ``ask`` says so or with ``yes``; False if it was not to be. Raises ShimError while jobs have not ended."""
    paths.refuse_others()
    _refuse_unended()
    found = leftovers()
    for path in found.ours:
        out.write(f"{'would remove' if dry_run else 'to remove'}: {path}\n")
    for line in (*found.others, f"stays: the commands themselves; {_installed()}"):
        out.write(f"{line}\n")
    if dry_run:
        return True
    if not (yes or (found.ours and ask("Remove these, and stop the controller?"))):
        return not found.ours
    lock = _stop()
    try:
        _refuse_unended()  # one may have been submitted meanwhile; from here on none is
        for path in sorted(found.ours, key=lambda path: path.endswith(f"/{_LOCK}")):
            _remove(path)
    finally:
        if lock is not None:
            os.close(lock)
    for folder in (paths.named(), os.path.dirname(paths.named()), os.path.dirname(sources.users_file(os.environ))):
        try:
            os.rmdir(folder)
        except OSError:
            pass  # not empty, or not there
    return True


def _refuse_unended() -> None:
    running = _unended()
    if running:
        labels = " ".join(job.array_label for job in running[:_MOST])
        raise ShimError(
            f"error: jobs of yours have not ended here: {labels}{' …' if len(running) > _MOST else ''}",
            "error: wait for them, or scancel them (scrontab -r those that recur); nothing was removed",
        )


def leftovers() -> Leftovers:
    """What there is."""
    ours: list[str] = []
    others = list(_in_clusters())  # first: it may write to the state folder
    state = paths.named()
    for name in _names(state):
        known = any(fnmatch.fnmatch(name, pattern) for pattern in STATE)
        (ours if known else others).append(f"{state}/{name}" if known else f"stays: {state}/{name}: not ours")
    base = os.path.dirname(state)
    if os.path.basename(state) == paths.machine():
        for name in _names(base):
            if name != paths.machine() and os.path.exists(f"{base}/{name}/controller.lock"):
                others.append(f"stays: {base}/{name}: the state on the host {name}; run shim uninstall there")
    others += _triggers()
    mine = sources.users_file(os.environ)
    if os.path.isfile(mine):
        ours.append(mine)
    for file in (os.environ.get("SHIM_CONFIG", ""), *sources.files({})):
        if file and file != mine and os.path.exists(file):
            others.append(f"stays: {file}: a configuration that others may use")
    ours += _completion_files()
    others += _shell_lines()
    return Leftovers(ours=tuple(ours), others=tuple(others))


def _unended() -> list[Job]:
    """The jobs of this user that nobody would look after any more, once the controller's state is gone."""
    reader = open_reader(paths.index_path())
    if reader is None:
        return []
    kinds = {cluster.name: cluster.backend for cluster in _clusters()}
    jobs = [job for job in reader.jobs(JobQuery()) if job.uid == os.getuid() and job.state in states.ACTIVE]
    return [
        job
        for job in jobs
        if kinds.get(job.cluster) != "slurm"
        and (kinds.get(job.cluster) != "kubernetes" or job.submit_host in ("", os.uname().nodename))
    ]


def _triggers() -> Iterator[str]:
    """That programs wait, which nobody will start once the index is gone."""
    reader = open_reader(paths.index_path())
    text = reader.meta(TRIGGERS) if reader is not None else ""
    found = jsonlite.loads(text)["all"] if text else ()
    if found:
        yield f"ends: {len(found)} trigger{'s' * (len(found) > 1)} of strigger, which the index has"


def _clusters() -> tuple[Cluster, ...]:
    """The configured clusters; none where the configuration cannot be read, which keeps nobody from removing it, or nothing was ever done."""
    try:
        return site.clusters() if os.path.isdir(paths.named()) else ()
    except ShimError:
        return ()


def _completion_files() -> Iterator[str]:
    """Files that `shim completion` was written to, where shells look for the user's."""
    home = os.path.expanduser("~")
    share = os.environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    root = os.path.dirname(share)
    places = [f"{root}/{folder}/{name}{end}" for folder, end in ((BASH, ""), (FISH, ".fish")) for name in MODULES]
    places += [f"{config}/fish/completions/{name}.fish" for name in MODULES]
    places += [f"{root}/{ZSH}/_shim", f"{home}/.zfunc/_shim", f"{home}/.bash_completion.d/shim"]
    for path in dict.fromkeys(places):
        if not os.path.islink(path) and _MADE in _start(path):  # links are an installer's
            yield path


def _shell_lines() -> Iterator[str]:
    """Lines of the user's own files."""
    home = os.path.expanduser("~")
    for name in _SHELL_FILES:
        for number, line in enumerate(_start(f"{home}/{name}").splitlines(), 1):
            if _SOURCED in line and not line.lstrip().startswith("#"):
                yield f"stays: {home}/{name}, line {number}: {line.strip()}: yours to delete"


def _in_clusters() -> Iterator[str]:
    """What is in clusters, which other machines and users may share."""
    for cluster in _clusters():
        if cluster.backend == "kubernetes":
            yield (
                f"stays: in the namespace of cluster {cluster.name}: the records of ended jobs (for a week), the ConfigMaps and the Service that all"
                " of its users share (docs/kubernetes.md)"
            )


def _installed() -> str:
    """How the commands are removed."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.exists(f"{root}/pyproject.toml"):
        return f"they are the checkout {root}"
    if root.startswith("/usr/lib/"):
        return "apt remove slurm-shim"
    if "/pipx/" in root or os.environ.get("PIPX_HOME", "/no") in root:
        return "pipx uninstall slurm-shim"
    try:
        tool = (metadata.distribution("slurm-shim").read_text("INSTALLER") or "").strip()
    except metadata.PackageNotFoundError:
        tool = ""
    if tool == "uv":
        return "uv tool uninstall slurm-shim (in an environment of your own: uv pip uninstall slurm-shim)"
    return f"{sys.executable} -m pip uninstall slurm-shim"


def _stop() -> int | None:
    """Stops the controller. The lock that keeps others from beginning, None without a state folder. Raises ShimError if it does not end."""
    from shim.control import channel, client
    from shim.job.agent import cgroup

    if not os.path.isdir(paths.named()):
        return None
    lock = os.open(f"{paths.named()}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() > end:
                os.close(lock)
                raise ShimError(
                    "error: the controller does not end; shim controller stop --now, then once more"
                ) from None
        found = channel.connect(paths.socket_path())
        if found is not None:
            found.close()
            client.call("shutdown", {"now": False})
        time.sleep(_PAUSE)
    cgroup.sweep(paths.named())
    return lock


def _remove(path: str) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise ShimError(f"error: {problem.filename or path}: {problem.strerror}") from None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _start(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
