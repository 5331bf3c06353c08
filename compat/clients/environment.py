"""The programs of requirements.txt in a virtual environment of their own: ``environment.py up`` makes it, ``path`` prints its folder.

The environment is kept in the user's cache folder under a digest of requirements.txt and of the Python that it uses, so that another
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
REQUIREMENTS = HERE / "requirements.txt"


def folder() -> Path:
    """Where the environment is, or would be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode() + sys.base_prefix.encode()).hexdigest()[
        :12
    ]
    return Path(cache) / "shim-compat" / "clients" / digest


def is_up() -> bool:
    """Whether the environment is there and complete."""
    return (folder() / "complete").exists()


def up() -> Path:
    """Makes the environment where it is missing. CalledProcessError if a package cannot be installed."""
    made = folder()
    if is_up():
        return made
    shutil.rmtree(made, ignore_errors=True)
    print(f"clients: installing {REQUIREMENTS.name} into {made} (some 400 MB, a minute or two)", file=sys.stderr)
    venv.create(made, with_pip=True)
    install = [
        str(made / "bin/python"),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-r",
        str(REQUIREMENTS),
    ]
    subprocess.run(install, check=True)
    (made / "complete").touch()
    return made


def main() -> int:
    """The command line."""
    if sys.argv[1:] not in (["up"], ["path"]):
        print("usage: environment.py up|path", file=sys.stderr)
        return 2
    print(up() if sys.argv[1] == "up" else folder())
    return 0


if __name__ == "__main__":
    sys.exit(main())
