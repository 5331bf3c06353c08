"""How things are measured: in turns, in an environment of their own, each figure one line of a table."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
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
