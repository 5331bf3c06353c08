"""What sacctmgr, sreport and sshare have in common: the clusters of which accounts are kept, and their tables."""

from __future__ import annotations

from shim.commands import output, site_view
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
