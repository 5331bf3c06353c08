"""The programs of requirements.txt in a virtual environment of their own, those of skypilot.txt in another: ``environment.py up`` makes
them, ``path`` prints the folder of the first.

An environment is kept in the user's cache folder under a digest of its list and of the Python that it uses, so that another
list makes another environment and an unchanged one costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "requirements.txt"
SKYPILOT = HERE / "skypilot.txt"  # its own: it wants other versions of what the programs use


def folder(requirements: Path = PROGRAMS) -> Path:
    """Where the environment is, or would be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    told = requirements.read_bytes() + sys.version.encode() + sys.base_prefix.encode()
    return Path(cache) / "shim-compat" / "clients" / hashlib.sha256(told).hexdigest()[:12]


def is_up(requirements: Path = PROGRAMS) -> bool:
    """Whether the environment is there and complete."""
    return (folder(requirements) / "complete").exists()


def up(requirements: Path = PROGRAMS) -> Path:
    """Makes the environment where it is missing. CalledProcessError if a package cannot be installed."""
    made = folder(requirements)
    if is_up(requirements):
        return made
    shutil.rmtree(made, ignore_errors=True)
    print(f"clients: installing {requirements.name} into {made} (some 400 MB, a minute or two)", file=sys.stderr)
    venv.create(made, with_pip=True)
    install = [
        str(made / "bin/python"),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-r",
        str(requirements),
    ]
    subprocess.run(install, check=True)
    (made / "complete").touch()
    return made


def main() -> int:
    """The command line."""
    if sys.argv[1:] not in (["up"], ["path"]):
        print("usage: environment.py up|path", file=sys.stderr)
        return 2
    if sys.argv[1] == "up":
        up(SKYPILOT)
    print(up() if sys.argv[1] == "up" else folder())
    return 0


if __name__ == "__main__":
    sys.exit(main())
