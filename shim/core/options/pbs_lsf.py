"""``#PBS`` and ``#BSUB`` directives, said again in sbatch's own options.

Slurm reads them so that scripts of PBS/Torque and LSF can be tried unchanged: after its own lines, those of LSF, else of PBS. Options that have no counterpart are taken and have no effect, as on Slurm.
"""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError
from shim.core.formats import hostlist
from shim.core.formats.integers import strtol
from shim.core.options.getopt import Table, parse
from shim.core.script import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Sequence, Tuple

    from shim.core.options.getopt import Row
else:
    Row = dict

# letter -> long option of sbatch that takes the same value; "" = without effect, "*" = see _pbs
_PBS = {
    "a": "begin",
    "A": "account",
    "c": "",
    "C": "",
    "e": "error",
    "j": "",
    "J": "array",
    "k": "",
    "l": "*",
    "m": "*",
    "M": "mail-user",
    "N": "job-name",
    "o": "output",
    "p": "nice",
    "q": "partition",
    "r": "",
    "S": "",
    "t": "array",
    "u": "",
    "v": "export",
    "W": "*",
}
_PBS_FLAGS = {"h": "hold", "I": "", "V": "", "z": ""}
_BSUB = {
    "c": "chdir",
    "e": "error",
    "J": "job-name",
    "m": "nodelist",
    "M": "mem-per-cpu",
    "n": "ntasks",
    "o": "output",
    "q": "partition",
    "W": "time",
}
_BSUB_FLAGS = {"x": "exclusive"}
# The long spellings, by letter.
_PBS_LONG = {
    "a": "start_time",
    "A": "account",
    "c": "checkpoint",
    "C": "working_dir",
    "e": "error",
    "h": "hold",
    "I": "interactive",
    "j": "join",
    "J": "job_array",
    "k": "keep",
    "l": "resource_list",
    "m": "mail_options",
    "M": "mail_user_list",
    "N": "job_name",
    "o": "out",
    "p": "priority",
    "q": "destination",
    "r": "rerunable",
    "S": "script_path",
    "t": "array",
    "u": "running_user",
    "v": "variable_list",
    "V": "all_env",
    "W": "attributes",
    "z": "no_std",
}
_BSUB_LONG = {
    "c": "cwd",
    "e": "error_file",
    "J": "job_name",
    "m": "hostname",
    "M": "memory_limit",
    "o": "output_file",
    "q": "queue_name",
    "W": "time",
    "x": "exclusive",
}
_MAIL = {"a": "FAIL", "b": "BEGIN", "e": "END", "n": "NONE"}
# resource of -l -> option; of a chunk (select=…) too
_RESOURCES = {
    "walltime": "time",
    "cput": "time",
    "mem": "mem",
    "file": "tmp",
    "ncpus": "mincpus",
    "nice": "nice",
    "select": "nodes",
    "mpiprocs": "ntasks-per-node",
    "mppnodes": "nodelist",
    "proc": "constraint",
}


def foreign_directives(text: str, name: str) -> List[str]:
    """sbatch's words for all ``#BSUB`` lines, or for all ``#PBS`` lines of a script that has none of those.

    They count wherever they stand: Slurm's own end at the first command, these do not. ShimError for one it cannot read.
    """
    for magic, read in (("#BSUB", _bsub), ("#PBS", _pbs)):
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.startswith(magic)]
        if lines:
            # One command line: an option without its value takes the next line's word.
            return read([word for number, line in lines for word in split(line[len(magic) :], name, number)])
    return []


def _found(
    words: Sequence[str], with_value: Dict[str, str], flags: Dict[str, str], long: Dict[str, str]
) -> Iterator[Tuple[str, str]]:
    """Letters and values of a line. Slurm's errors for these differ from those about its own lines."""
    # No name has a blank: what has no long spelling is never found by one.
    table = [Row(name=long.get(letter, f" {letter}"), short=letter, takes="=value") for letter in with_value]
    table += [Row(name=long.get(letter, f" {letter}"), short=letter) for letter in flags]
    try:
        found, left = parse("sbatch", words, Table(table))
    except UsageError as error:
        raise ShimError(error.lines[0], "error: Unrecognized command line parameter ?") from None
    if left:
        raise ShimError(f"error: Invalid argument: {left[0]}")
    for option, value in found:
        yield option.short, value or ""


def _bsub(words: Sequence[str]) -> List[str]:
    result = []
    # The one long name that may have a single dash.
    words = ["--cwd" if word == "-cwd" else word for word in words]
    for letter, value in _found(words, _BSUB, _BSUB_FLAGS, _BSUB_LONG):
        if letter in _BSUB_FLAGS:
            result.append(f"--{_BSUB_FLAGS[letter]}")
        else:
            if letter == "n":
                value = value.rpartition(",")[2]  # the most of a range
            # LSF counts memory in kilobytes.
            unit = "K" if letter == "M" and value.isascii() and value.isdigit() else ""
            result.append(f"--{_BSUB[letter]}={value}{unit}")
    return result


def _pbs(words: Sequence[str]) -> List[str]:
    result: List[str] = []
    for letter, value in _found(words, _PBS, _PBS_FLAGS, _PBS_LONG):
        if letter == "l":
            result += _resources(value)
        elif letter == "m":
            result.append("--mail-type=" + ",".join(_MAIL[mark] for mark in value if mark in _MAIL))
        elif letter == "W":
            result += _attributes(value)
        elif letter in _PBS_FLAGS:
            result += [f"--{_PBS_FLAGS[letter]}"] if _PBS_FLAGS[letter] else []
        elif _PBS[letter]:
            result.append(f"--{_PBS[letter]}={value}")
    return result


def _attributes(text: str) -> List[str]:
    """``-W depend=afterok:5``: of the attributes only the dependency has a counterpart."""
    name, _, value = text.partition("=")
    return [f"--dependency={value}"] if name == "depend" else []


def _resources(text: str) -> List[str]:
    """``-l walltime=1:00:00,nodes=2:ppn=4,mem=4gb`` and ``-l select=2:ncpus=3``."""
    result: List[str] = []
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name == "nodes":
            result += _nodes(value)
        elif name == "naccelerators":
            result.append(f"--gres=gpu:{value}")
        elif name == "accelerator":
            result += ["--gres=gpu:1"] if value.lower() == "true" else []
        elif name == "select":
            result += _chunk(part)
        elif name in _RESOURCES:
            result.append(f"--{_RESOURCES[name]}={value}")
    return result


def _chunk(text: str) -> List[str]:
    found = dict(part.partition("=")[::2] for part in text.split(":"))
    result = [f"--{_RESOURCES[name]}={value}" for name, value in found.items() if name in _RESOURCES]
    cpus, tasks = strtol(found.get("ncpus", ""))[0], strtol(found.get("mpiprocs", ""))[0]
    return result + ([f"--cpus-per-task={cpus // tasks}"] if cpus >= tasks > 0 else [])


def _nodes(text: str) -> List[str]:
    """``2:ppn=4``, names, or both, joined by ``+``: Slurm adds up counts, names and ``ppn`` each for itself."""
    names: List[str] = []
    nodes = per_node = 0
    result: List[str] = []
    for word in text.replace("+", ":").split(":"):
        name, equals, value = word.partition("=")
        if not equals:
            if word.isascii() and word.isdigit():
                nodes += int(word[:9])
            elif word:
                names.append(word)
        elif name == "ppn" and value.isascii() and value.isdigit():
            per_node += int(value[:9])
        elif name == "gpus":
            result.append(f"--gpus-per-node={value}")
    if nodes:
        result.append(f"--nodes={nodes}")
    if names:
        result.append(f"--nodelist={hostlist.fold(names)}")
    if per_node:
        result.append(f"--ntasks={per_node * (nodes or 1)}")
    return result
