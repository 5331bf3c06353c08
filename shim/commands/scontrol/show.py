"""``scontrol show``: finds the entity, and the module that shows it; shows host lists."""

from __future__ import annotations

import os
import sys

from shim.commands import output, site_view
from shim.core.errors import ShimError, Unsupported, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.commands.scontrol.session import Session

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
    "config": ("show_site", "config"),
    "hostnames": ("show", "hostnames"),
    "hostlist": ("show", "hostlist_of"),
    "hostlistsorted": ("show", "hostlistsorted"),
    "jobs": ("show_jobs", "jobs"),
    "jobid": ("show_jobs", "jobs"),
    "licenses": ("show_site", "licenses"),
    "nodes": ("show_site", "nodes"),
    "nodename": ("show_site", "nodes"),
    "partitions": ("show_site", "partitions"),
    "partitionname": ("show_site", "partitions"),
    "steps": ("show_jobs", "steps"),
}
_DOCUMENTS = ("jobs", "jobid", "nodes", "nodename", "partitions", "partitionname")  # that --json shows
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
    if session.document is not None and entity not in _DOCUMENTS:
        raise Unsupported(f"error: show {entity} is not supported here with --json or --yaml")
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
        found: Shown = getattr(__import__(f"shim.commands.scontrol.{module}", fromlist=(function,)), function)
        return found
    if entity in _LINES:
        return lambda session, wanted: _line(_LINES[entity])
    return {"topology": _topology, "assoc_mgr": _assoc_mgr}.get(entity, _reservations)


def _line(text: str) -> int:
    output.put([text] if text else [])
    return 0


def _reservations(session: Session, wanted: str | None) -> int:
    session.tell_records(0)
    if wanted is None:
        output.put(["No reservations in the system"])
        return 0
    return output.not_found(f"Reservation {wanted} not found")


def _topology(session: Session, wanted: str | None) -> int:
    output.say("scontrol", "error: No topology information available")
    return 0


def _assoc_mgr(session: Session, wanted: str | None) -> int:
    raise Unsupported("error: show assoc_mgr is not supported here")


def hostnames(session: Session, wanted: str | None) -> int:
    """One name per line; without a list those of SLURM_NODELIST. Slurm's exit code is 0 whatever the list is."""
    from shim.core.formats import hostlist

    text = wanted if wanted is not None else os.environ.get("SLURM_NODELIST")
    if text is None:
        output.say("scontrol", "error: host list is empty")
        return 0
    try:
        output.put(hostlist.expand(_from_file(text)))
    except hostlist.HostlistError as error:
        sys.stdout.flush()
        output.say("scontrol", *error.lines)
    return 0


def hostlist_of(session: Session, wanted: str | None, in_order: bool = False) -> int:
    """The names in folded form, in their order or sorted."""
    from shim.core.formats import hostlist

    if wanted is None:
        site_view.print_help("scontrol", {"usage": ""})
        raise ShimError(plain("invalid encode argument"))
    text = _from_file(wanted)
    try:
        folded = hostlist.refold(text, in_order)
    except hostlist.HostlistError as error:
        raise ShimError(*error.lines) from None
    output.put([folded])
    return 0


def hostlistsorted(session: Session, wanted: str | None) -> int:
    """The names in natural order, folded; Slurm keeps those that come twice."""
    return hostlist_of(session, wanted, in_order=True)


def _from_file(text: str) -> str:
    """The names in a file, where ``text`` is an absolute path."""
    if not text.startswith("/"):
        return text
    from shim.job import capped

    try:
        return ",".join(capped.text(text).split())
    except OSError as error:
        raise ShimError(f"error: Can not open {text}: {error.strerror}") from None
