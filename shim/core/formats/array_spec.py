"""Job arrays: the text of ``--array`` and the set of indexes it stands for.

Answers to ``sbatch -a`` and to the ``12_[0-3%2]`` of squeue. A set is kept as runs, so that ``0-999999`` costs nothing;
an array with a uniform step is one run with that step.
"""

from __future__ import annotations

from shim.core.errors import INVALID_ARRAY
from shim.core.formats.integers import leading_digits, strtol
from shim.core.formats.lists import comma_list
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class ArraySpec(Value):
    """A non-empty set of array indexes and how many of its tasks may run at once (0: all).

    ``runs`` are first and last of each run, ascending and apart; with a ``stride`` above 1 there is exactly one run.
    ``str`` gives Slurm's normal form (``1-3,7``, ``0-3%2``, ``1-39:2``), which ``parse`` reads back to an equal value.
    """

    runs: tuple[tuple[int, int], ...]
    stride: int = 1
    throttle: int = 0

    @classmethod
    def parse(cls, text: str, max_size: int = 1001) -> ArraySpec:
        """Reads what sbatch accepts: lists, ranges and steps, ``%limit`` anywhere. Sorted, merged, once each.

        Brackets as squeue shows them are allowed around it all, or any part; numbers read as C reads them.

        Raises ValueError for an empty text (no array), a bad one, and an index that is not below ``max_size``.
        """
        pieces = comma_list(text)
        if not pieces:
            raise ValueError(INVALID_ARRAY)
        return cls._of(_runs({_piece(piece, max_size) for piece in pieces}), _throttle(text))

    @classmethod
    def of(cls, indexes: Iterable[int], throttle: int = 0) -> ArraySpec:
        """The array of exactly these indexes."""
        return cls._of(_runs({range(index, index + 1) for index in indexes}), throttle)

    @classmethod
    def _of(cls, runs: Sequence[tuple[int, int]], throttle: int) -> ArraySpec:
        stride = _stride(runs)
        if stride > 1:
            runs = ((runs[0][0], runs[-1][1]),)
        return cls(runs=tuple(runs), stride=stride, throttle=throttle)

    def __str__(self) -> str:
        limit = f"%{self.throttle}" if self.throttle else ""
        # Slurm shortens steps only in arrays of more than five that span more than ten: 1,4,7,10 and 100,200,300 stay.
        if self.stride > 1 and self.last - self.first > 10 and len(self) > 5:
            return f"{self.first}-{self.last}:{self.stride}{limit}"
        if self.stride > 1:
            return ",".join(map(str, self)) + limit
        return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in self.runs) + limit

    def __len__(self) -> int:
        return sum((high - low) // self.stride + 1 for low, high in self.runs)

    def __iter__(self) -> Iterator[int]:
        for low, high in self.runs:
            yield from range(low, high + 1, self.stride)

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and any(
            low <= index <= high and (index - low) % self.stride == 0 for low, high in self.runs
        )

    @property
    def indexes(self) -> range | tuple[int, ...]:
        """All indexes in order: a range where one suffices."""
        if len(self.runs) == 1:
            return range(self.first, self.last + 1, self.stride)
        return tuple(self)

    @property
    def first(self) -> int:
        """The lowest index (SLURM_ARRAY_TASK_MIN); it starts first."""
        return self.runs[0][0]

    @property
    def last(self) -> int:
        """The highest index (SLURM_ARRAY_TASK_MAX)."""
        return self.runs[-1][1]

    def without(self, index: int) -> ArraySpec | None:
        """The array less ``index``; None when nothing is left. An index that is not there changes nothing."""
        if index not in self:
            return self
        runs: list[tuple[int, int]] = []
        for low, high in self.runs:
            if not low <= index <= high:
                runs.append((low, high))
            elif self.stride > 1:
                runs.extend((number, number) for number in range(low, high + 1, self.stride) if number != index)
            else:
                runs.extend(run for run in ((low, index - 1), (index + 1, high)) if run[0] <= run[1])
        return self._of(runs, self.throttle) if runs else None


def written_step(text: str) -> int:
    """SLURM_ARRAY_TASK_STEP of an array given as ``text``: the first step that is written there; 1 for ``1,3,5``."""
    return leading_digits(text.partition(":")[2])[0] or 1


def _piece(text: str, max_size: int) -> range:
    """The indexes of ``7``, ``1-3``, ``1-7:2``; no number at all is 0, as for Slurm (``%2`` is task 0)."""
    low, rest = _index(text[1:] if text[0] == "[" else text)
    high, step = low, 1
    if rest[:1] == "-":
        high, rest = _index(rest[1:])
        if rest[:1] == ":":
            step, rest = _index(rest[1:])
    if rest[:1] not in ("", "%") or not 1 <= step < max(max_size, 2) or not 0 <= low <= high < max_size:
        raise ValueError(INVALID_ARRAY)
    return range(low, high + 1, step)


def _index(text: str) -> tuple[int, str]:
    number, rest = strtol(text)
    return number, rest[1:] if rest[:1] == "]" else rest


def _throttle(text: str) -> int:
    """The digits behind the first ``%``; none at all are no limit."""
    return leading_digits(text.partition("%")[2])[0]


def _runs(ranges: Iterable[range]) -> list[tuple[int, int]]:
    """The runs of the union, ascending and merged where they touch."""
    parts: list[tuple[int, int]] = []
    for indexes in ranges:
        if indexes.step == 1:
            parts.append((indexes[0], indexes[-1]))
        else:
            parts.extend((index, index) for index in indexes)
    runs: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if runs and low <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], high))
        else:
            runs.append((low, high))
    return runs


def _stride(runs: Sequence[tuple[int, int]]) -> int:
    """The distance of single indexes that are all equally far apart; 1 for anything else."""
    if len(runs) < 2:
        return 1
    stride = runs[1][0] - runs[0][0]
    previous = runs[0][0] - stride
    for low, high in runs:
        if low != high or low - previous != stride:
            return 1
        previous = low
    return stride
