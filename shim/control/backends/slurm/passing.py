"""The pass-through: a command line that belongs to a real Slurm becomes the real command.

Hot path, and the first thing a command does. Arguments, environment, descriptors, terminal and process stay as they are:
``exec``. Only sbatch is run as a child, so that its answer can be read on the way through (``submitting``); beside salloc
somebody watches for the job's id (``watching``).
"""

from __future__ import annotations

import os

from shim.control import site
from shim.control.backends.slurm import guard, programs
from shim.control.backends.slurm.call import Call, become
from shim.core import routing
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from shim.core.routing import Route


def attempt(program: str, argv: Sequence[str]) -> None:
    """Returns if the command is ours; otherwise the real one has run. ShimError if there is no real one to run."""

    dependency = ""

    def asked() -> tuple[str, str]:
        nonlocal dependency
        from shim.control import asking

        clusters, partitions, dependency = asking.asked(program, argv)
        if program in routing.SUBMITTING and "," in clusters:
            asking.refuse_mixed(clusters)
        return clusters, partitions

    route = routing.route(program, argv, os.environ, site.places(), asked)
    if route is None:
        return
    if dependency:
        from shim.control import asking

        asking.refuse_foreign(dependency, route.place.name)
    try:
        call = made(program, route)
    except ShimError:
        if route.in_job and not route.place.folder and not any(place.real for place in site.places()):
            return  # it only looked like a job of a real Slurm: there is none here
        raise
    if program == "sbatch":
        from shim.control.backends.slurm import submitting

        submitting.run(call, route)
    if program == "salloc":
        from shim.control.backends.slurm import watching

        watching.salloc(route, argv)
    become(call)


def follow(program: str, route: Route) -> NoReturn:
    """Makes this process the real command that answers this route. ShimError if there is none."""
    become(made(program, route))


def made(program: str, route: Route) -> Call:
    """The call of the real program that answers this route. ShimError if there is none."""
    before = guard.tried(os.environ)
    path, kind = programs.find(program, route.place.folder, os.environ.get("PATH", ""), before)
    environment = _environment()
    for name in route.dropped:
        del environment[name]
    if route.place.conf and not route.in_job:
        environment["SLURM_CONF"] = route.place.conf
    if kind == programs.SCRIPT:
        environment[guard.VARIABLE] = guard.value(environment, [*before, path])
    return Call(path, [program, *route.argv], environment)


def _environment() -> dict[str, str]:
    """The caller's environment: without the LC_CTYPE that Python sets for itself in the C locale, and without our guard."""
    environment = dict(os.environ)
    environment.pop(guard.VARIABLE, None)
    if environment.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        try:
            with open("/proc/self/environ", "rb") as file:
                if not any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0")):
                    del environment["LC_CTYPE"]
        except OSError:
            pass  # then it stays, and says what most machines say anyway
    return environment
