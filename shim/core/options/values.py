"""From an option's text to its value, with Slurm's error for each text that it refuses.

One reader for each ``kind`` of the tables. Values: counts and seconds are int, times minutes, memory MiB, instants epoch
seconds; ``nodes`` is (least, most), ``switches`` (count, minutes or None), geometry a tuple of int or None.
"""

from __future__ import annotations

from shim.core.digits import SPACE, int32, leading_int
from shim.core.errors import ShimError, UsageError, plain
from shim.core.options.option import IGNORED, Option
from shim.core.options.scan import Shown, bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from shim.core.options.grammar import Grammar

_INT_MAX = 2**31 - 1
_NICE_MAX = 2147483645
NODES_INFINITE = 0
# What Slurm says of a number that is below one only after it is cut to 32 bits.
_COUNTED = {"ntasks": "invalid number of tasks (-n {})", "cpus-per-task": "invalid number of cpus per task (-c {})"}
INVALID = -2  # the time of --switches that is none


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


def value_of(option: Option, text: Optional[str], context: Context) -> Any:
    """The value of ``option`` given as ``text`` (None: no value given). Raises ShimError with Slurm's text and code."""
    return _READERS[option.kind](option, text, context)


def _numeric(option: Option, text: str) -> ShimError:
    return ShimError(f'error: Invalid numeric value "{text}" for --{option.field}.')


def _whole_int(text: str) -> Optional[int]:
    number, rest = leading_int(text)
    return number if not rest else None


def _flag(option: Option, text: Optional[str], context: Context) -> bool:
    return not text or is_set(text)


def is_set(text: Optional[str]) -> bool:
    """Whether a variable with this value sets a flag: when empty, ``yes``, or a number that is not 0; None: not there."""
    return text is not None and (not text or text.lower() == "yes" or bool(_whole_int(text)))


def _level(option: Option, text: Optional[str], context: Context) -> int:
    """How much -v says: one more each time; a variable says how much at all."""
    return 1 if text is None else max(leading_int(text)[0] or 0, 0)


def _text(option: Option, text: Optional[str], context: Context) -> str:
    return text or ""


def _all(option: Option, text: Optional[str], context: Context) -> str:
    return text or "ALL"


def _count(option: Option, text: Optional[str], context: Context) -> int:
    number = _whole_int(text or "")
    if number is not None and number >= 2**63 - 1:
        raise ShimError(f"error: Numeric argument ({2**63 - 1}) to big for --{option.field}.")
    number = None if number is None or number <= 0 else int32(number)
    if number is not None and number <= 0 and option.field in _COUNTED:
        raise ShimError(f"error: {_COUNTED[option.field].format(number)}")
    if number is None or number <= 0:
        raise _numeric(option, text or "")
    return number


def _natural(option: Option, text: Optional[str], context: Context) -> int:
    number = _whole_int(text) if text else 0
    number = None if number is None or number < 0 else int32(number)
    if number is None or number < 0:
        raise _numeric(option, text or "")
    return number


def _seconds(option: Option, text: Optional[str], context: Context) -> Optional[int]:
    """--immediate: the seconds; 0 (at once) for ``1`` and for no value; None for ``0``, with which nothing is asked."""
    number = _whole_int(text) if text else 1
    if number is None or number < 0:
        raise ShimError(f'error: Invalid numeric value "{text}" for {option.long}.')
    number &= 0xFFFFFFFF
    return 0 if number == 1 else number or None


def _ports(option: Option, text: Optional[str], context: Context) -> int:
    """How many ports to reserve; without a value Slurm takes one a task, if it has any."""
    number = _whole_int(text) if text else 0
    if number is None or not 0 <= number <= _INT_MAX:
        raise ShimError(f'error: Invalid numeric value "{text}" for --resv-port.')  # Slurm's spelling
    return number


def _switch(option: Option, text: Optional[str], context: Context) -> int:
    """A number that switches something on; without a value 1."""
    return 1 if not text else _natural(option, text, context)


def _binary(option: Option, text: Optional[str], context: Context) -> int:
    number = _natural(option, text, context)
    if number > 1:
        raise bad(option)
    return number


def _minutes(option: Option, text: Optional[str], context: Context) -> int:
    from shim.core.times import parse_minutes

    try:
        return parse_minutes(text or "")
    except ValueError:
        raise bad(option) from None


def _boot_delay(option: Option, text: Optional[str], context: Context) -> int:
    """Seconds, in the 32 bits without a sign that Slurm keeps."""
    from shim.core.times import parse_seconds_any

    try:
        return parse_seconds_any(text or "") % (1 << 32)
    except ValueError:
        raise bad(option) from None


def _memory(option: Option, text: Optional[str], context: Context) -> int:
    from shim.core.sizes import parse_memory

    try:
        return parse_memory(text or "")
    except ValueError:
        raise bad(option) from None


def _when(option: Option, text: Optional[str], context: Context) -> int:
    from shim.core.when import WhenError, parse_when

    if not text:
        raise bad(option)
    try:
        epoch = parse_when(text, context.now)
    except WhenError as error:
        where = plain(f"Invalid time specification (pos={error.position}): {text}")
        raise UsageError(where, f"error: Invalid --{option.long} specification") from None
    if not epoch:  # the time that stands for none
        raise bad(option)
    return epoch


def _signal(option: Option, text: Optional[str], context: Context) -> str:
    from shim.core.signals import parse_signal_request

    try:
        parse_signal_request(text or "")
    except ValueError:
        raise bad(option) from None
    return text or ""


def _step_signal(option: Option, text: Optional[str], context: Context) -> str:
    """The signal of srun and salloc, which have no batch shell (``B:``)."""
    from shim.core.signals import scope_of

    if "B" in scope_of(text or "")[0]:
        raise bad(option)
    return _signal(option, text, context)


def _signals(option: Option, text: Optional[str], context: Context) -> Tuple[int, ...]:
    """A list of signals that can be ignored."""
    from shim.core.signals import parse_signal

    try:
        numbers = tuple(parse_signal(word) for word in (text or "").split(","))
    except ValueError:
        raise bad(option) from None
    if any(
        number not in range(1, 65) or number in (9, 19, 32, 33) for number in numbers
    ):  # KILL, STOP, the C library's own
        raise bad(option)
    return numbers


def _set(option: Option, text: Optional[str], context: Context) -> bool:
    """A flag that any value sets."""
    return True


def _compress(option: Option, text: Optional[str], context: Context) -> str:
    """A type of compression; Slurm goes on without any where it does not know it."""
    if text and text.lower() not in ("lz4", "none") and context.say is not None:
        context.say(f"error: Compression type '{text}' unknown, disabling compression support.")
    return text.lower() if text and text.lower() == "lz4" else "none" if text else "lz4"


def _threads(option: Option, text: Optional[str], context: Context) -> int:
    number = _count(option, text, context)
    if number > 60 and context.say is not None:
        context.say(f"error: Thread value --threads={number} exceeds recommended limit of 60")
    return number


def _signal_name(option: Option, text: Optional[str], context: Context) -> int:
    """salloc --kill-command: a signal, TERM when none is named."""
    from shim.core.signals import parse_signal

    if not text:
        return 15
    try:
        number = parse_signal(text)
    except ValueError:
        raise bad(option) from None
    if not number:
        raise bad(option)
    return number


def _nodes(option: Option, text: Optional[str], context: Context) -> Tuple[int, int]:
    """``2``, ``2-4``, ``1k`` as (least, most); a missing least is 1, a most of 0 is no limit."""
    low, dash, high = (text or "").partition("-")
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


def _geometry(option: Option, text: Optional[str], context: Context) -> Tuple[Optional[int], ...]:
    """``-B sockets[:cores[:threads]]``: of each the least of a number or range, None for ``*`` and what is not said."""
    numbers: List[Optional[int]] = []
    for part, place in zip((text or "").split(":"), ("first", "second", "third")):
        number, rest = _kilo(part)
        if rest.startswith("-"):
            rest = _kilo(rest[1:])[1] if leading_int(rest[1:])[0] is not None else rest
        if part[:1] not in ("*", "") and (number is None or number < 0 or rest):
            raise ShimError(f'error: Invalid numeric value "{part}" for {place} arg of -B.')
        if number is not None and number > _INT_MAX:
            raise ShimError(f"error: Numeric argument ({number}) to big for {place} arg of -B.")
        numbers.append(number)
    return tuple(numbers) + (None,) * (3 - len(numbers))


def _kilo(text: str) -> Tuple[Optional[int], str]:
    """``leading_int`` of a number that may be said in thousands: ``1k`` is 1024."""
    number, rest = leading_int(text)
    if number is not None and rest[:1] in ("k", "K"):
        return number * 1024, rest[1:]
    return number, rest


def _switches(option: Option, text: Optional[str], context: Context) -> Tuple[int, Optional[int]]:
    count, at, time = (text or "").partition("@")
    return _count(option, count, context), switch_wait(time) if at else None


def switch_count(text: str) -> int:
    """What the variable for --switches says; ShimError as for the option."""
    return _count(Option("switches"), text, Context(0, 0, str))


def switch_wait(text: str) -> int:
    """Minutes of the wait of ``--switches``; 0 is no time here and no limit is -1, as is what ``INVALID`` says for no time at all."""
    from shim.core.times import parse_seconds_any

    try:
        seconds = parse_seconds_any(text)
    except ValueError:
        return INVALID
    return seconds if seconds < 0 else -(-seconds // 60)


def _nice(option: Option, text: Optional[str], context: Context) -> int:
    if not text:
        return 100
    number = leading_int(text)[0] or 0
    if abs(number) > _NICE_MAX:
        raise UsageError(f"error: Invalid --nice value, out of range (+/- {_NICE_MAX})")
    return number


def _priority(option: Option, text: Optional[str], context: Context) -> str:
    word = text or ""
    if word.upper() != "TOP":
        number = leading_int(word)[0] or 0
        if number < 0:
            raise UsageError("error: Priority must be >= 0")
        if number >= 0xFFFFFFFE:
            raise UsageError("error: Priority must be < 4294967294")
    return word


def _no_kill(option: Option, text: Optional[str], context: Context) -> bool:
    if text and text.lower() not in ("set", "off", "no"):
        raise bad(option)
    return not text or text.lower() == "set"


def _user_env(option: Option, text: Optional[str], context: Context) -> str:
    """``[timeout][L|S]`` as Slurm shows it; no timeout is 0."""
    number, rest = leading_int(text or "0")
    kind = rest[:1].upper()  # nothing behind it is looked at
    if kind not in ("", "L", "S"):
        raise bad(option)
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
        raise Shown("Valid gres options are:\n" + "".join(f"{name}[[:type]:count]\n" for name in names))
    return text or ""


def read_nodefile(path: str, context: Context) -> str:
    """The node names of a file as one list, in order; ``#`` begins a comment. UsageError if it cannot be read."""
    try:
        content = context.read(path)
    except IsADirectoryError:
        content = ""
    except OSError as error:
        raise UsageError(
            f"error: slurm_allocate_resources error opening file {path}, {error.strerror or 'Invalid argument'}"
        ) from None
    except ValueError:
        raise UsageError(f"error: slurm_allocate_resources error opening file {path}, Invalid argument") from None
    names = [word for line in content.split("\n") for word in line.partition("#")[0].split()]
    if not names:
        raise UsageError("error: Hostlist is empty!")
    return ",".join(names)


_READERS: Dict[str, Callable[[Option, Optional[str], Context], Any]] = {
    "flag": _flag,
    "level": _level,
    "autocomplete": _text,
    IGNORED: _text,
    "text": _text,
    "all": _all,
    "path": _text,
    "count": _count,
    "natural": _natural,
    "threads": _threads,
    "seconds": _seconds,
    "switch": _switch,
    "ports": _ports,
    "binary": _binary,
    "minutes": _minutes,
    "boot-delay": _boot_delay,
    "memory": _memory,
    "when": _when,
    "signal": _signal,
    "step-signal": _step_signal,
    "set": _set,
    "signals": _signals,
    "compress": _compress,
    "signal-name": _signal_name,
    "nodes": _nodes,
    "geometry": _geometry,
    "switches": _switches,
    "nice": _nice,
    "priority": _priority,
    "no-kill": _no_kill,
    "user-env": _user_env,
    "root": _root,
    "file": _file,
    "hosts": _hosts,
    "gres": _gres,
}


def _of_words(option: Option, text: Optional[str], context: Context) -> Any:
    """Readers of words are modules of their own: most scripts need few of them."""
    from shim.core.options import words

    if option.kind == "power" and context.say is not None:
        for word in words.ignored_power(text or ""):
            context.say(f"error: Ignoring unrecognized power option ({word})")
    return words.READERS[option.kind](option, text)


def _of_binding(option: Option, text: Optional[str], context: Context) -> Any:
    from shim.core.options import binding

    return binding.READERS[option.kind](option, text)


_READERS.update(
    dict.fromkeys(("accel-bind", "acctg-freq", "cpu-bind", "cpu-freq", "gpu-bind", "gpu-freq", "mem-bind"), _of_binding)
)
_READERS.update(
    dict.fromkeys(
        (
            *(
                "distribution",
                "exclusive",
                "gres-flags",
                "gres-flags-new",
                "mail",
                "mpi",
                "open-mode",
                "power",
                "profile",
            ),
            *("requeue", "tres-per-task", "yes-no"),
        ),
        _of_words,
    )
)
