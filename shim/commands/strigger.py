"""strigger: programs that the controller starts when something happens to jobs, to nodes or to itself."""

from __future__ import annotations

import os

from shim.commands import output, real_slurm, site_view
from shim.core import triggers
from shim.core.errors import ShimError
from shim.core.formats.integers import leading_int
from shim.core.options.query_options import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.core.options.query_options import Values

_PROGRAM = "strigger"
_ONE_OF = "error: You must use exactly one of the following options: --set, --get or --clear"
_NO_EVENT = """error: You must specify a trigger (--down, --up, --reconfig, --time, --fini, --burst_buffer,
--primary_slurmctld_failure,
--primary_slurmctld_resumed_operation,
--primary_slurmctld_resumed_control,
--primary_slurmctld_acct_buffer_full,
--backup_slurmctld_failure,
--backup_slurmctld_resumed_operation,
--backup_slurmctld_as_ctrl,
--primary_slurmdbd_failure,
--primary_slurmdbd_resumed_operation,
--primary_database_failure, or\x20
--primary_database_resumed_operation)
"""
_EVENTS = (*triggers.OF_JOBS, *triggers.OF_NODES, *triggers.OF_CONTROLLER)
_MOST = 32000  # seconds of an offset
_HIGHEST = 0xFFFFFFFF  # of an id: nothing has a higher one


def main(argv: list[str]) -> int:
    """Runs strigger; its exit code. Words are ignored, as by Slurm's."""
    values, _words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    named = site_view.one_cluster(values.get("clusters"))
    real = site_view.real_clusters([named]) if named else []
    if real:
        return real_slurm.run(_PROGRAM, real[0], argv)
    if sum(name in values for name in ("set", "get", "clear")) != 1:
        raise ShimError(_ONE_OF)
    asked = _Asked(values)
    site_view.refuse_options(_PROGRAM, values)
    if "set" in values:
        asked.check_new()
        _call("set", trigger=asked.trigger())
        return 0
    if "clear" in values:
        return _clear(values, asked)
    return _list(values, asked)


def _call(do: str, **fields: Any) -> list[triggers.Trigger]:
    from shim.control import client

    found = client.call("trigger", {"do": do, **fields}).get("triggers", ())
    return [triggers.Trigger.from_dict(one) for one in found]


class _Asked:
    """The options, read. ShimError with Slurm's words for what is none."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self.job_id = self._job()
        number = leading_int(values["id"])[0] if "id" in values else None
        self.number = None if number is None else max(-1, min(number, _HIGHEST))
        self.offset = leading_int(values.get("offset", "0"))[0] or 0
        self.uid = self._uid()
        self.events = [name for name in _EVENTS if name in values]
        self.permanent = self._permanent()
        if abs(self.offset) > _MOST:
            raise ShimError(f"error: The --offset parameter must be between +/-{_MOST}")
        if any(name in self.events for name in triggers.OF_JOBS) and self.job_id is None:
            raise ShimError("error: You must specify a --jobid value")

    def _job(self) -> int | None:
        text = self._values.get("jobid")
        if text is None:
            return None
        number, _ = leading_int(text)
        if not number or number < 0:
            raise ShimError(f"error: Invalid jobid {text}")
        return min(number, _HIGHEST)

    def _uid(self) -> int | None:
        text = self._values.get("user")
        if text is None:
            return None
        uid = site_view.uid_of(text)
        if uid is None:
            raise ShimError(f"error: Invalid user {text}")
        return uid

    def _permanent(self) -> bool:
        flags = self._values.get("flags")
        if flags is not None and any(one.lower() != "perm" for one in flags.split(",")):
            raise ShimError(f"error: Invalid flags {flags}")
        return flags is not None

    def check_new(self) -> None:
        """What a trigger needs."""
        program = self._values.get("program")
        if not self.events:
            raise ShimError(_NO_EVENT)
        if program is None:
            raise ShimError("error: You must specify a --program value")
        if not program.startswith("/"):
            raise ShimError('error: The --program value must start with "/"')
        path = program.split(" ")[0]
        if not os.path.exists(path):
            raise ShimError("error: Invalid --program value, file not found")
        if not os.path.isfile(path):
            raise ShimError("error: Invalid --program value, not regular file")
        if len(self.events) > 1:
            raise ShimError(f"error: a trigger is of one event here: {', '.join(f'--{one}' for one in self.events)}")

    def trigger(self) -> dict[str, Any]:
        """The trigger that is to be set."""
        one = triggers.Trigger(
            id=0,
            type=self.events[0],
            job_id=self.job_id or 0,
            nodes=self._values.get("node") or triggers.ANY,
            offset=self.offset,
            permanent=self.permanent,
            program=self._values.get("program", ""),
        )
        return one.to_dict()

    def fits(self, one: triggers.Trigger) -> bool:
        """Whether the trigger is to be listed."""
        nodes = self._values.get("node")
        return (
            (self.job_id is None or one.job_id == self.job_id)
            and (not self.number or one.id == self.number)
            and (self.uid is None or one.uid == self.uid)
            and (not self.events or one.type in self.events)
            and (nodes is None or (one.kind == triggers.NODE and _overlaps(nodes, one)))
        )


def _overlaps(nodes: str, one: triggers.Trigger) -> bool:
    from shim.core.formats import hostlist

    try:
        names = hostlist.expand(nodes)
    except hostlist.HostlistError:
        return False
    return not names or one.nodes == triggers.ANY or not set(names).isdisjoint(hostlist.expand(one.nodes))


def _list(values: Values, asked: _Asked) -> int:
    found = [one for one in _call("get") if asked.fits(one)]
    if "verbose" in values:
        output.say(_PROGRAM, f"Read {len(found)} trigger records")
    output.put(triggers.listed(found, header="noheader" not in values))
    return 0


def _clear(values: Values, asked: _Asked) -> int:
    named = {"id": asked.number, "job_id": asked.job_id, "uid": asked.uid}
    fields = {name: value for name, value in named.items() if value is not None}
    if not fields:
        raise ShimError("error: You must specify a --id, --jobid, or --user to clear")
    from shim.control import client

    quiet = "quiet" in values
    try:
        _call("clear", **fields)
    except client.Unreachable:
        raise
    except ShimError:
        if not quiet:
            raise
    return 0
