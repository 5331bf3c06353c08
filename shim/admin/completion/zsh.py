"""Completion for zsh: to be sourced, or a file of $fpath."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from shim.admin.completion.offered import SUBMITTING, Choice, Offered
from shim.core.options.getopt import FLAG, OPTIONAL

# A list's last item is completed: what is before it stays.
_FUNCTION = """
_shim_ask() {
  local -a found
  found=(${=$("$@" 2>/dev/null)})
  compset -P '*,'
  compadd -- $found
}
_shim() {
  local command=${words[1]:t} word
  if [[ $command == shim ]]; then
    for word in "${(@)words[2,CURRENT-1]}"; do
      (( $+functions[_shim_of_${command// /_}_$word] )) || continue
      command+=" $word"
      shift words
      (( CURRENT-- ))
    done
  fi
  _shim_of_${command// /_}
}
"""
# What follows the options of the commands that run something: the first word ends the options.
_RUN = {
    "sbatch": ("(-)1:script:_files", "*::arguments:_files"),
    "srun": ("(-)1:command:_command_names -e", "*::arguments:_normal"),
    "salloc": ("(-)1:command:_command_names -e", "*::arguments:_normal"),
}


def lines(commands: Sequence[Offered]) -> Iterator[str]:
    """The script."""
    programs = " ".join(one.command for one in commands if " " not in one.command)
    yield f"#compdef {programs}"
    yield "# Completion of the Slurm commands; made by `shim completion zsh`."
    yield _FUNCTION.strip("\n")
    for one in commands:
        yield f"_shim_of_{one.command.replace(' ', '_')}() {{"
        yield "  _arguments -s -S" + "".join(f" \\\n    {shlex.quote(word)}" for word in _specs(one))
        yield "}"
    yield f'if [[ ${{funcstack[1]-}} == _shim ]]; then _shim "$@"; else compdef _shim {programs}; fi'


def _specs(one: Offered) -> Iterator[str]:
    for option in one.options:
        yield from _option(option)
    if one.command in SUBMITTING:
        yield from _RUN[one.command]
    elif one.asked:
        yield f"*:word: _shim_ask {one.asked}"
    else:
        yield "*:file:_files"


def _option(option: Choice) -> Iterator[str]:
    """`_arguments` has one word for each spelling; either may be given again, as with getopt_long."""
    told = "[" + re.sub(r"([\[\]:\\])", r"\\\1", option.help) + "]" if option.help else ""
    action = f" _shim_ask {option.asked}" if option.asked else "_default"
    value = "" if option.arity == FLAG else f":value:{action}"
    long, short = {FLAG: ("", ""), OPTIONAL: ("=-", "-")}.get(option.arity, ("=", "+"))
    if option.arity == OPTIONAL:
        value = f":{value}"
    yield f"*{option.long}{long}{told}{value}"
    if option.short:
        yield f"*{option.short}{short}{told}{value}"
