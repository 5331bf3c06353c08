"""The configuration as files and variables say it: read, checked, merged, with the origin of each value.

Order (later wins): /etc/shim/config.toml, $XDG_CONFIG_HOME/shim/config.toml, the file $SHIM_CONFIG names, then variables
SHIM_DEFAULT, SHIM_SLURM_VERSION and SHIM_<CLUSTER>_<WORD> (``SHIM_LOCAL_NODES=2``). An unknown word is an error that names it and the nearest
known one. Not on a hot path: ``site`` keeps the result.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from shim.control import sources
from shim.control.config_words import CLUSTER, TOP, Word, read_licenses, words_of
from shim.core import mail
from shim.core.errors import ShimError
from shim.core.formats import hostlist, sizes, times
from shim.core.formats.lists import comma_list
from shim.core.model.cluster import Cluster, Gres
from shim.core.options.grammar import DEFAULT_RELEASE, VERSIONS
from shim.core.value import Value
from shim.job import capped

RETENTION = Cluster(name="").retention


class ConfigError(ShimError):
    """The configuration cannot be used; says which file and word."""


class Setting(Value):
    """A value and where it came from (a file's path, a variable's name, or "default")."""

    value: Any = None
    origin: str = "default"


class Config(Value):
    """The merged configuration: ``default`` and, per cluster, its words; tables within stay nested dicts of Settings.

    ``nobodys``: no file and no variable says anything of a cluster.
    """

    default: Setting = Setting(value="local")
    slurm_version: Setting = Setting(value=DEFAULT_RELEASE)
    operators: Setting = Setting()
    retention: Setting = Setting(value=RETENTION)
    plugins: dict[str, Setting] = {}
    clusters: dict[str, dict[str, Any]] = {}
    nobodys: bool = False


def load(environ: Mapping[str, str] | None = None) -> Config:
    """Reads and merges everything. Raises ConfigError."""
    env = os.environ if environ is None else environ
    merged: dict[str, Any] = {}
    for path in sources.files(env):
        if sources.unread(path, env):
            continue
        table = _read(path, required=path == env.get("SHIM_CONFIG"))
        if table is not None:
            _merge(merged, _checked(table, (), path))
    clusters = merged.get("clusters", {})
    wanted = env.get("SHIM_DEFAULT") or (merged["default"].value if "default" in merged else "")
    if not clusters and wanted != "local" and sources.implied(env):
        # Nobody's login node is to run jobs itself because our folder came first on PATH.
        origin = f"a real Slurm in {sources.implied(env)}"
        clusters = {"slurm": {"backend": Setting(value="slurm", origin=origin)}}
    default = merged.get("default", Setting(value=next(iter(clusters), "local") if len(clusters) == 1 else "local"))
    if "SHIM_DEFAULT" in env:
        default = Setting(value=env["SHIM_DEFAULT"], origin="SHIM_DEFAULT")
    unnamed = not clusters
    if unnamed:
        clusters = {"local": {}}
    for name, words in clusters.items():
        words.update(_from_environment(name, env))
    if default.value not in clusters:
        known = ", ".join(sorted(clusters))
        how = f'; default = "{known.partition(",")[0]}" names one' if default.origin == "default" else ""
        raise ConfigError(
            f'error: {default.origin}: default "{default.value}" names no cluster; configured: {known}{how}'
        )
    return Config(
        default=default,
        slurm_version=_slurm_version(merged, env),
        operators=merged.get("operators", Setting()),
        retention=merged.get("retention", Setting(value=RETENTION)),
        plugins=merged.get("plugins", {}),
        clusters=clusters,
        nobodys=unnamed and not clusters.get("local"),
    )


def _slurm_version(merged: Mapping[str, Any], env: Mapping[str, str]) -> Setting:
    name = "SHIM_SLURM_VERSION"
    if name in env:
        word = next(word for word in TOP if word.name == "slurm_version")
        return Setting(value=convert(word, env[name], name), origin=name)
    return merged.get("slurm_version", Setting(value=DEFAULT_RELEASE))  # type: ignore[no-any-return]


def _read(path: str, *, required: bool) -> dict[str, Any] | None:
    try:
        return tomllib.loads(capped.kept(path).decode())
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise ConfigError(f'error: SHIM_CONFIG names a file that is not there: "{path}"') from None
        return None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        text = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ConfigError(f"error: {path}: {text}") from problem


def _checked(table: Mapping[str, Any], path: tuple[str, ...], origin: str) -> dict[str, Any]:
    """The table with every value checked, converted and wrapped in a Setting."""
    words = words_of(path)
    if words is None:  # a table of tables (clusters, partitions)
        return {name: _subtable(value, (*path, name), origin) for name, value in table.items()}
    known = {word.name: word for word in words}
    result: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f'; did you mean "{near[0]}"?' if near else f"; known are: {', '.join(sorted(known))}"
            raise ConfigError(f'error: {origin}: unknown word "{".".join((*path, name))}"{hint}')
        word = known[name]
        if name == "node":
            result[name] = [_checked(entry, (*path, name), origin) for entry in _tables(value, path, origin)]
        elif word.type == "table":
            result[name] = _checked(_subtable_of(value, (*path, name), origin), (*path, name), origin)
        else:
            result[name] = Setting(value=convert(word, value, f"{origin}: {'.'.join((*path, name))}"), origin=origin)
    return result


def _subtable(value: object, path: tuple[str, ...], origin: str) -> dict[str, Any]:
    return _checked(_subtable_of(value, path, origin), path, origin)


def _subtable_of(value: object, path: tuple[str, ...], origin: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f'error: {origin}: "{".".join(path)}" must be a table')
    return value


def _tables(value: object, path: tuple[str, ...], origin: str) -> Iterator[dict[str, Any]]:
    if not isinstance(value, list):
        raise ConfigError(f'error: {origin}: "{".".join(path)}.node" must be a list of tables ([[…]])')
    for entry in value:
        yield _subtable_of(entry, (*path, "node"), origin)


def _merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    for name, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _from_environment(cluster: str, env: Mapping[str, str]) -> dict[str, Setting]:
    prefix = "SHIM_" + cluster.upper().replace("-", "_") + "_"
    found = {}
    for word in CLUSTER:
        variable = prefix + word.name.upper()
        if word.type != "table" and variable in env:
            found[word.name] = Setting(value=convert(word, env[variable], variable), origin=variable)
    return found


def convert(word: Word, value: object, where: str) -> object:
    """``value`` as the word's type; text is accepted for every type (variables). Raises ConfigError."""
    try:
        found = _CONVERTERS[word.type](value)
    except (ValueError, TypeError) as problem:
        raise ConfigError(f'error: {where}: bad value "{value}": {_WANTED[word.type]}') from problem
    wanted = ""
    if word.type == "int" and not word.least <= found <= word.most:
        wanted = f"{word.least} to {word.most}"
    elif word.choices:
        found = {one.lower(): one for one in word.choices}.get(found.lower())
        wanted = "" if found else f"{', '.join(word.choices[:-1])} or {word.choices[-1]}"
    if wanted:
        raise ConfigError(f'error: {where}: bad value "{value}": {wanted} is wanted')
    return found


def _int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or int(value) < 0:
        raise ValueError(value)
    return int(value)


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[str(value).lower()]


def _bool_checked(value: object) -> bool:
    try:
        return _bool(value)
    except KeyError as problem:
        raise ValueError(value) from problem


def _minutes(value: object) -> int | None:
    minutes = times.parse_minutes(str(value))
    return None if minutes < 0 else minutes


def _memory(value: object) -> int:
    return sizes.parse_memory(str(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _release(value: object) -> str:
    text = str(value)  # written as a number it is one of TOML's
    if text not in VERSIONS:
        raise ValueError(value)
    return text


def _hosts(value: object) -> str:
    text = ",".join(value) if isinstance(value, list) else _text(value)
    if text:
        hostlist.plain_names(text)
    return text


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return comma_list(value)
    if isinstance(value, list):
        return tuple(_text(part) for part in value)
    raise TypeError(value)


def _gpus(value: object) -> tuple[tuple[str, int], ...]:
    if isinstance(value, (bool, float)):
        raise TypeError(value)
    if isinstance(value, int):
        return (("", _int(value)),)
    kinds = []
    for part in str(value).split(","):
        kind, _, count = part.rpartition(":")
        kinds.append((kind, _int(count)))
    return tuple(kinds)


def _licenses(value: object) -> tuple[Gres, ...]:
    return read_licenses(_text(value))


def _server(value: object) -> str:
    if value != "":
        mail.server(_text(value))
    return _text(value)


def _data(value: object) -> object:
    if not isinstance(value, (dict, list)):
        raise TypeError(value)
    return value


_CONVERTERS: dict[str, Any] = {
    "data": _data,
    "str": _text,
    "int": _int,
    "bool": _bool_checked,
    "minutes": _minutes,
    "memory": _memory,
    "hosts": _hosts,
    "release": _release,
    "words": _words,
    "gpus": _gpus,
    "licenses": _licenses,
    "server": _server,
}
_WANTED = {
    "data": "a table or a list is wanted",
    "str": "a text is wanted",
    "int": "a number from 0 up is wanted",
    "bool": "true or false is wanted",
    "minutes": "a time is wanted: minutes, HH:MM:SS, D-HH or UNLIMITED",
    "memory": "a size is wanted: 4000, 4G",
    "release": f"one of {', '.join(VERSIONS)} is wanted",
    "hosts": "a host list is wanted: n[1-4]",
    "words": "a list of texts is wanted",
    "gpus": 'a number or "type:number" is wanted',
    "licenses": "names with numbers are wanted: matlab:2,ansys:1",
    "server": "HOST or HOST:PORT is wanted",
}
