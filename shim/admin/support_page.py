"""docs/support.md: every option and what becomes of it, made from the tables that the commands themselves use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shim.core.options.fates_query import ABSENT, QUERY, query_fate
from shim.core.options.grammar import OLD, VERSIONS, Grammar
from shim.core.options.option import Option
from shim.core.options.support import COMMANDS, fate_of, spelling
from shim.core.options.table_query import options_of as query_options_of
from shim.core.options.table_submit import options_of
from shim.dispatch import MODULES

_PREFACE = """\
# What is supported

<!-- Made by `./dev docs` from shim/core/options/. -->

Every option of Slurm's commands, and what becomes of it. None is ignored silently: it is **honoured**;
**approximated** (read, checked and shown; the table says what is missing); **inert** (it has nothing to act on here); or
**refused** with an error that names it. `shim explain SCRIPT` says the same for one script. A cluster with the `slurm` backend
is a real Slurm: it gets every command line as it is.

Of the local backend as a whole: nodes are virtual, share the machine's ports and files, and are not separated by
cgroups ([local-backend.md](local-backend.md)). There is no accounting: account and QOS are recorded and have no limits.
A requeued job waits `requeue_delay` seconds (1; Slurm: 120).

## Levels

`slurm_version` in the configuration says whose options there are: `22.05` (the default) or `25.11`. At 22.05 the newer ones are
unknown and take no part in abbreviations, as on that release; at 25.11 they have their meaning, and those marked "22.05 only"
are gone. `--version` of every command follows (`slurm 22.05.8`, `slurm 25.11.0`), because scripts ask for it to learn which
options they may use. What commands print is that of 22.05 at both levels.
"""
_PLUGINS = """
## Options of plugins

A site's plugins add options of their own. By default they are unknown, as on a Slurm without the plugin. In the configuration:

```toml
[plugins]
pyxis = true                                # the options of the table below
ignore = ["uenv=", "view=", "turbo"]        # accepted without effect; `=`: with a value, `[=]`: with or without one
map = { edf = "container-image", long = "time=2-00:00:00" }    # another name for an option; a flag that stands for a value
```

What is ignored is named by `-v` and `shim explain`. `ignore` and `map` win over `pyxis`, so that scripts made for containers
can be tried where there are none: `ignore = ["container-image=", "container-mounts="]`.
"""


class Row:
    """One option: its spelling, the commands that take it, their variables, and the levels at which it is there."""

    def __init__(self, option: Option) -> None:
        self.option = option
        self.commands: list[str] = []
        self.variables: list[str] = []
        self.levels: list[str] = []

    def line(self) -> str:
        """The row of the table."""
        variables = " ".join(f"`{name}`" for name in self.variables)
        return f"| `{spelling(self.option)}` | {' '.join(self.commands)} | {variables} | {self._fate('local')} | {self._fate('kubernetes')} | {self._note()} |"

    def _fate(self, backend: str) -> str:
        fate, reason = fate_of(self.option.field, backend)
        if backend != "local" and reason == fate_of(self.option.field)[1]:
            reason = ""
        if self.option.field != self.option.long:
            reason = f"the same as --{self.option.field}" if backend == "local" else ""
        return fate + (f": {reason}" if reason else "")

    def _note(self) -> str:
        if len(self.levels) == len(VERSIONS):
            return ""
        return "22.05 only" if self.levels == [OLD] else "25.11"


def rows(pyxis: bool = False) -> list[Row]:
    """Every option of sbatch, srun and salloc at any level, by name; with ``pyxis`` those of that plugin alone."""
    found: dict[tuple[str, str], Row] = {}
    for level in VERSIONS:
        for command in COMMANDS:
            for option in _options(command, level, pyxis):
                row = found.setdefault((option.long, option.short), Row(option))
                _add(row.commands, [command])
                _add(row.levels, [level])
                _add(row.variables, option.env)
    return [found[key] for key in sorted(found)]


def _options(command: str, level: str, pyxis: bool) -> Iterable[Option]:
    table = options_of(command, Grammar(level=level))
    if not pyxis:
        return table
    return [one for one in options_of(command, Grammar(level=level, pyxis=True)) if one.long not in table.by_name]


def _add(seen: list[str], more: Iterable[str]) -> None:
    seen.extend(name for name in more if name not in seen)


def text() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _PREFACE
    yield "## Options of sbatch, srun and salloc"
    yield ""
    yield from _table(rows())
    yield _PLUGINS
    yield from _table(rows(pyxis=True))
    yield from _queries()
    yield "## Commands that are not here"
    yield ""
    yield from (f"* `{name}`: {why}." for name, why in ABSENT.items() if name not in MODULES)


def _queries() -> Iterator[str]:
    """What becomes of the options of the commands that look or act on jobs, the same on every backend of ours."""
    yield ""
    yield "## Options of the other commands"
    yield ""
    yield "| command | option | variables | what becomes of it |"
    yield "| --- | --- | --- | --- |"
    for command in QUERY:
        for option in sorted(query_options_of(command), key=lambda option: option.long):
            if option.long in ("help", "usage", "version"):
                continue
            fate, reason = query_fate(command, option.field)
            if option.field != option.long:
                reason = f"the same as --{option.field}"
            variables = " ".join(f"`{name}`" for name in option.env)
            yield f"| {command} | `{spelling(option)}` | {variables} | {fate}{f': {reason}' if reason else ''} |"
    yield ""


def _table(found: Iterable[Row]) -> Iterator[str]:
    yield "| option | commands | variables | local | kubernetes | level |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in found:
        yield row.line()
