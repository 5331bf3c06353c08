"""Programs that call Slurm's commands, unmodified from their registry, on the local backend (compat/clients/)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.clients import environment
from compat.targets import local_session

pytestmark = pytest.mark.clients

FOLDER = environment.HERE
CONFIG = """
[clusters.local]
backend = "local"
nodes = 4
cpus = 2
memory = "4G"
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module", autouse=True)
def programs() -> Path:
    """The environment of the programs."""
    if not environment.is_up():
        refuse("no client programs: python -m compat.clients.environment up")
    return environment.folder()


def refuse(why: str) -> None:
    """Where there must be an environment, a test that is not run is no test passed."""
    if os.environ.get("SHIM_TEST_CLIENTS"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture
def run(tmp_path: Path, programs: Path) -> Iterator[Run]:
    """Runs one of the environment's programs in an empty folder with a cluster of its own: four nodes of two CPUs."""
    work = tmp_path / "work"
    work.mkdir()
    with local_session(tmp_path, CONFIG) as environ:
        # What a user does who activates the environment: it comes first, our commands follow.
        environ["PATH"] = f"{programs / 'bin'}:{environ['PATH']}"

        def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
            done = subprocess.run(
                list(map(str, command)),
                cwd=work,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=400,
            )
            assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
            return done

        yield run


def test_submitit(run: Run) -> None:
    assert run("python", FOLDER / "submitit_jobs.py").stdout.startswith("submitit: CANCELLED COMPLETED FAILED")


def test_hydra(run: Run, tmp_path: Path) -> None:
    launcher = [
        "hydra/launcher=submitit_slurm",
        "hydra.launcher.timeout_min=5",
        "hydra.sweep.dir=swept",
        "hydra.job.chdir=True",
    ]
    run("python", FOLDER / "hydra_sweep.py", "-m", "x=1,2,3,4", *launcher)
    found = sorted(path.read_text() for path in (tmp_path / "work" / "swept").glob("*/swept"))
    assert found == ["1 0\n", "2 1\n", "3 2\n", "4 3\n"]


def test_mpi(run: Run, programs: Path) -> None:
    out = run("srun", "--mpi=pmi2", "-n", 8, programs / "bin/python", FOLDER / "mpi_ring.py").stdout
    assert sorted(out.splitlines()) == [f"{rank} of 8: sum 28, from {(rank - 1) % 8}" for rank in range(8)]
    many = run("srun", "--mpi=pmi2", "-O", "-N4", "-n", 64, programs / "bin/python", FOLDER / "mpi_ring.py").stdout
    assert len(set(many.splitlines())) == 64 and "63 of 64: sum 2016, from 62\n" in many
    ended = run("srun", "--mpi=pmi2", "-n", 4, programs / "bin/python", FOLDER / "mpi_ring.py", "abort", check=False)
    assert ended.returncode == 137 and "srun: Job step aborted" in ended.stderr


def test_open_mpi(run: Run, tmp_path: Path) -> None:
    home = environment.folder(environment.OPEN_MPI) / "bin"
    # Its mpirun starts a daemon on each other node by srun.
    ring = f"export PATH={home}:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; mpirun python {FOLDER / 'mpi_ring.py'}"
    run("sbatch", "--wait", "-N2", "--ntasks-per-node=2", "-t5", "-o", "ring", "--wrap", ring)
    lines = (tmp_path / "work" / "ring").read_text().splitlines()
    assert sorted(lines) == [f"{rank} of 4: sum 6, from {(rank - 1) % 4}" for rank in range(4)]
    run(
        "sbatch", "--wait", "-N2", "--ntasks-per-node=2", "-t5", "-o", "aborted", "--wrap", f"{ring} abort", check=False
    )
    assert "MPI_ABORT was invoked" in (tmp_path / "work" / "aborted").read_text()
    states = run("sacct", "-X", "-n", "-P", "-o", "State,ExitCode").stdout.split()
    assert states == ["COMPLETED|0:0", "FAILED|3:0"]


def test_dask(run: Run) -> None:
    assert run("python", FOLDER / "dask_workers.py").stdout == "dask: six workers\n"


def test_snakemake(run: Run, tmp_path: Path) -> None:
    command = ["snakemake", "-s", FOLDER / "Snakefile", "--executor", "slurm", "--jobs", "4"]
    resources = ["--default-resources", "slurm_partition=debug", "runtime=5", "mem_mb=1000"]
    quick = [
        "--seconds-between-status-checks",
        "1",
        "--latency-wait",
        "2",
        "--slurm-init-seconds-before-status-checks",
        "1",
    ]
    run(*command, *resources, *quick)
    lines = (tmp_path / "work" / "joined.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["apple", "pear", "plum"]
    assert len({line.split()[1] for line in lines}) == 3

    failed = run(*command, *resources, *quick, "--config", "fail=1", check=False)
    assert failed.returncode == 1
    assert "SLURM job" in failed.stderr and "failed" in failed.stderr


def test_psij(run: Run) -> None:
    assert run("python", FOLDER / "psij_jobs.py").stdout == "psij: CANCELED COMPLETED COMPLETED FAILED\n"


def test_parsl(run: Run) -> None:
    assert run("python", FOLDER / "parsl_blocks.py").stdout == "parsl: two blocks, and two that failed\n"


def test_reframe(run: Run) -> None:
    # One check after the other: IdleNodes finds the nodes of no other.
    options = [
        "--exec-policy=serial",
        "--nocolor",
        "-C",
        FOLDER / "reframe_site.py",
        "-c",
        FOLDER / "reframe_checks.py",
    ]
    done = run("reframe", *options, "-r", check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = sorted(re.findall(r"\[ +(OK|FAIL) +\] \(\d/4\) (\w+)", done.stdout))
    assert found == [("FAIL", "Fails"), ("OK", "IdleNodes"), ("OK", "Tasks"), ("OK", "Tasks")], done.stdout
    assert "Reason: sanity error: 3 != 0" in done.stdout


def test_nextflow(run: Run, tmp_path: Path) -> None:
    jars = environment.folder(environment.NEXTFLOW)
    if not environment.is_up(environment.NEXTFLOW) or not shutil.which("java"):
        refuse("no Nextflow: with Maven and Java, python -m compat.clients.environment up")
    # What Nextflow's launcher script gives to Java; it keeps what it knows of runs in its home, and asks nobody for plugins.
    opened = [f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in ("java.lang", "java.io", "java.nio", "java.util")]
    home = [f"NXF_HOME={tmp_path / 'nextflow'}", "NXF_OFFLINE=true", "NXF_PLUGINS_DEFAULT=false"]
    launcher = ["env", *home, "java", *opened, "-cp", f"{jars}/*", "nextflow.cli.Launcher"]
    files = FOLDER / "nextflow"
    done = run(*launcher, "run", files / "squares.nf", "-c", files / "nextflow.config", "-ansi-log", "false")
    assert (tmp_path / "work" / "joined").read_text().split() == ["1", "4", "9", "16", "2"]
    assert done.stdout.count("ubmitted process > square") == 4
    assert "Re-submitted process > once_more" in done.stdout


def test_stui(run: Run) -> None:
    run("sbatch", "-J", "waltz", "-t5", "--wrap", "sleep 300")
    run("sbatch", "-J", "tango", "-t5", "-H", "--wrap", "sleep 300")
    run("python", FOLDER / "stui_screen.py", "waltz", "tango")
