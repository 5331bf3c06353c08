"""`shim check SCRIPT…`: what a cluster would make of many scripts, without submitting them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from shim.admin.judge import Verdict, judge, seen
from shim.commands import shapes
from shim.control import site

_INDENT = "    "


def report(scripts: Sequence[str], out: TextIO, cluster: str | None = None) -> bool:
    """Writes the verdict on each script for the cluster of that name (or the default one); False if one would be refused."""
    asked = seen(shapes.current(site.cluster(cluster), "shim"))
    refused = waiting = 0
    for name in scripts:
        verdict = judge([name], asked)
        refused += not verdict.accepted
        waiting += verdict.accepted and verdict.reason is not None
        for line in lines(name, verdict):
            out.write(line + "\n")
    if len(scripts) > 1:
        out.write(f"{len(scripts)} scripts: {refused} would be refused, {waiting} would wait for ever\n")
    return not refused


def lines(name: str, verdict: Verdict) -> Iterator[str]:
    """The verdict in a line, and what there is to say about it below."""
    if verdict.refused:
        yield f"{name}: Slurm would refuse it (exit code {verdict.code})"
    elif verdict.unsupported:
        yield f"{name}: Slurm would accept it, it is refused here"
    elif verdict.reason is not None:
        yield f"{name}: accepted, and would wait for ever ({verdict.reason})"
    else:
        yield f"{name}: accepted"
    for line in (*verdict.refused, *verdict.unsupported, *verdict.warnings):
        # A NUL marks the lines that sbatch prints without its name.
        yield _INDENT + (line[1:] if line.startswith("\0") else f"sbatch: {line}")
    for line in verdict.approximated:
        yield _INDENT + line
