"""sinfo: partitions and nodes, and what the running jobs make of them."""

from __future__ import annotations

import os
import time

from shim.commands import output, site_view
from shim.control.index.query import JobQuery
from shim.control.outlook import Outlook
from shim.core.errors import ShimError
from shim.core.formats.lists import comma_list
from shim.core.model import states
from shim.core.options.query_options import read
from shim.core.render import columns, sinfo_fields, sinfo_rows
from shim.core.render.node_state import STATE_WORDS, VALID_STATES, uses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.commands.documents import Document
    from shim.core.model.cluster import Cluster
    from shim.core.options.query_options import Values
    from shim.core.render.columns import Column
    from shim.core.render.node_state import NodeUse

_PROGRAM = "sinfo"


def main(argv: list[str]) -> int:
    """Runs sinfo; its exit code. Words that are no options mean nothing, as in Slurm."""
    newer = site_view.has_newer_options(argv)
    values, _ = read(_PROGRAM, argv, os.environ, newer=newer)
    if site_view.print_help(_PROGRAM, values):
        return 0
    site_view.refuse_options(_PROGRAM, values, newer)
    if "reservation" in values:
        return _reservations(values, argv)
    given = read(_PROGRAM, argv, {}, newer=newer)[0]
    if "Format" in values and "format" in values and "format" not in given:
        del values["format"]
    for word in comma_list(values.get("states")):
        if word.lower() not in STATE_WORDS:
            raise ShimError(f'error: Bad state string: "{word}"', f"error: valid states: {VALID_STATES}")
    seconds = None
    if "iterate" in values:
        seconds = site_view.parse_interval(values["iterate"])
        if seconds is None:
            raise ShimError(f"error: Error: invalid entry for --iterate={values['iterate']}")
    if site_view.is_document(values):
        from shim.commands import documents

        document = documents.asked_for(_PROGRAM, argv, values)
        return site_view.repeat(lambda: _document(document, values), seconds)
    return site_view.repeat(lambda: _show(values, argv), seconds)


def _document(document: Document, values: Values) -> int:
    """Prints every node, as Slurm does: no option but -M selects here."""
    from shim.commands import documents, host_stats
    from shim.core.render.openapi.nodes import node_record

    chosen = documents.clusters(values, values.get("clusters"))
    reader = site_view.open_index(_PROGRAM)
    groups: list[tuple[Cluster, ...]] = [(site_view.site_cluster(name),) for name in chosen] or [
        tuple(site_view.site_clusters())
    ]
    for clusters in groups:
        found = []
        for one in clusters:
            cluster = site_view.current(one, _PROGRAM)
            query = JobQuery(cluster=cluster.name, states=tuple(sorted(states.ALLOCATED)))
            known = uses(cluster, reader.jobs(query) if reader is not None else [])
            machine, now = host_stats.machine(cluster), time.time()
            found += [node_record(cluster, use, machine, now, newer=document.newer) for use in known.values()]
        document.put("nodes", found)
    return 0


def _reservations(values: Values, argv: list[str]) -> int:
    """``sinfo -T``: only real Slurms have any."""
    real = site_view.real_clusters(site_view.chosen_clusters(values.get("clusters")))
    if not real:
        output.put(["No reservations in the system"])
        return 0
    from shim.commands import real_slurm

    return real_slurm.print_answers(
        real_slurm.ClusterQuery(_PROGRAM, argv, real, header="noheader" not in values), None, found=False
    )


def _show(values: Values, argv: list[str]) -> int:
    """Prints one table of all clusters, real Slurms last; with -M a table for each cluster. The exit code."""
    chosen = site_view.chosen_clusters(values.get("clusters"))
    header = "noheader" not in values
    real = site_view.real_clusters(chosen)
    ours = () if chosen else site_view.site_clusters()
    if "verbose" in values:
        from shim.commands import verbose_options

        output.put(verbose_options.sinfo(values, _parsed(values, ours)[0]))
    if header and {"iterate", "long", "verbose"} & values.keys():
        output.put([output.date_line(time.time())])
    if not chosen and not real:
        return _ours(values, ours)
    from shim.commands import real_slurm

    asked = None
    if real:
        asked = real_slurm.ClusterQuery(
            _PROGRAM, argv, real, header=header and not ours, each=bool(chosen), dated="long" in values
        )
    if chosen:
        theirs = {place.name for place in real}
        own = {name: site_view.current(site_view.site_cluster(name), _PROGRAM) for name in chosen if name not in theirs}
        begun = Outlook(chosen)

        def put(name: str) -> None:
            _table(values, [own[name]])

        code = real_slurm.print_by_cluster(_PROGRAM, chosen, asked, put, header=header)
        site_view.warn_unreachable(_PROGRAM, site_view.index(), begun)
        return code

    def others() -> int:
        return real_slurm.print_answers(asked, None, found=False) if asked is not None else 0

    return _ours(values, ours, others) if ours else others()


def _ours(values: Values, ours: Sequence[Cluster], others: Callable[[], int] = lambda: 0) -> int:
    """The table of the clusters whose jobs run from here, then what ``others`` prints, then warnings; the exit code of ``others``."""
    current = [site_view.current(cluster, _PROGRAM) for cluster in ours]
    outlook = Outlook()
    _table(values, current)
    code = others()
    site_view.warn_unreachable(_PROGRAM, site_view.index(), outlook)
    return code


def _table(values: Values, clusters: Sequence[Cluster]) -> None:
    """The rows of these clusters, one cluster after the other, under one header."""
    shown, letters = _columns(values, clusters)
    reader = site_view.open_index(_PROGRAM)
    lines = [] if "noheader" in values else [columns.header(shown)]
    for cluster in clusters:
        query = JobQuery(cluster=cluster.name, states=tuple(sorted(states.ALLOCATED)))
        known = uses(cluster, reader.jobs(query) if reader is not None else [])
        lines += _lines(values, cluster, known, shown, letters)
    output.put(lines)


def _lines(
    values: Values, cluster: Cluster, known: dict[str, NodeUse], shown: Sequence[Column], letters: list[str]
) -> list[str]:
    by_node = "Node" in values
    reasons = "list-reasons" in values
    rows = sinfo_rows.make_rows(
        cluster,
        known,
        letters,
        partitions=comma_list(values.get("partition")),
        unseen=() if values.shows_all("partition") else site_view.hidden_partitions(cluster.name),
        wanted=_wanted(values),
        by_node=by_node,
        exact="exact" in values,
        empty=not reasons,
    )
    order = values.get("sort") or (sinfo_rows.NODE_ORDER if by_node else sinfo_rows.DEFAULT_ORDER)
    load, free = _machine(letters)
    view = sinfo_fields.NodeView(time.time(), lambda: cluster, os.environ.get("SLURM_TIME_FORMAT"), load, free)
    return columns.rows(shown, sinfo_rows.ordered(rows, order), view)


def _columns(values: Values, clusters: Sequence[Cluster]) -> tuple[list[Column], list[str]]:
    """The columns asked for, and the letters that decide which nodes share a row."""
    found, unknown = _parsed(values, clusters)
    if "Format" in values:
        output.say(_PROGRAM, *[f"error: Invalid job format specification: {name}" for name in unknown])
        return found, [sinfo_fields.NAME_LETTERS.get(column.key, "") for column in found]
    output.say("", *[f"Invalid node format specification: {letter}" for letter in unknown])
    return found, [column.key for column in found]


def _parsed(values: Values, clusters: Sequence[Cluster]) -> tuple[list[Column], list[str]]:
    """The columns, and what is none."""
    if "Format" in values:
        found, unknown = columns.parse_names(values["Format"], sinfo_fields.names())
    else:
        found, unknown = columns.parse_letters(values.get("format") or _default(values, clusters), sinfo_fields.LETTERS)
    for column in found:
        if column.width and column.key in ("P", "partition"):
            column.show = sinfo_fields.partition_in(column.width)
    return found, unknown


def _default(values: Values, clusters: Sequence[Cluster]) -> str:
    """The format of a plain, long, node, summary or reason listing; names get the room that the longest needs."""
    part = max([9, *(len(one.name) + one.default for cluster in clusters for one in cluster.partitions)])
    node = max([9, *(len(one.name) for cluster in clusters for one in cluster.nodes)])
    long = "long" in values
    if "summarize" in values:
        return f"%{part}P %.5a %.10l %.16F %N"
    if "list-reasons" in values:
        return "%20E %12U %19H %6t %N" if long else "%20E %9u %19H %N"
    if "Node" in values:
        if long:
            return f"%{node}N %.6D %.{part}P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
        return f"%{node}N %.6D %.{part}P %6t"
    if long:
        return f"%{part}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
    return f"%{part}P %.5a %.10l %.6D %.6t %N"


def _wanted(values: Values) -> Callable[[NodeUse], bool]:
    """Which nodes are meant: -n, -t, -d (none: every node responds), -R (those with a reason)."""
    text = values.get("nodes")
    names: frozenset[str] | None = None
    if text is not None:
        from shim.core.formats import hostlist

        try:
            names = frozenset(hostlist.expand(text))
        except hostlist.HostlistError:
            names = frozenset()
    words = [word.lower() for word in comma_list(values.get("states"))]

    def wanted(use: NodeUse) -> bool:
        if names is not None and use.node.name not in names:
            return False
        if "dead" in values or ("list-reasons" in values and not use.node.reason):
            return False
        return not words or any(use.is_in(word) for word in words)

    return wanted


def _machine(letters: list[str]) -> tuple[float | None, int | None]:
    """Load and free memory (MiB) of this machine, read only for a listing that shows them."""
    load = free = None
    if "O" in letters:
        load = os.getloadavg()[0]
    if "e" in letters:
        from shim.commands import host_stats

        free = host_stats.free_memory()
    return load, free
