"""`shim init [SCRIPT… | slurm.conf]`: writes the configuration that scripts, or a site, need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

from shim.admin.preflight import requests_of
from shim.control import sources
from shim.control.config import Config
from shim.control.machine import Machine, this_machine
from shim.control.shape import clusters
from shim.core.admission import elastic
from shim.core.errors import ShimError
from shim.core.formats import tres
from shim.core.formats.array_spec import ArraySpec
from shim.core.formats.lists import comma_list
from shim.core.model.cluster import Cluster
from shim.core.model.request import JobRequest
from shim.core.options.plugins import PYXIS
from shim.core.placement import features
from shim.core.placement.gpus import total
from shim.core.placement.resolve import resolve
from shim.core.script import printable

_LARGEST_ARRAY = 4_000_000  # of Slurm's array indexes


def report(given: Sequence[str], out: TextIO, *, show: bool, force: bool) -> None:
    """Writes the configuration file, unless only ``show`` is wanted, and its text to ``out``. Raises ShimError."""
    text = written(given)
    path = os.environ.get("SHIM_CONFIG") or sources.users_file(os.environ)
    if not show:
        _write(path, text, force)
        print(
            f"shim: written to {path}; edit it there (docs/configuration.md), shim check SCRIPT tries it",
            file=sys.stderr,
        )
    out.write(text)


def written(given: Sequence[str]) -> str:
    """The text of a configuration for these scripts, or for the one slurm.conf that is named. Raises ShimError."""
    confs = [path for path in given if _is_slurm_conf(path)]
    if confs:
        if len(given) > 1:
            raise ShimError(f'error: "{confs[0]}" is a slurm.conf: name that alone, or scripts')
        return f"# The shape of the site's own cluster: its nodes, partitions and limits.\n[clusters.local]\nslurm_conf = {_quoted(os.path.abspath(confs[0]))}\n"
    requests = [requests_of([path]) for path in given]
    machine = this_machine()
    return "".join(f"{line}\n" for line in _lines(requests, machine))


def _is_slurm_conf(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            words = [line.partition("=")[0].strip().lower() for line in file.read(1 << 20).splitlines() if "=" in line]
    except OSError as problem:
        raise ShimError(f"error: Unable to open file {path}: {problem.strerror}") from None
    return path.endswith(".conf") or ("clustername" in words and "partitionname" in words)


def _lines(submissions: Sequence[Sequence[JobRequest]], machine: Machine) -> Iterator[str]:
    base = clusters(Config(clusters={"local": {}}, nobodys=True), machine, "namespaces")[0]
    grown = base
    requests = [request for components in submissions for request in components]
    for components in submissions:
        grown = elastic.grown(grown, components)
    yield "[clusters.local]"
    yield f"nodes = {len(grown.nodes)}"
    yield from _sizes(base, grown)
    yield from _gpus(requests, machine)
    named = sorted({name for request in requests for name in _features(request)})
    if named:
        yield f"features = [{', '.join(map(_quoted, named))}]"
    yield from _licenses(requests)
    yield from _arrays(requests)
    yield from _partitions(requests)
    yield from _plugins(requests)


def _sizes(base: Cluster, grown: Cluster) -> Iterator[str]:
    cpus = max(node.cpus for node in grown.nodes)
    if cpus > base.nodes[0].cpus:
        yield f"cpus = {cpus}  # of each node; this machine has {base.nodes[0].cpus}, which jobs share"
    memory = max(node.memory for node in grown.nodes)
    if memory > base.nodes[0].memory:
        yield f'memory = "{memory}M"  # of each node; this machine has {base.nodes[0].memory} MiB'
    disk = max(node.tmp_disk for node in grown.nodes)
    if disk > base.nodes[0].tmp_disk or (disk and cpus > base.nodes[0].cpus):
        yield f'tmp_disk = "{disk}M"'


def _gpus(requests: Sequence[JobRequest], machine: Machine) -> Iterator[str]:
    most, kinds = 0, set()
    for request in requests:
        resolved = resolve(request)
        most = max(
            most,
            total(resolved.node_gpus),
            -(-total(resolved.job_gpus) // max(1, resolved.min_nodes)),
            total(resolved.task_gpus),
        )
        kinds |= {
            kind for demand in (resolved.node_gpus, resolved.job_gpus, resolved.task_gpus) for kind, _ in demand if kind
        }
    if most > machine.gpus or kinds:
        kind = f"{sorted(kinds)[0]}:" if kinds else ""
        pretended = "" if most <= machine.gpus else "  # pretended: no device will be there"
        yield f'gpus = "{kind}{most}"{pretended}'
    if len(kinds) > 1:
        yield f"# The scripts ask for {', '.join(sorted(kinds))}: nodes with other types are tables of their own ([[clusters.local.node]])."


def _features(request: JobRequest) -> list[str]:
    found: list[str] = []
    for text in (request.constraint, request.prefer):
        if text:
            found += features.parse(text).names
    return found


def _licenses(requests: Sequence[JobRequest]) -> Iterator[str]:
    most: dict[str, int] = {}
    for request in requests:
        for name, count in tres.parse_licenses(request.licenses or ""):
            most[name] = max(most.get(name, 0), count)
    if most:
        yield f"licenses = {_quoted(','.join(f'{name}:{count}' for name, count in most.items()))}"


def _arrays(requests: Sequence[JobRequest]) -> Iterator[str]:
    highest = max(
        (ArraySpec.parse(request.array, _LARGEST_ARRAY).last for request in requests if request.array), default=0
    )
    if highest > 1000:
        yield f"max_array_size = {highest + 1}"


def _partitions(requests: Sequence[JobRequest]) -> Iterator[str]:
    names = list(dict.fromkeys(name for request in requests for name in comma_list(request.partition)))
    usual = any(not request.partition for request in requests) and "debug" not in names
    if names == [] or names == ["debug"]:
        return
    for name in (["debug"] if usual else []) + names:
        yield ""
        yield f"[clusters.local.partitions.{_key(name)}]"
        if name == ("debug" if usual or "debug" in names else names[0]):
            yield "default = true"


def _plugins(requests: Sequence[JobRequest]) -> Iterator[str]:
    """Where something is configured, those of pyxis are options only if the configuration says so."""
    known = {row["name"] for row in PYXIS}
    if any(known.intersection(request.container) for request in requests):
        yield ""
        yield "[plugins]"
        yield "pyxis = true"


def _write(path: str, text: str, force: bool) -> None:
    if os.path.exists(path) and not force:
        raise ShimError(
            f'error: "{path}" is there already; --force replaces it, --show only shows what would be written'
        )
    umask = os.umask(0o022)
    os.umask(umask | 0o022)  # what others could write to is not read
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    except OSError as problem:
        raise ShimError(f"error: {path}: {problem.strerror}") from None
    finally:
        os.umask(umask)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain else _quoted(name)


def _quoted(text: str) -> str:
    """As TOML has it. ShimError for what a configuration cannot hold: control characters, and bytes that are no text."""
    if not text.isprintable():
        raise ShimError(f'error: "{printable(text)}" cannot be a name in a configuration')
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
