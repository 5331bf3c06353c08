"""Daemons that outlive the command that starts them, and finding them again without being fooled.

A process is remembered by its id together with the kernel's start time and the machine's boot id: an id that was
given to another process since, or that stems from before a reboot, is not taken for the daemon.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path


def start_time(pid: int) -> str:
    """When ``pid`` was started (clock ticks since boot, with the boot id); "" when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The name is in parentheses and may hold blanks and parentheses: what follows the last one counts.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else f"{fields[19]}@{_boot_id()}"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Registry:
    """The daemons of one cluster, kept in a JSON file as name → (pid, start time)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _read(self) -> dict[str, tuple[int, str]]:
        try:
            stored = json.loads(self.path.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return {str(name): (int(pid), str(begun)) for name, (pid, begun) in stored.items()}

    def _write(self, entries: Mapping[str, tuple[int, str]]) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(entries))
        fresh.replace(self.path)

    def pid(self, name: str) -> int | None:
        """The id of the daemon ``name`` when that very process is alive."""
        pid, begun = self._read().get(name, (0, ""))
        return pid if pid and begun == start_time(pid) else None

    def any_alive(self) -> bool:
        """Whether one of the daemons runs."""
        return any(self.pid(name) is not None for name in self._read())

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str], log: Path) -> int:
        """Start ``command`` (in the foreground, in a session of its own) unless it runs; returns its id."""
        running = self.pid(name)
        if running is not None:
            return running
        with log.open("ab") as sink:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=dict(environ),
                cwd="/",
                start_new_session=True,
            )
        entries = self._read()
        entries[name] = (process.pid, start_time(process.pid))
        self._write(entries)
        # The daemon is meant to outlive this object: without this the interpreter warns at its end.
        process.returncode = 0
        return process.pid

    def stop(self, name: str, grace: float = 10.0) -> None:
        """End the daemon ``name``: TERM, then KILL after ``grace`` seconds. Another process with its id is spared."""
        pid = self.pid(name)
        if pid is not None:
            end_process(pid, grace)
        entries = self._read()
        if entries.pop(name, None) is not None:
            self._write(entries)


def end_process(pid: int, grace: float) -> None:
    """TERM, and KILL when it still runs after ``grace`` seconds; returns when it has ended."""
    begun = start_time(pid)
    for number, limit in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        if not begun or start_time(pid) != begun:
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if wait_for(lambda: _ended(pid, begun), limit):
            return


def _ended(pid: int, begun: str) -> bool:
    return start_time(pid) != begun


def wait_for(condition: Callable[[], bool], limit: float, interval: float = 0.05) -> bool:
    """Whether ``condition`` became true within ``limit`` seconds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(interval)
    return True


def processes_with(variables: Mapping[str, str | None]) -> Iterator[int]:
    """Processes whose environment at exec held ``variables`` (None: any value), this one apart."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            block = (entry / "environ").read_bytes()
        except OSError:
            continue  # ended meanwhile, or not ours to look at
        pairs = dict(item.partition(b"=")[::2] for item in block.split(b"\0") if item)
        if all(
            name.encode() in pairs and (value is None or pairs[name.encode()] == value.encode())
            for name, value in variables.items()
        ):
            yield int(entry.name)
