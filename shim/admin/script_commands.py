"""The lines of a batch script that call Slurm's commands, found without running the script; and whether each would be refused."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence

from shim.control import site
from shim.core.errors import ShimError, Unsupported
from shim.core.options import srun_salloc, value_parsing, values
from shim.core.options.sources import read_line
from shim.core.options.support import approximations, refuse_unsupported, support_of
from shim.job.container.tools import refuse_without

_COMMANDS = ("srun", "sbatch", "salloc", "scancel", "scontrol", "squeue", "sacct", "sinfo")
_BEFORE = frozenset(
    [
        "!",
        "{",
        "(",
        "if",
        "then",
        "elif",
        "else",
        "do",
        "while",
        "until",
        "time",
        "exec",
        "nohup",
        "command",
        "eval",
        "env",
        "sudo",
        "numactl",
        "nice",
    ]
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_HERE = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_OPERATORS = frozenset("();<>|&")
_NOT_IN_PODS = ("sbatch", "salloc")


class Line:
    """A command in the body: its line ``number``, its ``words``."""

    def __init__(self, number: int, words: Sequence[str]) -> None:
        self.number = number
        self.words = words

    @property
    def program(self) -> str:
        """The command's name."""
        return os.path.basename(self.words[0])


def verdicts(text: str, backend: str) -> tuple[list[str], list[str]]:
    """The errors of lines that would be refused, and the notes on lines that do less here; each begins with ``line 7: srun: ``."""
    refused: list[str] = []
    less: list[str] = []
    for line in commands(text):
        where = f"line {line.number}: {line.program}: "
        if backend == "kubernetes" and line.program in _NOT_IN_PODS:
            refused.append(f"{where}nothing is submitted from inside a pod")
        elif line.program == "srun":
            try:
                less += [where + one for one in _srun(line.words[1:], backend)]
            except value_parsing.PrintAndExit:
                continue
            except ShimError as problem:
                refused.append(where + "; ".join(one.lstrip("\0").removeprefix("error: ") for one in problem.lines))
    return refused, less


def _srun(words: Sequence[str], backend: str) -> list[str]:
    """The options that do less here. Raises ShimError for a refused line. The values of words with a variable are not checked."""
    grammar = site.grammar()
    if not any("$" in word or "`" in word for word in words):
        context = values.Context(time.time(), os.getuid(), lambda _path: "", grammar)
        said: list[str] = []
        for component in srun_salloc.settle("srun", words, {}, context):
            refuse_unsupported(component.settings, backend)
            refuse_without(component.settings, backend)
            said += approximations(component.settings, backend)
        return said
    options, _rest = read_line("srun", words, grammar)
    said = []
    for option, _value in options:
        what, reason = support_of(option, backend)
        if what == "refused":
            raise Unsupported(f"error: --{option.long} is not supported here: {reason}")
        if what == "approximated":
            said.append(f"--{option.long} is approximated here: {reason}")
    return said


def commands(text: str) -> Iterator[Line]:
    """The commands of Slurm that the script's lines call by name."""
    for number, line in _logical(text):
        words = _lexed(line)
        for segment in _segments(words):
            while segment and (segment[0] in _BEFORE or _ASSIGNMENT.match(segment[0])):
                segment = segment[1:]
            if segment and os.path.basename(segment[0]) in _COMMANDS:
                yield Line(number, segment)


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers: continued lines are joined, here-documents are left out."""
    until, begun, number = "", "", 0
    for at, line in enumerate(text.split("\n"), 1):
        if until:
            until = "" if line.strip() == until else until
            continue
        number = number or at
        if line.endswith("\\"):
            begun += line[:-1] + " "
            continue
        whole, begun = begun + line, ""
        yield number, whole
        number = 0
        here = _HERE.search(whole)
        until = here.group(2) if here is not None else ""


def _lexed(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return []  # a quote that another line closes


def _segments(words: Sequence[str]) -> Iterator[list[str]]:
    segment: list[str] = []
    skip = False
    for word in words:
        if word and _OPERATORS.issuperset(word):
            skip = ">" in word or "<" in word  # a file's name follows
            if not skip:
                yield segment
                segment = []
        elif skip:
            skip = False
        else:
            segment.append(word)
    yield segment
