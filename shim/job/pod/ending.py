"""The end of a run in pods: the record that survives the leader's pod, and how long the leader stays for those who listen.

Pods hold what they were given (GPUs) as long as they run, so the leader leaves as soon as everybody who is attached has everything;
whoever comes later reads the termination message.
"""

from __future__ import annotations

from shim.core.jsonlite import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

    from shim.job.agent.leader.leader import Leader
    from shim.job.loop import Loop, Timer
    from shim.job.pod.places import Places

    Line = dict[str, Any]

UNBEGUN = "the pod was ended before its agent began"  # what boot leaves, which imports nothing
MOST = 4096  # bytes of a termination message; of more the last would be kept
_NONCES = 8  # of the last gangs, one of which was granted if any was
ARRIVAL = 3.0  # seconds from the start in which a first controller may come for output that is nowhere else
_LOOK = 0.1  # seconds between looks whether it has come
PATIENCE = 10.0  # seconds that an attached controller has for its "forget" after it was told everything


def termination_record(lines: Sequence[Line], why: str = "", nonces: Sequence[str] = (), lost: str = "") -> str:
    """JSON of a journal for the termination message: ``{"started": epoch or null, "ended": line, "steps": [line, …],
    "left_out": number, "why": text, "nonces": [those that it has asked with, …]}``; ``lost`` is said with the end; the last steps' ends, as many as fit. ASCII, at most MOST bytes.
    """
    started = next((line["at"] for line in lines if line["kind"] == "started"), None)
    ended = next((line for line in lines if line["kind"] == "ended"), None)
    if ended is not None and lost:
        ended = {**ended, "detail": f"{ended['detail']}; {lost}" if ended.get("detail") else lost}
    steps = [line for line in lines if line["kind"] == "step-end"]
    names = {line["step"]: line.get("name", "") for line in lines if line["kind"] == "step"}
    kept: list[Line] = []
    record = {
        "started": started,
        "ended": ended,
        "steps": kept,
        "left_out": len(steps),
        "why": why[:500],
        "nonces": list(nonces[-_NONCES:]),
    }
    text = dumps(record)
    for line in reversed(steps):
        kept.insert(0, {"name": names.get(line["step"], ""), **line})
        record["left_out"] = len(steps) - len(kept)
        longer = dumps(record)
        if len(longer) > MOST:
            break
        text = longer
    return text


def tell_end(here: Places, text: str) -> None:
    """Leaves ``text`` where Kubernetes shows it as the container's termination message."""
    try:
        with open(here.termination_log, "w", encoding="ascii", errors="backslashreplace") as file:
            file.write(text[:MOST])
    except OSError:
        return  # a pod without one: kubectl logs has it


class Departure:
    """Decides when the leader may go, once its end is written: ``go()`` is called once.

    A job of a second is over before a controller has reached its leader; where its files are in the pod alone
    (``RunSpec.staged``) and nobody was there yet, the leader stays until ``ARRIVAL`` seconds after the start.
    """

    def __init__(self, loop: Loop, leader: Leader, go: Callable[[], None]) -> None:
        self._loop = loop
        self._leader = leader
        self._go = go
        self._told = False  # all output is out
        self._forgotten = False
        self._gone = False
        self._timer: Timer | None = None

    def ended(self) -> None:
        """The end is on disk."""
        leader = self._leader
        if leader.spec.staged and leader.started and not leader.record.watched_ever and not self._forgotten:
            left = leader.started_at + ARRIVAL - self._loop.now()
            if left > 0:
                self._loop.call_later(min(left, _LOOK), self.ended)
                return
        if self._leader.output is None:
            self.output_told()
        else:
            self._leader.output.finish(self.output_told)

    def output_told(self) -> None:
        """Everybody has the output, or has stopped taking it."""
        self._told = True
        if self._forgotten or not self._leader.record.watched:
            self._leave()
        else:
            self._timer = self._loop.call_later(PATIENCE, self._leave)

    def forgotten(self) -> None:
        """A controller has committed the end, or nobody is there who could."""
        self._forgotten = True
        if self._told:
            self._leave()

    def _leave(self) -> None:
        if not self._gone:
            self._gone = True
            if self._timer is not None:
                self._timer.cancel()
            self._go()
