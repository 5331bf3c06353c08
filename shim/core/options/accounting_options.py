"""The options of the commands that ask Slurm's accounting database: sacctmgr, sreport, sshare (22.05), in Slurm's order. One row each: ``getopt.Row``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    from shim.core.options.getopt import Row

    Rows = Tuple[Row, ...]
else:
    Row = dict


# fmt: off
def sacctmgr() -> Rows:
    """Those of sacctmgr."""
    unchanged = "inert: nothing is changed here"
    return (
        Row(name="associations", short="s", help="the associations of what is listed too"),
        Row(name="help", short="h", help="this text"),
        Row(name="usage", short="h", help="the options in brief"),
        Row(name="immediate", short="i", help="do not ask",
            support="honoured: neither before a listing; changes are refused"),
        Row(name="noheader", short="n", help="no header"),
        Row(name="oneliner", short="o", help="one line for each record",
            support="inert: every record is on one line anyway"),
        Row(name="parsable", short="p", help="fields with a delimiter behind each"),
        Row(name="parsable2", short="P", help="fields with a delimiter between them"),
        Row(name="quiet", short="Q", help="say less",
            support="inert: nothing is said but errors"),
        Row(name="readonly", short="r", help="change nothing", support=unchanged),
        Row(name="verbose", short="v", help="say more",
            support="inert: what Slurm says then is of its plugins"),
        Row(name="version", short="V", help="print the version"),
    )


def sreport() -> Rows:
    """Those of sreport."""
    return (
        Row(name="all_clusters", short="a", help="all clusters, not the default one alone"),
        Row(name="cluster", short="M", takes="=names", env="SREPORT_CLUSTER", help="these clusters"),
        Row(name="federation", env="SREPORT_FEDERATION", help="all clusters of the federation",
            support="inert: no federation of clusters"),
        Row(name="help", short="h", help="this text"),
        Row(name="immediate", short="i", help="do not ask", support="inert: nothing is ever asked"),
        Row(name="local", env="SREPORT_LOCAL", help="this cluster only", support="inert: no federation of clusters"),
        Row(name="noheader", short="n", help="no header"),
        Row(name="parsable", short="p", help="fields with a delimiter behind each"),
        Row(name="parsable2", short="P", help="fields with a delimiter between them"),
        Row(name="quiet", short="Q", help="say less", support="inert: nothing is said but errors"),
        Row(name="time", short="t", takes="=form", letter_only=True,
            help="times in Seconds, Minutes, Hours, Percent, SecPer, MinPer or HourPer"),
        Row(name="tres", short="T", takes="=names", env="SREPORT_TRES", help="these resources, or ALL"),
        Row(name="usage", short="h", help="the options in brief"),
        Row(name="verbose", short="v", help="say more", support="inert: what Slurm says then is of its plugins"),
        Row(name="version", short="V", help="print the version"),
    )


def sshare() -> Rows:
    """Those of sshare."""
    return (
        Row(name="accounts", short="A", takes="=names", help="only these accounts"),
        Row(name="all", short="a", help="all users, not the caller alone"),
        Row(name="helpformat", short="e", help="the names of all fields"),
        Row(name="long", short="l", help="more columns"),
        Row(name="partition", short="m", help="the partition of each association"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=names"),
        Row(name="clusters", short="M", takes="=names", env="SLURM_CLUSTERS", help="the clusters to use"),
        Row(name="noheader", short="n", help="no header"),
        Row(name="format", short="o", takes="=fields", help="columns, as name[%[-]width],..."),
        Row(name="parsable", short="p", help="fields with a delimiter behind each"),
        Row(name="parsable2", short="P", help="fields with a delimiter between them"),
        Row(name="users", short="u", takes="=names", help="only these users"),
        Row(name="Users", short="U", help="users without their accounts"),
        Row(name="verbose", short="v", help="say more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="help", help="this text"),
        Row(name="usage", help="the options in brief"),
    )
# fmt: on
