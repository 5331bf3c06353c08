"""Amounts of memory and disk: ``--mem``, ``--tmp`` and how squeue and scontrol print them. The unit is MiB."""

from __future__ import annotations

from shim.core.formats.integers import is_number

_UNITS = "MGTP"


def parse_memory(text: str) -> int:
    """MiB of ``100``, ``100M``, ``1G``, ``1gb``, ``2T``, ``1025K`` (kilobytes round up). Raises ValueError for other forms."""
    word = text.lstrip(" \t\n")
    word = word[1:] if word[:1] == "+" else word
    digits = word.rstrip("KMGTBkmgtb")
    unit = word[len(digits) :].upper()
    if not is_number(digits):
        raise ValueError(f"Invalid size: {text}")
    if len(unit) == 2 and unit[0] != "B" and unit[1] == "B":
        unit = unit[0]
    number = int(digits)
    if unit in ("", "M"):
        return number
    if unit == "K":
        return -(-number // 1024)
    if unit in ("G", "T"):
        return number << (10 if unit == "G" else 20)
    raise ValueError(f"Invalid size: {text}")


def show_memory(mib: int) -> str:
    """``1500M``, ``1G``, ``62.50G``: the unit grows while at most half of one is left over; ``0`` for nothing."""
    if not mib:
        return "0"
    amount: float = mib
    unit = 0
    while amount >= 1024 and int(amount) % 512 == 0 and unit + 1 < len(_UNITS):
        amount /= 1024
        unit += 1
    return f"{int(amount)}{_UNITS[unit]}" if amount == int(amount) else f"{amount:.2f}{_UNITS[unit]}"
