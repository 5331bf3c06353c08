"""``--help``, ``--usage`` and ``--version`` of every command."""

from __future__ import annotations

from shim import SLURM_VERSION
from shim.core.options.option import FLAG, OPTIONAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, Optional, Sequence

    from shim.core.options.grammar import Grammar
    from shim.core.options.option import Option

_WORDS = {
    "sbatch": "script [arguments...]",
    "srun": "program [arguments...]",
    "salloc": "[command [arguments...]]",
    "squeue": "",
    "scancel": "[job_id[_array_id][.step_id]...]",
    "sinfo": "",
    "sacct": "",
    "scontrol": "command [arguments...]",
}
_PLUGIN = "value|an option of this site"
_LAST = ("help", "usage", "version")
_COLUMN = 30
_WIDTH = 78


def text_for(command: str, what: str, grammar: Optional[Grammar] = None) -> str:
    """The text of ``--help``, ``--usage`` or ``--version`` (``what`` without dashes), with its final newline."""
    if what == "version":
        return f"slurm {grammar.version if grammar else SLURM_VERSION}\n"
    options = _options(command, grammar)
    from shim.core.options.help_texts import texts

    said = texts(command)
    lines = list(_brief(command, options, said) if what == "usage" else _long(command, options, said))
    return "\n".join(lines) + "\n"


def completions(options: Sequence[Option], start: str) -> str:
    """What ``--autocomplete=start`` prints: the long options that begin so, one a line, with ``=`` where a value follows."""
    names = [f"--{option.long}{'=' if option.arity != FLAG else ''}" for option in options]
    return "".join(f"{name}\n" for name in sorted(names) if name.startswith(start))


def _options(command: str, grammar: Optional[Grammar]) -> Sequence[Option]:
    if command in ("sbatch", "srun", "salloc"):
        from shim.core.options.table_submit import options_of

        return options_of(command, grammar).options
    from shim.core.options.table_query import options_of as query_options_of

    return query_options_of(command).options


def _long(command: str, options: Sequence[Option], said: Dict[str, str]) -> Iterator[str]:
    yield f"Usage: {command} [OPTIONS...] {_WORDS[command]}".rstrip()
    yield ""
    yield "Options:"
    for option in options:
        if option.long == option.field and option.field not in _LAST:
            yield from _entry(option, said)
    yield ""
    yield "Help options:"
    for option in options:
        if option.long in _LAST:
            yield from _entry(option, said)


def _entry(option: Option, said: Dict[str, str]) -> Iterator[str]:
    """One option on a line; its text on the next line where the option is too long."""
    value, _, what = said.get(option.field, _PLUGIN).rpartition("|")
    short = f"-{option.short}, " if option.short else "    "
    left = f"  {short}--{option.long}{_value(option, value)}"
    if len(left) + 2 > _COLUMN:
        yield left
        left = ""
    yield f"{left:<{_COLUMN}}{what}"


def _value(option: Option, value: str) -> str:
    if option.arity == FLAG:
        return ""
    return f"[={value or 'value'}]" if option.arity == OPTIONAL else f"={value or 'value'}"


def _brief(command: str, options: Sequence[Option], said: Dict[str, str]) -> Iterator[str]:
    start = f"Usage: {command} "
    line = start
    for word in [*_spellings(options, said), *_WORDS[command].split()]:
        if len(line) + len(word) > _WIDTH and line.strip():
            yield line.rstrip()
            line = " " * len(start)
        line += word + " "
    yield line.rstrip()


def _spellings(options: Sequence[Option], said: Dict[str, str]) -> Iterator[str]:
    for option in options:
        if option.long == option.field:
            value = said.get(option.field, _PLUGIN).rpartition("|")[0]
            yield (
                f"[-{option.short}]"
                if option.short and not option.arity
                else f"[--{option.long}{_value(option, value)}]"
            )
