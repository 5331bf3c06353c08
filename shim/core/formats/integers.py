"""Numbers as C reads them: Slurm's values are read by strtol, and users see it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

SPACE = " \t\n\v\f\r"
_MOST = 20  # more digits than any limit allows are not worth their cost


def leading_int(text: str) -> Tuple[Optional[int], str]:
    """The number at the start of ``text``, behind blanks and a sign, and what follows; None and the whole text if it begins with no number."""
    body = text.lstrip(SPACE)
    sign = body[:1] if body[:1] in ("+", "-") else ""
    end = len(sign)
    while end < len(body) and body[end] in "0123456789":
        end += 1
    if end == len(sign):
        return None, text
    return int(body[: min(end, _MOST)]), body[end:]


def is_number(text: str, longest: int = 18) -> bool:
    """Whether ``text`` is nothing but 1 to ``longest`` digits: with 18 of them any interpreter takes it, whatever its limits."""
    return text.isascii() and text.isdigit() and len(text) <= longest


def leading_digits(text: str) -> Tuple[int, str]:
    """The number of the digits at the very start of ``text`` (0 if there are none; of long ones the first 18), and what follows."""
    end = 0
    while end < len(text) and text[end] in "0123456789":
        end += 1
    return int(text[:end].lstrip("0")[:18] or "0"), text[end:]


def int32(number: int) -> int:
    """What is left of a number where C keeps 32 bits of it, with a sign."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def strtol(text: str) -> Tuple[int, str]:
    """``leading_int`` with 0 for no number."""
    number, rest = leading_int(text)
    return number or 0, rest
