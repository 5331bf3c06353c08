"""What all readers of values share: what they need from outside, whole numbers, and ways not to have a value."""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError
from shim.core.formats.integers import int32, leading_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional, Sequence

    from shim.core.options.getopt import Option
    from shim.core.options.grammar import Grammar

INT_MAX = 2**31 - 1
# What Slurm says of a number that is below one only after it is cut to 32 bits.
_COUNTED = {"ntasks": "invalid number of tasks (-n {})", "cpus-per-task": "invalid number of cpus per task (-c {})"}


class PrintAndExit(ShimError):
    """Not a refusal: an option asked for a text (``--help``) and nothing else is to be done. ``text`` goes to stdout."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(code=code)
        self.text = text


def invalid_value(option: Option) -> UsageError:
    """Slurm's usual complaint about a value."""
    return UsageError(f"error: Invalid --{option.long} specification")


class Context:
    """What reading needs from outside: the time, who asks, files (``read(path)``: text, or OSError), the site's options, what
    its cluster has to ask for by --gres, and whom to tell (``say``, a line of stderr) what is wrong and yet no error.
    """

    __slots__ = ("grammar", "gres_names", "now", "read", "say", "uid")

    def __init__(
        self,
        now: float,
        uid: int,
        read: Callable[[str], str],
        grammar: Optional[Grammar] = None,
        gres_names: Optional[Callable[[], Sequence[str]]] = None,
        say: Optional[Callable[[str], None]] = None,
    ) -> None:
        self.now = now
        self.uid = uid
        self.read = read
        self.grammar = grammar
        self.gres_names = gres_names
        self.say = say


def _numeric(option: Option, text: str) -> ShimError:
    return ShimError(f'error: Invalid numeric value "{text}" for --{option.field}.')


def whole_int(text: str) -> Optional[int]:
    """The number that the text is as a whole; None for any other text."""
    number, rest = leading_int(text)
    return number if not rest else None


def parse_positive(option: Option, text: Optional[str], context: Context) -> int:
    """A number from one on, as Slurm keeps it in 32 bits."""
    number = whole_int(text or "")
    if number is not None and number >= 2**63 - 1:
        raise ShimError(f"error: Numeric argument ({2**63 - 1}) to big for --{option.field}.")
    number = None if number is None or number <= 0 else int32(number)
    if number is not None and number <= 0 and option.field in _COUNTED:
        raise ShimError(f"error: {_COUNTED[option.field].format(number)}")
    if number is None or number <= 0:
        raise _numeric(option, text or "")
    return number


def parse_natural(option: Option, text: Optional[str], context: Context) -> int:
    """A number from zero on, which stands for an empty text too."""
    number = whole_int(text) if text else 0
    number = None if number is None or number < 0 else int32(number)
    if number is None or number < 0:
        raise _numeric(option, text or "")
    return number
