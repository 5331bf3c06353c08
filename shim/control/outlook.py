"""Whether the Kubernetes clusters answer now: the controller tries them while the command does its own work.

The controller is not asked if no cluster is on Kubernetes or no controller runs. Commands ask real Slurms themselves.
"""

from __future__ import annotations

from shim.control import site

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.control.channel import Channel

_MARGIN = 5.0  # seconds longer than its cluster that the controller may take to answer


class Outlook:
    """Begun before the command's work; ``known`` is asked behind it. ``names``: the clusters that matter, none for all."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        refs = [ref for ref in site.cluster_refs() if ref.backend == "kubernetes"]
        if names:
            refs = [ref for ref in refs if ref.name in names]
        self.names = [ref.name for ref in refs]
        self._channel = _begun(self.names) if refs else None
        self._patience = max([ref.timeout for ref in refs], default=0.0) + _MARGIN

    def known(self) -> bool:
        """Whether the index tells by now which of these clusters do not answer; false if the controller does not find out."""
        return self._channel is None or self._channel.wait(self._patience)


def _begun(names: list[str]) -> Channel | None:
    """A connection to the controller that has been asked about these clusters; None where no controller runs, and for an operator elsewhere."""
    from shim.control import channel, paths
    from shim.control.protocol import PROTOCOL

    if paths.anothers() is not None:
        return None
    connected = channel.connect(paths.socket_path())
    try:
        if connected is not None:
            connected.send({"protocol": PROTOCOL, "op": "listen", "clusters": names})
    except channel.ChannelClosed:
        return None  # it is just ending
    return connected
