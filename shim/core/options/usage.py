"""``--help``, ``--usage`` and ``--version`` of every command."""

from __future__ import annotations

from shim import SLURM_VERSION
from shim.core.options.option import FLAG, OPTIONAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

    from shim.core.options.grammar import Grammar
    from shim.core.options.option import Option

# The first line of --help, and what --usage ends with. OPTIONS(N): those of the N-th part of a heterogeneous job.
_FIRST = {
    "sbatch": "[OPTIONS(0)...] [ : [OPTIONS(N)...]] script(0) [args(0)...]",
    "srun": "[OPTIONS(0)... [executable(0) [args(0)...]]] [ : [OPTIONS(N)...]] executable(N) [args(N)...]",
    "salloc": "[OPTIONS(0)...] [ : [OPTIONS(N)]] [command(0) [args(0)...]]",
}
_WORDS = {
    "sbatch": "executable [args...]",
    "srun": "executable [args...]",
    "salloc": "[command [args...]]",
    "squeue": "",
    "scancel": "[job_id[_array_id][.step_id]...]",
    "sinfo": "",
    "sacct": "",
    "scontrol": "command [arguments...]",
}
_HELP = ("help", "usage")
# Which options stand under which title; all others under the first one.
_SECTIONS = (
    ("Parallel run options:", ""),
    (
        "Constraint options:",
        "cluster-constraint constraint contiguous exclude mem mincpus no-allocate nodefile nodelist prefer reservation tmp",
    ),
    (
        "Consumable resources related options:",
        "exact exclusive mem-per-cpu oom-kill-step resources resv-ports tres-per-task",
    ),
    (
        "Affinity/Multi-core options:",
        "accel-bind cores-per-socket cpu-bind extra-node-info hint mem-bind ntasks-per-core ntasks-per-socket sockets-per-node"
        " threads-per-core tres-bind",
    ),
    (
        "GPU scheduling options:",
        "cpus-per-gpu gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task mem-per-gpu ntasks-per-gpu"
        " ntasks-per-tres",
    ),
)
_PLUGINS = "Options provided by plugins:"
_PLUGIN = "value|an option of this site"
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
    yield f"Usage: {command} {_FIRST.get(command) or '[OPTIONS...] ' + _WORDS[command]}".rstrip()
    for title, names in _sections(command, [option.field for option in options]):
        yield ""
        yield title
        for option in options:
            if option.long == option.field and option.field in names:
                yield from _entry(option, said)


def _entry(option: Option, said: Dict[str, str]) -> Iterator[str]:
    """One option on a line; where it is too long for its column its text follows it at once."""
    value, _, what = said.get(option.field, _PLUGIN).rpartition("|")
    short = f"-{option.short}, " if option.short else "    "
    left = f"  {short}--{option.long}{_value(option, value)}"
    yield f"{left:<{_COLUMN - 1}} {what}"


def _value(option: Option, value: str) -> str:
    if option.arity == FLAG:
        return ""
    return f"[={value or 'value'}]" if option.arity == OPTIONAL else f"={value or 'value'}"


def _brief(command: str, options: Sequence[Option], said: Dict[str, str]) -> Iterator[str]:
    start = f"Usage: {command} "
    line = start
    for word in _spellings(options, said):
        if len(line) + len(word) > _WIDTH and line.strip():
            yield line.rstrip()
            line = " " * len(start)
        line += word + " "
    yield line.rstrip()
    if _WORDS[command]:
        yield " " * len(start) + _WORDS[command]


def _spellings(options: Sequence[Option], said: Dict[str, str]) -> Iterator[str]:
    """``[-N count]``, ``[-H]``, ``[--mem=size]``, ``[--nice[=value]]``."""
    for option in options:
        if option.long != option.field:
            continue
        value = said.get(option.field, _PLUGIN).rpartition("|")[0]
        if option.short and option.arity != OPTIONAL:
            yield f"[-{option.short}{f' {value}' if option.arity != FLAG else ''}]"
        else:
            yield f"[--{option.long}{_value(option, value)}]"


def _sections(command: str, fields: Sequence[str]) -> List[Tuple[str, Set[str]]]:
    """The titles of ``--help`` with the options under each: Slurm's for the commands that submit, two for the others."""
    from shim.core.options.help_texts import of_slurm

    rest = set(fields) - {*_HELP, "version"}
    last = [("Help options:", set(_HELP)), ("Other options:", {"version"})]
    if command not in ("sbatch", "srun", "salloc"):
        return [("Options:", rest), ("Help options:", {*_HELP, "version"})]
    titled = [(title, set(names.split()) & rest) for title, names in _SECTIONS]
    plugins = rest - set(of_slurm())
    titled[0] = (titled[0][0], rest - plugins - set().union(*(names for _, names in titled)))
    return titled + last[:1] + ([(_PLUGINS, plugins)] if plugins else []) + last[1:]
