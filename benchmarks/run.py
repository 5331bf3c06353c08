"""Ratios, measured side by side in one run: what our commands cost beside an empty Python entry point.

    ./dev bench                 everything that needs no real Slurm
    ./dev bench --only drain    the named ones (commands, parsing, latency, drain, passing, idle, pods)

With a real Slurm up (compat/cluster/slurm.py up) ``drain`` measures it too, in turns with ours. Prints a table; asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REAL_CONF = Path("/var/lib/shim-compat/slurm/slurm.conf")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The caller's environment with our commands first on PATH and an own state folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SHIM_", "SBATCH_"))}
    return {
        **kept,
        "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}",
        "SHIM_STATE_DIR": str(folder / "state"),
        "SHIM_NO_SYSTEM_CONFIG": "1",
        "XDG_CONFIG_HOME": str(folder),
        **more,
    }


def cost(command: Sequence[str], env: Mapping[str, str], folder: Path) -> float:
    """Milliseconds from start to end of one run of ``command``."""
    began = time.perf_counter()
    subprocess.run(command, env=dict(env), cwd=folder, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def cpu_cost(command: Sequence[str], folder: Path) -> float:
    """Milliseconds of CPU time of one run: for differences so small that a busy machine's waiting would hide them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def alternately(commands: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each measurement, taken in turns so that a busy machine is busy for all of them."""
    seen: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 2):
        for name, measure in commands.items():
            value = measure()
            if number >= 2:  # the first rounds fill caches
                seen[name].append(value)
    return {name: statistics.median(values) for name, values in seen.items()}


def row(name: str, value: str, wanted: str) -> None:
    """One line of the table."""
    print(f"{name:<44} {value:>22}   {wanted}", flush=True)


def empty_entry_point(folder: Path) -> list[str]:
    """A console script as pip writes it, around a function that does nothing, in a virtual environment of its own.

    Not in the one this runs in: what is installed there for development makes every start of its interpreter slower.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (folder / "nothing.py").write_text("def main():\n    return 0\n")
    script = folder / "nothing"
    script.write_text(
        f"#!{folder / 'venv/bin/python'}\nimport sys\nsys.path.insert(0, {str(folder)!r})\n"
        "from nothing import main\nif __name__ == '__main__':\n"
        "    sys.argv[0] = sys.argv[0].removesuffix('.exe')\n    sys.exit(main())\n"
    )
    script.chmod(0o755)
    return [str(script)]


def wait_for(path: Path) -> None:
    """Waits until the file has something in it."""
    while not path.exists() or not path.stat().st_size:
        time.sleep(0.001)


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
        f"#!/bin/bash\n{sys.executable} {Path(__file__).resolve()} --in-job {' '.join(empty)} > {result}.part\n"
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
# Starts and ends as our launchers do: without looking for cycles, and without taking the interpreter apart.
_PARSE = """
import gc, posix, sys
gc.disable()
sys.path.insert(0, sys.argv[1])
from shim.core.options import values
from shim.core.options.batch import settle
from shim.core.options.request import job_request
from shim.core.options.verify import verify
text = open(sys.argv[2]).read()
(settings,) = settle(values.Context(1e9, 1000, None), [[]], {}, text, "forty.sh", lambda settings: None)
verify(settings)
job_request(settings, directory="/", umask=18, name="forty.sh")
posix._exit(0)
"""


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


def latency(folder: Path) -> None:
    """From the start of sbatch to the script's first line, with a warm controller and with none."""
    env = environment(folder)
    row(
        "sbatch to the script's first line, warm",
        f"{statistics.median(_first_lines(folder, env, 15, False)):.0f} ms",
        "wanted: <= 60 ms",
    )
    row(
        "the same, controller to be started",
        f"{statistics.median(_first_lines(folder, env, 7, True)):.0f} ms",
        "wanted: <= 300 ms",
    )


def _first_lines(folder: Path, env: Mapping[str, str], rounds: int, cold: bool) -> list[float]:
    found = []
    for number in range(rounds + 1):
        mark = folder / f"mark.{cold}.{number}"
        if cold:
            subprocess.run(
                ["shim", "controller", "stop", "--now"], env=dict(env), check=True, stdout=subprocess.DEVNULL
            )
        began = time.time()
        cost(["sbatch", "-o", "/dev/null", "--wrap", f"date +%s.%N > {mark}"], env, folder)
        wait_for(mark)
        if number:
            found.append((float(mark.read_text()) - began) * 1000)
    return found


def drain(folder: Path) -> None:
    """200 held `true` jobs, released at once, 32 slots: jobs a second until the last is gone, in turns with real Slurm."""
    (folder / "shim").mkdir()
    (folder / "shim" / "config.toml").write_text(
        '[clusters.local]\nbackend = "local"\nnodes = 4\ncpus = 8\nmemory = "16000M"\n'
    )
    ours = environment(folder)
    rates: dict[str, list[float]] = {"ours": [], "real": []}
    real = dict(os.environ, SLURM_CONF=str(REAL_CONF)) if REAL_CONF.exists() else None
    for number in range(4):
        rates["ours"].append(_drained(ours, folder, as_user=None))
        if real:
            rates["real"].append(_drained(real, Path("/"), as_user="shimcompat"))
        print(
            f"    round {number}: {', '.join(f'{name} {values[-1]:.0f}/s' for name, values in rates.items() if values)}",
            flush=True,
        )
    mine = statistics.median(rates["ours"][1:])
    if not real:
        row("drain of 200 jobs, 32 slots", f"{mine:.0f} jobs/s", "no real Slurm to compare with")
        return
    theirs = statistics.median(rates["real"][1:])
    row(
        "drain of 200 jobs, 32 slots, to real Slurm",
        f"{mine / theirs:.1f} x ({mine:.0f}/{theirs:.0f})",
        "wanted: >= 5 x",
    )


def _drained(env: Mapping[str, str], folder: Path, as_user: str | None) -> float:
    script = """
set -e
ids=
for i in $(seq 200); do ids="$ids,$(sbatch --parsable --hold -n1 -J drain$$ -o /dev/null --wrap true)"; done
start=$(date +%s.%N)
scontrol release ${ids#,}
while [ -n "$(squeue -h -o %i -n drain$$)" ]; do sleep 0.05; done
echo "$(date +%s.%N) $start"
"""
    command = ["sh", "-c", script]
    if as_user:
        command = ["runuser", "-u", as_user, "--", *command]
    answer = subprocess.run(command, env=dict(env), cwd=folder, capture_output=True, text=True, check=True).stdout
    end, start = answer.split()
    return 200 / (float(end) - float(start))


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


def idle(folder: Path) -> None:
    """Memory and wake-ups of a controller, its fork server and what that keeps, with nothing to do."""
    env = environment(folder, SHIM_CONTROLLER_IDLE="600")
    cost(["sbatch", "-o", "/dev/null", "--wrap", "true"], env, folder)
    while subprocess.run(["squeue", "-h"], env=env, capture_output=True, check=True).stdout:
        time.sleep(0.05)
    answer = subprocess.run(
        ["shim", "controller", "status"], env=env, capture_output=True, text=True, check=True
    ).stdout
    pid = answer.split("pid ")[1].split()[0]
    family = _family(pid)
    rss = pss = 0
    for member in family:
        for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                pss += int(line.split()[1])
            elif line.startswith("Rss:"):
                rss += int(line.split()[1])
    row("idle controller and its children, memory", f"{pss / 1024:.0f} MiB (RSS {rss / 1024:.0f})", "wanted: <= 60 MB")
    while len(family := _family(pid)) > 2:  # an agent that waits for another job
        time.sleep(1)
    before = _switches(family)
    time.sleep(10)
    row("the same, wake-ups in 10 s", str(_switches(family) - before), "wanted: 0")


def _family(pid: str) -> list[str]:
    """A process and all below it."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in below for member in _family(child))]


def _switches(family: Sequence[str]) -> int:
    total = 0
    for member in family:
        for line in Path(f"/proc/{member}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def pods(folder: Path) -> None:
    """A job in pods beside a bare Indexed Job: see pods.py."""
    if not os.environ.get("KUBECONFIG"):
        row("jobs in pods", "not measured", "KUBECONFIG names no cluster (compat/cluster/k8s.py up)")
        return
    sys.path.insert(0, str(ROOT))
    from benchmarks.pods import measure

    env = environment(folder)
    empty = empty_entry_point(folder)
    measure(folder, env, row, statistics.median(cost(empty, env, folder) for _ in range(20)))


MEASUREMENTS = {
    "commands": commands,
    "parsing": parsing,
    "latency": latency,
    "drain": drain,
    "passing": passing,
    "idle": idle,
    "pods": pods,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MEASUREMENTS, action="append")
    parser.add_argument("--in-job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_job:
        in_job(options.in_job)
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    for name in options.only or MEASUREMENTS:
        folder = Path(tempfile.mkdtemp(prefix="shim-bench."))
        try:
            MEASUREMENTS[name](folder)
        finally:
            env = environment(folder)
            subprocess.run(["shim", "controller", "stop", "--now"], env=env, check=False, stdout=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
