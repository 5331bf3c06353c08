"""What is completed: the commands, their options, and whom to ask for values and words. The same for every shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from shim.core.options.getopt import FLAG, OPTIONAL, REQUIRED, Option
from shim.core.options.grammar import Grammar
from shim.core.options.query_options import ROWS
from shim.core.options.query_options import options_of as query_options_of
from shim.core.options.submit_options import options_of

SHELLS = ("bash", "fish", "zsh")
SUBMITTING = ("sbatch", "srun", "salloc")  # there --nodes is a number
_JOBS = "squeue --noheader --me --format=%i"
_STEPS = "squeue --noheader --me --steps --format=%i"
_NODES = "sinfo --noheader --Node --format=%N"
_PARTITIONS = "sinfo --noheader --format=%R"
# The options whose values are asked for.
_VALUES = {
    "partition": _PARTITIONS,
    "partitions": _PARTITIONS,
    "nodelist": _NODES,
    "exclude": _NODES,
    "nodes": _NODES,
    "jobs": _JOBS,
    "job": _JOBS,
    "jobid": _JOBS,
    "steps": _STEPS,
}
# The commands whose words are asked for.
_WORDS = {
    "scancel": _JOBS,
    "sstat": _JOBS,
    "seff": _JOBS,
    "sattach": _STEPS,
    "shim why": _JOBS,
    "shim move": _JOBS,
    "shim fetch": _JOBS,
    "shim completion": f"echo {' '.join(SHELLS)}",
    "shim man": f"echo {' '.join((*SUBMITTING, *ROWS, 'shim'))}",
}


class Choice(NamedTuple):
    """An option of a command."""

    long: str  # with its dashes
    short: str  # with its dash; none: ""
    arity: int  # FLAG, REQUIRED, OPTIONAL
    help: str
    asked: str  # the command that prints its values; "": any


class Offered(NamedTuple):
    """A command: what follows it."""

    command: str  # of shim with its own commands: "shim controller stop"
    help: str
    options: list[Choice]
    asked: str  # the command that prints the words that may follow; "": files


def offered(shim: object) -> Iterator[Offered]:
    """All commands, those of Slurm first."""
    for command in (*SUBMITTING, *ROWS):
        table = options_of(command, Grammar()) if command in SUBMITTING else query_options_of(command)
        named = [option for option in table if "letter_only" not in option.row]
        options = [_choice(command, option) for option in sorted(named, key=lambda option: option.long)]
        yield Offered(command, "", options, _WORDS.get(command, ""))
    yield from _of_shim("shim", shim)


def _choice(command: str, option: Option) -> Choice:
    asked = _VALUES.get(option.field if option.field in _VALUES else option.long, "")
    if option.arity == FLAG or (option.field == "nodes" and command in SUBMITTING):
        asked = ""
    told = option.row.get("help", "") if option.long == option.field else f"the same as --{option.field}"
    short = f"-{option.short}" if option.short and option.long == option.field else ""
    return Choice(f"--{option.long}", short, option.arity, told, asked)


def _of_shim(name: str, command: Any) -> Iterator[Offered]:
    below = getattr(command, "commands", {})
    options = [_choice_of_shim(one) for one in command.params if one.param_type_name == "option"]
    told = " ".join((command.help or "").split()).partition(". ")[0].rstrip(".")
    asked = f"echo {' '.join(below)}" if below else _WORDS.get(name, "")
    yield Offered(name, told, options, asked)
    for one, inner in below.items():
        yield from _of_shim(f"{name} {one}", inner)


def _choice_of_shim(one: Any) -> Choice:
    long = next(word for word in one.opts if word.startswith("--"))
    short = next((word for word in one.opts if not word.startswith("--")), "")
    return Choice(long, short, FLAG if one.is_flag else REQUIRED, one.help or "", "")


__all__ = ["FLAG", "OPTIONAL", "REQUIRED", "SHELLS", "SUBMITTING", "Choice", "Offered", "offered"]
