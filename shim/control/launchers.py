"""The folder with our commands that comes first on PATH in every job.

In a checkout that is ``bin``. Of an installed package, pip's own folder must not be it: it holds a Python and whatever else
that environment has, which would hide the user's. So launchers of our own are written into the state folder.
"""

from __future__ import annotations

import os
import shlex
import sys

from shim.control import paths
from shim.dispatch import MODULES, first_line

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_TEXT = """import sys; sys.path.insert(0, {root!a}); sys.argv.insert(1, {name!a}); import shim.main; shim.main.launch()
"""
_SHELL_TEXT = """#!/bin/sh
exec {python} -I -S -X utf8 -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); import shim.main; shim.main.launch()' {root} {name} "$@"
"""


def folder() -> str:
    """The absolute path of the folder; makes it where there is none. OSError if that fails."""
    checkout = os.path.join(ROOT, "bin")
    if os.path.exists(os.path.join(checkout, "sbatch")) and os.path.exists(os.path.join(ROOT, "pyproject.toml")):
        return checkout
    own = os.path.join(paths.state_dir(), "bin")
    paths.ensure(own)
    for name in MODULES:
        _write(os.path.join(own, name), name)
    return own


def _write(path: str, name: str) -> None:
    text = first_line(sys.executable) + _TEXT.format(root=ROOT, name=name)
    if not first_line(sys.executable):
        text = _SHELL_TEXT.format(python=shlex.quote(sys.executable), root=shlex.quote(ROOT), name=name)
    try:
        with open(path) as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755), "w") as file:
        file.write(text)
    os.replace(draft, path)
