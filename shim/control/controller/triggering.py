"""Runs programs when what they wait for has happened: the operations of strigger, and what makes triggers fire.

The triggers are a word in the index. One that fires is struck off (or, if it waits for its offset, noted) before its program is started: a
program runs once, or, if the controller is killed just then, not at all. As long as there is one, a controller runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from shim.control import paths
from shim.control.controller.alarm import Alarm
from shim.control.controller.connection import Connection
from shim.control.controller.world import World
from shim.control.groups import user_name
from shim.control.index.errors import IndexFault
from shim.core import jsonlite, triggers
from shim.core.errors import ACCESS_DENIED, ALREADY_DONE, INVALID_JOB_ID, INVALID_NODE_NAME, ShimError, plain
from shim.core.formats import hostlist
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job
from shim.core.triggers import Trigger

log = logging.getLogger("shim.controller")

TRIGGERS = "triggers"  # the word with all of them, and the next one's number
LIVES = "lives"  # the word that says that a controller has begun, and has not ended
_PATIENCE = 300.0  # seconds for one program
_KEPT = ("SHIM_", "XDG_")  # variables by which the program's own commands find this controller


class Triggers:
    """Follows the book and the clusters. ``look``: called when there are other triggers, so that an idle controller may leave."""

    def __init__(self, world: World, look: Callable[[], None]) -> None:
        self._world = world
        self._look = look
        self._all: list[Trigger] = []
        self._next = 1
        self._down: dict[str, set[str]] = {}  # nodes by cluster
        self._drained: dict[str, set[str]] = {}
        self._lives = False  # whether the index says that this controller is there
        self.alarm = Alarm(asyncio.get_running_loop(), world.clock, self.ring)
        world.book.followers.append(self._changed)

    @property
    def waiting(self) -> bool:
        """Whether there is any."""
        return bool(self._all)

    def open(self, *, reconfigured: bool) -> None:
        """Reads them. What happened while there was no controller: that the last one died, and another configuration."""
        text = self._world.book.store.meta(TRIGGERS)
        if text:
            found = jsonlite.loads(text)
            self._next, self._all = int(found["next"]), [Trigger.from_dict(one) for one in found["all"]]
        self._lives = died = bool(self._world.book.store.meta(LIVES))
        for cluster in self._world.clusters.values():
            self._down[cluster.name], self._drained[cluster.name] = self._out(cluster)
        if died:
            self._fire(lambda one: triggers.ANY if one.type in triggers.OF_CONTROLLER else "")
        if reconfigured:
            self.reconfigured()
        self._note_life()
        self.ring()

    def close(self) -> None:
        """The controller ends in good order."""
        self.alarm.close()
        if self._lives:
            with suppress(IndexFault):  # a full disk: the next one takes this end for a death
                self._world.book.store.set_meta(LIVES, "")

    def _note_life(self) -> None:
        """That this controller is there is written down where somebody wants to know of its death."""
        wanted = any(one.type in triggers.OF_CONTROLLER for one in self._all)
        if wanted != self._lives:
            self._world.book.store.set_meta(LIVES, str(os.getpid()) if wanted else "")
            self._lives = wanted

    # What happens

    def reconfigured(self) -> None:
        """The configuration, or the state of nodes, is another one."""
        self._fire(lambda one: triggers.RECONFIG if one.type == triggers.RECONFIG else "")

    def cluster_changed(self, cluster: Cluster) -> None:
        """A cluster is as it is from now on: nodes may have gone down, come up, or be drained."""
        if cluster.name not in self._down:
            return  # it is being opened
        down, drained = self._out(cluster)
        before, drained_before = self._down[cluster.name], self._drained[cluster.name]
        self._down[cluster.name], self._drained[cluster.name] = down, drained
        happened = (
            (triggers.DOWN, down - before),
            (triggers.UP, before - down),
            (triggers.DRAINED, drained - drained_before),
        )
        for event, names in happened:
            if names:
                self._nodes(event, cluster, [node.name for node in cluster.nodes if node.name in names])
        if any(names for _, names in happened):
            self.reconfigured()

    def _out(self, cluster: Cluster) -> tuple[set[str], set[str]]:
        active = self._world.book.active(cluster.name)
        busy = {share.name for job in active if job.state in states.ALLOCATED for share in job.shares}
        return triggers.out_of_service(cluster, busy)

    def _nodes(self, event: str, cluster: Cluster, names: list[str]) -> None:
        def told(one: Trigger) -> str:
            held: list[str] = []
            if one.job_id:
                job = self._world.book.find(one.job_id, one.cluster)
                held = [share.name for share in job.shares] if job is not None else []
            return hostlist.fold(one.wants(event, cluster.name, names, held))

        self._fire(told)

    def _changed(self, old: Job | None, job: Job) -> None:
        if not self._all:
            return
        ended = job.state in states.TERMINAL and (old is None or old.state not in states.TERMINAL)
        left = old is not None and old.state in states.ALLOCATED and job.state not in states.ALLOCATED
        if left:
            self.cluster_changed(self._world.cluster_of(job))
        if ended:
            own = (job.cluster, job.job_id)
            self._fire(
                lambda one: str(job.job_id) if one.type == triggers.FINI and (one.cluster, one.job_id) == own else "",
                job.end_time,
            )
            # What else waits on the job has nothing to wait for any more.
            self._strike([one for one in self._all if (one.cluster, one.job_id) != own or one.fired])
        elif any(one.type == triggers.TIME and one.job_id == job.job_id for one in self._all):
            self._set_alarm()

    def ring(self) -> None:
        """Fires what is due by now."""
        now = self._world.clock()
        due = [one for one in self._all if one.fired and one.due <= now]
        limits = [one for one in self._all if self._limit(one) is not None and (self._limit(one) or 0) <= now]
        if (due or limits) and self._strike([one for one in self._all if one not in due and one not in limits]):
            for one in due:
                self._start(one, one.fired)
            for one in limits:
                self._start(one, str(one.job_id))
        self._set_alarm()

    def _limit(self, one: Trigger) -> float | None:
        job = self._world.book.find(one.job_id, one.cluster) if one.type == triggers.TIME else None
        return None if job is None else triggers.time_of_limit(one, job)

    def _set_alarm(self) -> None:
        times = [one.due if one.fired else self._limit(one) for one in self._all]
        self.alarm.set(min((when for when in times if when), default=None))

    def _fire(self, told: Callable[[Trigger], str], at: float | None = None) -> None:
        """``told`` says of a trigger what its program is told; "" if it does not fire."""
        kept: list[Trigger] = []
        started: list[tuple[Trigger, str]] = []
        now = self._world.clock()
        for one in self._all:
            text = told(one) if not one.fired else ""
            if not text:
                kept.append(one)
                continue
            due = (at or now) + one.offset
            if one.permanent:
                kept.append(one)
            if due <= now:
                started.append((one, text))
            else:
                number, self._next = (self._next, self._next + 1) if one.permanent else (one.id, self._next)
                kept.append(one.replace(id=number, permanent=False, fired=text, due=due))
        if (kept == self._all and not started) or not self._strike(kept):
            return
        for one, text in started:
            self._start(one, text)
        self._set_alarm()

    def _strike(self, found: list[Trigger]) -> bool:
        """``_keep``, where nobody is there to be told that it could not be written: nothing fires then."""
        try:
            self._keep(found)
        except IndexFault as fault:
            log.error("%s", fault)
            return False
        return True

    def _keep(self, found: list[Trigger]) -> None:
        if found == self._all:
            return
        record = {"next": self._next, "all": [one.to_dict() for one in found]}
        self._world.book.store.set_meta(TRIGGERS, jsonlite.dumps(record))
        self._all = found
        self._look()

    def _start(self, one: Trigger, text: str) -> None:
        self._world.task(_run(one, text, self._folder()))

    def _folder(self) -> str:
        """Where our commands are, for the program's PATH."""
        return next((backend.commands() for backend in self._world.backends.values() if backend.commands()), "")

    # strigger's operations

    async def asked(self, connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
        """``set`` a trigger, ``get`` all, ``clear`` those of an id, a job or a user."""
        do = message.get("do")
        if do == "set":
            self._add(connection, message)
        elif do == "clear":
            self._clear(connection, message)
        return {"triggers": [one.to_dict() for one in self._all if not one.fired]}

    def _add(self, connection: Connection, message: dict[str, Any]) -> None:
        if message.get("trigger") is None:
            raise ShimError("error: malformed message for trigger: trigger: it is missing")
        wanted = Trigger.from_dict({**message["trigger"], "id": self._next})
        program = wanted.program.split(" ")[0]
        if not connection.admin or connection.uid != self._world.uid or not os.access(program, os.X_OK):
            raise _refused("set", ACCESS_DENIED)
        one = self._placed(wanted).replace(uid=connection.uid, user=user_name(connection.uid), fired="", due=0)
        if any(one.same(other) for other in self._all):
            raise _refused("set", "Duplicate event trigger")
        self._next += 1
        self._keep([*self._all, one])
        self._note_life()
        self._set_alarm()

    def _placed(self, one: Trigger) -> Trigger:
        """The trigger with its cluster. ShimError for a job that is over or none, and for nodes that are none."""
        if one.job_id:
            job = self._world.book.find(one.job_id)
            if job is None:
                raise _refused("set", INVALID_JOB_ID)
            if job.state in states.TERMINAL:
                raise _refused("set", ALREADY_DONE)
            return one.replace(cluster=job.cluster)
        if one.nodes == triggers.ANY or one.kind != triggers.NODE:
            return one.replace(cluster="", nodes=triggers.ANY)
        try:
            names = hostlist.expand(one.nodes)
        except hostlist.HostlistError:
            names = []
        clusters = self._world.clusters.values()
        found = next((each for each in clusters if names and all(each.node(name) for name in names)), None)
        if found is None:
            raise _refused("set", INVALID_NODE_NAME)
        return one.replace(cluster=found.name, nodes=hostlist.fold(names))

    def _clear(self, connection: Connection, message: dict[str, Any]) -> None:
        number, job_id, uid = (message.get(name) for name in ("id", "job_id", "uid"))
        if uid is not None and connection.uid not in (0, uid, self._world.uid):
            raise _refused("clear", ACCESS_DENIED)
        gone = [
            one
            for one in self._all
            if (number is None or one.id == number)
            and (job_id is None or one.job_id == job_id)
            and (uid is None or one.uid == uid)
        ]
        if any(connection.uid not in (0, one.uid) for one in gone):
            raise _refused("clear", ACCESS_DENIED)
        if not gone:
            raise _refused("clear", "No such process")
        self._keep([one for one in self._all if one not in gone])
        self._set_alarm()


def _refused(what: str, why: str) -> ShimError:
    return ShimError(plain(f"slurm_{what}_trigger: {why}"))


def _environment(folder: str) -> dict[str, str]:
    usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    entry = pwd.getpwuid(os.getuid())
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    return {
        **kept,
        "PATH": f"{folder}:{usual}" if folder else usual,
        "HOME": entry.pw_dir,
        "USER": entry.pw_name,
        "LOGNAME": entry.pw_name,
        "SHELL": entry.pw_shell or "/bin/sh",
    }


def _words(program: str, told: str) -> Iterable[str]:
    """The program's words, at blanks alone, and at their end what happened to whom."""
    return [*program.split(), told]


async def _run(one: Trigger, told: str, folder: str) -> None:
    null = asyncio.subprocess.DEVNULL
    log.info("trigger %s (%s) starts %s %s", one.id, one.type, one.program, told)
    try:
        process = await asyncio.create_subprocess_exec(
            *_words(one.program, told),
            stdin=null,
            stdout=null,
            stderr=null,
            cwd=paths.ensure(os.path.dirname(paths.log_path())),
            env=_environment(folder),
            start_new_session=True,
        )
    except (OSError, ValueError, KeyError) as error:
        log.error("trigger %s: %s: %s", one.id, one.program, error)
        return
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        log.error("trigger %s: %s was ended after %s s", one.id, one.program, _PATIENCE)
