"""The selected job: why it waits, what it uses (sstat, now and then), and the end of its output, which is read when the file has grown."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence

from shim.admin.top.gather import Gatherer
from shim.admin.top.helpers import Helper
from shim.admin.top.snapshot import Entry
from shim.admin.top.state import Told
from shim.admin.top.watch import Writes
from shim.admin.why import last_lines
from shim.core.model import states
from shim.core.model.job import Job

USES_AGAIN = 10.0  # seconds until sstat is asked again: it asks the job's first node
_SETTLED = 0.5  # seconds that a job has been selected before it is asked about
MOST_LINES = 1000  # of output that can be looked back at, as far as the end of the file holds them (why.py)
_FIELDS = "JobID,NTasks,AveCPU,MaxRSS"
_RUNNING = (states.RUNNING, states.SUSPENDED, states.STOPPED)


class Selected:
    """``told`` is what the page shows. ``begin(helper)`` has somebody wait for a command's answer."""

    def __init__(self, gatherer: Gatherer, begin: Callable[[Helper], None]) -> None:
        self.told = Told()
        self._gatherer = gatherer
        self._begin = begin
        self._key = ""
        self._entry: Entry | None = None
        self._job: Job | None = None
        self._writes = Writes([])
        self._seen: tuple[object, ...] | None = None  # of the file: what it was when it was read
        self._ask_at = 0.0
        self._asking = False

    @property
    def file(self) -> int:
        """Readable when the output has grown; -1 where nobody tells."""
        return self._writes.file

    def choose(self, entry: Entry | None) -> None:
        """From now on it is this job; of the same job: it may have changed."""
        job = entry.job() if entry is not None else None
        key = entry.key if entry is not None else ""
        self._entry = entry
        if key != self._key:
            self.told = Told()
            self._ask_at = time.monotonic() + _SETTLED
        if key != self._key or job is not self._job:
            self._key, self._job = key, job
            path = job.stdout if job is not None and job.state != states.PENDING else ""
            self._seen = None
            self.told = self.told.replace(path=path, output=None if path != self.told.path else self.told.output)
            self.renew()
        self.read()

    def renew(self) -> None:
        """What is said of why and until when depends on the time and on other jobs, too."""
        reasons = self._gatherer.reasons(self._job) if self._job is not None else []
        self.told = self.told.replace(reasons=tuple(reasons))

    def read(self) -> None:
        """Reads the end of the output if it has changed."""
        self._writes.take()
        path = self.told.path
        try:
            found = os.stat(path) if path else None
        except OSError:
            found = None
        seen = (path, found.st_ino, found.st_size, found.st_mtime) if found is not None else None
        if seen == self._seen:
            return
        if found is None or self._seen is None or seen is None or seen[:2] != self._seen[:2]:  # another file
            self._writes.close()
            self._writes = Writes([path] if found is not None else [])
        self._seen = seen
        self.told = self.told.replace(output=tuple(last_lines(path, MOST_LINES) or ()) if found is not None else None)

    def ask(self) -> None:
        """Has sstat say what the job uses, if it runs and it is time to; of a job of a real Slurm scontrol where its output is."""
        entry, now = self._entry, time.monotonic()
        if self._asking or entry is None or entry.state not in _RUNNING or now < self._ask_at:
            return
        self._ask_at = now + USES_AGAIN
        steps = ("sstat", "--allsteps", "--noheader", "--parsable2", f"--format={_FIELDS}", f"--jobs={entry.job_id}")
        record = ("scontrol", "-M", entry.cluster, "--oneliner", "show", "job", str(entry.job_id))
        if self._job is not None:
            self._asked(steps, lambda text: self.told.replace(uses=uses(text)))
        elif not self.told.path:
            self._asked(record, lambda text: self.told.replace(path=output_of(text)))

    def _asked(self, words: Sequence[str], then: Callable[[str], Told]) -> None:
        self._asking = True
        key = self._key

        def done(code: int, text: str) -> None:
            self._asking = False
            if key == self._key:
                self.told = then("" if code else text)
                self.read()

        self._begin(Helper(words, done))

    def close(self) -> None:
        """Watches no more."""
        self._writes.close()


def output_of(text: str) -> str:
    """The file of standard output that `scontrol show job` names; "" for none."""
    found = re.search(r"(?:^| )StdOut=(.*?)(?= [A-Z]\w*=|$)", text, re.MULTILINE)
    return found[1].strip() if found else ""


def uses(text: str) -> str:
    """What sstat has said of the steps, in one line: ``batch: 1 task, CPU 00:01:02, memory 120M; 0: …``."""
    found = []
    for line in text.split("\n"):
        values = line.split("|")
        if len(values) == 4:
            step = values[0].partition(".")[2]
            found.append(
                f"{step}: {values[1]} task{'' if values[1] == '1' else 's'}, CPU {values[2]}, memory {values[3]}"
            )
    return "It uses, by sstat, of each task: " + "; ".join(found) + "." if found else ""
