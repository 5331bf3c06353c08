"""From an option's text to its value, with Slurm's error for each text that it refuses.

One reader for each ``kind`` of the tables. Values: counts and seconds are int, times minutes, memory MiB, instants epoch
seconds; ``nodes`` is (least, most), ``switches`` (count, seconds or None), geometry a tuple of int or None.
"""

from __future__ import annotations

from shim.core.errors import UsageError, plain
from shim.core.formats.integers import SPACE, int32, leading_int
from shim.core.options.getopt import IGNORED
from shim.core.options.value_parsing import (
    Context,
    PrintAndExit,
    invalid_value,
    parse_natural,
    parse_positive,
    whole_int,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple

    from shim.core.options.getopt import Option

__all__ = ["Context", "is_set", "value_of"]

_NICE_MAX = 2147483645


def value_of(option: Option, text: Optional[str], context: Context) -> Any:
    """The value of ``option`` given as ``text`` (None: no value given). Raises ShimError with Slurm's text and code."""
    return _READERS[option.kind](option, text, context)


def _flag(option: Option, text: Optional[str], context: Context) -> bool:
    return not text or is_set(text)


def is_set(text: Optional[str]) -> bool:
    """Whether a variable with this value sets a flag: when empty, ``yes``, or a number that is not 0; None: not there."""
    return text is not None and (not text or text.lower() == "yes" or bool(whole_int(text)))


def _level(option: Option, text: Optional[str], context: Context) -> int:
    """How much -v says: one more each time; a variable says how much at all."""
    return 1 if text is None else max(leading_int(text)[0] or 0, 0)


def _text(option: Option, text: Optional[str], context: Context) -> str:
    return text or ""


def _all(option: Option, text: Optional[str], context: Context) -> str:
    return text or "ALL"


def _minutes(option: Option, text: Optional[str], context: Context) -> int:
    from shim.core.formats.times import parse_minutes

    try:
        return parse_minutes(text or "")
    except ValueError:
        raise invalid_value(option) from None


def _memory(option: Option, text: Optional[str], context: Context) -> int:
    from shim.core.formats.sizes import parse_memory

    try:
        return parse_memory(text or "")
    except ValueError:
        raise invalid_value(option) from None


def _when(option: Option, text: Optional[str], context: Context) -> int:
    from shim.core.formats.datetimes import WhenError, parse_when

    if not text:
        raise invalid_value(option)
    try:
        epoch = parse_when(text, context.now)
    except WhenError as error:
        where = plain(f"Invalid time specification (pos={error.position}): {text}")
        raise UsageError(where, f"error: Invalid --{option.long} specification") from None
    if not epoch:  # the time that stands for none
        raise invalid_value(option)
    return epoch


def _set(option: Option, text: Optional[str], context: Context) -> bool:
    """A flag that any value sets."""
    return True


def _compress(option: Option, text: Optional[str], context: Context) -> str:
    """A type of compression; Slurm goes on without any where it does not know it."""
    if text and text.lower() not in ("lz4", "none") and context.say is not None:
        context.say(f"error: Compression type '{text}' unknown, disabling compression support.")
    return text.lower() if text and text.lower() == "lz4" else "none" if text else "lz4"


def _nodes(option: Option, text: Optional[str], context: Context) -> Tuple[int, int]:
    return node_range(text or "")


def node_range(text: str) -> Tuple[int, int]:
    """``2``, ``2-4``, ``1k`` as (least, most); a missing least is 1, a most of 0 is no limit. Raises UsageError."""
    low, dash, high = text.partition("-")
    least = _node_count(low)
    if dash:
        most = _node_count(high)
        least = max(least, 1) if least < 0 else least
    else:
        most = least
        if least < 0:
            raise _node_error(low)
    if most != 0 and most < least:
        raise UsageError(f"error: Maximum node count {most} is less than minimum node count {least}")
    return least, most


def _node_count(text: str) -> int:
    """A number with an optional k or m; -1 for nothing at all."""
    number, rest = leading_int(text)
    if number is None:
        number = -1
    elif rest[:1] in ("k", "K"):
        number, rest = number * 1024, rest[1:]
    elif rest[:1] in ("m", "M"):
        number, rest = number * 1024 * 1024, rest[1:]
    if rest.strip(SPACE) or number >= 2**63 - 1:
        raise _node_error(text)
    return int32(number)


def _node_error(text: str) -> UsageError:
    return UsageError(f'error: "{text}" is not a valid node count')


def _nice(option: Option, text: Optional[str], context: Context) -> int:
    if not text:
        return 100
    number = leading_int(text)[0] or 0
    if abs(number) > _NICE_MAX:
        raise UsageError(f"error: Invalid --nice value, out of range (+/- {_NICE_MAX})")
    return number


def _no_kill(option: Option, text: Optional[str], context: Context) -> bool:
    if text and text.lower() not in ("set", "off", "no"):
        raise invalid_value(option)
    return not text or text.lower() == "set"


def _user_env(option: Option, text: Optional[str], context: Context) -> str:
    """``[timeout][L|S]`` as Slurm shows it; no timeout is 0."""
    number, rest = leading_int(text or "0")
    kind = rest[:1].upper()  # nothing behind it is looked at
    if kind not in ("", "L", "S"):
        raise invalid_value(option)
    return "(null)" if number == -1 and not kind else f"{number or 0}{kind}"


def _root(option: Option, text: Optional[str], context: Context) -> str:
    if context.uid != 0:
        raise UsageError(f"error: --{option.long} only permitted by root user")
    return text or ""


def _file(option: Option, text: Optional[str], context: Context) -> str:
    return "/dev/null" if text is not None and text.lower() == "none" else text or ""


def _hosts(option: Option, text: Optional[str], context: Context) -> str:
    return text or ""


def _gres(option: Option, text: Optional[str], context: Context) -> str:
    if (text or "").lower() == "help":
        names = context.gres_names() if context.gres_names is not None else ("gpu",)
        raise PrintAndExit("Valid gres options are:\n" + "".join(f"{name}[[:type]:count]\n" for name in names))
    return text or ""


_READERS: Dict[str, Callable[[Option, Optional[str], Context], Any]] = {
    "flag": _flag,
    "level": _level,
    "autocomplete": _text,
    IGNORED: _text,
    "text": _text,
    "bcast": _text,
    "hint": _text,
    "node-file": _text,
    "slurmd-debug": _text,
    "all": _all,
    "path": _text,
    "count": parse_positive,
    "natural": parse_natural,
    "minutes": _minutes,
    "memory": _memory,
    "when": _when,
    "set": _set,
    "compress": _compress,
    "nodes": _nodes,
    "nice": _nice,
    "no-kill": _no_kill,
    "user-env": _user_env,
    "root": _root,
    "file": _file,
    "hosts": _hosts,
    "gres": _gres,
}


def _of_numbers(option: Option, text: Optional[str], context: Context) -> Any:
    """Readers that most scripts do not need are in modules of their own."""
    from shim.core.options import numeric_values

    return numeric_values.READERS[option.kind](option, text, context)


def _of_keywords(option: Option, text: Optional[str], context: Context) -> Any:
    from shim.core.options import keyword_values

    if option.kind == "power" and context.say is not None:
        for word in keyword_values.ignored_power(text or ""):
            context.say(f"error: Ignoring unrecognized power option ({word})")
    return keyword_values.READERS[option.kind](option, text)


def _of_binding(option: Option, text: Optional[str], context: Context) -> Any:
    from shim.core.options import binding_values

    return binding_values.READERS[option.kind](option, text)


for _reader, _kinds in (
    (
        _of_numbers,
        "seconds ports switch binary threads boot-delay geometry switches priority signal step-signal signals signal-name",
    ),
    (_of_binding, "accel-bind acctg-freq cpu-bind cpu-freq gpu-bind gpu-freq mem-bind"),
    (
        _of_keywords,
        "distribution exclusive gres-flags gres-flags-new mail mpi open-mode power profile requeue send-libs tres-per-task yes-no",
    ),
):
    _READERS.update(dict.fromkeys(_kinds.split(), _reader))
