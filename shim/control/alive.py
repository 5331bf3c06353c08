"""Tells read commands whether a controller lives and whether it has caught up with what runs."""

from __future__ import annotations

import os
import sys
import time

from shim.control import channel, paths
from shim.control.protocol import PROTOCOL
from shim.core.errors import ShimError
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.control.index.reader import Reader

PATIENCE = 2.0  # seconds a read command waits for a new controller
FIRST_LOOK = 5.0  # seconds that it waits for clusters of which nothing is known here


def alive() -> bool:
    """Whether a controller listens. Costs one connection, no message."""
    found = channel.connect(paths.socket_path())
    if found is None:
        return False
    found.close()
    return True


def freshen(reader: Reader | None, program: str = "") -> None:
    """Makes what ``reader`` will answer as fresh as can be had within two seconds.

    With jobs that have not ended and no controller, what the index says may be old: a controller is started and waited for
    until it has caught up. If it does not, that is said on stderr and the command answers with what is known.
    """
    if reader is None or not reader.active():
        return
    found = channel.connect(paths.socket_path())
    if found is None:
        refresh(reader, program)
        return
    if found.stopped():
        _warn(program, f"the controller, pid {found.pid}, is stopped")
    elif _own_start(reader):
        try:
            found.send({"protocol": PROTOCOL, "op": "reach", "job_id": int(os.environ["SLURM_JOB_ID"])})
            found.receive()
        except channel.ChannelClosed:
            pass  # the next one reads the job's journal first
    elif _outdated(reader):
        # It goes by another configuration than this listing: nobody waits until it does, its jobs go on meanwhile.
        try:
            found.send({"protocol": PROTOCOL, "op": "reconfigure"})
        except channel.ChannelClosed:
            pass  # the next one reads it anyway
    found.close()


def _own_start(reader: Reader) -> bool:
    """Whether this command runs in a job of whose start the index does not know yet: who is in it knows that it runs."""
    text = os.environ.get("SLURM_JOB_ID", "")
    job = reader.job(None, int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else None
    return job is not None and job.state == states.CONFIGURING


def _outdated(reader: Reader) -> bool:
    """Whether a file has changed that the controller has read its configuration from, as this command has."""
    from shim.control import site

    try:
        now = [list(one) for one in site.file_stamps()]
    except ShimError:
        return False  # the command tells that itself
    known = reader.files()
    return known != now and [one[0] for one in known] == [one[0] for one in now]


def refresh(reader: Reader, program: str = "") -> None:
    """Starts a controller and waits, two seconds at most, until it has caught up; says on stderr if it has not."""
    from shim.control import starter

    before = reader.generation()
    try:
        report = starter.begin()
    except OSError as error:
        why = starter.problem(error)
    except paths.NotOurs as error:
        why = error.lines[0].replace("error:", "it cannot be started:", 1)
    else:
        end = time.monotonic() + PATIENCE
        why = ""
        while not why and time.monotonic() < end:
            if reader.generation() > before:
                os.close(report)
                return
            time.sleep(0.01)
            why = starter.told(report)
        os.close(report)
    why = why or "it did not catch up in time"
    _warn(program, f"the controller was not running and {why}")


def look(reader: Reader | None, program: str = "") -> bool:
    """Has a controller look at clusters that may hold jobs of which the index has never heard: nobody has looked from here yet. Waits for
    that, but not for long; whether there was such a cluster.
    """
    if not _unlooked(reader) or alive():
        return False  # nothing to look for; or it is being looked for, and a cluster that does not answer is told as troubled
    from shim.control import starter
    from shim.control.index.reader import open_reader

    try:
        report = starter.begin()
    except (OSError, paths.NotOurs):
        return False  # nothing is known here that could be out of date; whoever submits is told
    end = time.monotonic() + FIRST_LOOK
    left = [""]
    while left and time.monotonic() < end and not starter.told(report):
        time.sleep(0.02)
        found = open_reader(paths.index_path())
        left = _unlooked(found)
        if found is not None:
            found.close()
    if left:
        _warn(program, "the controller has not told yet what jobs the cluster holds")
    os.close(report)
    return True


def _unlooked(reader: Reader | None) -> list[str]:
    from shim.control import site
    from shim.control.index.reader import LOOKED

    refs = [ref.name for ref in site.cluster_refs() if ref.backend == "kubernetes"]
    return [name for name in refs if reader is None or reader.meta(LOOKED + name) is None]


def _warn(program: str, what: str) -> None:
    name = program or os.path.basename(sys.argv[0] or "shim")
    sys.stderr.write(f"{name}: warning: {what}; this may be out of date\n")
