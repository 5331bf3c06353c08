"""`shim explain [-o yaml] [sbatch's options] SCRIPT`: what becomes of each line of a script here, and whether the cluster would take it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from shim.admin.preflight import Found, Options, Verdict, judge, read_script, require_nodes
from shim.commands import site_view
from shim.control import site
from shim.core import script
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster
from shim.core.options import values
from shim.core.options.batch import command_line
from shim.core.options.grammar import Grammar
from shim.core.options.sources import read_line
from shim.core.options.support import support_of
from shim.job import capped


def report(argv: Sequence[str], out: TextIO) -> bool:
    """Writes the explanation of ``argv`` (sbatch's options, the script, its arguments); False if it would be refused."""
    grammar = site.grammar()
    as_yaml = tuple(argv[:2]) == ("-o", "yaml")  # sbatch's own -o may follow
    found, words = command_line(
        argv[2:] if as_yaml else argv, values.Context(time.time(), os.getuid(), capped.text, grammar)
    )
    if not words:
        raise ShimError("error: no script given")
    text = read_script(words[0])
    cluster = site.cluster()
    if as_yaml:
        from shim.admin import manifests

        manifests.report(words, found, text, cluster, out)
        return True
    _explain(words, text, found, cluster, lambda line: out.write(script.printable(line) + "\n"))
    verdict = judge(words, require_nodes(site_view.current(site_view.recorded(cluster), "shim")), found, text)
    for line in _told(verdict):
        out.write(script.printable(line) + "\n")
    return verdict.accepted


def _explain(words: Sequence[str], text: str, found: Found, cluster: Cluster, write: Callable[[str], object]) -> None:
    write(f"{words[0]} on cluster {cluster.name} ({cluster.backend}):")
    for place, words_, options in _sources(text, words[0], found, site.grammar()):
        write("")
        write(f"{place}: {words_}")
        for option, value in options:
            what, reason = support_of(option, cluster.backend)
            shown = f"--{option.long}" + (f"={value}" if value is not None else "")
            write(f"    {what:<12} {shown}" + (f": {reason}" if reason else ""))


def _told(verdict: Verdict) -> Iterator[str]:
    """What would become of the script as a whole, and of lines that are no options of sbatch."""
    yield ""
    for line in (
        *verdict.unread,
        *(f"{one} (refused when it runs)" for one in verdict.failing),
        *verdict.warnings,
        *verdict.folderless,
    ):
        yield line.lstrip("\0")
    if verdict.accepted:
        yield "It would be accepted" + (
            f", and wait for ever: {verdict.reason}." if verdict.reason is not None else "."
        )
        return
    yield "It would be refused:"
    for line in verdict.refused or verdict.unsupported:
        yield "    " + line.lstrip("\0")


def _sources(text: str, name: str, found: Found, grammar: Grammar | None) -> Iterator[tuple[str, str, Options]]:
    """Each directive, variable and the command line: where it stands, its text, its options."""
    for number, words in script.directives(text, name):
        try:
            options, _rest = read_line("sbatch", words, grammar)
        except ShimError:
            options = []  # reported at the end, in sbatch's words
        yield f"line {number}", "#SBATCH " + ("hetjob" if words == [":"] else " ".join(words)), options
    for part in found:
        if part:
            yield "command line", " ".join(f"--{option.long}" for option, _ in part), part
