"""``shim adopt``: jobs whose submitting machine is gone are carried on with from this one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TextIO

from shim.control import client
from shim.core.errors import ShimError
from shim.core.model import states
from shim.core.model.job import Job

_LOOK = 5.0  # seconds between two looks, at most


def report(cluster: str, out: TextIO, *, wait: bool, sleep: Callable[[float], None] = time.sleep) -> None:
    """Takes over what can be, and tells of it; with ``wait`` also what can be in a while. ShimError where that cannot be asked."""
    told = _Told(out)
    found = 0
    while True:
        reply = client.call("adopt", {"cluster": cluster})
        for job in map(Job.from_dict, reply["jobs"]):
            found += 1
            told.once(_taken(job))
        for note in reply["notes"]:
            told.once(note)
        left = [told.left(*one) for one in reply["waits"]]
        waits = [seconds for seconds in left if seconds is not None]
        if not waits or not wait:
            break
        sleep(max(0.5, min(_LOOK, *waits)))
    if not found and not left:
        told.once("no job of another machine of yours was found")
    if left:
        raise ShimError("jobs of machines that may still be there were left alone")


class _Told:
    """What the user has been told: each thing once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._said: set[str] = set()
        self._left: dict[str, float] = {}

    def once(self, text: str) -> None:
        """Says it, unless it was said."""
        if text not in self._said:
            self._said.add(text)
            self._out.write(f"{text}\n")
            self._out.flush()

    def left(self, cluster: str, owner: str, seconds: float) -> float | None:
        """Says how long the machine must still be silent; None for one that gave a sign of life meanwhile."""
        machine = f"cluster {cluster}: machine {owner[:8]}"
        before = self._left.get(machine)
        if before is None:
            self.once(f"{machine} has jobs; they are taken over if nothing is heard of it for {math.ceil(seconds)} s")
        elif seconds > before:
            self.once(f"{machine} is there: its jobs stay its own")
            return None
        self._left[machine] = seconds
        return seconds


def _taken(job: Job) -> str:
    if job.state in states.TERMINAL:
        return f"cluster {job.cluster}: job {job.array_label} ({job.name}) is {job.state}: {job.system_comment}"
    text = f"cluster {job.cluster}: job {job.array_label} ({job.name}) is carried on with here"
    return f"{text}, its output: {job.stdout}" if job.stdout else text
