"""What srun and salloc do first: options settled, the ``-v`` block and warnings said."""

from __future__ import annotations

import os
from time import time

from shim.commands.funnel import say
from shim.commands.options_here import backend, grammar
from shim.core.options import direct, values
from shim.core.options.support import approximations, refuse_unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence, Tuple

    from shim.core.options.merge import Settings


def settled(program: str, argv: Sequence[str]) -> Tuple[Settings, List[str], str]:
    """The options of ``program``, the words of the command to run, and the working directory.

    Raises ShimError with Slurm's text and code, and Shown for ``--help`` and the like.
    """
    context = values.Context(time(), os.getuid(), read_text, grammar())
    settings, words, notes = direct.settle(program, argv, os.environ, context)
    if notes:
        say(program, *notes)
    where = backend(settings.get("clusters"))
    directory = os.getcwd()
    if settings.get("verbose"):
        from shim.core.options.dump import defined_options

        say(program, *defined_options(settings, directory), *approximations(settings, where))
    refuse_unsupported(settings, where)
    return settings, words, directory


def read_text(path: str) -> str:
    """A file that an option names; bytes that are no text survive."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
