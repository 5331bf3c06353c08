"""Who asks what the steps of a run use: its nodes look, and the answer is what they saw, and what has ended before."""

from __future__ import annotations

from shim.core.model.usage import Usage, of_task
from shim.job.wire import BATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from shim.job.agent.step_manager.manager import StepManager
    from shim.job.link import Link
    from shim.job.spec import RunSpec

    Message = dict[str, Any]
    Seen = dict[int, list[tuple[int, Message]]]  # by step: a node's index, and what it says of a task


class _Question:
    """``waits``: the nodes that have not answered."""

    def __init__(self, link: Link, waits: set[int]) -> None:
        self.link = link
        self.waits = waits
        self.seen: Seen = {}


class UsageQuestions:
    """``nodes``: the links of the run's nodes by index."""

    def __init__(self, spec: RunSpec, nodes: Mapping[int, Link], steps: StepManager) -> None:
        self._spec = spec
        self._nodes = nodes
        self._steps = steps
        self._questions: dict[int, _Question] = {}
        self._next = 0

    def ask(self, link: Link) -> None:
        """Somebody asks. The answer is a ``usage`` for each step, then ``done``."""
        self._next += 1
        question = self._questions[self._next] = _Question(link, set(self._nodes))
        for node in self._nodes.values():
            node.send({"do": "sample", "ticket": self._next})
        self._maybe_answer(self._next, question)

    def sampled(self, index: int, message: Message) -> None:
        """Node ``index`` has looked."""
        ticket = int(message["ticket"])
        question = self._questions.get(ticket)
        if question is None:
            return
        for step in message["steps"]:
            question.seen.setdefault(int(step["step"]), []).extend((index, task) for task in step["tasks"])
        question.waits.discard(index)
        self._maybe_answer(ticket, question)

    def node_lost(self, index: int) -> None:
        """It will not answer."""
        for ticket, question in list(self._questions.items()):
            question.waits.discard(index)
            self._maybe_answer(ticket, question)

    def gone(self, link: Link) -> None:
        """Whoever asked does not wait any more."""
        for ticket, question in list(self._questions.items()):
            if question.link is link:
                del self._questions[ticket]

    def _maybe_answer(self, ticket: int, question: _Question) -> None:
        if question.waits:
            return
        del self._questions[ticket]
        steps = [self._batch(question.seen[BATCH])] if question.seen.get(BATCH) else []
        for number, step in sorted(self._steps.steps.items()):
            if step.launched and not step.over:
                nodes = [step.name_of(index) for index in sorted(step.layout.nodes)]
                steps.append(self._step(str(number), nodes, step.ntasks, question.seen.get(number, []), step.used))
        for one in steps:
            question.link.send({"do": "usage", **one})
        question.link.send({"do": "done"})

    def _batch(self, seen: list[tuple[int, Message]]) -> Message:
        return self._step("batch", [self._name(0)], 1, seen, {})

    def _step(
        self, step: str, nodes: list[str], ntasks: int, seen: list[tuple[int, Message]], ended: Mapping[int, Usage]
    ) -> Message:
        used: Usage | None = None
        pids: dict[str, list[int]] = {}
        of_all = dict(ended)
        for index, task in seen:
            of_all[task["rank"]] = of_task(task["used"], task["rank"], self._name(index))
            pids.setdefault(self._name(index), []).extend(task["pids"])
        for rank in sorted(of_all):
            used = of_all[rank].plus(used)
        return {
            "step": step,
            "nodes": nodes,
            "ntasks": ntasks,
            "pids": sorted(pids.items()),
            "usage": (used or Usage(tasks=0)).to_dict(),
        }

    def _name(self, index: int) -> str:
        return self._spec.nodes[index].name
