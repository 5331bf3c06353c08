"""What a squeue is asked: its options checked, as a question to the index and as conditions that the index does not know."""

from __future__ import annotations

import os
import sys

from shim.commands import elsewhere, reading
from shim.commands.job_ids import JobId, parse_job_id
from shim.control.index.query import JobQuery
from shim.core.errors import ShimError
from shim.core.formats.lists import comma_list, split_outside_brackets
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.job import Job
    from shim.core.options.query_options import Values

_PROGRAM = "squeue"


class Ask:
    """What one squeue was asked, checked."""

    def __init__(self, values: Values, words: list[str]) -> None:
        self.values = values
        self.steps = "steps" in values
        self.said = {"jobs": "", "steps": ""}  # the ids as they were written
        self.no_job = False  # -j names none: nothing is shown
        self.ids = self._ids("jobs", words)
        self.step_ids = self._ids("steps", words)
        if words:
            from shim.core.options.help import text_for

            sys.stdout.write(text_for(_PROGRAM, "usage"))
            raise ShimError(f"error: Unrecognized option: {words[0]}")
        self.states = _states(values.get("states"))
        if "start" in values and not self.steps and not self.states:
            self.states = (states.PENDING,)
        self.users = _users(values)
        self.nodes = _nodes(values.get("nodelist"))
        # Which partitions the jobs are in matters only to those who name neither.
        self._all = bool(self.ids) or values.shows_all("partitions")
        self._unseen: dict[str, frozenset[str]] = {}

    def _ids(self, name: str, words: list[str]) -> list[JobId]:
        """The ids of ``-j`` or ``-s``. Their value is optional, so ``-j 5`` leaves the 5 among the words."""
        if name not in self.values:
            return []
        said = self.values[name] or (words.pop(0) if words else None)
        text = self.said[name] = said or ""
        found = []
        self.no_job = self.no_job or (name == "jobs" and said is not None and not split_outside_brackets(text))
        for word in split_outside_brackets(text):
            one = parse_job_id(word)
            if one is None or (name == "steps" and one.step is None):
                what = f"job_step id: {word}.??" if name == "steps" else f"job id: {word}"
                raise ShimError(f"error: Invalid {what}")
            found.append(one)
        return found

    def query(self, cluster: str) -> JobQuery:
        """What of it the index can answer."""
        live = self.states != ("all",) and not any(state in states.TERMINAL for state in self.states)
        named = self.ids + self.step_ids
        return JobQuery(
            cluster=cluster,
            job_ids=tuple(one.job_id for one in named),
            active=live and not named,
            ended_since=None if live and not named else reading.remembered(cluster),
            users=self.users or (),
            names=comma_list(self.values.get("name")),
            partitions=comma_list(self.values.get("partitions")),
        )

    def fits(self, job: Job) -> bool:
        """The conditions that the index does not know."""
        if self.no_job or self._hidden(job):
            return False
        if self.states == ("all",):
            pass
        elif self.states:
            if job.shown_state not in self.states:
                return False
        elif job.state in states.TERMINAL:
            return False
        if self.nodes and not any(share.name in self.nodes for share in job.shares if not share.planned):
            return False
        request = job.request
        for option, value in (
            ("accounts", request.account),
            ("qos", request.qos),
            ("reservation", request.reservation),
        ):
            wanted = comma_list(self.values.get(option))
            if wanted and value not in wanted:
                return False
        licenses = comma_list(self.values.get("licenses"))
        return not licenses or any(name.partition(":")[0] in licenses for name in comma_list(request.licenses))

    def _hidden(self, job: Job) -> bool:
        """Whether all partitions that the job is for are left out."""
        if self._all:
            return False
        if job.cluster not in self._unseen:
            self._unseen[job.cluster] = reading.unseen(job.cluster)
        return bool(self._unseen[job.cluster]) and self._unseen[job.cluster].issuperset(job.partition.split(","))


def _states(text: str | None) -> tuple[str, ...]:
    """The states of ``-t``; ("all",) for all, () for the default."""
    found = []
    for word in comma_list(text):
        if word.lower() == "all":
            return ("all",)
        state = states.state_of(word)
        if state is None:
            raise ShimError(
                f"error: Invalid job state specified: {word}",
                f"error: Valid job states include: {','.join(states.CODES)}\n",
            )
        found.append(state)
    return tuple(found)


def _users(values: dict[str, str]) -> tuple[int, ...] | None:
    """Uids of ``--me`` and ``-u``; None when all are meant. Unknown ones are named on stderr."""
    if "me" in values:
        return (os.getuid(),)
    words = comma_list(values.get("users"))
    if not words:
        return None
    found = []
    for word in words:
        uid = reading.uid_of(word)
        if uid is None:
            reading.complain(_PROGRAM, [f"error: Invalid user: {word}\n"])
        else:
            found.append(uid)
    return tuple(found)


def _nodes(text: str | None) -> frozenset[str]:
    if not text:
        return frozenset()
    from shim.core.formats import hostlist

    try:
        names = hostlist.expand(text)
    except hostlist.HostlistError:
        raise ShimError(f"error: Invalid node name {text}") from None
    if not elsewhere.real():  # whose nodes are not known here
        known = reading.site_clusters()
        for name in names:
            if not any(cluster.node(name) is not None for cluster in known):
                raise ShimError(f"error: Invalid node name {name}")
    return frozenset(names)
