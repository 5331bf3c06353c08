"""Lists with commas: of words, of counts per node (``4,1(x2)``: SLURM_TASKS_PER_NODE, SLURM_JOB_CPUS_PER_NODE), of task ranks (``0-2,5``)."""

from __future__ import annotations

from shim.core.formats.integers import is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import List, Optional, Tuple

MOST_COUNTS = 65536  # nodes that a text may stand for
MOST_RANKS = 1 << 20  # ranks that a text may stand for


def comma_list(text: Optional[str]) -> Tuple[str, ...]:
    """The words between the commas; empty ones, and None, are nothing."""
    return tuple([word for word in text.split(",") if word]) if text else ()


def split_outside_brackets(text: str, separators: str = ",") -> List[str]:
    """The words between separators that stand in no brackets: ``5_[1,3],n[1-2]`` is two. Empty ones are nothing."""
    words: List[str] = []
    word = ""
    depth = 0
    for char in text:
        if char in separators and depth == 0:
            words.append(word)
            word = ""
            continue
        depth += (char == "[") - (char == "]")
        word += char
    return [word for word in [*words, word] if word]


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
        repeat = _number(times[:-1], f"count: {word}") if bracket else 1
        if len(counts) + repeat > MOST_COUNTS:
            raise ValueError(f"Too many counts: {text}")
        counts.extend([_number(value, f"count: {word}")] * repeat)
    return counts


def fold_ranks(ranks: Iterable[int]) -> str:
    """The ranks sorted and once each, runs shortened: ``[0, 1, 2, 5]`` as ``0-2,5``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def expand_ranks(text: str) -> list[int]:
    """The ranks in the order of ``text``. Raises ValueError for anything that is not such a list."""
    ranks: list[int] = []
    for word in text.split(",") if text else []:
        low, dash, high = word.partition("-")
        first, last = _number(low, f"range: {word}"), _number(high if dash else low, f"range: {word}")
        if last < first or len(ranks) + last - first >= MOST_RANKS:
            raise ValueError(f"Invalid range: {word}")
        ranks.extend(range(first, last + 1))
    return ranks


def _number(digits: str, what: str) -> int:
    if not is_number(digits):
        raise ValueError(f"Invalid {what}")
    return int(digits)
