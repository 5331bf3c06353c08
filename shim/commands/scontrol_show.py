"""``scontrol show``: jobs, steps, nodes, partitions, the configuration, host lists."""

from __future__ import annotations

import os
import sys
import time

from shim.commands import reading
from shim.commands.job_ids import JobId, narrowed, parse_job_id
from shim.control.index.query import JobQuery
from shim.core.errors import ShimError, Unsupported, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.commands.scontrol import Session
    from shim.control.index.reader import Reader
    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job
    from shim.core.render.node_state import NodeUse
    from shim.core.render.scontrol_node import Machine

_NO_JOB = "Invalid job id specified"
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


def show(session: Session, words: list[str]) -> int:
    """``show ENTITY [ID]`` or ``show ENTITY=ID``; the exit code."""
    if not words:
        raise ShimError(plain("too few arguments for keyword:show"))
    if len(words) > 2:
        raise ShimError(plain("too many arguments for keyword:show"))
    tag, equals, value = words[0].partition("=")
    wanted = value if equals else words[1] if len(words) > 1 else None
    lower = tag.lower()
    for entity, least in _ENTITIES:
        if len(lower) >= least and entity.startswith(lower):
            return _SHOWN[entity](session, wanted)
    raise ShimError(plain(f"invalid entity:{words[0]} for keyword:show "))


def _records(session: Session, records: list[str]) -> int:
    reading.put(records)
    return 0


def _not_found(line: str) -> int:
    reading.put([line])
    return 1


def _jobs(session: Session, wanted: str | None) -> int:
    from shim.core.render.scontrol_job import job_record

    reader = reading.open_index("scontrol")
    found = _visible(reader, session, None)
    if wanted is None:
        if not found:
            reading.put(["No jobs in the system"])
            return 0
    else:
        one = parse_job_id(wanted)
        if one is None or "[" in wanted:
            raise ShimError(plain(f"scontrol_print_job error: {_NO_JOB}"))
        known = _visible(reader, session, one)
        if not known:
            raise ShimError(plain(f"slurm_load_jobs error: {_NO_JOB}"))
        found = [part for part in (narrowed(job, [one]) for job in known) if part is not None]
        if not found:
            return _not_found(f"Job {wanted} not found")
    view = reading.view(session.cluster)
    return _records(
        session, [job_record(job, view, details=session.details, oneliner=session.oneliner) for job in found]
    )


def _visible(reader: Reader | None, session: Session, one: JobId | None) -> list[Job]:
    """The jobs that have not ended or ended less than MinJobAge ago; those of one id or array only if it is given."""
    if reader is None:
        return []
    age = reading.site_cluster(session.cluster).min_job_age
    return reader.jobs(
        JobQuery(
            cluster=session.cluster or "",
            job_ids=(one.job_id,) if one is not None else (),
            active=False,
            ended_since=time.time() - age,
        )
    )


def _steps(session: Session, wanted: str | None) -> int:
    from shim.core.render.scontrol_job import step_record
    from shim.core.render.step_fields import step_order

    reader = reading.open_index("scontrol")
    one = parse_job_id(wanted) if wanted is not None else None
    if wanted is not None and one is None:
        raise ShimError(plain(f"slurm_get_job_steps error: {_NO_JOB}"))
    jobs = _visible(reader, session, one) if one is not None else _visible(reader, session, None)
    if one is not None:
        jobs = [part for part in (narrowed(job, [one]) for job in jobs) if part is not None]
        if not jobs:
            if one.step is not None:
                return _not_found(f"Job step {wanted} not found")
            raise ShimError(plain(f"slurm_get_job_steps error: {_NO_JOB}"))
    by_run = {(job.job_id, job.restarts): job for job in jobs}
    items = [
        (by_run[step.job_id, step.restart], step)
        for step in (reader.steps(jobs, running=True) if reader is not None else [])
        if one is None or one.step in (None, step.step_id)
    ]
    if not items:
        if wanted is None:
            reading.put(["No job steps in the system"])
            return 0
        return _not_found(f"Job step {wanted} not found")
    view = reading.view(session.cluster)
    return _records(
        session,
        [step_record(job, step, view, oneliner=session.oneliner) for job, step in sorted(items, key=step_order)],
    )


def _nodes(session: Session, wanted: str | None) -> int:
    from shim.core import hostlist
    from shim.core.render.scontrol_node import node_record

    cluster = reading.site_cluster(session.cluster)
    names = [node.name for node in cluster.nodes]
    if wanted is not None:
        try:
            names = hostlist.expand(wanted)
        except hostlist.HostlistError:
            names = [wanted]
    known = _uses(cluster)
    machine = _machine(cluster)
    view = reading.view(session.cluster)
    code = 0
    for name in names:
        if name not in known:
            code = _not_found(f"Node {name} not found")
            continue
        use = known[name]
        reading.put([node_record(cluster, use, machine, view, details=session.details, oneliner=session.oneliner)])
    return code


def _uses(cluster: Cluster) -> dict[str, NodeUse]:
    from shim.core.model import states
    from shim.core.render.node_state import uses

    reader = reading.open_index("scontrol")
    query = JobQuery(cluster=cluster.name, states=tuple(sorted(states.ALLOCATED)))
    return uses(cluster, reader.jobs(query) if reader is not None else [])


def _machine(cluster: Cluster) -> Machine:
    from shim.core.render.scontrol_node import Machine

    if cluster.backend != "local":
        return Machine()
    system = os.uname()
    return Machine(
        arch=system.machine,
        system=f"{system.sysname} {system.release} {system.version.partition(' (')[0]}",
        boot_time=reading.boot_time(),
        load=os.getloadavg()[0],
        free_memory=reading.free_memory(),
    )


def _partitions(session: Session, wanted: str | None) -> int:
    from shim.core.render.scontrol_node import partition_record

    cluster = reading.site_cluster(session.cluster)
    found = [one for one in cluster.partitions if wanted in (None, one.name)]
    if wanted is not None and not found:
        return _not_found(f"Partition {wanted} not found")
    return _records(session, [partition_record(cluster, one, oneliner=session.oneliner) for one in found])


def _config(session: Session, wanted: str | None) -> int:
    """The whole configuration: Slurm, too, takes no notice of a name behind it."""
    import pwd

    from shim.control import paths
    from shim.core.render.scontrol_config import config_lines

    cluster = reading.site_cluster(session.cluster)
    view = reading.view(session.cluster)
    uid = os.getuid()
    try:
        user = f"{pwd.getpwuid(uid).pw_name}({uid})"
    except KeyError:
        user = str(uid)
    host = os.uname().nodename
    reader = reading.open_index("scontrol")
    lines = config_lines(
        cluster,
        host=host,
        user=user,
        state_dir=paths.state_dir(),
        boot=view.stamp(reading.boot_time(), "Unknown"),
        next_id=max(cluster.first_job_id, reader.last_job_id() + 1 if reader is not None else 1),
    )
    reading.put([f"Configuration data as of {view.stamp(view.now)}", *lines, "", f"Slurmctld(primary) at {host} is UP"])
    return 0


def _hostnames(session: Session, wanted: str | None) -> int:
    """One name per line; without a list those of SLURM_NODELIST. Slurm's exit code is 0 whatever the list is."""
    from shim.core import hostlist

    text = wanted if wanted is not None else os.environ.get("SLURM_NODELIST")
    if text is None:
        reading.complain("scontrol", ["error: host list is empty"])
        return 0
    try:
        reading.put(hostlist.expand(_from_file(text)))
    except hostlist.HostlistError as error:
        from shim.commands import funnel

        sys.stdout.flush()
        funnel.say("scontrol", *error.lines)
    return 0


def _hostlist(session: Session, wanted: str | None, in_order: bool = False) -> int:
    from shim.core import hostlist

    if wanted is None:
        reading.answered("scontrol", {"usage": ""})
        raise ShimError(plain("invalid encode argument"))
    try:
        names = hostlist.expand(_from_file(wanted))
    except hostlist.HostlistError as error:
        raise ShimError(*error.lines) from None
    reading.put([hostlist.fold_sorted(names) if in_order else hostlist.fold(names)])
    return 0


def _hostlistsorted(session: Session, wanted: str | None) -> int:
    return _hostlist(session, wanted, in_order=True)


def _from_file(text: str) -> str:
    """The names in a file, where ``text`` is an absolute path."""
    if not text.startswith("/"):
        return text
    try:
        with open(text, encoding="utf-8", errors="surrogateescape") as file:
            return ",".join(file.read().split())
    except OSError as error:
        raise ShimError(f"error: Can not open {text}: {error.strerror}") from None


def _licenses(session: Session, wanted: str | None) -> int:
    cluster = reading.site_cluster(session.cluster)
    found = [one for one in cluster.licenses if wanted in (None, one.name)]
    if not found:
        reading.put(["No licenses configured in Slurm."])
        return 0
    used = _licenses_used(cluster)
    for one in found:
        taken = min(one.count, used.get(one.name, 0))
        words = [
            f"LicenseName={one.name}",
            f"    Total={one.count} Used={taken} Free={one.count - taken} Reserved=0 Remote=no",
        ]
        reading.put([words[0] + words[1][3:] if session.oneliner else "\n".join(words)])
    return 0


def _licenses_used(cluster: Cluster) -> dict[str, int]:
    from shim.core.model import states

    found: dict[str, int] = {}
    reader = reading.open_index("scontrol")
    query = JobQuery(cluster=cluster.name, states=tuple(sorted(states.ALLOCATED)))
    for job in reader.jobs(query) if reader is not None else []:
        for word in (job.request.licenses or "").split(","):
            name, _, count = word.partition(":")
            found[name] = found.get(name, 0) + (int(count) if count.isdigit() else 1)
    return found


def _line(text: str) -> Callable[[Session, str | None], int]:
    """An entity that there is none of, with the line that says so."""

    def shown(session: Session, wanted: str | None) -> int:
        reading.put([text] if text else [])
        return 0

    return shown


def _reservations(session: Session, wanted: str | None) -> int:
    if wanted is None:
        reading.put(["No reservations in the system"])
        return 0
    return _not_found(f"Reservation {wanted} not found")


def _topology(session: Session, wanted: str | None) -> int:
    reading.complain("scontrol", ["error: No topology information available"])
    return 0


def _assoc_mgr(session: Session, wanted: str | None) -> int:
    raise Unsupported("error: show assoc_mgr is not supported here")


_SHOWN: dict[str, Callable[[Session, str | None], int]] = {
    "aliases": _line(""),
    "assoc_mgr": _assoc_mgr,
    "bbstat": _line(""),
    "burstbuffer": _line(""),
    "config": _config,
    "daemons": _line("slurmctld slurmd"),
    "dwstat": _line(""),
    "federation": _line(""),
    "frontend": _line("No nodes in the system"),
    "hostnames": _hostnames,
    "hostlist": _hostlist,
    "hostlistsorted": _hostlistsorted,
    "jobs": _jobs,
    "jobid": _jobs,
    "licenses": _licenses,
    "nodes": _nodes,
    "nodename": _nodes,
    "partitions": _partitions,
    "partitionname": _partitions,
    "reservations": _reservations,
    "reservationname": _reservations,
    "slurmd": _line("Slurmd is part of each job here"),
    "steps": _steps,
    "topology": _topology,
}
