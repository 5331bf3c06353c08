"""What a command costs beside an empty entry point: ours, those of a real Slurm by way of ours, and the reading of directives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measuring import (
    REAL_CONF,
    ROOT,
    alternately,
    cost,
    cpu_cost,
    empty_entry_point,
    environment,
    row,
    wait_for,
)

FORTY = """#!/bin/bash
#SBATCH --job-name=forty --nodes=2
#SBATCH --ntasks=8
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=2G
#SBATCH --time=1-02:30:00
#SBATCH --partition=debug
#SBATCH --array=0-99:2%4
#SBATCH --gres=gpu:2
#SBATCH --signal=B:USR1@90
#SBATCH --mail-type=END,FAIL
"""
# Starts and ends as our launchers do: with their finder, without looking for cycles, and without taking the interpreter apart.
_PARSE = """
import gc, posix, sys
gc.disable()
sys.path.insert(0, sys.argv[1])
from shim.main import Finder
sys.meta_path.insert(0, Finder(sys.argv[1] + "/"))
from shim.core.options import values
from shim.core.options.batch import settle
from shim.core.options.build import job_request
from shim.core.options.validate import validate
text = open(sys.argv[2]).read()
(settings,) = settle(values.Context(1e9, 1000, None), [[]], {}, text, "forty.sh", lambda read: validate(read)[0])
job_request(settings, directory="/", umask=18, name="forty.sh")
posix._exit(0)
"""


def commands(folder: Path) -> None:
    """squeue, scontrol show job, sbatch, and srun in a job, each beside an empty entry point."""
    env = environment(folder)
    keep = subprocess.run(
        ["sbatch", "--parsable", "-n1", "-o", "/dev/null", "--wrap", "sleep 600"],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    empty = empty_entry_point(folder)
    found = alternately(
        {
            "empty": lambda: cost(empty, env, folder),
            "squeue": lambda: cost(["squeue"], env, folder),
            "scontrol": lambda: cost(["scontrol", "show", "job", keep], env, folder),
            "sbatch": lambda: cost(["sbatch", "--hold", "-o", "/dev/null", "--wrap", "true"], env, folder),
        },
        40,
    )
    row("an empty pip entry point", f"{found['empty']:.1f} ms", "")
    for name, wanted in (("squeue", 2.0), ("scontrol", 2.0), ("sbatch", 2.5)):
        row(name, f"{found[name] / found['empty']:.2f} x  ({found[name]:.1f} ms)", f"wanted: <= {wanted} x")
    row("srun true, in a job", f"{srun_in_job(folder, env, empty):.2f} x", "wanted: <= 3 x")
    subprocess.run(["scancel", "-u", str(os.getuid())], env=env, check=True)


def srun_in_job(folder: Path, env: Mapping[str, str], empty: Sequence[str]) -> float:
    """The ratio measured by a script inside a job: srun true beside the empty entry point."""
    script = folder / "srun_bench.sh"
    result = folder / "srun_bench.out"
    script.write_text(
        f"#!/bin/bash\ncd {ROOT}\n{sys.executable} -m benchmarks.run --in-job {' '.join(empty)} > {result}.part\n"
        f"mv {result}.part {result}\n"
    )
    subprocess.run(
        ["sbatch", "-o", str(folder / "bench.log"), str(script)],
        env=dict(env),
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    wait_for(result)
    return float(result.read_text())


def in_job(empty: Sequence[str]) -> None:
    """Runs inside the job: prints srun's median over the empty entry point's."""
    here = Path.cwd()
    found = alternately(
        {
            "empty": lambda: cost(empty, os.environ, here),
            "srun": lambda: cost(["srun", "true"], os.environ, here),
        },
        30,
    )
    print(found["srun"] / found["empty"])


def parsing(folder: Path) -> None:
    """What reading a script of 40 directives, from its text to the request, adds to an interpreter that does nothing."""
    script = folder / "forty.sh"
    script.write_text(FORTY + "".join(f"#SBATCH --comment=c{number}\n" for number in range(29)))
    bare = [sys.executable, "-I", "-S", "-c"]
    found = alternately(
        {
            "nothing": lambda: cpu_cost([*bare, "pass"], folder),
            "parse": lambda: cpu_cost([*bare, _PARSE, str(ROOT), str(script)], folder),
        },
        40,
    )
    more = found["parse"] - found["nothing"]
    row("reading 40 directives, over an empty Python", f"{more:.1f} ms CPU", "wanted: <= 3 ms")


def passing(folder: Path) -> None:
    """squeue and sbatch of a real Slurm through our commands, beside an empty entry point and the real ones."""
    if not REAL_CONF.exists():
        row("commands of a real Slurm", "not measured", "no real Slurm (compat/cluster/slurm.py up)")
        return
    env = environment(folder, SLURM_CONF=str(REAL_CONF))
    empty = empty_entry_point(folder)
    submission = ["--hold", "-o", "/dev/null", "-J", "bench", "--wrap", "true"]
    found = alternately(
        {
            "empty": lambda: cost(empty, env, folder),
            "real squeue": lambda: cost(["/usr/bin/squeue"], env, folder),
            "squeue": lambda: cost(["squeue"], env, folder),
            "real sbatch": lambda: cost(["/usr/bin/sbatch", *submission], env, folder),
            "sbatch": lambda: cost(["sbatch", *submission], env, folder),
        },
        40,
    )
    for name, wanted in (("squeue", "wanted: <= 1.3 x"), ("sbatch", "recorded; not limited")):
        both = found["empty"] + found[f"real {name}"]
        row(f"{name} passed through, to empty + real", f"{found[name] / both:.2f} x  ({found[name]:.1f} ms)", wanted)
    subprocess.run(["/usr/bin/scancel", "-n", "bench"], env=env, check=True)
