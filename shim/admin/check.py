"""`shim check [sbatch's options] SCRIPT…`: what a cluster would make of many scripts, without submitting them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from shim.admin.preflight import FAULTS, Found, Verdict, judge, require_nodes
from shim.commands import site_view
from shim.control import site
from shim.core import script
from shim.core.errors import ShimError
from shim.core.formats.lists import comma_list
from shim.core.model.cluster import Cluster
from shim.core.options import values
from shim.core.options.batch import command_line
from shim.job import capped

_INDENT = "    "


FAIL_ON = "refused,waiting,failing"  # what an exit code of 1 is for, unless the user says otherwise


def report(words: Sequence[str], out: TextIO, fail_on: str = FAIL_ON) -> bool:
    """Writes the verdict on each script of ``words``, sbatch's options before them; False if a script has a fault that ``fail_on`` names.

    The cluster is the one that ``-M`` names, or the default one. Raises ShimError for options that sbatch has not.
    """
    grounds = _grounds(fail_on)
    found, scripts, asked = _asked(words)
    faults: list[set[str]] = []
    for name in scripts:
        verdict = judge([name], asked, found)
        faults.append(verdict.faults)
        for line in lines(name, verdict):
            out.write(script.printable(line) + "\n")
    if len(scripts) > 1:
        refused, waiting = (sum(word in one for one in faults) for word in ("refused", "waiting"))
        out.write(f"{len(scripts)} scripts: {refused} would be refused, {waiting} would wait for ever\n")
    return not grounds.intersection(set().union(*faults))


def report_tree(words: Sequence[str], out: TextIO, fail_on: str = FAIL_ON, form: str = "text") -> bool:
    """The same for all batch scripts below the folder that is the last of ``words``, in one of ``tree_report.FORMATS``."""
    from shim.admin import script_tree, tree_report

    grounds = _grounds(fail_on)
    if form not in tree_report.FORMATS:
        raise ShimError(f'error: --format: "{form}" is unknown; known are {", ".join(tree_report.FORMATS)}')
    found, folders, cluster = _asked(words)
    if len(folders) > 1:
        raise ShimError(f'error: -r takes one folder, not also "{folders[1]}"')
    tree = script_tree.check_tree(folders[0], cluster, found)
    out.write(tree_report.FORMATS[form](tree))
    return not grounds.intersection(tree.faults)


def _asked(words: Sequence[str]) -> tuple[Found, Sequence[str], Cluster]:
    """The options for sbatch in ``words``, the words behind them, and the cluster that they are for."""
    found, scripts = command_line(words, values.Context(time.time(), os.getuid(), capped.text, site.grammar()))
    if not scripts:
        raise ShimError("error: no script given")
    named = [value for part in found for option, value in part if option.field == "clusters"]
    cluster = site.cluster(named[-1] if named else None)
    return found, scripts, require_nodes(site_view.current(site_view.recorded(cluster), "shim"))


def _grounds(fail_on: str) -> set[str]:
    words = set(comma_list(fail_on))
    if not words.issubset({*FAULTS, "never"}):
        wrong = ", ".join(sorted(words.difference(FAULTS)))
        raise ShimError(f'error: --fail-on: "{wrong}" is unknown; known are {", ".join(FAULTS)}, never')
    return words


def lines(name: str, verdict: Verdict) -> Iterator[str]:
    """The verdict in a line, followed by its reasons."""
    if verdict.refused:
        yield f"{name}: Slurm would refuse it (exit code {verdict.code})"
    elif verdict.unsupported:
        yield f"{name}: Slurm would accept it, it is refused here"
    elif verdict.reason is not None:
        yield f"{name}: accepted, and would wait for ever ({verdict.reason})"
    else:
        yield f"{name}: accepted"
    for line in (*verdict.refused, *verdict.unsupported, *verdict.warnings, *verdict.folderless):
        # A NUL marks the lines that sbatch prints without its name.
        yield _INDENT + (line[1:] if line.startswith("\0") else f"sbatch: {line}")
    for line in (*verdict.unread, *verdict.approximated):
        yield _INDENT + line
    for line in verdict.failing:
        yield f"{_INDENT}{line} (refused when it runs)"
