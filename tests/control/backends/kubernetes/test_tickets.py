"""What this host keeps of a run in the cluster: its ticket, its output files, and srun's way to its leader."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

from shim.control.backends.base import Run
from shim.control.backends.kubernetes import tickets
from shim.control.backends.kubernetes.proxy import Proxy
from shim.control.backends.kubernetes.tickets import TicketFolder
from tests.control.backends.kubernetes import clock
from tests.control.backends.kubernetes.stage import RUN


def test_a_ticket_is_made_once_and_kept_to_its_owner() -> None:
    folder = TicketFolder(RUN)
    assert folder.load() is None
    ticket, key = folder.make(), folder.key()
    folder.save(ticket.replace(nodes=2, outputs=(("stdout", "/home/me/out", 5),), verdict={"kind": "ended"}))
    again = TicketFolder(RUN)
    assert again.make() == folder.ticket
    assert (again.key(), len(key)) == (key, tickets.KEY_BYTES)
    assert [(one.stream, one.path) for one in again.outputs()] == [("stdout", "/home/me/out")]
    assert os.stat(folder.path).st_mode & 0o777 == 0o700
    assert {os.stat(os.path.join(folder.path, name)).st_mode & 0o777 for name in os.listdir(folder.path)} == {0o600}


def test_the_mark_of_a_run_that_began_goes_with_its_ticket(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    folder = TicketFolder(RUN)
    folder.save(folder.make().replace(once=(str(tmp_path / "never made"), str(mark))))
    folder.remove()
    assert not mark.exists()
    folder.remove()


def test_one_that_was_half_made_is_made_anew() -> None:
    folder = TicketFolder(RUN)
    first = folder.make()
    Path(folder.path, "ticket").write_text("{")
    old = folder.key()
    assert TicketFolder(RUN).make().submission != first.submission
    assert folder.key() != old


def test_which_runs_there_are_tickets_of() -> None:
    assert tickets.known("k8s") == []
    other = RUN.replace(restart=2)
    TicketFolder(RUN).make()
    TicketFolder(other).make()
    TicketFolder(Run(cluster="other", job_id=9)).make()
    Path(tickets.folder_of("k8s"), "notes").mkdir()
    assert sorted(tickets.known("k8s"), key=lambda run: run.restart) == [RUN, other]
    TicketFolder(RUN).remove()
    assert tickets.known("k8s") == [other]


def test_srun_here_reaches_the_leader_as_if_it_were_local(tmp_path: Path) -> None:
    async def inside() -> None:
        ends: list[socket.socket] = []

        async def dial() -> socket.socket:
            here, there = socket.socketpair()
            ends.append(there)
            return here

        folder = tmp_path / ("x" * 100)  # more than a socket's address holds
        folder.mkdir()
        proxy = Proxy(str(folder), dial)
        await proxy.open()
        address = json.loads((folder / "leader").read_text())
        assert address == {"unix": str(folder / "leader.sock")}
        assert os.stat(address["unix"]).st_mode & 0o777 == 0o600
        descriptor = os.open(folder, os.O_PATH)
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}/leader.sock")
        writer.write(b"question")
        while not ends:
            await asyncio.sleep(0)
        theirs, answering = await asyncio.open_connection(sock=ends[0])
        assert await theirs.readexactly(8) == b"question"
        answering.write(b"answer")
        answering.close()
        assert await reader.read() == b"answer"
        writer.close()
        os.close(descriptor)
        await proxy.close()
        await proxy.open()  # what another controller left there is no obstacle
        await proxy.close()

    clock.run(inside())


def test_without_a_leader_the_connection_ends(tmp_path: Path) -> None:
    async def inside() -> None:
        async def dial() -> socket.socket:
            raise ConnectionRefusedError

        proxy = Proxy(str(tmp_path), dial)
        await proxy.open()
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "leader.sock"))
        assert await reader.read() == b""
        writer.close()
        await proxy.close()

    clock.run(inside())
