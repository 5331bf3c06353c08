"""The parts of a step as srun sees them: one, or for ``srun … : …`` and ``--het-group`` one for each component."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from shim.core.model.request import StepRequest

    Message = dict[str, Any]


class Asked:
    """One part as it is asked for. ``group``: the component that it is for; ``named``: the user chose it."""

    __slots__ = ("environment", "group", "named", "request")

    def __init__(
        self, request: StepRequest, environment: Mapping[str, str], group: int = 0, named: bool = False
    ) -> None:
        self.request = request
        self.environment = environment
        self.group = group
        self.named = named


class Part:
    """One part of the step that was made. ``id`` is its step's id in texts, ``files`` those that srun itself opens."""

    __slots__ = ("files", "id", "ntasks", "ranks")

    def __init__(self, step_id: str, ranks: Sequence[int], ntasks: int, files: Mapping[str, Any]) -> None:
        self.id = step_id
        self.ranks = range(ranks[0], ranks[-1] + 1) if ranks else range(0)
        self.ntasks = ntasks  # of the whole step
        self.files = files

    def local(self, rank: int) -> int:
        """The rank as messages about this part count it."""
        return rank - self.ranks[0]


def asked_for(asked: Sequence[Asked]) -> Message:
    """The fields of a ``step`` message. One part for the job itself is not wrapped."""
    records = [
        {
            "request": one.request.to_dict(),
            "environment": dict(one.environment),
            **({"group": one.group, "named": one.named} if one.group or one.named else {}),
        }
        for one in asked
    ]
    return records[0] if len(records) == 1 else {"parts": records}


def parts_of(created: Message) -> list[Part]:
    """The parts that the leader has made."""
    ntasks = int(created["ntasks"])
    return [Part(str(one["id"]), one["ranks"], ntasks, one["files"]) for one in created["parts"]]
