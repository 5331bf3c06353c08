"""``shim prune``: jobs that ended long ago are forgotten now, not only when a controller comes to it."""

from __future__ import annotations

from typing import TextIO

from shim.control import client
from shim.core.formats.times import stamp


def report(days: int | None, out: TextIO, *, dry_run: bool) -> None:
    """Forgets what ended more than ``days`` days ago (None: as configured), and says how many jobs that were. ShimError."""
    reply = client.call("prune", {"days": days, "dry_run": dry_run})
    count = int(reply["jobs"])
    before = stamp(float(reply["before"]))
    out.write(
        f"{'would forget' if dry_run else 'forgot'} {count} job{'' if count == 1 else 's'} that ended before {before}\n"
    )
