"""Completion for bash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shim.admin.completion.offered import Offered
from shim.core.options.getopt import FLAG

_FUNCTION = """
_shim_complete() {
  local command=${COMP_WORDS[0]##*/} cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} asked= word
  if [[ $command == shim ]]; then
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
      [[ -z ${_shim_options["$command $word"]+there} ]] || command+=" $word"
    done
  fi
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


def lines(commands: Sequence[Offered]) -> Iterator[str]:
    """The script, to be sourced."""
    yield "# Completion of the Slurm commands; made by `shim completion bash`."
    yield "declare -gA _shim_options=("
    for one in commands:
        words = (option.long + ("" if option.arity == FLAG else "=") for option in one.options)
        yield f'  ["{one.command}"]="{" ".join(words)}"'
    yield ")"
    yield "declare -gA _shim_values=("
    for one in commands:
        for option in one.options:
            for word in (option.long, option.short):
                if option.asked and word:
                    yield f'  ["{one.command} {word}"]="{option.asked}"'
    yield ")"
    yield "declare -gA _shim_words=("
    yield from (f'  ["{one.command}"]="{one.asked}"' for one in commands if one.asked)
    yield ")"
    yield _FUNCTION.strip("\n")
    yield f"complete -o default -F _shim_complete {' '.join(one.command for one in commands if ' ' not in one.command)}"
