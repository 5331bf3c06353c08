"""The doctor's look at a real Slurm: which one is used and why, its version, whether it answers, and what differs here."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from shim import SLURM_VERSION
from shim.admin.doctor import BAD, GOOD, NOTE, Finding
from shim.control import paths, sources
from shim.control.backends.slurm import programs
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster

_COMMANDS = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "scontrol", "sacct")
_PATIENCE = 10.0  # seconds for a real command's answer


def unused() -> Iterator[Finding]:
    """A real sbatch that is not used by any cluster, and why."""
    found = programs.on_path("sbatch", os.environ.get("PATH", ""))
    if found is None:
        return
    if sources.configured():
        yield NOTE, f'a real Slurm\'s {found[0]} is not used: the configuration has no cluster with backend "slurm"'
    else:
        yield NOTE, f"a real Slurm's {found[0]} is not used: there is no slurm.conf (SLURM_CONF, /etc/slurm/slurm.conf)"


def findings(cluster: Cluster) -> Iterator[Finding]:
    """What there is to say about one cluster with the slurm backend."""
    folder, conf = cluster.settings.get("bin", ""), cluster.settings.get("conf", "")
    try:
        squeue, _kind = programs.find("squeue", folder, os.environ.get("PATH", ""))
    except ShimError as problem:
        yield BAD, f"cluster {cluster.name} (slurm): {problem.lines[0].removeprefix('error: ')}"
        return
    environ = {**os.environ, "SLURM_CONF": conf} if conf else dict(os.environ)
    code, version = _said([squeue, "--version"], environ)
    if code != 0:
        yield BAD, f"cluster {cluster.name} (slurm): {squeue} --version: {version or f'exit code {code}'}"
        return
    why = "" if sources.configured() else ", found on PATH: the default cluster, as nothing is configured"
    yield GOOD, f"cluster {cluster.name} (slurm): {version} in {os.path.dirname(squeue)}{why}"
    yield from _older_or_newer(version)
    yield from _missing(cluster.name, folder)
    yield _answers(cluster.name, folder, environ)
    yield from _accounting(cluster.name, folder, environ)
    name = cluster.settings.get("real_name")
    if name and name != cluster.name and sources.configured():
        yield NOTE, f"it calls itself {name}: -M {cluster.name} is taken out of what is passed on, -M {name} is not"
    if cluster.settings.get("skypilot_env"):
        yield NOTE, f"SKYPILOT_* for its jobs: its nodes must see {paths.named()}/skypilot under this name"


def _said(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """A real command's exit code and what it said, on one line; -1 if it could not be run or did not answer."""
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
        )
    except OSError as error:
        return -1, str(error.strerror)
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {_PATIENCE:.0f} s"
    return done.returncode, " ".join((done.stdout or done.stderr).split())


def _older_or_newer(version: str) -> Iterator[Finding]:
    found, ours = re.search(r"(\d+)\.(\d+)", version), re.search(r"(\d+)\.(\d+)", SLURM_VERSION)
    if found is None or ours is None or found.groups() == ours.groups():
        return
    side = "newer" if tuple(map(int, found.groups())) > tuple(map(int, ours.groups())) else "older"
    yield (
        NOTE,
        f"it is {side} than {SLURM_VERSION}, whose options are known here: command lines are passed on as they are, but in"
        " listings of several clusters fields may be missing",
    )


def _missing(name: str, folder: str) -> Iterator[Finding]:
    missing = []
    for command in _COMMANDS:
        try:
            programs.find(command, folder, os.environ.get("PATH", ""))
        except ShimError:
            missing.append(command)
    if missing:
        yield NOTE, f"cluster {name} has no {', '.join(missing)}"


def _answers(name: str, folder: str, environ: Mapping[str, str]) -> Finding:
    try:
        scontrol, _kind = programs.find("scontrol", folder, environ.get("PATH", ""))
    except ShimError:
        return NOTE, f"cluster {name} was not asked whether it answers"
    code, text = _said([scontrol, "ping"], environ)
    if code == 0 and "UP" in text:
        return GOOD, f"cluster {name} answers: {text}"
    return BAD, f"cluster {name} does not answer: {text or f'scontrol ping: exit code {code}'}"


def _accounting(name: str, folder: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        sacct, _kind = programs.find("sacct", folder, environ.get("PATH", ""))
    except ShimError:
        return
    code, text = _said([sacct, "--noheader", "--allocations", "--jobs=1"], environ)
    if code != 0 and "accounting storage is disabled" in text:
        yield (
            NOTE,
            f"cluster {name} keeps no accounting: beside other clusters sacct shows its jobs that were submitted from here, as"
            " they were seen last",
        )
