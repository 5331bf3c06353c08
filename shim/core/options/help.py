"""``--help``, ``--usage`` and ``--version`` of every command."""

from __future__ import annotations

from shim import SLURM_VERSION
from shim.core.options.getopt import FLAG, OPTIONAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Sequence, Tuple

    from shim.core.options.getopt import Option, Table
    from shim.core.options.grammar import Grammar

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
    "sstat": "",
    "seff": "jobid",
    "sprio": "",
    "sdiag": "",
    "sacctmgr": "[command [arguments...]]",
    "sshare": "",
    "strigger": "",
    "sreport": "[report [arguments...]]",
    "scrontab": "[file]",
    "sbcast": "SOURCE DEST",
    "sattach": "jobid.stepid",
    "scontrol": "command [arguments...]",
}
_HELP = ("help", "usage")
# The parts of --help of the commands that submit; an option that names none is in the first one.
SECTIONS = {
    "": "Parallel run options:",
    "constraint": "Constraint options:",
    "consumable": "Consumable resources related options:",
    "affinity": "Affinity/Multi-core options:",
    "gpu": "GPU scheduling options:",
}
_PLUGINS = "Options provided by plugins:"
_COLUMN = 30
_WIDTH = 78


def text_for(command: str, what: str, grammar: Optional[Grammar] = None) -> str:
    """The text of ``--help``, ``--usage`` or ``--version`` (``what`` without dashes), with its final newline."""
    if what == "version":
        return f"slurm {grammar.version if grammar else SLURM_VERSION}\n"
    options = [option for option in _table(command, grammar) if option.long == option.field]
    lines = list(_brief(command, options) if what == "usage" else _long(command, options))
    return "\n".join(lines) + "\n"


def completions(options: Table, start: str) -> str:
    """What ``--autocomplete=start`` prints: the long options that begin so, one a line, with ``=`` where a value follows."""
    names = [f"--{option.long}{'=' if option.arity != FLAG else ''}" for option in options]
    return "".join(f"{name}\n" for name in sorted(names) if name.startswith(start))


def spelling(option: Option) -> str:
    """``-t, --time=…`` as pages have it."""
    value = {FLAG: "", OPTIONAL: "[=…]"}.get(option.arity, "=…")
    if "letter_only" in option.row:
        return f"-{option.short}" + (" …" if value else "")
    return (f"-{option.short}, " if option.short else "") + f"--{option.long}{value}"


def synopsis(command: str) -> str:
    """What follows the command's name in the first line of ``--help``."""
    return (_FIRST.get(command) or "[OPTIONS...] " + _WORDS[command]).rstrip()


def _table(command: str, grammar: Optional[Grammar]) -> Table:
    if command in ("sbatch", "srun", "salloc"):
        from shim.core.options.submit_options import options_of

        return options_of(command, grammar)
    from shim.core.options.query_options import options_of as query_options_of

    return query_options_of(command, grammar is not None and grammar.newer)


def _long(command: str, options: Sequence[Option]) -> Iterator[str]:
    yield f"Usage: {command} {synopsis(command)}"
    for title, members in _sections(command, options):
        yield ""
        yield title
        yield from map(_entry, members)


def _entry(option: Option) -> str:
    """One option on a line; where it is too long for its column its text follows it at once."""
    short = f"-{option.short}, " if option.short else "    "
    takes = option.row.get("takes", "")
    letter = "letter_only" in option.row
    left = f"  -{option.short}{takes.replace('=', ' ', 1)}" if letter else f"  {short}--{option.long}{takes}"
    return f"{left:<{_COLUMN - 1}} {option.row['help']}"


def _brief(command: str, options: Sequence[Option]) -> Iterator[str]:
    start = f"Usage: {command} "
    line = start
    for word in map(_in_brief, options):
        if len(line) + len(word) > _WIDTH and line.strip():
            yield line.rstrip()
            line = " " * len(start)
        line += word + " "
    yield line.rstrip()
    if _WORDS[command]:
        yield " " * len(start) + _WORDS[command]


def _in_brief(option: Option) -> str:
    """``[-N count]``, ``[-H]``, ``[--mem=size]``, ``[--nice[=value]]``."""
    takes = option.row.get("takes", "")
    if option.short and option.arity != OPTIONAL:
        return f"[-{option.short}{takes.replace('=', ' ', 1)}]"
    return f"[--{option.long}{takes}]"


def _sections(command: str, options: Sequence[Option]) -> List[Tuple[str, List[Option]]]:
    """The titles of ``--help`` with the options under each: Slurm's for the commands that submit, two for the others."""
    last = [option for option in options if option.long in _HELP]
    version = [option for option in options if option.long == "version"]
    others = [option for option in options if option not in last and option not in version]
    if command not in _FIRST:
        return [("Options:", others), ("Help options:", [one for one in options if one in last or one in version])]
    plugins = [option for option in others if "plugin" in option.row]
    titled = [
        (title, [one for one in others if one not in plugins and one.row.get("section", "") == section])
        for section, title in SECTIONS.items()
    ]
    return [
        *titled,
        ("Help options:", last),
        *([(_PLUGINS, plugins)] if plugins else []),
        ("Other options:", version),
    ]
