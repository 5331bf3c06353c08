"""The pass-through: a command line that belongs to a real Slurm becomes the real command.

Hot path, and the first thing a command does. Arguments, environment, descriptors, terminal and process stay as they are:
``exec``. Only sbatch is run as a child, so that its answer can be read on the way through (``submitting``); beside salloc
somebody watches for the job's id (``watching``).
"""

from __future__ import annotations

import os

from shim.control import site
from shim.core import routing
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def attempt(program: str, argv: Sequence[str]) -> None:
    """Returns if the command is ours; otherwise the real one has run. ShimError if there is no real one to run."""

    dependency = ""

    def asked() -> tuple[str, str]:
        nonlocal dependency
        from shim.control import command_line

        clusters, partitions, dependency = command_line.routing_options(program, argv)
        if program in routing.SUBMITTING and "," in clusters:
            command_line.refuse_mixed(clusters)
        return clusters, partitions

    route = routing.route(program, argv, os.environ, site.cluster_refs(), asked)
    if route is None:
        return
    if dependency:
        from shim.control import command_line

        command_line.refuse_foreign(dependency, route.ref.name)
    from shim.control.backends.slurm.call import become, made

    try:
        call = made(program, route)
    except ShimError:
        if route.in_job and not route.ref.folder and not any(ref.real for ref in site.cluster_refs()):
            return  # it only looked like a job of a real Slurm: there is none here
        raise
    if program == "sbatch":
        from shim.control.backends.slurm import submitting

        submitting.run(call, route)
    if program == "salloc":
        from shim.control.backends.slurm import watching

        watching.salloc(route, argv)
    become(call)
