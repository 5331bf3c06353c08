"""Which jobs the list shows, and in what order: of the entries alone, so that ten thousand of them are no work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from shim.admin.top.snapshot import Entry, Span
from shim.core.model import states

# What the state filter goes through. ENDED needs entries of ended jobs.
LIVE, RUNNING, PENDING, ENDED = "active", "running", "pending", "ended"
FILTERS = (LIVE, RUNNING, PENDING, ENDED)
_FAR = float("inf")


def _queue(entry: Entry) -> tuple[Any, ...]:
    """Those that run, the newest first, then those that wait, in the order in which they are looked at."""
    if entry.state == states.PENDING:
        return 1, 0.0, -entry.priority, entry.submit, entry.job_id
    return (2 if entry.state in states.TERMINAL else 0), -entry.start, 0, 0.0, -entry.job_id


ORDERS: dict[str, Callable[[Entry], Any]] = {
    "queue": _queue,
    "id": lambda entry: (entry.cluster, entry.job_id),
    "name": lambda entry: (entry.name, entry.job_id),
    "user": lambda entry: (entry.user, _queue(entry)),
    "partition": lambda entry: (entry.partition, _queue(entry)),
    "start": lambda entry: (entry.start or _FAR, entry.job_id),
}


def fits(entry: Entry, state: str, user: str, text: str) -> bool:
    """Whether the job is one of those in that filter, of that user ("" = of all), with the text in its name or id."""
    if user and entry.user != user:
        return False
    if text and text not in entry.name.lower() and not str(entry.job_id).startswith(text):
        return False
    if state == RUNNING:
        return entry.state in states.ALLOCATED
    if state == PENDING:
        return entry.state == states.PENDING
    if state == ENDED:
        return entry.state in states.TERMINAL
    return entry.state not in states.TERMINAL


def chosen(
    entries: Sequence[Entry],
    *,
    state: str = LIVE,
    user: str = "",
    text: str = "",
    order: str = "queue",
    reverse: bool = False,
) -> list[Entry]:
    """The jobs of the list, in its order."""
    wanted = text.lower()
    return sorted((entry for entry in entries if fits(entry, state, user, wanted)), key=ORDERS[order], reverse=reverse)


def counted(entries: Sequence[Entry]) -> tuple[int, int]:
    """How many run (or hold nodes), and how many wait. An array's rest counts as what it is in the list: one."""
    found = Counter(entry.state for entry in entries)
    return sum(found[state] for state in states.ALLOCATED), found[states.PENDING]


def curve(spans: Sequence[Span], now: float, seconds: float, columns: int, *, gpus: bool = False) -> list[float]:
    """What was in use on average in each of ``columns`` equal parts of the last ``seconds``."""
    step = seconds / columns
    begin = now - seconds
    found = [0.0] * columns
    for span in spans:
        amount = span.gpus if gpus else span.cpus
        start, end = max(span.start, begin), min(span.end or now, now)
        if not amount or end <= start:
            continue
        first, last = int((start - begin) / step), min(columns - 1, int((end - begin) / step))
        for at in range(first, last + 1):
            overlap = min(end, begin + (at + 1) * step) - max(start, begin + at * step)
            if overlap > 0:
                found[at] += amount * overlap / step
    return found
