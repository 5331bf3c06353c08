"""sdiag: what the controller has done since it started."""

from __future__ import annotations

import os

from shim.commands import output, real_slurm, site_view
from shim.core.options.query_options import read
from shim.core.render import statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.options.query_options import Values

_PROGRAM = "sdiag"


def main(argv: list[str]) -> int:
    """Runs sdiag; its exit code. Words are ignored, as by Slurm's."""
    from shim.control import client

    values, _words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    named = site_view.one_cluster(values.get("clusters"))
    real = site_view.real_clusters([named]) if named else []
    if real:
        return real_slurm.run(_PROGRAM, real[0], argv)
    if _last(values, "all", "reset") == "reset":
        client.call("stats", {"reset": True})
        return 0
    order = _last(values, *statistics.ORDERS)
    output.put(statistics.page(client.call("stats"), order, lambda uid: site_view.user_name(uid) or str(uid)))
    return 0


def _last(values: Values, *names: str) -> str:
    """The last of these options that was given: it decides."""
    return next((name for name in reversed([one for one, _ in values.said]) if name in names and name in values), "")
