"""A real Slurm made of small scripts, and ways to call our commands beside it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

from shim.control.index.reader import open_reader
from shim.core.model.job import Job
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[4]
OURS = ROOT / "bin"
COMMANDS = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "scontrol", "sacct")
# A program that says what it got; the binary that it is run by makes it no wrapper script in the eyes of a launcher.
TELLS = '#!/bin/sh\nprintf "real %s" "${0##*/}"\nfor word; do printf " [%s]" "$word"; done\necho\n'


class Site:
    """A machine with our launchers in ``ours`` and a real Slurm in ``real``; PATH has ours first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = folder / "real"
        self.real.mkdir()
        for name in COMMANDS:
            self.script(self.real / name, TELLS)
        self.conf = folder / "slurm.conf"
        self.conf.write_text("ClusterName=there\n")
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            "PATH": f"{OURS}:{self.real}:/usr/local/bin:/usr/bin:/bin",
            "SLURM_CONF": str(self.conf),
            "SHIM_PYTHON": sys.executable,
        }

    @staticmethod
    def script(path: Path, text: str) -> Path:
        """An executable file."""
        path.write_text(text)
        path.chmod(0o755)
        return path

    def configure(self, text: str) -> None:
        """Writes the user's configuration."""
        folder = Path(self.environ["XDG_CONFIG_HOME"]) / "shim"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(text)

    def rows(self) -> list[Job]:
        """The jobs of the real Slurm that the index knows."""
        found = list(Path(self.environ["SHIM_STATE_DIR"]).glob("*/index.db"))
        reader = open_reader(str(found[0])) if found else None
        return reader.passed_jobs() if reader is not None else []

    def run(
        self, *words: str, stdin: bytes | None = None, environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command by its name, as a shell finds it."""
        env = {**self.environ, **(environ or {})}
        return subprocess.run(
            ["/usr/bin/env", *words],
            env=env,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )


def started(state: Path) -> list[bytes]:
    """Command lines of what runs with this state folder, but for the controller and what it keeps ready."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(state) in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            pass  # it has just ended
    return [line for line in found if b"controller.main" not in line and b"forkserver" not in line]


def end_all(state: Path) -> None:
    """Waits for what is still being recorded, and ends the controller that it was told to."""
    wait_until(lambda: not started(state), "the end of what was started beside")
    if list(state.glob("*/controller.lock")):
        environ = {**os.environ, "SHIM_STATE_DIR": str(state), "SHIM_PYTHON": sys.executable}
        subprocess.run([OURS / "shim", "controller", "stop", "--now"], env=environ, check=True, timeout=60)


def on_terminal(words: list[str], environ: dict[str, str], typed: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """Runs a command on a terminal of its own: waits for each text and types what follows it. Status and all that was shown."""
    master, slave = pty.openpty()
    # Not pty.fork: a fork of a process with threads is warned of.
    process = subprocess.Popen(["setsid", "--ctty", *words], env=environ, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        for text, answer in typed:
            seen = len(shown)
            while text not in shown[seen:]:
                more = _more(master, shown)
                assert more, shown
                shown += more
            os.write(master, answer)
        while data := _more(master, shown):
            shown += data
        return process.wait(timeout=60), shown
    finally:
        process.kill()
        process.wait()
        os.close(master)  # which hangs up on whoever is still there


def _more(master: int, shown: bytes) -> bytes:
    """What comes next, b"" at the end; fails when nothing comes."""
    assert select.select([master], [], [], 60)[0], shown
    try:
        return os.read(master, 4096)
    except OSError:
        return b""  # the terminal's last user has gone
