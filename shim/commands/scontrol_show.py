"""``scontrol show``: what entity is meant, and which module shows it."""

from __future__ import annotations

from shim.commands import reading
from shim.core.errors import ShimError, Unsupported, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.commands.scontrol_session import Session

    Shown = Callable[[Session, str | None], int]

# Entities with the fewest letters that are understood, in the order in which Slurm tries them.
_ENTITIES = (
    ("aliases", 1),
    ("assoc_mgr", 2),
    ("bbstat", 2),
    ("burstbuffer", 2),
    ("config", 1),
    ("daemons", 1),
    ("dwstat", 2),
    ("federation", 1),
    ("frontend", 2),
    ("hostnames", 5),
    ("hostlist", 5),
    ("hostlistsorted", 9),
    ("jobs", 1),
    ("jobid", 4),
    ("licenses", 2),
    ("nodes", 1),
    ("nodename", 5),
    ("partitions", 1),
    ("partitionname", 10),
    ("reservations", 1),
    ("reservationname", 12),
    ("slurmd", 2),
    ("steps", 2),
    ("topology", 1),
)


# Entities that need more than a line: module and function.
_MODULES = {
    "config": ("scontrol_site", "config"),
    "hostnames": ("scontrol_hosts", "hostnames"),
    "hostlist": ("scontrol_hosts", "hostlist_of"),
    "hostlistsorted": ("scontrol_hosts", "hostlistsorted"),
    "jobs": ("scontrol_jobs", "jobs"),
    "jobid": ("scontrol_jobs", "jobs"),
    "licenses": ("scontrol_site", "licenses"),
    "nodes": ("scontrol_site", "nodes"),
    "nodename": ("scontrol_site", "nodes"),
    "partitions": ("scontrol_site", "partitions"),
    "partitionname": ("scontrol_site", "partitions"),
    "steps": ("scontrol_jobs", "steps"),
}
# Entities that there are none of, or of which there is one thing to say.
_LINES = {
    "aliases": "",
    "bbstat": "",
    "burstbuffer": "",
    "daemons": "slurmctld slurmd",
    "dwstat": "",
    "federation": "",
    "frontend": "No nodes in the system",
    "slurmd": "Slurmd is part of each job here",
}


def show(session: Session, words: list[str]) -> int:
    """``show ENTITY [ID]`` or ``show ENTITY=ID``; the exit code."""
    if not words:
        raise ShimError(plain("too few arguments for keyword:show"))
    if len(words) > 2:
        raise ShimError(plain("too many arguments for keyword:show"))
    tag, equals, value = words[0].partition("=")
    wanted = value if equals else words[1] if len(words) > 1 else None
    entity = entity_of(tag)
    if entity is None:
        raise ShimError(plain(f"invalid entity:{words[0]} for keyword:show "))
    return _shown(entity)(session, wanted)


def entity_of(word: str) -> str | None:
    """The entity that ``word``, or what stands before its ``=``, abbreviates; None for none."""
    lower = word.partition("=")[0].lower()
    for entity, least in _ENTITIES:
        if len(lower) >= least and entity.startswith(lower):
            return entity
    return None


def _shown(entity: str) -> Shown:
    if entity in _MODULES:
        module, function = _MODULES[entity]
        found: Shown = getattr(__import__(f"shim.commands.{module}", fromlist=(function,)), function)
        return found
    if entity in _LINES:
        return lambda session, wanted: _line(_LINES[entity])
    return {"topology": _topology, "assoc_mgr": _assoc_mgr}.get(entity, _reservations)


def _line(text: str) -> int:
    reading.put([text] if text else [])
    return 0


def _reservations(session: Session, wanted: str | None) -> int:
    session.tell_records(0)
    if wanted is None:
        reading.put(["No reservations in the system"])
        return 0
    return reading.not_found(f"Reservation {wanted} not found")


def _topology(session: Session, wanted: str | None) -> int:
    reading.complain("scontrol", ["error: No topology information available"])
    return 0


def _assoc_mgr(session: Session, wanted: str | None) -> int:
    raise Unsupported("error: show assoc_mgr is not supported here")
