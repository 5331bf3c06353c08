"""sshare: the shares of accounts and users. Jobs are ordered by priority/basic, so there is one for each, and no usage counts."""

from __future__ import annotations

import os

from shim.commands import output, real_slurm, site_view
from shim.commands.accounting import listing
from shim.core.accounting import shares
from shim.core.options.query_options import read
from shim.core.render import sacct_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.model.cluster import Cluster
    from shim.core.options.query_options import Values
    from shim.core.render.sacct_table import Column

_PROGRAM = "sshare"
_NAME_WIDTH = 17  # of a name in --helpformat


def main(argv: list[str]) -> int:
    """Runs sshare; its exit code. Words are ignored, as by Slurm's."""
    values, _words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    if "helpformat" in values:
        output.put(sacct_table.help_format(shares.FIELDS, _NAME_WIDTH))
        return 0
    chosen = site_view.chosen_clusters(values.get("clusters"))
    shown = _columns(values)
    if "verbose" in values:
        output.say("", *_told(values))
    header = "noheader" not in values
    real = site_view.real_clusters(chosen)
    if not chosen:
        ours = site_view.site_clusters()
        if not ours:
            return real_slurm.run(_PROGRAM, real[0], argv)
        _show(values, ours[0], shown, header=header)
        return 0
    asked = real_slurm.ClusterQuery(_PROGRAM, argv, real, header=header, each=True) if real else None
    by_name = {one.name: one for one in site_view.site_clusters()}
    return real_slurm.print_by_cluster(
        _PROGRAM, chosen, asked, lambda name: _show(values, by_name[name], shown, header=header), header=header
    )


def _columns(values: Values) -> list[Column]:
    text = values.get("format") or (shares.LONG if "long" in values else shares.DEFAULT)
    if "partition" in values and "format" not in values:
        text = text.replace("User,", "User,Partition,", 1)
    return sacct_table.columns(text, shares.FIELDS, every="")


def _users(values: Values) -> list[str] | None:
    """The users that are shown; None for all."""
    if "all" in values:
        return None
    return values["users"].split(",") if "users" in values else [listing.own_name()]


def _told(values: Values) -> list[str]:
    """-v: what is asked for."""
    users = _users(values)
    accounts = values["accounts"].split(",") if "accounts" in values else None
    lines = ["Users requested:", *(f"\t: {name}" for name in (users if users is not None else ["all"]))]
    return [*lines, "Accounts requested:", *(f"\t: {name}" for name in (accounts or ["all"]))]


def _show(values: Values, cluster: Cluster, shown: Sequence[Column], *, header: bool) -> None:
    rows = []
    if cluster.accounting:
        site = listing.site([cluster])
        accounts = [name.lower() for name in values.get("accounts", "").split(",") if name]
        tres = ["/".join(filter(None, (one["Type"], one["Name"]))) for one in site.tres()]
        rows = shares.rows(site.associations(), tres, accounts, _users(values), alone="Users" in values)
    listing.put(values, shown, rows, header=header)
