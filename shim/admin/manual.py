"""`shim man COMMAND`: manual pages, made of the option rows, as roff.

Only the page of `shim` itself needs more than the standard library (Typer, which knows its commands).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from shim import SLURM_VERSION, __version__
from shim.core.errors import ShimError
from shim.core.options.getopt import Option
from shim.core.options.grammar import NEW, OLD, VERSIONS, Grammar
from shim.core.options.help import synopsis
from shim.core.options.query_options import options_of as query_options_of
from shim.core.options.submit_options import COMMANDS, options_of
from shim.core.options.support import HONOURED, support_of_row
from shim.dispatch import MODULES

# What each command is for; what differs from Slurm where no option says it; the page's first line has the former.
_PURPOSE = {
    "sbatch": ("submit a batch script", "The job runs as one gang: all of its nodes start, or none."),
    "srun": ("run tasks in parallel, in a job or as one", "Except on a real Slurm, an agent on each node of the job starts the tasks; there is no slurmd."),
    "salloc": ("get nodes and run a command, or a shell, with them", "The command runs where salloc runs, as on Slurm."),
    "squeue": ("show jobs that wait or run", "The jobs are those of the index on this machine."),
    "scancel": ("cancel or signal jobs and steps", "Signals reach the tasks through the agents of the job's nodes."),
    "sinfo": ("show partitions and nodes", "Nodes of this machine are virtual; those of Kubernetes are the cluster's."),
    "scontrol": ("show and change jobs, nodes and partitions", "The configuration is that of config.toml (FILES), not a slurm.conf."),
    "sacct": ("show jobs and steps that were", "There is no accounting database: jobs are read from the index on this machine."),
    "sstat": ("show what running steps use", "The agents on the nodes are asked at that moment."),
    "seff": ("show how much of its CPUs and memory a job has used", "The figures are those of sacct."),
    "sprio": ("show the factors of the priorities of jobs", "Clusters but real Slurms have priority/basic, which knows no factors."),
    "sdiag": ("show what the controller has done", "A controller counts from its start, and leaves when it has nothing to do; its passes are the cycles of the main scheduler, and backfill too."),
    "sacctmgr": ("show clusters, users, accounts, associations and QOS", "There is no database: accounts and QOS are those that partitions and jobs name, every user may use each, and no change is possible."),
    "strigger": ("have programs run when something happens", "They run at once, as the user whose jobs the controller runs; a program runs once, or not at all if the controller is killed at that moment."),
    "sshare": ("show the shares of accounts and users", "Clusters but real Slurms have priority/basic: everybody has one share, and no usage counts."),
    "sreport": ("report how clusters were used", "The reports are cluster utilization, user topusage and job sizesbyaccount; they are made of the jobs that are kept (retention), up to this moment."),
    "scrontab": ("keep a table of recurring jobs", "Each entry is a job that waits for its next time, in the controller's time zone; a controller runs as long as there is one, and after a restart of the machine from the next command on."),
    "sbcast": ("copy a file to the nodes of a job", "On this machine the nodes share the files, so there is one copy."),
    "sattach": ("attach to a running step", "What the step has printed before is shown too."),
    "shim": ("look after the Slurm commands of this machine", "Slurm has no such command."),
}  # fmt: skip
_DESCRIPTION = (
    "This {command} takes the command line of Slurm's and prints what that of Slurm {version} prints. Jobs run on this machine, on"
    " Kubernetes, or on a real Slurm, which gets every command line as it is. {differs} An option that cannot have its effect is never"
    " dropped silently: under OPTIONS it says what it does less (approximated), why it has nothing to act on (inert), or that it is"
    " refused."
)
_EXIT = (
    ("0", "Done."),
    ("1", "Refused, or failed; the reason is on standard error. Some commands end with other codes where Slurm's do."),
)
_EXIT_OF = {
    "srun": (
        ("other", "The highest exit code of the tasks; 128 and the signal's number for one that a signal ended."),
    ),
    "salloc": (("other", "The exit code of the command."),),
    "sbatch": (("other", "With --wait: the exit code of the job."),),
}
_FILES = (
    ("/etc/shim/config.toml", "The configuration of this machine."),
    ("~/.config/shim/config.toml", "The configuration of the user, which wins over it; XDG_CONFIG_HOME may move it."),
    ("~/.local/state/shim", "The index of jobs, scripts of active jobs, the controller's log; XDG_STATE_HOME may move it."),
)  # fmt: skip
_ENVIRONMENT = (
    ("SHIM_CONFIG", "A configuration file that wins over those under FILES."),
    ("SHIM_STATE_DIR", "Where the state is kept instead."),
)
_ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}


def page(command: str, shim: object) -> str:
    """The page of a command as roff (man(7)), ASCII. ``shim``: the commands of `shim`, as Typer knows them. ShimError for a command that is none of ours."""
    if command not in MODULES:
        raise ShimError(f'error: man: no command "{command}"; there are {", ".join(MODULES)}')
    return "".join(line + "\n" for line in _page(command, shim))


def show(command: str, shim: object, out: TextIO) -> None:
    """Shows the page with man where that is there and ``out`` is a terminal; else writes its roff."""
    text = page(command, shim)
    if not out.isatty() or shutil.which("man") is None:
        out.write(text)
        return
    with tempfile.TemporaryDirectory(prefix="shim-man-") as folder:
        file = Path(folder) / f"{command}.1"
        file.write_text(text)
        out.flush()
        subprocess.run(["man", "-l", str(file)], check=False)


def _page(command: str, shim: object) -> Iterator[str]:
    purpose, differs = _PURPOSE[command]
    yield '.\\" Made of the option rows by `shim man`; not to be edited.'
    yield f'.TH {command.upper()} 1 "" "slurm\\-shim {_text(__version__)}" "Slurm commands"'
    yield ".SH NAME"
    yield f"{command} \\- {_text(purpose)}"
    yield ".SH SYNOPSIS"
    yield f".B {command}"
    yield line(synopsis(command) if command != "shim" else "COMMAND [OPTIONS] [WORDS...]")
    yield ".SH DESCRIPTION"
    yield line(_DESCRIPTION.format(command=command, version=SLURM_VERSION, differs=differs) if command != "shim" else
                f"Says what is configured, what works, and what becomes of a script. {differs}")  # fmt: skip
    options = [] if command == "shim" else list(_options(command))
    if command == "shim":
        yield ".SH COMMANDS"
        yield from _shim_commands(shim, "")
    else:
        yield ".SH OPTIONS"
        for option, releases in options:
            yield from _option(command, option, releases)
    yield ".SH ENVIRONMENT"
    for option, _ in options:
        for name in option.env:
            yield from _item(_bold(name), f"As --{option.long}; the command line wins.")
    yield from _items(_ENVIRONMENT)
    yield ".SH EXIT STATUS"
    yield from _items((*_EXIT, *_EXIT_OF.get(command, ())))
    yield ".SH FILES"
    yield from _items(_FILES)
    yield ".SH SEE ALSO"
    others = [name for name in sorted(MODULES) if name != command]
    for name in others:
        yield f".BR {name} (1)" + ("," if name != others[-1] else "")


def _options(command: str) -> Iterator[tuple[Option, Sequence[str]]]:
    """The options of a command by name, with the releases that have each."""
    found: dict[str, tuple[Option, list[str]]] = {}
    if command in COMMANDS:
        for release in VERSIONS:
            for option in options_of(command, Grammar(release=release)):
                found.setdefault(option.long, (option, []))[1].append(release)
    else:
        found = {option.long: (option, list(VERSIONS)) for option in query_options_of(command)}
    for name in sorted(found, key=lambda name: (name.lower(), name)):
        yield found[name]


def _option(command: str, option: Option, releases: Sequence[str]) -> Iterator[str]:
    takes = _text(option.row.get("takes", ""))
    name = f"\\fB{_text('--' + option.long)}\\fR{takes}"
    told = [_sentence(option.row.get("help", ""))]
    if option.field != option.long:
        told = [f"The same as --{option.field}."]
    else:
        told.extend(_outcomes(command, option))
    if option.env:
        told.append(f"Set by {', '.join(option.env)}.")
    if len(releases) < len(VERSIONS):
        told.append(f"Since {NEW}." if releases == [NEW] else f"In {OLD} only.")
    if "letter_only" in option.row:
        name = _bold("-" + option.short) + takes.replace("=", " ", 1)
    elif option.short:
        name = f"{_bold('-' + option.short)}, {name}"
    yield from _item(name, " ".join(filter(None, told)))


def _outcomes(command: str, option: Option) -> Iterator[str]:
    """What becomes of the option; nothing where it does what it does on Slurm. Kubernetes is told where it differs."""
    here = support_of_row(option.row)
    if here != (HONOURED, ""):
        yield _sentence(": ".join(filter(None, here)))
    there = support_of_row(option.row, "kubernetes")
    if command in COMMANDS and there != here:
        yield _sentence("On Kubernetes: " + ": ".join(filter(None, there)))


def _shim_commands(group: object, before: str) -> Iterator[str]:
    """The commands of `shim` with their options."""
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from _shim_commands(command, f"{before}{name} ")
            continue
        words = " ".join(one.metavar or one.name.upper() for one in command.params if one.param_type_name == "argument")
        yield from _item(f"{_bold(before + name)} {_text(words)}".rstrip(), " ".join(command.help.split()))
        options = [one for one in command.params if one.param_type_name == "option"]
        if options:
            yield ".RS"
            for one in options:
                yield from _item(", ".join(map(_bold, one.opts)), one.help or "")
            yield ".RE"


def _items(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in entries:
        yield from _item(_bold(name), text)


def _item(head: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield head
    yield line(text)


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fR"


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("." if text and text[-1] != "." else "")


def _text(text: str) -> str:
    """Text that roff shows as it is, inside of a line."""
    return "".join(_ESCAPES.get(one) or (one if one.isascii() else f"\\[u{ord(one):04X}]") for one in text)


def line(text: str) -> str:
    """A line of text, which a first dot does not make a request."""
    return ("\\&" if text[:1] in (".", "'") else "") + _text(text)
