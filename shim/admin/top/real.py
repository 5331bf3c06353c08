"""The real Slurms among the clusters: their squeue and sinfo, asked from time to time, because they tell nobody by themselves."""

from __future__ import annotations

import re
import select
import time
from collections.abc import Sequence

from shim.admin.top.snapshot import TARGET, Cells, ClusterLine, Entry, NodeLine, total
from shim.control.backends.slurm.questions import Question
from shim.core.model import states
from shim.core.routing import ClusterRef

PAUSE = 5.0  # seconds between two looks, and …
SHARE = 20  # … that many times as long as the answers took: a slow slurmctld is not made slower
_LETTERS = "iPjutMDRlLCSNEFQVA"
_BETWEEN = "\x1f"
_QUEUE = ["--noheader", "--all", "--format=" + _BETWEEN.join(f"%{letter}" for letter in _LETTERS)]
_WIDTH = 64
_FIELDS = ("NodeList", "StateCompact", "CPUsState", "Memory", "AllocMem", "Gres", "GresUsed")
_NODES = ["--noheader", "--all", "--Node", "--Format=" + ",".join(f"{name}:{_WIDTH}" for name in _FIELDS)]
_PLAIN = {"SLURM_TIME_FORMAT": "standard"}
_GPUS = re.compile(r"\bgpu(?::[^:(,]+)?:(\d+)")


class RealSlurm:
    """One of them: what it said last, and the questions that are under way."""

    def __init__(self, ref: ClusterRef) -> None:
        self.ref = ref
        self.entries: Sequence[Entry] = ()
        self.nodes: Sequence[NodeLine] = ()
        self.trouble = ""
        self.due = 0.0  # by the monotonic clock
        self._began = 0.0
        self._asked: list[Question] = []

    @property
    def line(self) -> ClusterLine:
        """The sums of its nodes."""
        return total(self.ref.name, "slurm", self.nodes, one_machine=False, one_set_of_gpus=False)

    @property
    def files(self) -> list[int]:
        """The descriptors that answers come by."""
        return [number for question in self._asked for number in question.files]

    def look(self, *, ended: bool = False) -> None:
        """Asks if it is time to, and gives up what was not answered in its time."""
        now = time.monotonic()
        if self._asked:
            for question in self._asked:
                if question.files and now >= question.until:
                    question.give_up(f"no answer within {self.ref.timeout:g} s")
            self._settle()
        elif now >= self.due:
            self._began = now
            queue = [*_QUEUE, *(["--states=all"] if ended else [])]
            self._asked = [Question(self.ref, "squeue", queue, _PLAIN), Question(self.ref, "sinfo", _NODES, _PLAIN)]
            self._settle()

    def read(self, number: int) -> bool:
        """Takes in what came by that descriptor; whether all has been answered by now."""
        for question in self._asked:
            if number in question.files:
                question.read(number)
        return self._settle()

    def close(self) -> None:
        """Asks no more."""
        for question in self._asked:
            question.give_up("no longer wanted")
        self._asked = []

    def _settle(self) -> bool:
        if not self._asked or any(question.files for question in self._asked):
            return False
        queue, nodes = self._asked
        self._asked = []
        now = time.monotonic()
        self.due = now + max(PAUSE, SHARE * (now - self._began))
        self.trouble = next((text for text in map(_trouble, (queue, nodes)) if text), "")
        if not _trouble(queue):
            self.entries = entries(self.ref.name, _text(queue.out))
        if not _trouble(nodes):
            self.nodes = node_lines(self.ref.name, _text(nodes.out))
        return True


def answered(real: Sequence[RealSlurm]) -> None:
    """Asks the real Slurms, and waits for their answers."""
    for one in real:
        one.look()
    while left := [one for one in real if one.files]:
        poll = select.poll()
        by_file = {number: one for one in left for number in one.files}
        for number in by_file:
            poll.register(number, select.POLLIN)
        for number, _ in poll.poll(100):
            by_file[number].read(number)
        for one in left:
            one.look()


def entries(cluster: str, text: str) -> list[Entry]:
    """The jobs that its squeue has listed. Lines that are none (a name with a line feed) are left out."""
    found: list[Entry] = []
    for line in text.split("\n"):
        values = line.split(_BETWEEN)
        if len(values) == len(_LETTERS):
            found.append(_Told(cluster, dict(zip(_LETTERS, (value.strip() for value in values)))))
    return found


class _Told(Entry):
    """A job as its Slurm told of it."""

    __slots__ = ("_cells",)

    def __init__(self, cluster: str, cells: dict[str, str]) -> None:
        label = cells["i"]
        cells[TARGET] = re.sub(r"%\d+\]$", "]", label) if "..." not in label else cells["F"]
        super().__init__(
            cluster,
            _number(cells["A"]),
            f"{cluster} {label}",
            cells["j"],
            cells["u"],
            cells["P"],
            states.state_of(cells["t"]) or cells["t"],
            _number(cells["Q"]),
            _epoch(cells["V"]),
            _epoch(cells["S"]),
        )
        self._cells = cells

    def cells(self, now: float) -> Cells:
        """Its columns, as of the time when they were told."""
        return self._cells


def node_lines(cluster: str, text: str) -> list[NodeLine]:
    """The nodes that its sinfo has listed, one by one: a node of several partitions is there several times."""
    found: dict[str, NodeLine] = {}
    for line in text.split("\n"):
        values = [line[at : at + _WIDTH].strip() for at in range(0, _WIDTH * len(_FIELDS), _WIDTH)]
        name, state, cpus, memory, allocated, gres, used = values
        parts = cpus.split("/")  # allocated, idle, other, all
        if name and len(parts) == 4:
            found[name] = NodeLine(
                cluster=cluster,
                name=name,
                state=state,
                cpus=_number(parts[3]),
                cpus_used=_number(parts[0]),
                memory=_number(memory),
                memory_used=_number(allocated),
                gpus=sum(map(int, _GPUS.findall(gres))),
                gpus_used=sum(map(int, _GPUS.findall(used))),
            )
    return list(found.values())


def _trouble(question: Question) -> str:
    if question.problem:
        return question.problem
    if question.code:
        lines = _text(question.err).split("\n")
        return next((line.strip() for line in lines if line.strip()), f"{question.program} ended with {question.code}")
    return ""


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _epoch(text: str) -> float:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0
