"""`shim config`: the configuration in force, as TOML that could be written to a file, with origins as comments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from shim.control import config as configuration
from shim.control.config_words import CLUSTER, PARTITION, PLUGINS, POD, show_licenses


def report(out: TextIO, *, origin: bool) -> None:
    """Writes every word of every cluster: the set ones, and the defaults."""
    found = configuration.load()
    _line(out, "default", found.default.value, found.default.origin, origin)
    _line(out, "slurm_version", found.slurm_version.value, found.slurm_version.origin, origin)
    if found.operators.value is not None:
        _line(out, "operators", found.operators.value, found.operators.origin, origin)
    _line(out, "retention", found.retention.value, found.retention.origin, origin)
    out.write("\n[plugins]\n")
    for word in PLUGINS:
        known = found.plugins.get(word.name)
        _line(out, word.name, known.value if known else word.default, known.origin if known else "default", origin)
    for name, words in found.clusters.items():
        out.write(f"\n[clusters.{name}]\n")
        backend = words["backend"].value if "backend" in words else "local"
        conf = words["slurm_conf"].value if "slurm_conf" in words else ""
        for word in CLUSTER:
            if word.type == "table" or backend not in word.backends:
                continue
            setting = words.get(word.name)
            if conf and setting is None and not word.with_slurm_conf:
                continue  # that file says it
            value = setting.value if setting else word.default
            _line(out, word.name, value, setting.origin if setting else "default", origin)
        if conf:
            out.write(
                "# nodes, partitions and limits: as slurm_conf has them; `sinfo` and `scontrol show config` show them\n"
            )
            continue
        for entry in words.get("node", ()):
            out.write(f"\n[[clusters.{name}.node]]\n")
            _settings(out, entry, origin)
        implied: dict[str, Any] = {} if backend == "slurm" else {"debug": {}}
        for partition, table in (words.get("partitions") or implied).items():
            out.write(f"\n[clusters.{name}.partitions.{partition}]\n")
            for word in PARTITION:
                setting = table.get(word.name)
                if backend not in word.backends or (setting is None and word in POD):
                    continue  # what a partition does not say of its pods, its cluster says
                value = setting.value if setting else word.default
                _line(out, word.name, value, setting.origin if setting else "default", origin)


def _settings(out: TextIO, table: Mapping[str, Any], origin: bool) -> None:
    for name, setting in table.items():
        _line(out, name, setting.value, setting.origin, origin)


def _line(out: TextIO, name: str, value: object, source: str, origin: bool) -> None:
    comment = f"  # {source}" if origin else ""
    if value is None:
        out.write(f"# {name} is not set{comment}\n")
    else:
        out.write(f"{name} = {_toml(name, value)}{comment}\n")


def _toml(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if name == "gpus" and isinstance(value, tuple):
        return '"' + ",".join(f"{kind}:{count}" if kind else str(count) for kind, count in value) + '"'
    if name == "licenses" and isinstance(value, tuple):
        return f'"{show_licenses(value)}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml('', key)} = {_toml('', item)}" for key, item in value.items()) + " }"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml("", item) for item in value) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
