"""`shim completion`: what bash needs to complete the commands' options, and partitions, nodes and jobs as they are now.

Options come from the rows. The rest is asked of sinfo and squeue when it is wanted: they read the index and wait for nobody.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import shellingham  # type: ignore[import-untyped]

from shim.core.errors import ShimError
from shim.core.options.getopt import FLAG, Option
from shim.core.options.grammar import Grammar
from shim.core.options.query_options import ROWS
from shim.core.options.query_options import options_of as query_options_of
from shim.core.options.submit_options import options_of

SHELLS = ("bash",)
_ASK = {
    "partitions": "sinfo --noheader --format=%R",
    "nodes": "sinfo --noheader --Node --format=%N",
    "jobs": "squeue --noheader --me --format=%i",
    "steps": "squeue --noheader --me --steps --format=%i",
}
# The options whose values are asked for.
_VALUES = {
    "partition": "partitions",
    "partitions": "partitions",
    "nodelist": "nodes",
    "exclude": "nodes",
    "nodes": "nodes",
    "jobs": "jobs",
    "job": "jobs",
    "jobid": "jobs",
    "steps": "steps",
}
COMMANDS = ("sbatch", "srun", "salloc")  # there --nodes is a number
_OF_JOBS = ("scancel", "sstat", "seff")  # commands whose words are jobs
_FUNCTION = """
_shim_complete() {
  local command=${COMP_WORDS[0]##*/} cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} asked=
  if [[ $cur == = ]]; then
    cur=
  elif [[ $option == = ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
  asked=${_shim_values["$command $option"]-}
  if [[ -z $asked && $cur == -* ]]; then
    COMPREPLY=($(compgen -W "${_shim_options[$command]}" -- "$cur"))
    [[ ${COMPREPLY-} != *= ]] || compopt -o nospace 2>/dev/null
    return
  fi
  [[ -n $asked || $option == -* ]] || asked=${_shim_words[$command]-}
  [[ -z $asked ]] || COMPREPLY=($(compgen -W "$($asked 2>/dev/null)" -- "${cur##*,}"))
  if [[ $cur == *,* ]]; then
    COMPREPLY=("${COMPREPLY[@]/#/${cur%,*},}")
  fi
}
"""


def script(shell: str | None) -> str:
    """The completion for a shell, the one that runs this if None is named. ShimError for one that there is none for."""
    if shell is None:
        try:
            shell = shellingham.detect_shell()[0]
        except shellingham.ShellDetectionFailure:
            shell = os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise ShimError(f'error: completion: there is none for "{shell}"; known are {", ".join(SHELLS)}')
    return "".join(line + "\n" for line in _bash())


def _options(command: str) -> Iterator[Option]:
    table = options_of(command, Grammar()) if command in COMMANDS else query_options_of(command)
    yield from sorted(table, key=lambda option: option.long)


def _bash() -> Iterator[str]:
    commands = (*COMMANDS, *ROWS)
    yield "# Completion of the Slurm commands; made by `shim completion bash`."
    yield "declare -gA _shim_options=("
    for command in commands:
        words = (f"--{one.long}" + ("" if one.arity == FLAG else "=") for one in _options(command))
        yield f'  [{command}]="{" ".join(words)}"'
    yield ")"
    yield "declare -gA _shim_values=("
    for command in commands:
        for option in _options(command):
            kind = _VALUES.get(option.field if option.field in _VALUES else option.long)
            if kind is None or option.arity == FLAG or (option.field == "nodes" and command in COMMANDS):
                continue
            short = [f"-{option.short}"] if option.short and option.long == option.field else []
            for word in (f"--{option.long}", *short):
                yield f'  ["{command} {word}"]="{_ASK[kind]}"'
    yield ")"
    yield f"declare -gA _shim_words=({_words(commands)})"
    yield _FUNCTION.strip("\n")
    yield f"complete -o default -F _shim_complete {' '.join(commands)}"


def _words(commands: tuple[str, ...]) -> str:
    asked = _ASK["jobs"]
    return " ".join(f'[{command}]="{asked}"' for command in commands if command in _OF_JOBS)
