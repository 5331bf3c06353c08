"""What hot commands may not import: each of these costs as much as all the work of the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.control import paths, site
from tests import reference

ROOT = Path(__file__).resolve().parents[1]
DEAR = (
    "dataclasses typer typing re json pathlib subprocess tomllib asyncio sqlite3 datetime argparse enum inspect logging shlex"
    " functools collections socket contextlib select shim.core.environ.filenames shim.core.render.usage"
)
# Runs the command as a launcher would and names the modules it should not have.
SCRIPT = f"""
import sys
root, program, *arguments = sys.argv[1:]
sys.path.insert(0, root)
from shim.control import alive, client
client.call = lambda op, fields=None, **_: {{"job_id": 7, "cluster": "local", "notes": []}}
alive.freshen = lambda reader, program="": None
from shim.commands import entrypoint
code = entrypoint.run(program, arguments)
sys.stdout.flush()
sys.stderr.write(" ".join(name for name in {DEAR!r}.split() if name in sys.modules))
sys.exit(code)
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The program in an interpreter that was started as launchers start it."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", SCRIPT, str(ROOT), *words],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def index() -> None:
    """The reference queue in this test's state folder; the site's clusters are resolved and kept, as after any command."""
    jobs = [job.replace(cluster="local") for job in reference.queue()]
    reference.write_index(paths.index_path(), jobs, reference.STEPS)
    site.cluster()


@pytest.mark.parametrize(
    "words",
    [
        "squeue",
        "squeue -l",
        "squeue -h -j 1 -o %T",
        "squeue -s",
        "squeue -O jobid,state,tres-alloc",
        "squeue -t all -u root",
        "sinfo",
        "sinfo -N -l",
        "scontrol show job 1",
        "scontrol show job",
        "scontrol show node",
        "scontrol show partition",
        "scontrol show hostnames n[1-3]",
        "scancel -n no-such-job",
        "sacct",
        "sacct -X -P -j 1,4_2 -o jobid,state,elapsed,reqtres",
        "squeue -M local",
        "sinfo -M all",
    ],
)
def test_hot_commands_import_nothing_dear(index: None, words: str) -> None:
    done = run(*words.split())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_submission_imports_nothing_heavy(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -J name -t 1:00:00 -N2 --mem=1G -o out.%j\n#SBATCH --array=0-3%2\ntrue\n")
    done = run("sbatch", str(script))
    assert (done.returncode, done.stdout) == (0, "Submitted batch job 7\n")
    assert not {"asyncio", "typer", "subprocess", "dataclasses", "argparse", "shim.core.environ.filenames"} & set(
        done.stderr.split()
    )
