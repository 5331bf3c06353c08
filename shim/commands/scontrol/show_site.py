"""``scontrol show node``, ``partition``, ``config`` and ``licenses``."""

from __future__ import annotations

import os
import time

from shim.commands import host_stats, output, site_view
from shim.control.index.query import JobQuery
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.commands.documents import Document
    from shim.commands.scontrol.session import Session
    from shim.control.index.reader import Reader
    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job
    from shim.core.render.node_state import NodeUse
    from shim.core.render.scontrol_node import Machine


def nodes(session: Session, wanted: str | None) -> int:
    """All nodes, or those of a host list."""
    from shim.core.formats import hostlist
    from shim.core.render.scontrol_node import node_record

    found = _clusters(session)
    outlook = session.outlook()
    clusters = [(cluster, _uses(cluster), host_stats.machine(cluster)) for cluster in found]
    names: list[str] | None = None
    if wanted is not None:
        try:
            names = hostlist.expand(wanted)
        except hostlist.HostlistError:
            names = [wanted]
    if session.document is not None:
        return _put_nodes(session, session.document, clusters, names)
    views = site_view.Views()
    code = 0
    session.tell_records(sum(len(known) for _, known, _ in clusters))
    for name in dict.fromkeys(names or [node.name for cluster, _, _ in clusters for node in cluster.nodes]):
        records = [
            node_record(
                cluster,
                known[name],
                machine,
                views.of(cluster.name),
                details=session.details,
                oneliner=session.oneliner,
            )
            for cluster, known, machine in clusters
            if name in known
        ]
        if records:
            output.put(records)
        else:
            code = output.not_found(f"Node {name} not found")
    site_view.warn_unreachable("scontrol", site_view.index(), outlook)
    return code


def _put_nodes(
    session: Session,
    document: Document,
    clusters: list[tuple[Cluster, dict[str, NodeUse], Machine]],
    names: list[str] | None,
) -> int:
    """Prints the document of these nodes; None: of all."""
    from shim.core.render.openapi.layout import moments
    from shim.core.render.openapi.nodes import node_record

    now = time.time()
    records = [
        node_record(cluster, known[name], machine, now, newer=document.newer)
        for cluster, known, machine in clusters
        for name in known
        if names is None or name in names
    ]
    if names and not records:
        return output.not_found(f"Node {names[0]} not found")
    document.put("nodes", records, more=moments(now), cluster=session.cluster or "")
    return 0


def _clusters(session: Session) -> tuple[Cluster, ...]:
    """The cluster that -M names, else all of ours."""
    found = site_view.site_clusters() if session.cluster is None else (site_view.site_cluster(session.cluster),)
    return tuple(site_view.current(cluster, "scontrol") for cluster in found)


def _uses(cluster: Cluster) -> dict[str, NodeUse]:
    from shim.core.render.node_state import uses

    return uses(cluster, _holders(cluster))


def _holders(cluster: Cluster) -> list[Job]:
    """The jobs that hold something of the cluster."""
    reader = site_view.open_index("scontrol")
    query = JobQuery(cluster=cluster.name, states=tuple(sorted(states.ALLOCATED)))
    return reader.jobs(query) if reader is not None else []


def partitions(session: Session, wanted: str | None) -> int:
    """Prints all partitions, or a single one."""
    from shim.core.render.scontrol_node import partition_record

    found = [
        (cluster, one)
        for cluster in _clusters(session)
        for one in cluster.partitions
        if wanted in (None, one.name) and (session.all or one.name not in site_view.hidden_partitions(cluster.name))
    ]
    session.tell_records(sum(len(cluster.partitions) for cluster in _clusters(session)))
    if wanted is not None and not found:
        return output.not_found(f"Partition {wanted} not found")
    if session.document is not None:
        from shim.core.render.openapi import layout
        from shim.core.render.openapi import partitions as records

        shown = [records.partition_record(cluster, one) for cluster, one in found]
        session.document.put("partitions", shown, more=layout.moments(time.time()), cluster=session.cluster or "")
        return 0
    outlook = session.outlook()
    output.put([partition_record(cluster, one, oneliner=session.oneliner) for cluster, one in found])
    site_view.warn_unreachable("scontrol", site_view.open_index("scontrol"), outlook)
    return 0


def config(session: Session, wanted: str | None) -> int:
    """Prints the whole configuration; like Slurm, ignores a name that follows."""
    import pwd

    from shim.control import config_words, paths
    from shim.core.render.scontrol_config import config_lines

    cluster = site_view.site_cluster(session.cluster)
    view = site_view.view(session.cluster)
    uid = paths.owner()
    try:
        user = f"{pwd.getpwuid(uid).pw_name}({uid})"
    except KeyError:
        user = str(uid)
    host = paths.machine()
    reader = site_view.open_index("scontrol")
    lines = config_lines(
        cluster,
        config_words.shown(cluster),
        host=host,
        user=user,
        state_dir=paths.named(),
        boot=view.stamp(host_stats.boot_time(), "Unknown"),
        next_id=max(cluster.first_job_id, _last_id(reader, cluster) + 1),
        conf=os.environ.get("SLURM_CONF", ""),
    )
    output.put([f"Configuration data as of {view.stamp(view.now)}", *lines, "", f"Slurmctld(primary) at {host} is UP"])
    return 0


def _last_id(reader: Reader | None, cluster: Cluster) -> int:
    return reader.last_job_id(*cluster.id_ranges[:2]) if reader is not None else 0


def licenses(session: Session, wanted: str | None) -> int:
    """Prints all licences, or a single one, with the counts that running jobs hold."""
    found = [(cluster, one) for cluster in _clusters(session) for one in cluster.licenses if wanted in (None, one.name)]
    if not found:
        output.put(["No licenses configured in Slurm."])
        return 0
    used = {cluster.name: _licenses_used(cluster) for cluster, _ in found}
    for cluster, one in found:
        taken = min(one.count, used[cluster.name].get(one.name, 0))
        words = [
            f"LicenseName={one.name}",
            f"    Total={one.count} Used={taken} Free={one.count - taken} Reserved=0 Remote=no",
        ]
        output.put([words[0] + words[1][3:] if session.oneliner else "\n".join(words)])
    return 0


def _licenses_used(cluster: Cluster) -> dict[str, int]:
    found: dict[str, int] = {}
    for job in _holders(cluster):
        for word in (job.request.licenses or "").split(","):
            name, _, count = word.partition(":")
            found[name] = found.get(name, 0) + (int(count) if count.isdigit() else 1)
    return found
