"""Which options the commands have where they run, and for which backend: as the site is configured, or in a pod as it was told."""

from __future__ import annotations

import os

from shim.core.formats.integers import leading_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from shim.core.options.grammar import Grammar

VARIABLE = (
    "SHIM_GRAMMAR"  # carries a site's grammar, as JSON, to commands that cannot read its configuration: those in pods
)


NO_EXIT_CODE = "error: SLURM_EXIT_ERROR has zero value"


def exit_code() -> Optional[int]:
    """What SLURM_EXIT_ERROR says: the code of errors, None if it is not set; 0 is none, and is complained of."""
    text = os.environ.get("SLURM_EXIT_ERROR")
    return None if text is None else (leading_int(text)[0] or 0) & 0xFF


def backend(names: Optional[str]) -> str:
    """The backend of the cluster that ``-M`` names, or of the default one; in a pod there is but one."""
    try:
        from shim.control import site
    except ImportError:
        return "kubernetes"
    return site.backend(names)


def gres_names() -> List[str]:
    """What the default cluster knows to be asked for by --gres; gpu where no more is known."""
    try:
        from shim.control import site
    except ImportError:  # in a pod
        return ["gpu"]
    cluster = site.cluster(None)
    names = list(cluster.gres_types) or sorted({gres.name for node in cluster.nodes for gres in node.gres})
    return names or ["gpu"]


def grammar() -> Optional[Grammar]:
    """The options of this site, None for those of every site. ShimError for a configuration that cannot be used."""
    carried = os.environ.get(VARIABLE)
    if carried:
        from shim.core import jsonlite
        from shim.core.options.grammar import Grammar

        return Grammar.from_dict(jsonlite.loads(carried))
    try:
        from shim.control import site
    except ImportError:  # in a pod there is no configuration
        return None
    return site.grammar()
