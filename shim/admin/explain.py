"""`shim explain [sbatch's options] SCRIPT`: what becomes of each line of a script here, and whether the cluster would take it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from shim.control import site
from shim.core import check, script
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster
from shim.core.options import values
from shim.core.options.batch import settle
from shim.core.options.merge import read_line
from shim.core.options.option import Option
from shim.core.options.request import job_request
from shim.core.options.support import fate_of, refuse_unsupported
from shim.core.options.verify import verify

Found = Sequence[tuple[Option, str | None]]


def report(argv: Sequence[str], out: TextIO) -> bool:
    """Writes the explanation of ``argv`` (sbatch's options, the script, its arguments); False if it would be refused."""
    found, words = read_line("sbatch", argv)
    if not words:
        raise ShimError("error: no script given")
    data = _bytes_of(words[0])
    script.check(data)
    text = script.text_of(data)
    cluster = site.cluster()
    out.write(f"{words[0]} on cluster {cluster.name} ({cluster.backend}):\n")
    for place, words_, options in _sources(text, words[0], found):
        out.write(f"\n{place}: {words_}\n")
        for option, value in options:
            fate, reason = fate_of(option.field, cluster.backend)
            shown = f"--{option.long}" + (f"={value}" if value is not None else "")
            out.write(f"    {fate:<12} {shown}" + (f": {reason}" if reason else "") + "\n")
    problem = _problem(found, words, text, cluster)
    if problem is None:
        out.write("\nIt would be accepted.\n")
        return True
    out.write("\nIt would be refused:\n")
    for line in problem.lines:
        out.write(f"    {line.lstrip(chr(0))}\n")
    return False


def _bytes_of(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as problem:
        raise ShimError(f"error: Unable to open file {name}") from problem


def _sources(text: str, name: str, found: Found) -> Iterator[tuple[str, str, Found]]:
    """Each directive, variable and the command line: where it stands, its text, its options."""
    for number, words in script.directives(text, name):
        try:
            options, _rest = read_line("sbatch", words)
        except ShimError:
            options = []  # told at the end, in sbatch's words
        yield f"line {number}", "#SBATCH " + " ".join(words), options
    if found:
        yield "command line", " ".join(f"--{option.long}" for option, _ in found), found


def _problem(found: Found, words: Sequence[str], text: str, cluster: Cluster) -> ShimError | None:
    """Why sbatch or the cluster would refuse it; None if they would not."""
    now = time.time()
    context = values.Context(now, os.getuid(), _read)
    try:
        settings = settle(context, found, os.environ, text, words[0])
        verify(settings)
        refuse_unsupported(settings)
        request = job_request(
            settings,
            directory=os.getcwd(),
            umask=0o022,
            name=os.path.basename(words[0]),
            command=os.path.abspath(words[0]),
            arguments=words[1:],
        )
        check.refusals(request, cluster, os.getuid(), int(now))
    except ShimError as problem:
        return problem
    return None


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
