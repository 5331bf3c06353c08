"""Messages that no command of ours sends: every operation answers them with a clear error, and goes on."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shim.control.protocol import PROTOCOL
from tests.control.controller.fakes import Bench, Client, Clock, FakeBackend, submission

# A good message of each operation.
TARGETS = {"targets": [{"job_id": 1, "task": None, "step": None}]}
GOOD: dict[str, dict[str, Any]] = {
    "submit": submission(),
    "cancel": {**TARGETS, "signal": 15, "scope": "full"},
    "wait": {"job_id": 1},
    "reach": {"job_id": 1},
    "fetch": {"job_id": 1},
    "script": {"job_id": 1},
    "record": {"job": {"job_id": 7, "cluster": "real", "key": 0, "request": {"kind": "batch"}}},
    "seen": {"jobs": [{"job_id": 7, "cluster": "real"}]},
    "stats": {"reset": False},
    "trigger": {
        "do": "set",
        "trigger": {"id": 0, "type": "down", "program": "/bin/true"},
        "id": 1,
        "job_id": 1,
        "uid": 0,
    },
    "crontab": {"do": "get"},
    "set_crontab": {"text": "", "entries": [{"first": 1, "last": 1, **submission(cron="0 0 * * *")}]},
    "prune": {"days": 1, "dry_run": True},
    "move": {"job_id": 1, "cluster": "local"},
    "move_out": {"job_id": 1, "cluster": "real", "mark": "m"},
    "moved_out": {"job_id": 1, "there": 3, "mark": "m"},
    "stay": {"job_id": 1},
    "listen": {"clusters": ["local"]},
    "look": {"question": "steps", "query": {"active": False}, "job_id": 1, "runs": [[1, 0]], "first": 1, "end": 9},
    "allocate": submission(kind="alloc"),
    "attach": {"job_id": 1, "token": "t"},
    "release": {"job_id": 1, "status": 0},
    "update": {**TARGETS, "fields": {"TimeLimit": "5"}},
    "notify": {"target": {"job_id": 1, "step": "0"}, "text": "hello"},
    "update_step": {"target": {"job_id": 1, "step": "0"}, "minutes": 5},
    "change_nodes": {"name": "node1", "fields": {"State": "DRAIN", "Reason": "x", "Weight": 3}},
    "change_partition": {"name": "debug", "fields": {"state": "UP", "max_time": 5, "nodes": "node1", "default": True}},
    **dict.fromkeys(("hold", "release_job", "requeue", "requeuehold", "suspend", "resume", "top"), TARGETS),
}
WITHOUT_FIELDS = {"ping", "shutdown", "reconfigure", "site"}
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 1 << 40, 1 << 70, 10**400, float("nan"), float("inf")),
    *("", "x", "\x00", "\udcff", "9" * 5000, [], [None], [[]], ["x"], {}, {"": 1}, {"job_id": "x"}, [{"job_id": []}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a message."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*path, key)
        yield from places(one, (*path, key))


def spoilt(good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message with each of its parts missing, or replaced by each strange value; with parts that nobody knows; and nothing of it."""
    yield {}
    yield {**good, "nobody": {"knows": ["this"]}}
    for path in list(places(good)):
        for strange in (places, *STRANGE):
            made = copy.deepcopy(good)
            inner = made
            for key in path[:-1]:
                inner = inner[key]
            if strange is not places:
                inner[path[-1]] = strange
            else:
                del inner[path[-1]]
            yield made


async def answered(box: Bench, op: str, message: dict[str, Any], client: Client) -> str:
    """What is wrong with the answer; "" for nothing."""
    asked = {"protocol": PROTOCOL, "op": op, **message}
    try:
        reply = await asyncio.wait_for(box.controller.server._answer(client, asked), 0.05)  # type: ignore[arg-type]
    except TimeoutError:
        return ""  # it waits for the job, as it should
    lines = reply.get("lines") or []
    if any("internal error" in line for line in lines):
        return f"{op} {message!r:.300}: {lines}"
    return "" if reply.get("ok") or lines else f"{op}: {reply}"


def test_every_operation_is_asked(state_dir: Path) -> None:
    async def inside() -> None:
        box = await Bench(FakeBackend(), Clock()).open()
        assert set(box.controller.server._operations) == set(GOOD) | WITHOUT_FIELDS
        await box.close()

    asyncio.run(inside())


def test_malformed_messages_are_answered(state_dir: Path) -> None:
    async def inside() -> list[str]:
        box = await Bench(FakeBackend(), Clock()).open()
        await box.submit(hold=True)
        wrong = []
        for op, good in GOOD.items():
            for message in spoilt(good):
                wrong.append(await answered(box, op, message, Client(admin=True)))
        assert box.job(1).job_id == 1
        job_id = await box.submit()
        assert box.job(job_id).state in ("CONFIGURING", "PENDING"), "the controller goes on"
        await box.close()
        return [text for text in wrong if text]

    wrong = asyncio.run(inside())
    assert not wrong, f"{len(wrong)} answers: " + "\n".join(wrong[:20])
