"""What the person at the keys has chosen, and what is told of the selected job."""

from __future__ import annotations

from collections.abc import Sequence

from shim.admin.top import listing
from shim.admin.top.snapshot import Entry
from shim.core.value import Value

LIST, FOLLOW, HELP = "list", "follow", "help"


class State(Value):
    """Of the page. ``prompt``: what is being typed (``user``, ``text``); ``asked``: what y would do, to which job."""

    selected: str = ""  # an entry's key; "" for the first
    mode: str = LIST
    filter: str = listing.LIVE
    user: str = ""
    text: str = ""
    order: str = "queue"
    reverse: bool = False
    nodes: bool = True
    back: int = 0  # lines from the end of the output that is followed
    prompt: str = ""
    typed: str = ""
    asked: str = ""
    message: str = ""
    failed: bool = False  # the message is of what went wrong

    @property
    def place(self) -> tuple[object, ...]:
        """What the list depends on."""
        return self.filter, self.user, self.text, self.order, self.reverse

    def listed(self, entries: Sequence[Entry]) -> list[Entry]:
        """The jobs of the list."""
        return listing.chosen(
            entries, state=self.filter, user=self.user, text=self.text, order=self.order, reverse=self.reverse
        )


class Told(Value):
    """Of the selected job. ``output``: the last lines of the file ``path``, None where it is not there; ``uses``: what sstat says."""

    reasons: Sequence[str] = ()
    path: str = ""
    output: Sequence[str] | None = None
    uses: str = ""


def at(listed: Sequence[Entry], selected: str, before: int = 0) -> int:
    """Where in the list the selected job is; ``before`` (as far as there is one) where it is no longer there."""
    for number, entry in enumerate(listed):
        if entry.key == selected:
            return number
    return max(0, min(before, len(listed) - 1))
