"""The clusters and the jobs as a read command sees them: the index, the clusters asked for, their recorded shape, who may see what.

Hot path. A cluster of virtual nodes is what its configuration says, or, where nobody configured it, what its jobs made of it, and what operators
changed. The controller looks at a cluster on Kubernetes, and writes its nodes, and what others use of them, into the index.
"""

from __future__ import annotations

import os
import sys
import time

from shim.commands import output
from shim.control import paths
from shim.control.index.reader import open_reader
from shim.control.outlook import Outlook
from shim.core import memo
from shim.core.errors import ShimError, Unsupported
from shim.core.formats.lists import comma_list
from shim.core.model import states
from shim.core.render.view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shim.control.index.reader import Reader
    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job, Step
    from shim.core.options.query_options import Values
    from shim.core.routing import ClusterRef


def index() -> Reader | None:
    """A reader of the index; a command opens the index once. None: there is no index yet."""
    return memo.once("index", _opened)


def _opened() -> Reader | None:
    if paths.anothers() is not None:  # we are an operator there, or are told so
        from shim.control.asked_index import AskedReader

        return AskedReader()
    return open_reader(paths.index_path())


def recorded(cluster: Cluster) -> Cluster:
    """The cluster as the controller recorded it last; as it is configured if there is no record."""
    reader = index()
    if reader is None:
        return cluster
    if cluster.backend == "kubernetes":
        return reader.cluster(cluster.name) or cluster
    return _changed(_grown(cluster, reader) if cluster.elastic else cluster, reader)


def _grown(cluster: Cluster, reader: Reader) -> Cluster:
    """The elastic cluster with the nodes that active jobs asked for; without active jobs as it is configured."""
    found = reader.cluster(cluster.name) if reader.active() else None
    return (
        cluster
        if found is None or not found.elastic
        else cluster.replace(nodes=found.nodes, partitions=found.partitions)
    )


def current(cluster: Cluster, program: str) -> Cluster:
    """The recorded cluster, on Kubernetes after a controller has asked the API server; starts a controller if none runs."""
    if cluster.backend != "kubernetes":
        return cluster
    from shim.control import alive

    reader = index()
    if reader is None:
        from shim.control import client

        client.call("ping", {})
        reader = index()
    elif not reader.live and not alive.alive():
        alive.refresh(reader, program)
    return (reader.cluster(cluster.name) if reader is not None else None) or cluster


def _changed(cluster: Cluster, reader: Reader) -> Cluster:
    """A configured cluster with the changes that operators made."""
    changes = reader.changes(cluster.name)
    if not changes:
        return cluster
    from shim.core.model.cluster_changes import apply_changes

    return apply_changes(cluster, changes)


def visibility_changed(cluster: str) -> bool:
    """Whether operators changed who is shown which of the cluster's partitions."""
    reader = index()
    changes = reader.changes(cluster) if reader is not None else {}
    return any("hidden" in one or "allow_groups" in one for one in changes.get("partitions", {}).values())


def open_index(program: str) -> Reader | None:
    """A reader of the index. If jobs are active, a controller is first given time to bring the index up to date."""
    reader = index()
    if reader is not None and reader.live:
        return reader
    if reader is not None and reader.active():
        from shim.control import alive

        alive.freshen(reader, program)
        return reader
    from shim.control import site

    if any(ref.backend == "kubernetes" for ref in site.cluster_refs()):
        from shim.control import alive

        if alive.look(reader, program):
            reader = index()
    return reader


_SHOWN_AS_LAST_SEEN = "it is shown as it was seen last"


_TOLD_LATER = "it is told when it can be asked again"


def warn_unreachable(program: str, reader: Reader | None, outlook: Outlook | None, jobs: Iterable[Job] = ()) -> None:
    """Says on stderr which of the outlook's clusters cannot be asked just now: they are shown as they were seen last.

    None: only the clusters matter on which any of ``jobs`` runs or ends just now.
    """
    if outlook is None:
        names = {job.cluster for job in jobs if job.state in states.ALLOCATED}
        outlook = Outlook(sorted(names)) if names else None
    if outlook is not None and outlook.names:
        _warn(program, reader, outlook, _SHOWN_AS_LAST_SEEN)


def warn_deferred(program: str, names: Sequence[str]) -> None:
    """Warns of those of these clusters that do not answer: the orders just given reach them later."""
    outlook = Outlook(names) if names else None
    if outlook is not None and outlook.names:
        _warn(program, index(), outlook, _TOLD_LATER)


def _warn(program: str, reader: Reader | None, outlook: Outlook, what: str) -> None:
    if not outlook.known():
        output.say(program, "warning: the controller does not answer: this may be out of date")
    for cluster, why in reader.troubles() if reader is not None else ():
        if cluster in outlook.names:
            output.say(program, f"warning: {cluster}: {why}; {what}")


def site_clusters() -> tuple[Cluster, ...]:
    """All clusters but real Slurms; the default cluster first, if it is among them."""
    from shim.control import site

    return tuple(recorded(cluster) for cluster in site.clusters() if cluster.backend != "slurm")


def shown_since(name: str | None) -> float:
    """The time since when ended jobs are still shown (MinJobAge): of the named cluster, or the earliest of all clusters."""
    clusters = site_clusters() if not name else (site_cluster(name),)
    return time.time() - max([cluster.min_job_age for cluster in clusters], default=0)


def site_cluster(name: str | None = None) -> Cluster:
    """The cluster of that name, or the default cluster. ShimError with Slurm's text for an unknown name."""
    from shim.control import site

    return recorded(site.cluster(name))


def chosen_clusters(text: str | None) -> list[str]:
    """The clusters that ``-M`` names, in its order; [] when nothing was said: all jobs of the index."""
    if not text:
        return []
    from shim.control import site

    known = site.backends()
    wanted = list(known) if text == "all" else comma_list(text)
    return list(dict.fromkeys(_name_here(name) for name in wanted))


def _name_here(name: str) -> str:
    """The name of that cluster in the configuration: a real Slurm may also be named by its own ClusterName."""
    from shim.control import site

    if name in site.backends():
        return name
    for ref in site.cluster_refs():
        if ref.real and ref.real_name == name:
            return ref.name
    raise site.unknown(name, site_cluster())


def one_cluster(text: str | None) -> str | None:
    """The cluster that ``-M`` names, for commands that take a single cluster; None without -M. ShimError for several."""
    chosen = chosen_clusters(text)
    if len(chosen) > 1:
        raise ShimError("fatal: Only one cluster can be used at a time with scontrol")
    return chosen[0] if chosen else None


def hidden_partitions(cluster: str) -> frozenset[str]:
    """The partitions of that cluster that the caller sees with --all only: hidden partitions, and those of other groups."""
    if os.getuid() == 0 or paths.anothers() is not None:  # operators see all of them
        return frozenset()
    from shim.control import site

    found = site.restricted().get(cluster)
    if visibility_changed(cluster):
        from shim.core.admission.partition_rules import restricted_partitions

        found = restricted_partitions(site_cluster(cluster))
    if not found:
        return frozenset()
    own = _own_groups() if any(found.values()) else frozenset()
    return frozenset(name for name, groups in found.items() if own.isdisjoint(groups.split(",")))


def _own_groups() -> frozenset[str]:
    import grp

    found = set()
    for gid in {os.getegid(), *os.getgroups()}:
        try:
            found.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            pass  # a group without a name is in no list
    return frozenset(found)


class Views:
    """The views of jobs of all clusters: each job is shown by its own cluster's shape."""

    def __init__(self, *, noconvert: bool = False) -> None:
        self._noconvert = noconvert
        self._known: dict[str, View] = {}
        self.now = time.time()

    def of(self, cluster: str) -> View:
        """The view of that cluster's jobs; if the cluster is no longer configured, the default cluster's view."""
        if cluster not in self._known:
            self._known[cluster] = View(
                self.now, lambda: _known_cluster(cluster), os.environ.get("SLURM_TIME_FORMAT"), self._noconvert
            )
        return self._known[cluster]


def _known_cluster(name: str) -> Cluster:
    from shim.control import site

    return site_cluster(name if name in site.backends() else None)


def view(name: str | None = None, *, noconvert: bool = False) -> View:
    """The caller's view: now, their SLURM_TIME_FORMAT, and the named cluster, loaded when a field needs it."""
    return View(time.time(), lambda: site_cluster(name), os.environ.get("SLURM_TIME_FORMAT"), noconvert)


def refuse_options(program: str, values: Values, newer: bool = False) -> None:
    """Unsupported for the first option given that is refused here; ``newer``: among those of 25.11."""
    if not values:
        return
    from shim.core.options.query_options import options_of

    rows = options_of(program, newer).by_name
    for name in values:
        outcome, _, reason = rows[name].get("support", "").partition(": ")
        if outcome == "refused":
            raise Unsupported(f"error: --{name} is not supported here: {reason}")


def has_newer_options(argv: Sequence[str]) -> bool:
    """Whether the command has the options of the later release. The configuration is asked only where one of these may be given."""
    if not any(word.startswith(("--js", "--y")) for word in argv):
        return False
    from shim.commands.submission_context import grammar

    found = grammar()
    return found is not None and found.newer


def is_document(values: Values) -> bool:
    """Whether a listing is asked for as a document."""
    return "json" in values or "yaml" in values


def print_help(program: str, values: dict[str, str]) -> bool:
    """Prints the text of ``--version``, ``--help`` or ``--usage``; whether one of these options was given."""
    for what in ("version", "help", "usage"):
        if what in values:
            from shim.commands.submission_context import grammar
            from shim.core.options.help import text_for

            sys.stdout.write(text_for(program, what, grammar()))
            return True
    return False


def repeat(show: Callable[[], int], seconds: int | None) -> int:
    """Shows a listing every ``seconds`` seconds (``-i``), each time with fresh data; once for None. The exit code."""
    while True:
        code = show()
        if seconds is None:
            return code
        sys.stdout.write("\n")
        sys.stdout.flush()
        time.sleep(seconds)
        memo.renew()


def parse_interval(text: str) -> int | None:
    """The seconds of ``-i``; None where they are no number above 0."""
    return int(text) if text.isascii() and text.isdigit() and int(text[:9]) > 0 else None


def uid_of(name: str) -> int | None:
    """The uid of a user's name or number; None for a name that is none."""
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return int(name) if name.isascii() and name.isdigit() and len(name) < 11 else None


def user_name(uid: int) -> str | None:
    """The name of a user of this machine; None for a uid that nobody has."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def running_steps(reader: Reader | None, jobs: list[Job]) -> list[tuple[Job, Step]]:
    """The running steps, each with its job; the batch script counts as a step."""
    if reader is None:
        return []
    from shim.core.render.sacct_rows import batch_step

    found = reader.steps_of(jobs, running=True)
    known = {job.key for job, step in found if step.step_id == "batch"}
    running = (states.RUNNING, states.SUSPENDED, states.STOPPED)
    scripts = [(job, batch_step(job)) for job in jobs if job.state in running and job.key not in known]
    return [*found, *((job, step) for job, step in scripts if step is not None)]


def real_clusters(names: Sequence[str] = ()) -> list[ClusterRef]:
    """The real Slurms among these clusters, in their order; among all for none."""
    from shim.control import site

    refs = {ref.name: ref for ref in site.cluster_refs()}
    return [refs[name] for name in names or refs if name in refs and refs[name].real]
