"""Counts per node in Slurm's short form: ``4,1(x2)`` (SLURM_TASKS_PER_NODE, SLURM_JOB_CPUS_PER_NODE)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 65536  # nodes that a text may stand for


def fold_counts(counts: Iterable[int]) -> str:
    """``[4, 1, 1]`` as ``4,1(x2)``."""
    runs: list[list[int]] = []
    for value in counts:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return ",".join(f"{value}(x{times})" if times > 1 else str(value) for value, times in runs)


def expand_counts(text: str) -> list[int]:
    """The inverse of ``fold_counts``. Raises ValueError for anything else."""
    counts: list[int] = []
    for word in text.split(",") if text else []:
        value, bracket, times = word.partition("(x")
        if bracket and not times.endswith(")"):
            raise ValueError(f"Invalid count: {word}")
        repeat = _number(times[:-1], word) if bracket else 1
        if len(counts) + repeat > LIMIT:
            raise ValueError(f"Too many counts: {text}")
        counts.extend([_number(value, word)] * repeat)
    return counts


def _number(digits: str, word: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ValueError(f"Invalid count: {word}")
    return int(digits)
