"""The first part of srun and salloc: read the options, print the ``-v`` block and warnings, refuse what is not supported."""

from __future__ import annotations

import os
from time import time

from shim.commands.output import say
from shim.commands.submission_context import backend, grammar, gres_names, refuse_container
from shim.core.errors import ShimError
from shim.core.options import srun_salloc, values
from shim.core.options.support import approximations, refuse_unsupported
from shim.job import capped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence, Tuple

    from shim.core.options.srun_salloc import Component


def read_options(program: str, argv: Sequence[str]) -> Tuple[List[Component], str]:
    """Reads the command line and the variables: the components, each with its options and command; and the working directory.

    Raises ShimError with Slurm's text and code, and PrintAndExit for ``--help`` and the like.
    """
    directory, lost = _directory()
    if lost and program != "salloc":
        raise ShimError(lost, code=255)
    said: List[str] = []

    def once(line: str) -> None:
        """Values are read twice: all of them first, then in the order in which they count."""
        if line not in said:
            said.append(line)
            say(program, line)

    context = values.Context(time(), os.getuid(), capped.text, grammar(), gres_names, once)
    components = srun_salloc.settle(program, argv, os.environ, context)
    where = backend(components[0].settings.get("clusters"))
    if lost:
        say(program, lost)
    for one in components:
        if one.notes:
            say(program, *one.notes)
        if one.settings.get("verbose"):
            from shim.core.options.verbose import defined_options

            say(program, *defined_options(one.settings, directory), *approximations(one.settings, where))
        refuse_unsupported(one.settings, where)
        refuse_container(one.settings, where)
    return components, directory


def _directory() -> Tuple[str, str]:
    """The working directory and ""; or "" and the error line."""
    try:
        return os.getcwd(), ""
    except OSError as error:
        return "", f"error: getcwd failed: {error.strerror}"
