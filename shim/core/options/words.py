"""Options whose value is a word or a list of words of Slurm's own: distributions, mail types, hints, …"""

from __future__ import annotations

from shim.core.errors import ShimError, UsageError
from shim.core.options.values import Shown, bad, leading_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Set

    from shim.core.options.option import Option

# In the order in which Slurm prints them. ALL stands for those that are marked.
MAIL_TYPES = (
    ("ARRAY_TASKS", False),
    ("INVALID_DEPEND", True),
    ("BEGIN", True),
    ("END", True),
    ("FAIL", True),
    ("REQUEUE", True),
    ("STAGE_OUT", True),
    ("TIME_LIMIT_50", False),
    ("TIME_LIMIT_80", False),
    ("TIME_LIMIT_90", False),
    ("TIME_LIMIT", False),
)
RLIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread")
MPI_TYPES = ("none", "openmpi", "pmi2", "pmix")
_LEVELS = ("block", "cyclic", "fcyclic", "*")
_PROFILES = ("energy", "task", "lustre", "network")
_GOVERNORS = ("conservative", "ondemand", "performance", "powersave", "schedutil", "userspace")
_FREQUENCIES = ("low", "medium", "highm1", "high")

HINT_HELP = """\
Application hint options:
    --hint=
        compute_bound   use all cores in each socket
        memory_bound    use only one core in each socket
        [no]multithread [don't] use extra threads with in-core multi-threading
        help            show this help message
"""


def _mail(option: Option, text: Optional[str]) -> str:
    """The types in Slurm's order. Words it does not know are dropped, but at least one must be known."""
    known: Set[str] = set()
    for word in (text or "").split(","):
        upper = word.upper()
        if upper == "NONE":
            return "NONE"
        if upper == "ALL":
            known.update(name for name, in_all in MAIL_TYPES if in_all)
        elif any(upper == name for name, _ in MAIL_TYPES):
            known.add(upper)
    if not known:
        raise bad(option)
    return ",".join(name for name, _ in MAIL_TYPES if name in known)


def more_mail(before: str, after: str) -> str:
    """What ``--mail-type`` given twice comes to: all of the types."""
    names = set(before.split(",")) | set(after.split(","))
    return ",".join(name for name, _ in MAIL_TYPES if name in names) or "NONE"


def _distribution(option: Option, text: Optional[str]) -> str:
    """``node[:socket[:core]][,Pack|NoPack]``, ``plane=size``, ``arbitrary``; in lower case."""
    levels, comma, pack = (text or "").partition(",")
    if comma and pack.lower() not in ("pack", "nopack"):
        raise bad(option)
    words = levels.lower().split(":")
    first, equals, size = words[0].partition("=")
    if first == "plane":
        number, rest = leading_int(size)
        if not equals or number is None or number <= 0 or rest or len(words) > 1:
            raise UsageError(
                "error: Invalid plane size or size not specified", f"error: Invalid --{option.long} specification"
            )
    elif first == "arbitrary":
        if len(words) > 1:
            raise bad(option)
    elif first not in ("block", "cyclic", "*") or len(words) > 3 or any(word not in _LEVELS for word in words[1:]):
        raise bad(option)
    return ":".join(words) + (f",{pack}" if comma else "")


def _exclusive(option: Option, text: Optional[str]) -> str:
    word = (text or "exclusive").lower()
    if word not in ("exclusive", "user", "mcs"):
        raise bad(option)
    return word


def _open_mode(option: Option, text: Optional[str]) -> str:
    word = (text or "").lower()
    if word not in ("a", "append", "t", "truncate"):
        raise bad(option)
    return word[0]


def _yes_no(option: Option, text: Optional[str]) -> bool:
    word = (text or "").lower()
    if word not in ("yes", "no"):
        raise bad(option)
    return word == "yes"


def _hint(option: Option, text: Optional[str]) -> str:
    word = (text or "").lower()
    if word == "help":
        raise Shown(HINT_HELP)
    if word not in HINTS:
        raise ShimError(f'error: unrecognized --hint argument "{text or ""}", see --hint=help')
    return word


def _gres_flags(option: Option, text: Optional[str]) -> str:
    word = (text or "").lower()
    if word not in ("disable-binding", "enforce-binding"):
        raise bad(option)
    return word


def _profile(option: Option, text: Optional[str]) -> str:
    """``none``, ``all`` or a list."""
    words = [word for word in (text or "").lower().split(",") if word]
    if words in (["none"], ["all"]) or (words and all(word in _PROFILES for word in words)):
        return ",".join(words)
    raise UsageError(f"error: invalid --profile={text or ''} option")


def _propagate(option: Option, text: Optional[str]) -> str:
    """``ALL`` (also without a value), ``NONE``, or names of limits with or without RLIMIT_ in front."""
    if not text:
        return "ALL"
    upper = text.upper()
    if upper in ("ALL", "NONE"):
        return upper
    names = [word[7:] if word.startswith("RLIMIT_") else word for word in upper.split(",")]
    for name, word in zip(names, text.split(",")):
        if name not in RLIMITS:
            raise ShimError(f"error: Bad rlimit name: {word}", f"error: --propagate={text} is not valid.")
    return ",".join(names)


def _gpu_bind(option: Option, text: Optional[str]) -> str:
    word = text or ""
    rest = word.lower()
    for prefix in ("verbose,", "v,"):
        if rest.startswith(prefix):
            rest = rest[len(prefix) :]
    name, colon, arguments = rest.partition(":")
    if colon:
        numbers = arguments.split(",")
        if name in ("single", "per_task"):
            good = len(numbers) == 1 and (leading_int(arguments)[0] or 0) > 0
        else:
            good = name in ("map_gpu", "mask_gpu") and all(numbers)
    else:
        good = name in ("closest", "none")
    if not good:
        raise UsageError(f"error: Invalid --gpu-bind argument: gpu:{word}")
    return word


def _cpu_bind(option: Option, text: Optional[str]) -> str:
    """A list of one way of binding and ``quiet``/``verbose``. The lists of map and mask contain commas themselves."""
    word = text or ""
    ways = ("none", "no", "n", "rank", "sockets", "cores", "threads", "ldoms", "rank_ldom", "boards", "autobind")
    others = (
        "quiet",
        "q",
        "verbose",
        "v",
        "help",
        "yes",
        "y",
        "autobind=threads",
        "autobind=cores",
        "autobind=sockets",
    )
    for part in word.lower().split(","):
        if part.startswith(("map_cpu:", "mask_cpu:", "map_ldom:", "mask_ldom:")):
            return word
        if part not in ways and part + "s" not in ways and part not in others:
            raise ShimError(f'error: unrecognized --cpu-bind argument "{word}"')
    return word


def _cpu_freq(option: Option, text: Optional[str]) -> str:
    """``min[-max][:governor]`` with kilohertz or a word, or a governor alone."""
    word = text or ""
    frequencies, colon, governor = word.lower().partition(":")
    parts = frequencies.split("-")
    good = len(parts) <= 2 and all(part in _FREQUENCIES or (part.isascii() and part.isdigit()) for part in parts)
    if not colon and frequencies in _GOVERNORS:
        good = True
    if not good or (colon and governor not in _GOVERNORS):
        raise UsageError(f'error: unrecognized --cpu-freq argument "{word}"', "error: Invalid --cpu-freq argument")
    return word


def _mpi(option: Option, text: Optional[str]) -> str:
    word = (text or "").lower()
    if word == "list":
        raise Shown("MPI plugin types are...\n\tnone\n")
    # pmix_v4 and the like name a version of the plugin.
    if word.partition("_")[0] not in MPI_TYPES:
        raise ShimError(
            f"error: Couldn't find the specified plugin name for mpi/{text} looking at all files",
            f"error: cannot find mpi plugin for mpi/{text}",
            f"error: MPI: Cannot create context for mpi/{text}",
            "error: MPI: Unable to load any plugin",
            f"error: Invalid MPI type '{text}', --mpi=list for acceptable types",
        )
    # Open MPI finds its way without help; Slurm has called this plugin none for long.
    return "none" if word == "openmpi" else word


READERS: Dict[str, Callable[[Option, Optional[str]], Any]] = {
    "mail": _mail,
    "mpi": _mpi,
    "distribution": _distribution,
    "exclusive": _exclusive,
    "open-mode": _open_mode,
    "yes-no": _yes_no,
    "hint": _hint,
    "gres-flags": _gres_flags,
    "profile": _profile,
    "propagate": _propagate,
    "gpu-bind": _gpu_bind,
    "cpu-bind": _cpu_bind,
    "cpu-freq": _cpu_freq,
}
