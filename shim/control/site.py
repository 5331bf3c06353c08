"""The clusters of this site, resolved once and kept: what sinfo, scontrol and the controller share.

Hot path. The resolved clusters are kept with ``marshal`` in the state folder under a stamp of everything they depend on: inode,
time and size of each configuration file (slurm.conf too) and of the modules that make the kept form, the SHIM_* variables, the boot. A stamp
that differs means that all is read again.
"""

from __future__ import annotations

import marshal
import os
import sys

from shim.control import paths, sources
from shim.core import memo
from shim.core.errors import ShimError
from shim.core.routing import ClusterRef, own_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster
    from shim.core.options.grammar import Grammar

UNREACHABLE = "can't be reached now"  # said of a name that is no cluster
# Whose code says what is kept: after an upgrade in place, or of a checkout, nothing that other code has kept is read.
_MAKERS = (
    "control/config_words.py",
    "control/kept_cluster.py",
    "control/shape.py",
    "control/site.py",
    "control/slurm_conf.py",
    "core/model/cluster.py",
)


def clusters() -> tuple[Cluster, ...]:
    """All clusters, the default one first. Raises ConfigError for a configuration that cannot be used."""
    from shim.control import kept_cluster

    return tuple([kept_cluster.unpack(data) for data in _settled().packed()])


def file_stamps() -> list[tuple[Any, ...]]:
    """By which it is known whether a file that ``clusters`` depends on has changed. Raises ConfigError as that does."""
    return [sources.file_stamp(path) for path in (*sources.files(os.environ), *_settled().short["files"])]


def _runs_containers() -> bool:
    from shim.job.container.tools import any_image

    return any_image()


def grammar() -> Grammar | None:
    """The options that the commands have here, None for those of every site. Raises ConfigError as ``clusters`` does; cheap where nothing is configured."""
    from shim.core.options import submit_options

    configured = _told()
    submit_options.runs_containers = None if configured else _runs_containers
    if not configured:
        return None
    settled: dict[str, Any] = _settled().short["grammar"]
    if not settled:
        return None
    from shim.core.options.grammar import Grammar

    return Grammar.from_dict(settled)


def backends() -> dict[str, str]:
    """The names of all clusters, the default one first, each with its backend. Cheaper than the clusters themselves."""
    found: dict[str, str] = _settled().short["backends"]
    return found


def backend(names: str | None = None) -> str:
    """The backend of the cluster that ``-M`` names (of several the first), or of the default one. Cheap like ``grammar``."""
    if not _told():
        return cluster_refs()[0].backend
    known = backends()
    return known.get((names or "").partition(",")[0]) or next(iter(known.values()))


def cluster_refs() -> tuple[ClusterRef, ...]:
    """The clusters as far as routing looks at them, the default one first. Cheap like ``grammar``: every command asks it first."""
    if not _told():
        return (_IMPLIED if sources.implied_here() else _LOCAL,)
    return tuple([ClusterRef(*data) for data in _settled().short["refs"]])


_LOCAL = ClusterRef("local", "local", ("debug",))
_IMPLIED = ClusterRef("slurm", "slurm", real_name="slurm")  # so that no -M is taken for our own name


def restricted() -> dict[str, dict[str, str]]:
    """By cluster the partitions that listings do not show to everybody: see ``policy.restricted``. Cheap like ``grammar``."""
    if not _told():
        return {}
    found: dict[str, dict[str, str]] = _settled().short["restricted"]
    return found


def _ref(cluster: Cluster) -> tuple[Any, ...]:
    settings = cluster.settings
    return (
        cluster.name,
        cluster.backend,
        tuple([partition.name for partition in cluster.partitions]),
        settings.get("bin", ""),
        settings.get("conf", ""),
        settings.get("real_name", ""),
        bool(settings.get("skypilot_env")),
        float(settings.get("timeout") or 10),
    )


class _Settled:
    """What short questions are answered from, and the clusters as they are kept."""

    def __init__(self, short: dict[str, Any], packed: bytes) -> None:
        self.short = short
        self._packed = packed

    def packed(self) -> list[dict[str, Any]]:
        """The clusters, packed."""
        clusters: list[dict[str, Any]] = marshal.loads(self._packed)
        return clusters


def _settled() -> _Settled:
    """As kept, or resolved now."""
    return memo.once("site", _settle)


def _told() -> bool:
    """Whether there is anything to be read of what the site has: else all is as where nobody configured anything."""
    return sources.configured() or paths.anothers() is not None


def _settle() -> _Settled:
    if paths.anothers() is not None:
        return _asked()
    wanted = (_makers(), sources.stamp())
    kept = _kept(wanted)
    if kept is not None:
        return kept
    try:
        short, clusters = _resolve()
    except ShimError as problem:
        return _as_it_runs(problem)
    packed = marshal.dumps(clusters)
    if not own_job(os.environ):  # a task may be bound to a part of the machine, and sees no other
        _keep(wanted, [sources.file_stamp(path) for path in short["files"]], short, packed)
    return _Settled(short, packed)


def _asked() -> _Settled:
    """As another user's controller says, whose operator we are."""
    from shim.control import operators

    told = operators.ask("site")
    if not told["clusters"]:
        raise ShimError("error: that controller has no cluster of its own: ask the real Slurm")
    return _of_controller(told)


def go_on(program: str) -> None:
    """From now on a configuration that cannot be used does not hinder ``program``: it acts on the jobs that are there, or shows them, and goes
    by the configuration with which the controller runs them. What is wrong is said.
    """
    global _going_on
    _going_on = program


_going_on = ""


def _as_it_runs(problem: ShimError) -> _Settled:
    """As the controller that runs has it. Raises ``problem``, the configuration's, where nobody is to go on, or none runs.

    Nor with a real Slurm among the clusters: an order without a cluster's name could be meant for that.
    """
    from shim.control.config import ConfigError

    if not _going_on or not isinstance(problem, ConfigError):
        raise problem
    from shim.control import channel
    from shim.control.protocol import PROTOCOL

    connected = channel.connect(paths.socket_path())
    if connected is None or connected.stopped():
        raise problem
    try:
        connected.send({"protocol": PROTOCOL, "op": "site"})
        told = channel.answer(connected.receive())
    except (channel.ChannelClosed, ShimError):
        raise problem from None
    finally:
        connected.close()
    if told["real"]:
        raise problem
    if sys.stderr is not None:
        why = problem.lines[0].removeprefix("error: ")
        sys.stderr.write(f"{_going_on}: warning: {why}; jobs go on as they were configured before\n")
    return _of_controller(told)


def _of_controller(told: dict[str, Any]) -> _Settled:
    """The clusters that a controller has told."""
    from shim.control import kept_cluster
    from shim.core.model.cluster import Cluster

    made = [Cluster.from_dict(one) for one in told["clusters"]]
    return _Settled(_short(made, told["grammar"], []), marshal.dumps([kept_cluster.pack(one) for one in made]))


def _makers() -> tuple[tuple[Any, ...], ...]:
    package = os.path.dirname(os.path.dirname(__file__))
    return tuple([sources.inode_stamp(f"{package}/{name}") for name in _MAKERS])


def cluster(name: str | None = None) -> Cluster:
    """The cluster of that name, or the default one. Raises ShimError with Slurm's text for an unknown name."""
    found = clusters()
    if name is None:
        return found[0]
    for one in found:
        if one.name == name:
            return one
    raise unknown(name, found[0])


def unknown(name: str, default: Cluster) -> ShimError:
    """Slurm's text for ``-M`` with a name that is no cluster; without accounting there is no database of clusters to ask."""
    return ShimError(
        f"error: No cluster '{name}' known by database."
        if default.accounting
        else "error: Problem talking to database",
        f"error: '{name}' {UNREACHABLE}, or it is an invalid entry for --cluster.  "
        "Use 'sacctmgr list clusters' to see available clusters.",
    )


def _path() -> str:
    return os.path.join(paths.state_dir(), "site.cache")


def _kept(wanted: tuple[Any, ...]) -> _Settled | None:
    """What the file has for this stamp."""
    try:
        paths.refuse_others()
        found = marshal.loads(_read(_path()))
        if not isinstance(found, tuple) or len(found) != 4 or found[0] != wanted:
            return None
        _stamp, more, short, packed = found
        if any(sources.file_stamp(one[0]) != one for one in more):
            return None
        return _Settled(short, packed)
    except (OSError, ValueError, EOFError, TypeError, paths.NotOurs):
        return None


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = os.fstat(file).st_size
        data = os.read(file, size)
        while len(data) < size:  # a read ends after two gigabytes, or at a signal
            piece = os.read(file, size - len(data))
            if not piece:
                break
            data += piece
        return data
    finally:
        os.close(file)


def _resolve() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The answers to short questions, among them the further files that the clusters depend on, and the clusters."""
    from shim.control import config, kept_cluster, machine, shape, site_options, slurm_conf
    from shim.control.backends.slurm import programs

    settings = config.load()
    mode = "none"
    if any("backend" not in words or words["backend"].value == "local" for words in settings.clusters.values()):
        mode, _why = probe()
    made = shape.clusters(settings, machine.this_machine(), mode)
    confs = [words["slurm_conf"].value for words in settings.clusters.values() if "slurm_conf" in words]
    more = [path for conf in confs if conf for path in slurm_conf.files(conf)]
    for one in made:
        if one.backend == "slurm":
            more.extend(programs.confs(os.environ, one.settings.get("conf", "")))
    short = _short(made, site_options.grammar(settings).to_dict(), more)
    return short, [kept_cluster.pack(one) for one in made]


def _short(made: Sequence[Cluster], grammar: dict[str, Any], files: list[str]) -> dict[str, Any]:
    """What short questions are answered from."""
    from shim.core.admission import partition_rules

    return {
        "refs": [_ref(one) for one in made],
        "grammar": grammar,
        "restricted": {one.name: partition_rules.restricted_partitions(one) for one in made},
        "backends": {one.name: one.backend for one in made},
        "files": files,
    }


def probe() -> tuple[str, str]:
    """How node names are made to resolve on this machine (isolation.py), tried out now. Its files stay in the state folder: who is killed
    meanwhile leaves nothing that the next one would not use.
    """
    from shim.job.agent import isolation

    try:
        return isolation.probe(f"{paths.ensure(paths.state_dir())}/probe")
    except (OSError, paths.NotOurs):
        return isolation.probe()


def _keep(*parts: Any) -> None:
    try:
        path = _path()
        mine = f"{path}.{os.getpid()}"
        paths.ensure(os.path.dirname(path))
        with open(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            marshal.dump(parts, file)
        os.replace(mine, path)
    except (OSError, paths.NotOurs):
        pass  # a read-only or full home, or not our own: it is resolved again next time
