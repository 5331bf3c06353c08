"""What sbatch, srun and salloc must know of their site: its options, its default cluster's backend and gres. From the configuration; in a pod from a variable."""

from __future__ import annotations

import os

from shim.core.formats.integers import leading_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from shim.core.options.grammar import Grammar
    from shim.core.options.sources import Settings

# Carries a site's grammar, as JSON, to commands that cannot read its configuration: those in pods.
VARIABLE = "SHIM_GRAMMAR"
NO_EXIT_CODE = "error: SLURM_EXIT_ERROR has zero value"


def exit_code() -> Optional[int]:
    """The exit code of errors that SLURM_EXIT_ERROR sets; None if the variable is not set. 0 is not a valid code: the caller warns (NO_EXIT_CODE)."""
    text = os.environ.get("SLURM_EXIT_ERROR")
    return None if text is None else (leading_int(text)[0] or 0) & 0xFF


def backend(names: Optional[str]) -> str:
    """The backend of the cluster that ``-M`` names, or of the default one; in a pod always kubernetes."""
    try:
        from shim.control import site
    except ImportError:
        return "kubernetes"
    return site.backend(names)


def refuse_container(settings: Settings, backend: str) -> None:
    """Raises Unsupported, with what was looked for, where a container is asked for that no program of this machine can start."""
    if backend == "local" and any(name.startswith("container") for name in settings.sources):
        from shim.job.container.tools import refuse_without

        refuse_without(settings, backend)


def gres_names() -> List[str]:
    """The names that --gres may ask the default cluster for; gpu if nothing else is known."""
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
