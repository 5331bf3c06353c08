"""Whether clusters elsewhere can be asked just now. The controller finds out while a command does its own work.

Real Slurms are not meant: commands ask those themselves. Nobody is asked where no cluster is elsewhere, or no controller runs.
"""

from __future__ import annotations

from shim.control import channel, paths, site
from shim.control.protocol import PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MARGIN = 5.0  # seconds longer than its cluster that the controller may take to answer


class Outlook:
    """Begun before the command's work; ``known`` is asked behind it. ``names``: the clusters that matter, none for all."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        places = [place for place in site.places() if place.backend == "kubernetes"]
        if names:
            places = [place for place in places if place.name in names]
        self.names = [place.name for place in places]
        self._channel = channel.connect(paths.socket_path()) if places else None
        self._patience = max([place.timeout for place in places], default=0.0) + _MARGIN
        if self._channel is not None:
            try:
                self._channel.send({"protocol": PROTOCOL, "op": "listen", "clusters": self.names})
            except channel.ChannelClosed:
                self._channel = None  # it is just ending

    def known(self) -> bool:
        """Whether the index tells by now which of these clusters do not answer; false if the controller does not find out."""
        return self._channel is None or self._channel.wait(self._patience)
