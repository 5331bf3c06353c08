"""`shim completion`: what a shell needs to complete the commands' options, and partitions, nodes and jobs as they are now.

Options come from the rows. The rest is asked of sinfo and squeue when it is wanted: they read the index and wait for nobody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from shim.admin.completion import bash, fish, zsh
from shim.admin.completion.offered import SHELLS, Offered, offered
from shim.core.errors import ShimError

_LINES: dict[str, Callable[[Sequence[Offered]], Iterator[str]]] = {
    "bash": bash.lines,
    "fish": fish.lines,
    "zsh": zsh.lines,
}


def script(shell: str | None, shim: object) -> str:
    """The completion for a shell, the one that runs this if None is named. ShimError for one that there is none for.

    ``shim``: the commands of `shim`, as Typer knows them.
    """
    if shell is None:
        shell = _running()
    if shell not in SHELLS:
        raise ShimError(f'error: completion: there is none for "{shell}"; known are {", ".join(SHELLS)}')
    return "".join(line + "\n" for line in _LINES[shell](list(offered(shim))))


def _running() -> str:
    import shellingham  # type: ignore[import-untyped]  # the wheel's build makes the scripts without it

    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        return os.path.basename(os.environ.get("SHELL", ""))
