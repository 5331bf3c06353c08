"""From configuration to the options that sbatch, srun and salloc have at this site."""

from __future__ import annotations

from collections.abc import Iterator

from shim.control.config import Config, ConfigError, Setting
from shim.core.options.getopt import FLAG, OPTIONAL, REQUIRED
from shim.core.options.grammar import Grammar
from shim.core.options.submit_options import options_of


def grammar(config: Config) -> Grammar:
    """The site's options. ConfigError for a plugin's option that cannot be what the configuration says."""
    found = Grammar(
        release=config.slurm_version.value,
        pyxis=config.plugins["pyxis"].value if "pyxis" in config.plugins else False,
    )
    plugins = (*_ignored(config.plugins.get("ignore")), *_mapped(config.plugins.get("map"), found))
    own = {
        option.long
        for command in ("sbatch", "srun", "salloc")
        for option in options_of(command, found.replace(pyxis=False))
    }
    for long, _arity, _target in plugins:
        if long in own:
            raise ConfigError(f'error: plugins: "--{long}" is an option of Slurm itself')
        if not long or not long.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(f'error: plugins: "{long}" is no name of an option')
    return found.replace(plugins=plugins)


def _ignored(setting: Setting | None) -> Iterator[tuple[str, int, str]]:
    """``turbo``, ``uenv=``, ``view[=]``: the name, and whether it takes a value."""
    for text in setting.value if setting else ():
        name = text.removeprefix("--")
        for ending, arity in (("[=]", OPTIONAL), ("=", REQUIRED), ("", FLAG)):
            if name.endswith(ending):
                yield name.removesuffix(ending), arity, ""
                break


def _mapped(setting: Setting | None, known: Grammar) -> Iterator[tuple[str, int, str]]:
    """``edf = "container-image"`` is another name; ``long = "time=2-00:00:00"`` is a flag that stands for a value."""
    if setting is None:
        return
    if not isinstance(setting.value, dict):
        raise ConfigError(f"error: {setting.origin}: plugins.map: a table is wanted")
    for name, target in setting.value.items():
        where = f'error: {setting.origin}: plugins.map: "{name}"'
        meant, equals, _value = str(target).removeprefix("--").partition("=")
        option = next(
            (one for command in ("sbatch", "srun") for one in options_of(command, known) if one.long == meant), None
        )
        if option is None or "early" in option.row:
            raise ConfigError(f'{where}: "{meant}" is no option that it could stand for')
        if equals and option.arity == FLAG:
            raise ConfigError(f"{where}: --{meant} takes no value")
        yield name.removeprefix("--"), FLAG if equals else option.arity, str(target).removeprefix("--")
