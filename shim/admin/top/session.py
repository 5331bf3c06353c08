"""What is known at this moment, what the person at the keys has chosen, and what is under way: without a terminal."""

from __future__ import annotations

import os
import time

from shim.admin.top import draw
from shim.admin.top.gather import Gatherer
from shim.admin.top.helpers import Helper
from shim.admin.top.listing import ENDED
from shim.admin.top.page import page
from shim.admin.top.real import RealSlurm
from shim.admin.top.selected import Selected
from shim.admin.top.snapshot import Entry, Snapshot
from shim.admin.top.state import FOLLOW, State, at
from shim.admin.top.watch import Controller
from shim.commands import site_view
from shim.control import site
from shim.control.groups import user_name
from shim.control.index.errors import IndexFault
from shim.core import memo
from shim.core.errors import ShimError
from shim.core.model import states


class Session:
    """What is known, what the person has chosen, and what is under way. ``snapshot``: own clusters and real Slurms together."""

    def __init__(self) -> None:
        memo.hold()
        self.state = State()
        self.snapshot = Snapshot(now=time.time())
        self.listed: list[Entry] = []
        self.chosen: Entry | None = None  # the selected job
        self.real = [RealSlurm(ref) for ref in site_view.real_clusters()]
        self.helpers: dict[int, Helper] = {}
        self.gatherer = Gatherer()
        self.selected = Selected(self.gatherer, self.begin)
        self.controller = Controller()
        self._own = self.snapshot
        self._place = 0
        self._kept: tuple[object, ...] = ()
        self._kubernetes = any(ref.backend == "kubernetes" for ref in site.cluster_refs())
        self._trouble = ""
        self.me = user_name(os.getuid())

    def begin(self, helper: Helper) -> None:
        """Waits for a command's end."""
        self.helpers[helper.file] = helper

    def look(self) -> None:
        """Looks at the index."""
        try:
            self._own = self.gatherer.look(ended=self.state.filter == ENDED)
            self._trouble = ""
        except (IndexFault, ShimError) as error:
            self._trouble = error.lines[0].replace("error: ", "", 1)
        self.join()
        self.selected.renew()

    def join(self) -> None:
        """Puts together what the index and the real Slurms have told."""
        own = self._own
        troubles = [self._trouble, self.controller.trouble, *own.troubles]
        troubles += [f"{one.ref.name}: {one.trouble}" for one in self.real if one.trouble]
        self.snapshot = Snapshot(
            now=time.time(),
            clusters=[*own.clusters, *(one.line for one in self.real)],
            nodes=[*own.nodes, *(node for one in self.real for node in one.nodes)],
            entries=[*own.entries, *(entry for one in self.real for entry in one.entries)],
            spans=own.spans,
            troubles=[text for text in troubles if text],
        )
        self._kept = ()

    def settle(self) -> None:
        """The list, the place in it, and the selected job, after anything has changed."""
        if self._kept != self.state.place:
            self._kept = self.state.place
            self.listed = self.state.listed(self.snapshot.entries)
        self._choose()
        self.selected.choose(self.chosen)

    def _choose(self) -> None:
        """The selected job. Where it has gone, the one that has taken its place; one that is asked about or followed stays."""
        stays = self.state.asked or self.state.mode == FOLLOW
        if not self.state.selected or not stays or self.chosen is None:
            self._place = at(self.listed, self.state.selected, self._place) if self.state.selected else 0
        elif any(entry.key == self.state.selected for entry in self.listed):
            self._place = at(self.listed, self.state.selected)
        else:
            return
        self.chosen = self.listed[self._place] if self.listed else None
        if self.state.selected and self.chosen is not None:
            self.state = self.state.replace(selected=self.chosen.key)

    def lines(self, size: tuple[int, int]) -> list[draw.Line]:
        """The page."""
        self.snapshot = self.snapshot.replace(now=time.time())
        return page(self.snapshot, self.listed, self.chosen, self.state, self.selected.told, size)

    def needs_controller(self) -> bool:
        """Whether what is shown would become out of date without one."""
        return self._kubernetes or any(entry.state not in states.TERMINAL for entry in self._own.entries)

    def close(self) -> None:
        """Ends what is under way."""
        for helper in self.helpers.values():
            helper.close()
        for one in self.real:
            one.close()
        self.selected.close()
        self.controller.close()
