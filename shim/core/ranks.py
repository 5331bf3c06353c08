"""Sets of task ranks as Slurm writes them in messages and multi-prog files: ``0-2,5``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 1 << 20  # ranks that a text may stand for


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
        first, last = _number(low, word), _number(high if dash else low, word)
        if last < first or len(ranks) + last - first >= LIMIT:
            raise ValueError(f"Invalid range: {word}")
        ranks.extend(range(first, last + 1))
    return ranks


def _number(digits: str, word: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ValueError(f"Invalid range: {word}")
    return int(digits)
