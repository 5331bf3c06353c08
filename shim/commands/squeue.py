"""squeue: the jobs that wait and run, from the index alone."""

from __future__ import annotations

import os
import sys
import time

from shim.commands import reading, squeue_view
from shim.commands.squeue_ask import Ask
from shim.core.errors import ShimError
from shim.core.options.query import read

_PROGRAM = "squeue"


def main(argv: list[str]) -> int:
    """Runs squeue; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if reading.answered(_PROGRAM, values):
        return 0
    reading.refuse(_PROGRAM, values)
    if "format" in values and "Format" in values:
        given = read(_PROGRAM, argv, {})[0]
        if "format" in given and "Format" in given:
            raise ShimError("error: -O (--Format) is incompatible with -o (--format)")
        del values["Format" if "format" in given or "Format" not in given else "format"]
    ask = Ask(values, words)
    seconds = None
    if "iterate" in values:
        seconds = reading.interval(values["iterate"])
        if seconds is None:
            raise ShimError(f"error: --iterate={values['iterate']}\n")
    while True:
        code = squeue_view.show(ask, argv)
        if seconds is None:
            return code
        sys.stdout.write("\n")
        sys.stdout.flush()
        time.sleep(seconds)
