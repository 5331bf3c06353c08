"""Which options the commands have where they run, and for which backend: as the site is configured, or in a pod as it was told."""

from __future__ import annotations

import os

from shim.core.options.grammar import DEFAULT, VARIABLE, Grammar


def backend(names: str | None) -> str:
    """The backend of the cluster that ``-M`` names, or of the default one; in a pod there is but one."""
    try:
        from shim.control import site
    except ImportError:
        return "kubernetes"
    return site.backend(names)


def grammar() -> Grammar:
    """The options of this site. ShimError for a configuration that cannot be used."""
    carried = os.environ.get(VARIABLE)
    if carried:
        from shim.core import jsonlite

        return Grammar.from_dict(jsonlite.loads(carried))
    try:
        from shim.control import site
    except ImportError:  # in a pod there is no configuration
        return DEFAULT
    return site.grammar()
