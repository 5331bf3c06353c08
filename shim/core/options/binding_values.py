"""Options that bind tasks to devices or set frequencies. Nothing is bound here, but what Slurm refuses is refused."""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError
from shim.core.formats.cpu_freq import GOVERNORS
from shim.core.formats.integers import leading_int
from shim.core.formats.lists import comma_list
from shim.core.options.value_parsing import PrintAndExit, invalid_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Set

    from shim.core.options.getopt import Option

_ALLOWED_GOVERNORS = ("OnDemand", "Performance", "UserSpace")  # CpuFreqGovernors of Slurm's default configuration
_FREQUENCIES = ("Low", "Medium", "Highm1", "High")
_BEGINNINGS = (("lo", "Low"), ("med", "Medium"), ("him1", "Highm1"), ("highm1", "Highm1"), ("hi", "High"))
_SAMPLED = ("task", "energy", "network", "filesystem")
_MEM_FLAGS = {
    "verbose": ("verbose", True),
    "v": ("verbose", True),
    "quiet": ("verbose", False),
    "q": ("verbose", False),
    "prefer": ("prefer", True),
    "p": ("prefer", True),
    "sort": ("sort", True),
    "nosort": ("sort", False),
}
_LETTERS = {"Conservative": 2, "SchedUtil": 5}  # of a name that are looked at, where not four
_MEM_HELP = """\
Ways of --mem-bind, as a list:
    none, rank, local      not at all; by the task's number; to the task's own CPUs
    map_mem:0,1,...        a domain for each task
    mask_mem:0x1,0x2,...   a mask of domains for each task
    prefer, sort, nosort, verbose, quiet, help
"""
_HEX = "0123456789abcdef"
_NO_CPU_BINDING = "cluster configuration lacks support for cpu binding"
_BAD_CPU_BIND = "fatal: Failed to parse --cpu-bind= values."
_BAD_CPU_FREQ = "error: Invalid --cpu-freq argument"


def _gpu_bind(option: Option, text: Optional[str]) -> str:
    word = text or ""
    rest = word.lower()
    if rest.startswith("verbose,"):
        rest = rest[len("verbose,") :]
    name, colon, arguments = rest.partition(":")
    wrong = UsageError(f"error: Invalid --gpu-bind argument: gpu:{word}")
    if name in ("map_gpu", "mask_gpu") and colon:
        for part in arguments.split(",") if arguments else ():
            number, behind = leading_int(part)
            if number is None or behind[:1] not in ("", "*", *("x" * (name == "mask_gpu"))):
                offending = behind[:1] if number is not None else part[:1]
                raise UsageError(f"error: Failed to validate {part}, offending character is {offending}", *wrong.lines)
    elif not rest.startswith(("closest", "none")) and not (colon and name in ("single", "per_task")):
        raise wrong
    return word


def _gpu_freq(option: Option, text: Optional[str]) -> str:
    """``[[type=]value[,…]][,verbose]`` with values in MHz or words."""
    for part in comma_list(text) if text else ("",):
        kind, equals, value = part.rpartition("=")
        is_value = value in ("low", "medium", "high", "highm1") or value.isdigit()
        if (equals and kind != "memory") or not (is_value or part in ("verbose", "v")):
            raise UsageError(f"error: Invalid --gpu-freq argument: gpu:{text}")
    return text or ""


def _mem_bind(option: Option, text: Optional[str]) -> str:
    """Slurm's own order: verbose, prefer, sort, then the way; ``unset`` when nothing of it is left."""
    word = text or ""
    flags: Set[str] = set()
    way = ""
    for part in _cut(word.lower()):
        if part == "help":
            raise PrintAndExit(_MEM_HELP, code=255)
        if part.startswith(("map_mem", "mask_mem")):
            kind = part.partition("_mem")[0] + "_mem"
            numbers = part.replace("=", ":").partition(":")[2]
            if not numbers:
                raise UsageError(f'error: missing list for "--mem-bind={kind}:<list>"')
            way = _numbers(f"{kind}:{numbers}")
        elif part in _MEM_FLAGS:
            flag, is_on = _MEM_FLAGS[part]
            (flags.add if is_on else flags.discard)(flag)
        elif part in ("none", "no", "rank", "local"):
            way = "none" if part == "no" else part
        else:
            raise UsageError(f'error: unrecognized --mem-bind argument "{part}"')
    shown = [flag for flag in ("verbose", "prefer", "sort") if flag in flags] + ([way] if way else [])
    return ",".join(shown) or "unset"


def _cut(text: str) -> List[str]:
    """The parts of a list in which a comma before a number belongs to that part's own list of numbers."""
    parts: List[str] = []
    for word in text.split(","):
        if parts and (word[:1].isdigit() or not word.strip(_HEX)):
            parts[-1] += "," + word
        else:
            parts.append(word)
    return parts


def _numbers(text: str) -> str:
    """The list of ``map_mem:`` or ``mask_mem:``; masks lose their 0x."""
    kind, _, first = text.partition(":")
    number, rest = leading_int(first)
    if number is None or (kind == "map_mem" and rest[:1] not in ("", ",", "*")):
        offending = first[:1] if number is None else rest[:1]
        raise UsageError(f"error: Failed to validate number: {first}, the offending character is {offending}")
    return f"{kind}:{first.replace('0x', '') if kind == 'mask_mem' else first}"


def _acctg_freq(option: Option, text: Optional[str]) -> str:
    """Seconds, or a list of ``kind=seconds``. Slurm looks for a number in front, and for the kinds anywhere."""
    wrong = [part for part in comma_list(text) if not _is_sampled(part.lower())]
    if wrong:
        raise UsageError(*(f"error: Invalid --acctg-freq specification: {part}" for part in wrong))
    return text or ""


def _is_sampled(text: str) -> bool:
    places = [text, *(text.partition(f"{kind}=")[2] for kind in _SAMPLED)]
    return any((leading_int(place)[0] or 0) >= 0 and leading_int(place)[0] is not None for place in places)


def _accel_bind(option: Option, text: Optional[str]) -> str:
    """Letters in Slurm's order: v (say what is done), g (GPUs), n (networks); m (MICs) is read and means nothing."""
    given = (text or "").lower()
    letters = "".join(letter for letter in "vgn" if letter in given)
    if not letters or given.strip("gmnv"):
        raise invalid_value(option)
    return letters


def _cpu_bind(option: Option, text: Optional[str]) -> str:
    """A list of one way of binding and ``quiet``/``verbose``. The lists of map and mask contain commas themselves."""
    word = text or ""
    ways = ("none", "no", "rank", "sockets", "cores", "threads", "ldoms", "rank_ldom")
    others = ("quiet", "q", "verbose", "v")
    if word.lower() == "help":
        raise PrintAndExit("CPU bind options not supported with current configuration\n", code=1)
    listing = ""
    for part in word.lower().split(","):
        if listing and (part[:1].isdigit() or (part and not part.strip(_HEX))):
            _check_number(listing, part)
            continue
        listing, colon, first = part.partition(":")
        if colon and listing in ("map_cpu", "mask_cpu", "map_ldom", "mask_ldom"):
            if not first:
                raise _bad_cpu_bind(f'missing list for "--cpu-bind={listing}:<list>"')
            _check_number(listing, first)
            continue
        listing = ""
        if part in ("map_cpu", "mask_cpu", "map_ldom", "mask_ldom"):
            raise _bad_cpu_bind(f'missing list for "--cpu-bind={part}:<list>"')
        if part not in ways and part + "s" not in ways and part not in others:
            raise _bad_cpu_bind(f'unrecognized --cpu-bind argument "{part}"')
    return word


def _check_number(kind: str, text: str) -> None:
    """A CPU of a map, or the mask of a task; ``*3`` behind it repeats it."""
    number = text[2:] if kind.startswith("mask") and text.startswith("0x") else text
    digits = _HEX if kind.startswith("mask") else "0123456789"
    offending = number.partition("*")[0].lstrip(digits)[:1]
    if offending:
        raise _bad_cpu_bind(f"Failed to validate number: {number}, the offending character is {offending}")


def _bad_cpu_bind(why: str) -> ShimError:
    return ShimError(_NO_CPU_BINDING, f"error: {why}", _BAD_CPU_BIND)


def _cpu_freq(option: Option, text: Optional[str]) -> str:
    """``min[-max][:governor]`` with kilohertz or a word, or a governor alone; words as Slurm writes them."""
    frequencies, colon, governor = (text or "").partition(":")
    least, dash, most = frequencies.partition("-")
    alone = _proper(least, GOVERNORS)
    if alone and colon:
        raise UsageError(
            f"error: governor cannot be specified twice {least}{{-}}:{governor} in --cpu-freq", _BAD_CPU_FREQ
        )
    if alone and not dash:
        return _governor(least)
    shown = [least if alone else _frequency(least), *([_frequency(most)] if dash else ())]
    if dash and (alone or _rank(shown[0]) > _rank(shown[1])):
        raise UsageError(f"error: min cpu-frec ({least}) must be < max cpu-freq ({most})", _BAD_CPU_FREQ)
    if colon and not dash:
        raise UsageError(f"error: gov on cpu-frec ({governor}) illegal without max", _BAD_CPU_FREQ)
    return "-".join(shown) + (f":{_governor(governor)}" if colon else "")


def _frequency(word: str) -> str:
    number = leading_int(word)[0]
    lower = word.lower()
    proper = next((name for begin, name in _BEGINNINGS if lower.startswith(begin)), str(number or ""))
    if not proper:
        raise UsageError(f'error: unrecognized --cpu-freq argument "{word}"', _BAD_CPU_FREQ)
    return proper


def _rank(word: str) -> int:
    """What is compared of a frequency; the words stand above all numbers."""
    return (1 << 31) + _FREQUENCIES.index(word) if word in _FREQUENCIES else leading_int(word)[0] or 0


def _governor(word: str) -> str:
    proper = _proper(word, GOVERNORS)
    if not proper:
        raise UsageError(f"error: illegal governor: {word} on --cpu-freq", _BAD_CPU_FREQ)
    if proper not in _ALLOWED_GOVERNORS:
        raise UsageError(f"error: governor of {word} is not allowed in slurm.conf", _BAD_CPU_FREQ)
    return proper


def _proper(word: str, names: Sequence[str]) -> str:
    """The one of ``names`` with whose beginning ``word`` begins, as it is spelt there; empty if there is none."""
    return next((name for name in names if word.lower().startswith(name[: _LETTERS.get(name, 4)].lower())), "")


READERS: Dict[str, Callable[[Option, Optional[str]], Any]] = {
    "accel-bind": _accel_bind,
    "acctg-freq": _acctg_freq,
    "cpu-bind": _cpu_bind,
    "cpu-freq": _cpu_freq,
    "gpu-bind": _gpu_bind,
    "gpu-freq": _gpu_freq,
    "mem-bind": _mem_bind,
}
