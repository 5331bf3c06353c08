"""What all readers of values share: numbers as C reads them, and ways not to have a value."""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    from shim.core.options.option import Option

SPACE = " \t\n\v\f\r"


class Shown(ShimError):
    """Not a refusal: an option asked for a text (``--help``) and nothing else is to be done. ``text`` goes to stdout."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(code=code)
        self.text = text


def bad(option: Option) -> UsageError:
    """Slurm's usual complaint about a value."""
    return UsageError(f"error: Invalid --{option.long} specification")


def leading_int(text: str) -> Tuple[Optional[int], str]:
    """The number at the start of ``text``, as C's strtol reads it, and what follows; None and the text if there is none."""
    body = text.lstrip(SPACE)
    sign = body[:1] if body[:1] in ("+", "-") else ""
    end = len(sign)
    while end < len(body) and body[end] in "0123456789":
        end += 1
    if end == len(sign):
        return None, text
    # More digits than any limit allows are not worth their cost.
    return int(body[: min(end, 20)]), body[end:]
