"""The state of a run of scontrol, shared by all verbs; and the words of its commands."""

from __future__ import annotations

from shim.commands import output, site_view
from shim.control.outlook import Outlook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.commands.documents import Document
    from shim.core.options.query_options import Values

PROGRAM = "scontrol"
OF_JOBS = ("hold", "holdu", "uhold", "release", "requeue", "requeuehold", "resume", "suspend", "top")
ACTIONS = (*OF_JOBS, "update", "write")  # the verbs that change something


class Session:
    """One run of scontrol: the options, which verbs change too, and whether anything went wrong."""

    def __init__(self, values: Values, argv: Sequence[str]) -> None:
        self.argv = argv
        self.interactive = False
        self.document: Document | None = None  # what is shown is a document
        self.beside = False  # other clusters are listed too: print no line for an empty listing
        self.all = values.shows_all("all")
        self.details = "details" in values
        self.oneliner = "oneliner" in values
        self.verbose = "verbose" in values
        self.cluster = site_view.one_cluster(values.get("clusters"))
        self.over = False

    def outlook(self) -> Outlook:
        """On the clusters that are meant."""
        return Outlook([self.cluster] if self.cluster is not None else [])

    def set_flag(self, name: str) -> None:
        """Executes the verbs that set options."""
        if name == "details":
            self.details = True
        elif name == "oneliner":
            self.oneliner = True
        elif name in ("verbose", "quiet"):
            self.verbose = name == "verbose"
        elif name in ("all", "hide"):
            self.all = name == "all"

    def tell_records(self, count: int) -> None:
        """With -v: prints the time and the number of the records that follow."""
        if self.verbose:
            view = site_view.view()
            output.put([f"last_update_time={view.stamp(view.now)}, records={count}"])


def pairs(words: list[str]) -> list[tuple[str, str | None, str]]:
    """The fields in their order, each with its value (None: there is none) and the word that Slurm names in errors.

    ``key=value``, ``key value``; ``key+=value`` keeps its sign with the key.
    """
    found: list[tuple[str, str | None, str]] = []
    rest = iter(words)
    for word in rest:
        key, equals, value = word.partition("=")
        if equals:
            found.append((key, value, word))
        elif word.lower() == "nice":
            found.append((word, "", word))
        else:
            after = next(rest, None)
            found.append((word, after, word if after is None else after))
    return found
