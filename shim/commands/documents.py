"""``--json`` and ``--yaml``: which document a command line asks for, and printing it."""

from __future__ import annotations

import os

from shim.commands import output, site_view
from shim.control import site
from shim.core.errors import ShimError, Unsupported
from shim.core.formats import documents
from shim.core.render.openapi import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shim.core.options.query_options import Values
    from shim.core.render.openapi.layout import Record

_FORMS = ("json", "yaml")


class Document:
    """A document that is asked for: its form and its layout. ``database``: of records of accounting."""

    def __init__(self, program: str, argv: Sequence[str], form: str, *, newer: bool, database: bool = False) -> None:
        self.newer = newer
        self._form = form
        self._database = database
        self._command = (program, *argv)

    def put(
        self,
        name: str,
        records: Iterable[Record],
        *,
        more: Mapping[str, object] | None = None,
        errors: Sequence[Record] = (),
        cluster: str = "",
    ) -> None:
        """Prints the records; ``name`` is what they are: jobs, nodes. ``more``: what the newer layout has beside them."""
        found = layout.document(self._asked(cluster), name, records, more or {}, errors)
        if self._form == "json":
            output.put([documents.json_text(found)])
        else:
            # squeue and sinfo of 22.05 tell a text that is not set from one that is empty.
            unset = "!!str" if self.newer or self._database else "!!null null"
            output.put([documents.yaml_text(found, unset=unset)])

    def _asked(self, cluster: str) -> layout.Asked:
        from shim import SLURM_VERSION

        if not self.newer:
            return layout.Asked(version=SLURM_VERSION, database=self._database)
        from shim.core.options.grammar import NEW, VERSIONS

        return layout.Asked(
            layout=layout.NEW,
            version=VERSIONS[NEW],
            database=self._database,
            command=self._command,
            user=site_view.user_name(os.getuid()) or "",
            group=_group_name(os.getgid()),
            terminal=_terminal(),
            cluster=cluster or site.cluster().name,
        )


def asked_for(program: str, argv: Sequence[str], values: Values, *, database: bool = False) -> Document:
    """The document that the command line asks for; of several forms the last one counts."""
    from shim.commands.submission_context import grammar

    form, found = _form(values), grammar()
    wanted = values[form].rpartition("/")[2]
    if wanted not in ("", layout.NEW):
        raise Unsupported(f"error: --{form}={values[form]} is not supported here: {layout.NEW} is")
    return Document(program, argv, form, newer=found is not None and found.newer, database=database)


def _form(values: Values) -> str:
    return [name for name, _ in values.said if name in _FORMS][-1]


def clusters(values: Values, named: str | None) -> tuple[str, ...]:
    """The clusters that ``named`` says; () for all. ShimError where a real Slurm is one of them: it makes documents of its own."""
    chosen = tuple(site_view.chosen_clusters(named))
    if site_view.real_clusters(chosen):
        raise ShimError(f"error: --{_form(values)}: a real Slurm is one of the clusters: name others with -M")
    return chosen


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def _terminal() -> str:
    """The terminal that the user sits at, if any."""
    try:
        return os.ttyname(0)
    except OSError:
        return ""
