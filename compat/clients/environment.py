"""Client programs in environments of their own: ``environment.py up`` makes those that are missing, ``path`` prints the folder of the first.

An environment is kept in the user's cache folder under a digest of its list and of the Python that it uses, so that another list makes
another environment and an unchanged one costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "requirements.txt"
OPEN_MPI = HERE / "open_mpi.txt"
SKYPILOT = HERE / "skypilot.txt"  # its own: it wants other versions of what the programs use
SLURM_MODELS = HERE / "slurm_models.txt"
INSTALLERS = HERE / "installers.txt"
NEXTFLOW = HERE / "nextflow" / "pom.xml"


def folder(what: Path = PROGRAMS) -> Path:
    """Where the environment of this list is, or would be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    told = what.read_bytes() + sys.version.encode() + sys.base_prefix.encode()
    return Path(cache) / "shim-compat" / "clients" / hashlib.sha256(told).hexdigest()[:12]


def is_up(what: Path = PROGRAMS) -> bool:
    """Whether the environment is there and complete."""
    return (folder(what) / "complete").exists()


def up(requirements: Path = PROGRAMS) -> Path:
    """Makes the environment where it is missing. CalledProcessError if a package cannot be installed."""
    made = folder(requirements)
    if is_up(requirements):
        return made
    shutil.rmtree(made, ignore_errors=True)
    print(f"clients: installing {requirements.name} into {made} (up to 600 MB, two minutes)", file=sys.stderr)
    venv.create(made, with_pip=True)
    pip = [str(made / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    (made / "complete").touch()
    return made


def nextflow_up() -> Path | None:
    """The folder of Nextflow's archives, fetched by Maven where they are missing; None where there is no Maven, which comes with a Java."""
    made, maven = folder(NEXTFLOW), shutil.which("mvn")
    if is_up(NEXTFLOW):
        return made
    if maven is None:
        print("clients: without mvn Nextflow is left out (Debian: apt-get install maven)", file=sys.stderr)
        return None
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    print(f"clients: fetching Nextflow into {made} (40 MB)", file=sys.stderr)
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(NEXTFLOW, work)
        words = ["-q", "-B", f"-Dmaven.repo.local={work}/repository", f"-DoutputDirectory={made}"]
        subprocess.run([maven, *words, "dependency:copy-dependencies"], cwd=work, check=True)
    (made / "complete").touch()
    return made


def main() -> int:
    """The command line."""
    if sys.argv[1:] not in (["up"], ["path"]):
        print("usage: environment.py up|path", file=sys.stderr)
        return 2
    if sys.argv[1] == "up":
        for requirements in (PROGRAMS, OPEN_MPI, SKYPILOT, SLURM_MODELS, INSTALLERS):
            up(requirements)
        nextflow_up()
    print(folder())
    return 0


if __name__ == "__main__":
    sys.exit(main())
