"""What all readers of values share: ways not to have a value."""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.options.option import Option


class Shown(ShimError):
    """Not a refusal: an option asked for a text (``--help``) and nothing else is to be done. ``text`` goes to stdout."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(code=code)
        self.text = text


def bad(option: Option) -> UsageError:
    """Slurm's usual complaint about a value."""
    return UsageError(f"error: Invalid --{option.long} specification")
