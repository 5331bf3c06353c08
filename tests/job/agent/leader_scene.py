"""A leader with nodes, sruns and a controller that are not real, all in one process, with a clock that is set forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shim.job.agent.leader.leader import Leader
from shim.job.link import local_pair
from shim.job.loop import Loop
from shim.job.spec import RunSpec
from shim.job.wire import BATCH
from tests.job.run_folder import write_folder

Message = dict[str, Any]


class Peer:
    """The other end of one of the leader's links: what came, and what is said."""

    def __init__(self, loop: Loop) -> None:
        self.theirs, self.mine = local_pair(loop)
        self.got: list[Message] = []
        self.data: list[tuple[int, int, int, bytes]] = []
        self.closed = False
        self.mine.on_message = self.got.append
        self.mine.on_data = lambda *piece: self.data.append(piece)
        self.mine.on_close = self._on_close

    def _on_close(self, _reason: str) -> None:
        self.closed = True

    def say(self, do: str, **fields: Any) -> None:
        """Says something to the leader."""
        self.mine.send({"do": do, **fields})

    def all(self, do: str) -> list[Message]:
        """The messages of that kind so far."""
        return [message for message in self.got if message["do"] == do]

    def last(self, do: str) -> Message:
        """The last message of that kind."""
        return self.all(do)[-1]


class Scene:
    """A run from its leader's side. ``turn`` lets the loop work until nothing is left to do; ``advance`` sets the clock forward."""

    def __init__(self, folder: Path, spec: RunSpec, script: bool = False) -> None:
        self.now = 1000.0
        self.spec = spec
        self.run_dir = write_folder(folder / "runs", spec, "#!/bin/sh\n" if script else None, {"PATH": "/bin"})
        self.loop = Loop(lambda: self.now)
        self.done: list[bool] = []
        self.leader = Leader(spec, self.run_dir, b"k" * 32, self.loop, wall=lambda: 1_700_000_000 + self.now)
        self.leader.on_done = lambda: self.done.append(True)
        self.leader.start()
        self.nodes = [Peer(self.loop) for _ in spec.nodes]
        for node in self.nodes:
            self.leader.add_node(node.theirs)

    def close(self) -> None:
        self.leader.close()
        self.loop.close()

    def turn(self) -> None:
        """Until the loop is quiet: a message takes a turn for each hand it goes through."""
        for _ in range(20):
            self.loop.run_once(0)

    def advance(self, seconds: float) -> None:
        """Time goes by, a second at a time."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 1)
            self.turn()

    def check_in(self) -> None:
        """All nodes are there."""
        for index, node in enumerate(self.nodes):
            node.say("check-in", index=index, pid=100 + index, boot="b")
        self.turn()

    def peer(self, role: str) -> Peer:
        """A new srun or controller."""
        peer = Peer(self.loop)
        self.leader.add_peer(peer.theirs, role)
        return peer

    def watch(self) -> Peer:
        """A controller that watches from the beginning."""
        controller = self.peer("controller")
        controller.say("watch", after=0)
        self.turn()
        return controller

    def order(self, controller: Peer, number: int, kind: str, **fields: Any) -> None:
        """An order of the controller."""
        controller.say("order", order={"number": number, "kind": kind, **fields})
        self.turn()

    def srun(self, launch: bool = True, **request: Any) -> Peer:
        """An srun that asks for a step and, when it is there, launches it."""
        srun = self.peer("srun")
        srun.say("step", request={"argv": ["cmd"], **request}, environment={"PATH": "/bin"}, sid=1)
        self.turn()
        if launch and srun.all("created"):
            self.launch(srun)
        return srun

    def launch(self, srun: Peer) -> None:
        """The srun has opened its files."""
        here = {"to": "leader"}
        srun.say("launch", stdin=here, stdout=here, stderr=here)
        self.turn()

    def end_tasks(self, step: int, status: int = 0) -> None:
        """All tasks of a step end with ``status``, and their nodes drain."""
        for node in self.nodes:
            for launch in node.all("launch"):
                if launch["step"] == step:
                    for task in launch["tasks"]:
                        node.say("exit", step=step, rank=task["rank"], status=status, text="", oom=False)
                    node.say("drained", step=step)
        self.turn()

    def batch_ends(self, status: int = 0, oom: bool = False) -> None:
        """The batch script ends."""
        self.nodes[0].say("exit", step=BATCH, rank=0, status=status, text="", oom=oom)
        self.turn()

    def all_stopped(self) -> None:
        """Nothing is left on any node."""
        for node in self.nodes:
            node.say("stopped")
        self.turn()

    def lines(self) -> list[Message]:
        """The journal."""
        return self.leader.journal.lines

    def line(self, kind: str) -> Message:
        """The journal's last line of that kind, without number and time."""
        found = [line for line in self.lines() if line["kind"] == kind][-1]
        return {name: value for name, value in found.items() if name not in ("n", "at", "kind")}
