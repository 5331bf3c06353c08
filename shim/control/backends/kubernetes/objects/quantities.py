"""Kubernetes' quantities: ``250m``, ``1.5``, ``16Gi``, ``2e3``."""

from __future__ import annotations

import re
from decimal import Decimal
from math import ceil

_FORM = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)?")
_SCALE: dict[str | None, Decimal] = {
    None: Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
MIB = 1024 * 1024


def parse(text: object) -> Decimal:
    """The number. ValueError for what is no quantity."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f'"{text}" is no quantity')
    number: Decimal = Decimal(found[1]) * _SCALE[found[2]]
    return number


def millis(text: object) -> int:
    """Thousandths, rounded up: what a CPU request takes of a node."""
    return ceil(parse(text) * 1000)


def mebibytes(text: object) -> int:
    """MiB, rounded up."""
    return ceil(parse(text) / MIB)
