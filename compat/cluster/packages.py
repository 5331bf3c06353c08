"""Debian packages on a machine whose state is unknown: lists may be missing, another apt may be at work."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

NEEDED = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurm-client": "sbatch",
    "munge": "munged",
}
# Loaded at run time, so no program tells whether it is there.
PLUGINS = "slurm-wlm-basic-plugins"
POLICY = Path("/usr/sbin/policy-rc.d")
ATTEMPTS = 4


class PackageError(Exception):
    """What is needed is not there and could not be installed; the text says what was tried."""


def program(name: str) -> str | None:
    """The path of a program of Slurm or munge; daemons are in sbin, which PATH of a plain user lacks."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin")


def missing(needed: Mapping[str, str] = NEEDED) -> list[str]:
    """Packages whose program is not found. ``needed``: package → a program of it."""
    return [package for package, name in needed.items() if program(name) is None]


def install(needed: Mapping[str, str] = NEEDED, plugins: Sequence[str] = (PLUGINS,)) -> None:
    """Install what is missing, without letting the packages start daemons of their own.

    Raises PackageError when it is not possible: no root, no apt, no network.
    """
    lacking = missing(needed)
    if not lacking:
        return
    if os.geteuid() != 0 or program("apt-get") is None:
        raise PackageError("not found: " + ", ".join(lacking) + " (to install them: Debian's apt-get, as root)")
    made_policy = _forbid_starting()
    try:
        _apt_install([*needed, *plugins])
    finally:
        if made_policy:
            POLICY.unlink(missing_ok=True)
    if missing(needed):
        raise PackageError("installed, but still not found: " + ", ".join(missing(needed)))


def _forbid_starting() -> bool:
    if POLICY.exists():
        return False
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    return True


def _apt_install(names: Sequence[str]) -> None:
    options = ["-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    command = ["apt-get", *options, "install", "--no-install-recommends", *names]
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    said = ""
    for attempt in range(ATTEMPTS):
        done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0:
            return
        said = (done.stdout + done.stderr)[-2000:]
        # Lists that are missing or older than the mirror; the lists' own lock is not covered by DPkg::Lock::Timeout.
        if attempt:
            time.sleep(5 * attempt)
        subprocess.run(
            ["apt-get", *options, "update"], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        # A run that was killed leaves packages half configured.
        subprocess.run(["dpkg", "--configure", "-a"], env=environ, stdin=subprocess.DEVNULL, capture_output=True)
    raise PackageError("apt-get install failed:\n" + said)
