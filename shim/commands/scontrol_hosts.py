"""``scontrol show hostnames``, ``hostlist`` and ``hostlistsorted``."""

from __future__ import annotations

import os
import sys

from shim.commands import reading
from shim.core.errors import ShimError, plain
from shim.job import capped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.commands.scontrol_session import Session


def hostnames(session: Session, wanted: str | None) -> int:
    """One name per line; without a list those of SLURM_NODELIST. Slurm's exit code is 0 whatever the list is."""
    from shim.core.formats import hostlist

    text = wanted if wanted is not None else os.environ.get("SLURM_NODELIST")
    if text is None:
        reading.complain("scontrol", ["error: host list is empty"])
        return 0
    try:
        reading.put(hostlist.expand(_from_file(text)))
    except hostlist.HostlistError as error:
        from shim.commands import funnel

        sys.stdout.flush()
        funnel.say("scontrol", *error.lines)
    return 0


def hostlist_of(session: Session, wanted: str | None, in_order: bool = False) -> int:
    """The names in folded form, in their order or sorted."""
    from shim.core.formats import hostlist

    if wanted is None:
        reading.answered("scontrol", {"usage": ""})
        raise ShimError(plain("invalid encode argument"))
    text = _from_file(wanted)
    try:
        folded = hostlist.fold(hostlist.natural_sorted(hostlist.expand(text))) if in_order else hostlist.refold(text)
    except hostlist.HostlistError as error:
        raise ShimError(*error.lines) from None
    reading.put([folded])
    return 0


def hostlistsorted(session: Session, wanted: str | None) -> int:
    """The names in natural order, folded; Slurm keeps those that come twice."""
    return hostlist_of(session, wanted, in_order=True)


def _from_file(text: str) -> str:
    """The names in a file, where ``text`` is an absolute path."""
    if not text.startswith("/"):
        return text
    try:
        return ",".join(capped.text(text).split())
    except OSError as error:
        raise ShimError(f"error: Can not open {text}: {error.strerror}") from None
