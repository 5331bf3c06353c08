"""What srun says of its step with ``-v`` (1), ``-vv`` (2) and ``-vvv`` (3): the lines of Slurm that programs wait for or look at.

Those about plugins and messages that there are none of are left out. Loaded only for who asks.
"""

from __future__ import annotations

import os
from itertools import groupby

from shim.core.formats import hostlist
from shim.core.formats.lists import fold_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

    from shim.core.model.request import StepRequest
    from shim.job.steps.parts import Part

    Message = dict[str, Any]

PREFIXES = ("", "", "debug:  ", "debug2: ")  # of a line, by its level


class Telling:
    """Tells of one step. ``level``: the highest that is said; ``say``: prints lines as srun's own; ``port``: the one srun listens at."""

    def __init__(self, level: int, say: Callable[..., None], port: int) -> None:
        self._level = level
        self._port = port
        self._launched = 0  # parts
        self._print = say
        self._awaited: dict[str, set[int]] = {}  # node -> ranks that have neither started nor failed to
        self._begun: dict[str, list[int]] = {}

    def created(self, created: Message, requests: Sequence[StepRequest]) -> None:
        """The step is there: the jobs it is in, and what was asked of them."""
        for part in created["parts"]:
            job = part["job"]
            nodes, cpus = job["nodes"], ",".join(f"{each}(x{len([*run])})" for each, run in groupby(job["cpus"]))
            self._say(1, f"jobid {job['id']}: nodes({len(nodes)}):`{hostlist.fold(nodes)}', cpu counts: {cpus}")
            self._say(3, f"creating job with {len(part['ranks'])} tasks")
        for part, request in zip(created["parts"], requests):
            if request.cpus_per_task and not (request.exact or request.exclusive or request.overcommit):
                self._say(1, "Implicitly setting --exact, because -c/--cpus-per-task given.")
            nodes, tasks = len(part["nodes"]), len(part["ranks"])
            wanted = nodes if request.overcommit else tasks * (request.cpus_per_task or 1)
            relative = 65534 if request.relative is None else request.relative
            self._say(
                2,
                f"requesting job {part['job']['id']}, user {os.getuid()}, nodes {nodes} including"
                f" ({request.node_list or '(null)'})",
                f"cpus {wanted}, tasks {tasks}, name {part['name']}, relative {relative}",
            )

    def launching(self, created: Message, parts: Sequence[Part]) -> None:
        """The tasks are about to start."""
        self._launched = len(parts)
        for told, part in zip(created["parts"], parts):
            self._say(1, "launch/slurm: launch_p_step_launch: CpuBindType=(null type)")
            self._say(
                2,
                "Entering slurm_step_launch",
                *(["mpi/none: mpi_p_client_prelaunch: Using mpi/none"] if created.get("mpi", "none") == "none" else ()),
                "Entering _msg_thr_create()",
                f"initialized stdio listening socket, port {self._port}",
                f"Started IO server thread ({os.getpid()})",
                "Entering _launch_tasks",
            )
            for node, ranks in zip(told["nodes"], told["tasks"]):
                tasks = fold_ranks(map(part.local, ranks))
                shown = tasks if tasks.isdigit() else f"[{tasks}]"
                self._say(1, f"launching StepId={part.id} on host {node}, {len(ranks)} tasks: {shown}")
                self._awaited[node] = set(ranks)
            if part is parts[0]:
                self._say(1, "route/default: init: route default plugin loaded")

    def started(self, node: str, rank: int) -> None:
        """A task runs."""
        self._begun.setdefault(node, []).append(rank)
        self._told(node, rank)

    def ended(self, node: str, rank: int) -> None:
        """A task has ended, or could not be started at all."""
        self._told(node, rank)

    def over(self) -> None:
        """All tasks have ended."""
        self._say(2, *["IO thread exiting"] * self._launched)

    def _told(self, node: str, rank: int) -> None:
        """A node tells once of all tasks that it has started."""
        awaited = self._awaited.get(node, set())
        if rank not in awaited:
            return
        awaited.discard(rank)
        begun = len(self._begun.get(node, ()))
        if not awaited and begun:
            self._say(2, "launch returned msg_rc=0 err=0 type=8001")
            self._say(3, "received task launch")
            self._say(1, f"launch/slurm: _task_start: Node {node}, {begun} tasks started")

    def _say(self, level: int, *lines: str) -> None:
        if level <= self._level:
            self._print(*(PREFIXES[level] + line for line in lines))
