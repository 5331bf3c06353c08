"""The page of sdiag, made of what the controller has counted."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Tuple

    Entry = Tuple[str, int, int, int]  # name, number, count, microseconds

LOOKS = 1000  # at the clock, of which the time is told

_RULE = "*" * 55
# What Slurm's commands ask for, where ours ask the controller for the same; what is ours alone has no number.
_RPCS = {
    "submit": ("REQUEST_SUBMIT_BATCH_JOB", 4003),
    "allocate": ("REQUEST_RESOURCE_ALLOCATION", 4001),
    "release": ("REQUEST_COMPLETE_JOB_ALLOCATION", 5017),
    "ping": ("REQUEST_PING", 1008),
    "stats": ("REQUEST_STATS_INFO", 2035),
    "cancel": ("REQUEST_KILL_JOB", 5032),
    "hold": ("REQUEST_UPDATE_JOB", 3001),
    "release_job": ("REQUEST_UPDATE_JOB", 3001),
    "update": ("REQUEST_UPDATE_JOB", 3001),
    "change_nodes": ("REQUEST_UPDATE_NODE", 3002),
    "change_partition": ("REQUEST_UPDATE_PARTITION", 3005),
    "update_step": ("REQUEST_UPDATE_JOB_STEP", 5007),
    "requeue": ("REQUEST_JOB_REQUEUE", 5023),
    "requeuehold": ("REQUEST_JOB_REQUEUE", 5023),
    "suspend": ("REQUEST_SUSPEND", 5014),
    "resume": ("REQUEST_SUSPEND", 5014),
    "top": ("REQUEST_TOP_JOB", 5038),
    "notify": ("REQUEST_JOB_NOTIFY", 4022),
    "reconfigure": ("REQUEST_RECONFIGURE", 1003),
    "shutdown": ("REQUEST_SHUTDOWN", 1005),
}


def _average(entry: Entry) -> int:
    return entry[3] // entry[2]


# The options that order the two tables; without one the most frequent stand first.
ORDERS: Dict[str, Callable[[Entry], int]] = {
    "sort-by-id": lambda entry: entry[1],
    "sort-by-time": lambda entry: -entry[3],
    "sort-by-time2": lambda entry: -_average(entry),
}


def page(found: Dict[str, Any], order: str, name_of: Callable[[int], str]) -> List[str]:
    """The lines. ``order``: one of ORDERS or ""; ``name_of`` gives a user's name."""
    key = ORDERS.get(order) or (lambda entry: -entry[2])
    return [
        *_head(found),
        *_main(found),
        *_backfill(found),
        f"Latency for {LOOKS} calls to gettimeofday(): {found['latency']} microseconds",
        "",
        "Remote Procedure Call statistics by message type",
        *(_line(f"{entry[0]:<40}({entry[1]:5})", entry) for entry in sorted(_rpcs(found["operations"]), key=key)),
        "",
        "Remote Procedure Call statistics by user",
        *(_line(f"{entry[0]:<16}({entry[1]:8})", entry) for entry in sorted(_users(found, name_of), key=key)),
        "",
        "Pending RPC statistics",
        "\tNo pending RPCs",
    ]


def _moment(epoch: float) -> str:
    return f"{time.ctime(int(epoch))} ({int(epoch)})"


def _head(found: Dict[str, Any]) -> Iterator[str]:
    yield _RULE
    yield f"sdiag output at {_moment(found['now'])}"
    yield f"Data since      {_moment(found['since'])}"
    yield _RULE
    yield f"Server thread count:  {found['serving']}"
    yield f"Agent queue size:     {found['orders']}"
    yield "Agent count:          0"
    yield "Agent thread count:   0"
    yield "DBD Agent queue size: 0"
    yield ""
    for name, count in found["jobs"].items():
        yield f"{f'Jobs {name}:':<15} {count}"
    yield ""
    yield f"Job states ts:  {_moment(found['now'])}"
    yield f"Jobs pending:   {found['pending']}"
    yield f"Jobs running:   {found['running']}"
    yield ""


def _main(found: Dict[str, Any]) -> Iterator[str]:
    cycles = found["cycles"]
    minutes = int(found["now"] - found["since"]) // 60
    yield "Main schedule statistics (microseconds):"
    yield f"\tLast cycle:   {cycles['last']}"
    yield f"\tMax cycle:    {cycles['most']}"
    yield f"\tTotal cycles: {cycles['count']}"
    if cycles["count"]:
        yield f"\tMean cycle:   {cycles['total'] // cycles['count']}"
        yield f"\tMean depth cycle:  {cycles['depth'] // cycles['count']}"
    if minutes:
        yield f"\tCycles per minute: {cycles['count'] // minutes}"
    yield f"\tLast queue length: {cycles['queue']}"
    yield ""


def _backfill(found: Dict[str, Any]) -> Iterator[str]:
    """There are no cycles but the main ones, which start jobs past others too."""
    yield "Backfilling stats"
    yield f"\tTotal backfilled jobs (since last slurm start): {found['backfilled']}"
    yield f"\tTotal backfilled jobs (since last stats cycle start): {found['backfilled']}"
    yield f"\tTotal backfilled heterogeneous job components: {found['components']}"
    yield "\tTotal cycles: 0"
    yield "\tLast cycle when: N/A"
    yield "\tLast cycle: 0"
    yield "\tMax cycle:  0"
    yield "\tLast depth cycle: 0"
    yield "\tLast depth cycle (try sched): 0"
    yield "\tLast queue length: 0"
    yield "\tLast table size: 0"
    yield ""


def _rpcs(operations: Dict[str, List[int]]) -> List[Entry]:
    """One entry for each RPC: several operations of ours may be the same one."""
    totals: Dict[Tuple[str, int], List[int]] = {}
    for op, (count, spent) in operations.items():
        total = totals.setdefault(_RPCS.get(op) or (f"SHIM_{op.upper()}", 0), [0, 0])
        total[0] += count
        total[1] += spent
    return [(name, number, count, spent) for (name, number), (count, spent) in totals.items()]


def _users(found: Dict[str, Any], name_of: Callable[[int], str]) -> List[Entry]:
    return [(name_of(int(uid)), int(uid), count, spent) for uid, (count, spent) in found["users"].items()]


def _line(start: str, entry: Entry) -> str:
    return f"\t{start} count:{entry[2]:<6} ave_time:{_average(entry):<6} total_time:{entry[3]}"
