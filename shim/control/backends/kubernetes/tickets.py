"""What this host keeps of a run: its key, and how far its objects were made. Also the run folder that srun here is given."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import uuid
from typing import Any

from shim.control import paths
from shim.control.backends.base import Run
from shim.control.backends.kubernetes.output import Output, StepFile
from shim.core.value import Value

KEY_BYTES = 32
_FILE = "ticket"
_KEPT = "kept.json"
_FILES = "files"


class Ticket(Value):
    """``submission`` names this attempt to start the run.

    ``made``: its Job exists or has existed; ``let_go``: its pods may have been made, and may have begun; ``torn``: the run began. ``verdict``: what its end is, as a journal line, once that is
    decided here: its objects are being removed, and it is told afterwards. ``adopted``: the owner from whom the run was taken over: it is
    followed here, and never started.
    """

    submission: str
    partition: str = ""
    nodes: int = 1
    pinned: bool = False  # it may run on just as many nodes as it needs
    made: bool = False
    let_go: bool = False
    verdict: dict[str, Any] | None = None
    torn: bool = False
    adopted: str = ""
    stage: str = ""  # the archive that the leader must be given
    once: tuple[str, ...] = ()  # files outside, one of which its leader has made
    outputs: tuple[tuple[str, str, int], ...] = ()  # stream, path here, bytes that were there before
    copied: str = ""  # the working directory that the pods have a copy of: files of steps come back to it


class TicketFolder:
    """One run's folder."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.path = os.path.join(folder_of(run.cluster), f"{run.job_id}.{run.restart}")
        self.ticket: Ticket | None = None

    def load(self) -> Ticket | None:
        """The ticket as it was written last; None if this host knows nothing of the run."""
        try:
            with open(os.path.join(self.path, _FILE)) as file:
                self.ticket = Ticket.from_dict(json.load(file))
        except (FileNotFoundError, ValueError):
            self.ticket = None
        return self.ticket

    def make(self) -> Ticket:
        """The ticket there is, or a new one with a new key. OSError."""
        found = self.load()
        return found or self.take(Ticket(submission=uuid.uuid4().hex), secrets.token_hex(KEY_BYTES))

    def take(self, ticket: Ticket, key: str) -> Ticket:
        """A new folder with this ticket and key (hex; "": nobody here knows it). OSError."""
        paths.ensure(folder_of(self.run.cluster))
        shutil.rmtree(self.path, ignore_errors=True)  # half made
        os.makedirs(self.path, mode=0o700)
        if key:
            write(os.path.join(self.path, "key"), key)
        return self.save(ticket)

    def save(self, ticket: Ticket) -> Ticket:
        """Writes the ticket; whole or not at all."""
        write(os.path.join(self.path, _FILE), json.dumps(ticket.to_dict()))
        self.ticket = ticket
        return ticket

    def let_go(self) -> None:
        """Notes that from now on the run's pods may be made and begin. OSError."""
        ticket = self.make()
        if not ticket.let_go:
            self.save(ticket.replace(let_go=True))

    @property
    def marked(self) -> bool:
        """Whether the run's leader has left the mark of its start, as far as that can be seen here."""
        return self.ticket is not None and any(map(os.path.exists, self.ticket.once))

    def outputs(self) -> tuple[Output, ...]:
        """The files here that are filled from the pods' copies."""
        found = self.ticket.outputs if self.ticket is not None else ()
        return tuple(Output(stream, path, base) for stream, path, base in found)

    def step_file(self, told: dict[str, Any]) -> StepFile | None:
        """Where a file goes that an srun in the pods has opened; None: nowhere. ``told``: the leader's words."""
        if self.ticket is None or not self.ticket.copied:
            return None
        return StepFile(told, self.ticket.copied, os.path.join(self.path, _FILES))

    def stage(self) -> str:
        """The archive of the working directory that the leader must be given; "" for none."""
        return self.ticket.stage if self.ticket is not None else ""

    def key(self) -> bytes:
        """The run's secret. OSError if there is none."""
        with open(os.path.join(self.path, "key")) as file:
            return bytes.fromhex(file.read())

    @property
    def has_key(self) -> bool:
        """Whether the leader can be spoken to from here."""
        return os.path.exists(os.path.join(self.path, "key"))

    def keep(self, record: str) -> None:
        """Keeps what another machine would have to know of the run, until that can be left in the cluster. OSError."""
        write(os.path.join(self.path, _KEPT), record)

    def kept(self) -> str:
        """What was kept; "" for nothing."""
        try:
            with open(os.path.join(self.path, _KEPT)) as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def remove(self) -> None:
        """Removes the folder, and what the run has left elsewhere."""
        found = self.load()
        for path in found.once if found is not None else ():
            with contextlib.suppress(OSError):  # it did not begin, or the mark is in another place
                os.unlink(path)
        shutil.rmtree(self.path, ignore_errors=True)


def folder_of(cluster: str) -> str:
    """Where the tickets of a cluster are."""
    return os.path.join(paths.state_dir(), "pods", cluster)


def load(run: Run) -> Ticket | None:
    """A run's ticket; None if this host knows nothing of it."""
    return TicketFolder(run).load()


def known(cluster: str) -> list[Run]:
    """The runs of the cluster that this host has tickets of."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder_of(cluster)):
            job_id, _, restart = name.partition(".")
            if job_id.isdigit() and restart.isdigit():
                found.append(Run(cluster=cluster, job_id=int(job_id), restart=int(restart)))
    return found


def write(path: str, text: str) -> None:
    """Writes a file of ours: whole or not at all. OSError."""
    draft = f"{path}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
    os.replace(draft, path)
