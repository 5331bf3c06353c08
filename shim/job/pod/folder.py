"""The run folder of a pod, made out of what the pod was given, and the command folder beside it."""

from __future__ import annotations

import os
import sys

from shim.core.jsonlite import loads
from shim.dispatch import MODULES, first_line
from shim.job import rawfile
from shim.job.pod.modules import FILE
from shim.job.spec import SCRIPT, RunSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.job.pod.places import Places

STARTED = "started"  # the file that says that user code may have run here
_LAUNCHER = """import sys; sys.argv[1:1] = [{code!a}, {name!a}]
{imports}; import shim.main; shim.main.launch()
"""
_SHELL_LAUNCHER = """#!/bin/sh
exec {python} -I -S -X utf8 -c '{imports}; import shim.main; shim.main.launch()' {code} {name} "$@"
"""
_RELAY = """#!/bin/sh
exec {python} -I -S -c '{imports}; from shim.job.pod.relay import main; main()' {code} {run_dir}
"""
# As boot has done it for the agent.
_FROM_BYTE_CODE = (
    'import sys; from marshal import loads; code = sys.argv.pop(1); stock = loads(open(code + "/modules", "rb", 0).read()); '
    'names = {}; exec(loads(stock[0]["shim.job.pod.modules"][1]), names); names["install"](stock, code)'
)
_FROM_SOURCES = 'import sys; sys.path.insert(0, sys.argv.pop(1) + "/tree")'
_MODES = {"spec.json": 0o600, SCRIPT: 0o700}
_SECRETS = ("environment.json", "key")  # they stay in the Secret's memory: the run folder is on a node's disk


class StartedBefore(Exception):
    """This pod's run folder shows that its part of the run was started once already."""


def prepare(places: Places) -> tuple[RunSpec, str]:
    """The run's spec and its folder, made and filled. OSError or ValueError that says what is wrong with the pod.

    Raises StartedBefore where a container of this pod has started its part before.
    """
    given = rawfile.read(f"{places.ticket}/spec.json")
    # Our commands are where this pod has them, whatever the submitting machine thinks.
    spec = RunSpec.from_dict(loads(given)).replace(commands=places.commands)
    run_dir = places.run_dir(spec.name)
    if os.path.exists(f"{run_dir}/{STARTED}"):
        raise StartedBefore(spec.name)
    os.makedirs(run_dir, 0o700, exist_ok=True)
    for name, mode in _MODES.items():
        if name != SCRIPT or spec.script:
            rawfile.write(f"{run_dir}/{name}", rawfile.read(f"{places.ticket}/{name}"), mode)
    for name in _SECRETS:
        if os.path.lexists(f"{run_dir}/{name}"):
            os.unlink(f"{run_dir}/{name}")  # of a container of this pod before
        os.symlink(f"{places.ticket}/{name}", f"{run_dir}/{name}")
    _write_commands(places, run_dir)
    return spec, run_dir


def mark_started(run_dir: str) -> None:
    """User code may run from here on. FileExistsError: it may have before."""
    os.close(os.open(f"{run_dir}/{STARTED}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _write_commands(places: Places, run_dir: str) -> None:
    os.makedirs(places.commands, 0o755, exist_ok=True)
    python = quoted(sys.executable)
    imports = _FROM_BYTE_CODE if os.path.exists(f"{places.code}/{FILE}") else _FROM_SOURCES
    for name in MODULES:
        if name != "shim":
            text = first_line(sys.executable) + _LAUNCHER.format(imports=imports, code=places.code, name=name)
            if not first_line(sys.executable):
                text = _SHELL_LAUNCHER.format(python=python, imports=imports, code=quoted(places.code), name=name)
            rawfile.write(f"{places.commands}/{name}", text.encode(), 0o755)
    relay = _RELAY.format(python=python, imports=imports, code=quoted(places.code), run_dir=quoted(run_dir))
    rawfile.write(places.relay, relay.encode(), 0o755)


def quoted(text: str) -> str:
    """``text`` as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"
