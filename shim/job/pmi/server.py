"""The node's part of PMI: answers the tasks of one step on this node, and holds them at a fence until all nodes have come.

A task asks one thing at a time and waits for the answer. What a task has put is for all to read after the next fence (barrier in PMI-1).
Processes cannot be added (spawn), and names are not published: both are refused, which MPI reports as an error of the call.
"""

from __future__ import annotations

import os
import socket

from shim.job.pmi.fence import messages
from shim.job.pmi.wire import LONGEST, BadRequest, answer, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from shim.job.loop import Loop

_APPNUM = -1  # as Slurm says of a step that no MPI program spawned
_MAXES = (("kvsname_max", 256), ("keylen_max", 256), ("vallen_max", 1024))
_REFUSED = ("spawn", "name-publish", "name-unpublish", "name-lookup", "publish_name", "unpublish_name", "lookup_name")
_PMI1_ANSWERS = {"spawn": "spawn_result", "publish_name": "publish_result", "unpublish_name": "unpublish_result"}


class Server:
    """Of the tasks of a step on this node. ``facts``: what the leader says of the step (``job``: its PMI_JOBID, ``size``, ``mapping``).
    ``tell(message)`` speaks to the leader, ``say(line)`` to the user.
    """

    def __init__(
        self,
        step: int,
        ranks: list[int],
        facts: Mapping[str, Any],
        loop: Loop,
        tell: Callable[[dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> None:
        self.job, self.size = str(facts["job"]), int(facts["size"])
        self.ranks = ranks
        self.shared = {"PMI_process_mapping": str(facts["mapping"])}
        self.local: dict[str, str] = {}  # put here since the last fence
        self.node_attributes: dict[str, str] = {}
        self.say = say
        self._step = step
        self._loop = loop
        self._tell = tell
        self._clients: dict[int, Client] = {}
        self._arriving: dict[str, str] = {}

    def connect(self, rank: int) -> int:
        """A descriptor for the task of this rank, which its process inherits; the caller closes it here."""
        ours, its = socket.socketpair()
        self._clients[rank] = Client(self, rank, ours, self._loop)
        fd = its.detach()
        os.set_inheritable(fd, True)
        return fd

    def environment(self, rank: int, fd: int) -> dict[str, str]:
        """What the task of this rank finds the agent by."""
        return {"PMI_FD": str(fd), "PMI_JOBID": self.job, "PMI_RANK": str(rank), "PMI_SIZE": str(self.size)}

    def fence(self) -> None:
        """A task has come to the fence: all that are here wait for each other, then for the other nodes."""
        if all(client.at_fence for client in self._clients.values()) and len(self._clients) == len(self.ranks):
            found, self.local = self.local, {}
            for message in messages(self._step, found):
                self._tell(message)

    def passed(self, message: Mapping[str, Any]) -> None:
        """The leader: all nodes have come, and this is what was put."""
        self._arriving.update(message["pairs"])
        if message["last"]:
            self.shared.update(self._arriving)
            self._arriving.clear()
            for client in list(self._clients.values()):
                client.release()

    def node_attribute(self, name: str, value: str) -> None:
        """A task publishes something for the tasks of its node, some of which may wait for it."""
        self.node_attributes[name] = value
        for client in list(self._clients.values()):
            client.look()

    def abort(self, rank: int, code: str) -> None:
        """A task has asked for the step's end."""
        self._tell({"do": "pmi", "step": self._step, "abort": rank, "code": code})

    def close(self) -> None:
        """The step is over here."""
        for client in self._clients.values():
            client.close()


class Client:
    """One task's connection."""

    def __init__(self, server: Server, rank: int, connection: socket.socket, loop: Loop) -> None:
        self.at_fence = False
        self._server = server
        self._rank = rank
        self._connection = connection
        self._loop = loop
        self._version = 0
        self._buffer = bytearray()
        self._waits_for = ""  # a node's attribute
        connection.setblocking(False)
        loop.reader(connection.fileno(), self._readable)

    def close(self) -> None:
        """Ends the connection; the task sees its end."""
        if self._connection.fileno() >= 0:
            self._loop.forget(self._connection.fileno())
            self._connection.close()

    def release(self) -> None:
        """Everybody has come to the fence."""
        if self.at_fence:
            self.at_fence = False
            if self._version == 2:
                self._answer("kvs-fence-response", rc=0)
            else:
                self._answer("barrier_out", rc=0)

    def look(self) -> None:
        """A node's attribute was put: perhaps the one that this task waits for."""
        name = self._waits_for
        if name and name in self._server.node_attributes:
            self._waits_for = ""
            self._found("info-getnodeattr-response", self._server.node_attributes[name])

    def _readable(self) -> None:
        try:
            data = self._connection.recv(65536)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data or len(self._buffer) > LONGEST:
            self.close()
            return
        self._buffer += data
        try:
            while True:
                request = take(self._buffer, self._version)
                if request is None:
                    return
                self._obey(request)
        except (BadRequest, KeyError, ValueError) as error:
            self._server.say(f"error: mpi/pmi2: task {self._rank}: no request: {error}")
            self.close()

    def _obey(self, request: Mapping[str, str]) -> None:
        command = request["cmd"]
        if command == "init":
            self._init(request)
        elif command == "abort":
            self._server.abort(self._rank, request.get("exitcode", ""))
        elif command in _REFUSED:
            self._refuse(command)
        elif self._version == 2:
            self._obey_2(command, request)
        else:
            self._obey_1(command, request)

    def _init(self, request: Mapping[str, str]) -> None:
        version = int(request["pmi_version"])
        known = version in (1, 2)
        self._answer(
            "response_to_init", rc=0 if known else -1, pmi_version=version, pmi_subversion=request["pmi_subversion"]
        )
        self._version = version if known else 0

    def _refuse(self, command: str) -> None:
        if "lookup" not in command:
            what = "spawning processes" if command == "spawn" else "publishing names"
            self._server.say(f"error: mpi/pmi2: task {self._rank}: {what} is not supported here")
        if self._version == 2:
            self._answer(f"{command}-response", rc=1, errmsg="not supported")
        else:
            self._answer(_PMI1_ANSWERS.get(command, "lookup_result"), rc=-1, info="not_supported")

    def _obey_1(self, command: str, request: Mapping[str, str]) -> None:
        server = self._server
        if command == "put":
            server.local[request["key"]] = request["value"]
            self._answer("put_result", rc=0, msg="success")
        elif command == "get":
            value = self._value(request["key"])
            if value is None:
                self._answer("get_result", rc=-1, msg="key_not_found", value="unknown")
            else:
                self._answer("get_result", rc=0, msg="success", value=value)
        elif command == "barrier_in":
            self._come()
        elif command == "get_maxes":
            self._answer("maxes", rc=0, **dict(_MAXES))
        elif command == "get_universe_size":
            self._answer("universe_size", rc=0, size=server.size)
        elif command == "get_appnum":
            self._answer("appnum", rc=0, appnum=_APPNUM)
        elif command == "get_my_kvsname":
            self._answer("my_kvsname", rc=0, kvsname=server.job)
        elif command == "finalize":
            self._answer("finalize_ack", rc=0)
        else:
            raise BadRequest(command)

    def _obey_2(self, command: str, request: Mapping[str, str]) -> None:
        server = self._server
        if command == "fullinit":
            about = {
                "rank": self._rank,
                "size": server.size,
                "appnum": _APPNUM,
                "debugged": "FALSE",
                "pmiverbose": "FALSE",
            }
            self._answer("fullinit-response", **{"pmi-version": 2, "pmi-subversion": 0, **about, "rc": 0})
        elif command == "job-getid":
            self._answer("job-getid-response", jobid=server.job, rc=0)
        elif command == "kvs-put":
            server.local[request["key"]] = request["value"]
            self._answer("kvs-put-response", rc=0)
        elif command == "kvs-get":
            self._found("kvs-get-response", self._value(request["key"]))
        elif command == "kvs-fence":
            self._come()
        elif command == "info-getjobattr":
            attributes = {**server.shared, "universeSize": str(server.size)}
            self._found("info-getjobattr-response", attributes.get(request["key"]))
        elif command == "info-putnodeattr":
            self._answer("info-putnodeattr-response", rc=0)
            server.node_attribute(request["key"], request["value"])
        elif command == "info-getnodeattr":
            if request["key"] not in server.node_attributes and request.get("wait") == "TRUE":
                self._waits_for = request["key"]
            else:
                self._found("info-getnodeattr-response", server.node_attributes.get(request["key"]))
        elif command == "finalize":
            self._answer("finalize-response", rc=0)
        else:
            raise BadRequest(command)

    def _value(self, key: str) -> str | None:
        return self._server.shared.get(key, self._server.local.get(key))

    def _come(self) -> None:
        self.at_fence = True
        self._server.fence()

    def _found(self, command: str, value: str | None) -> None:
        if value is None:
            self._answer(command, found="FALSE", value="", rc=0)
        else:
            self._answer(command, found="TRUE", value=value, rc=0)

    def _answer(self, command: str, **fields: object) -> None:
        data = answer(2 if self._version == 2 else 1, command, fields.items())
        try:
            sent = self._connection.send(data)
        except OSError:
            sent = -1
        if sent != len(data):  # it asks and asks and does not read: a task of PMI waits for each answer
            self.close()
