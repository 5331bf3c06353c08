"""What sacctmgr, sreport and sshare have in common: the clusters of which accounts are kept, and their tables."""

from __future__ import annotations

import os

from shim.commands import output, site_view
from shim.core.accounting.associations import Labels, Site
from shim.core.errors import ShimError, plain
from shim.core.render import sacct_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from shim.core.model.cluster import Cluster
    from shim.core.options.query_options import Values
    from shim.core.render.sacct_table import Column

_NO_DATABASE = (
    "You are not running a supported accounting_storage plugin\nOnly 'accounting_storage/slurmdbd' is supported."
)


def kept_clusters() -> tuple[Cluster, ...]:
    """The clusters of ours of which accounts are kept: all but those whose slurm.conf says that none are."""
    return tuple(cluster for cluster in site_view.site_clusters() if cluster.accounting)


def own_name() -> str:
    """The caller's name; the uid for one whom this machine does not know."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def site(clusters: Sequence[Cluster]) -> Site:
    """What is known of these clusters: by their configuration, and by the jobs of the index."""
    reader = site_view.index()
    labels = reader.labels() if reader is not None else []
    named = [cluster.operators for cluster in clusters if cluster.operators is not None]
    admins = {name: "Operator" for names in named for name in names if not name.isdigit()}
    if not named or all(named):
        admins.setdefault(own_name(), "Operator")  # who owns the index
    return Site(
        clusters,
        [Labels(cluster=one[0], user=one[1], account=one[2], qos=one[3], wckey=one[4]) for one in labels],
        admins,
        host=os.uname().nodename.partition(".")[0],
    )


def no_database() -> ShimError:
    """What is said where no cluster keeps accounts."""
    return ShimError(plain(_NO_DATABASE))


def put(values: Values, shown: Sequence[Column], rows: Iterable[Any], *, header: bool) -> None:
    """Prints the table in columns or, as the last of --parsable and --parsable2 says, with delimiters."""
    said = [name for name, _ in values.said if name in ("parsable", "parsable2") and name in values]
    if not said:
        output.put(sacct_table.table(shown, rows, header=header))
        return
    output.put(sacct_table.parsable(shown, rows, header=header, delimiter="|", trailing=said[-1] == "parsable"))
