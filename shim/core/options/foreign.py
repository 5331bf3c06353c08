"""``#PBS`` and ``#BSUB`` directives, said again in sbatch's own options.

Slurm reads them so that scripts of PBS/Torque and LSF can be tried unchanged. Options that have no counterpart are taken
and have no effect, as on Slurm.
"""

from __future__ import annotations

from shim.core.options.getopt import parse
from shim.core.options.option import FLAG, REQUIRED, Option
from shim.core.script import header, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Sequence, Tuple

# letter -> long option of sbatch that takes the same value; "" = without effect
_PBS = {
    "a": "begin",
    "A": "account",
    "c": "",
    "C": "",
    "e": "error",
    "j": "",
    "J": "array",
    "k": "",
    "l": "l",
    "m": "m",
    "M": "mail-user",
    "N": "job-name",
    "o": "output",
    "p": "p",
    "q": "partition",
    "r": "r",
    "S": "",
    "t": "array",
    "u": "",
    "v": "",
    "W": "W",
}
_PBS_FLAGS = {"h": "hold", "I": "", "V": "", "z": ""}
_BSUB = {
    "c": "time",
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
_MAIL = {"a": "FAIL", "b": "BEGIN", "e": "END", "n": "NONE"}
_RESOURCES = {
    "walltime": "time",
    "mem": "mem",
    "pmem": "mem-per-cpu",
    "file": "tmp",
    "ncpus": "mincpus",
    "nice": "nice",
}


def foreign_directives(text: str, name: str) -> Iterator[Tuple[int, List[str]]]:
    """sbatch's words for each ``#PBS`` or ``#BSUB`` line, with its number.

    The first of the two systems that the script mentions is the one that is read. UsageError for an unknown option.
    """
    magic = ""
    for number, line in header(text):
        for known in ("#PBS", "#BSUB"):
            if not magic and line.startswith(known):
                magic = known
        if magic and line.startswith(magic):
            words = split(line[len(magic) :], name, number)
            yield number, _pbs(words) if magic == "#PBS" else _bsub(words)


def _table(with_value: Dict[str, str], flags: Dict[str, str]) -> List[Option]:
    return [Option("", letter, REQUIRED, field=word or letter) for letter, word in with_value.items()] + [
        Option("", letter, FLAG, field=word or letter) for letter, word in flags.items()
    ]


def _found(words: Sequence[str], table: List[Option]) -> Iterator[Tuple[str, str]]:
    for option, value in parse("sbatch", words, table)[0]:
        yield option.short, value or ""


def _bsub(words: Sequence[str]) -> List[str]:
    result = []
    for letter, value in _found(words, _table(_BSUB, _BSUB_FLAGS)):
        result.append(f"--{_BSUB[letter]}={value}" if letter in _BSUB else f"--{_BSUB_FLAGS[letter]}")
    return result


def _pbs(words: Sequence[str]) -> List[str]:
    result: List[str] = []
    for letter, value in _found(words, _table(_PBS, _PBS_FLAGS)):
        if letter == "l":
            result += _resources(value)
        elif letter == "m":
            types = [_MAIL[mark] for mark in value if mark in _MAIL]
            result += [f"--mail-type={','.join(types)}"] if types else []
        elif letter == "p":
            # PBS priorities rise with urgency, Slurm's nice falls.
            digits = value[1:] if value.startswith("-") else value
            if digits.isascii() and digits.isdigit() and len(digits) < 6:
                result.append(f"--nice={-int(value)}")
        elif letter == "r":
            result.append("--no-requeue" if value.lower().startswith("n") else "--requeue")
        elif letter == "W":
            result += _attributes(value)
        elif letter in _PBS_FLAGS:
            result += [f"--{_PBS_FLAGS[letter]}"] if _PBS_FLAGS[letter] else []
        elif _PBS[letter]:
            result.append(f"--{_PBS[letter]}={value}")
    return result


def _attributes(text: str) -> List[str]:
    """``-W depend=afterok:5,umask=027``: only the dependency has a counterpart."""
    name, _, value = text.partition("=")
    return [f"--dependency={value}"] if name == "depend" else []


def _resources(text: str) -> List[str]:
    """``-l walltime=1:00:00,nodes=2:ppn=4,mem=4gb``."""
    result: List[str] = []
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name == "nodes":
            result += _nodes(value)
        elif name in _RESOURCES:
            result.append(f"--{_RESOURCES[name]}={value}")
    return result


def _nodes(text: str) -> List[str]:
    """``2:ppn=4`` or names, joined by ``+``: a node count or a node list, and ``ppn`` tasks on each node if any says so."""
    names: List[str] = []
    nodes = tasks = 0
    shared = False
    for part in text.split("+"):
        head, *properties = part.split(":")
        ppn = "".join(word[4:] for word in properties if word.startswith("ppn="))
        is_count = head.isascii() and head.isdigit()
        count = int(head[:9]) if is_count else 1
        nodes += count
        if not is_count:
            names.append(head)
        if ppn.isascii() and ppn.isdigit():
            shared = True
            count *= int(ppn[:9])
        tasks += count
    result = [f"--nodelist={','.join(names)}"] if names else [f"--nodes={nodes}"]
    return [*result, f"--ntasks={tasks}"] if shared else result
