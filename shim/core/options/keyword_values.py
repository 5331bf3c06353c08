"""Options whose value is a word or a list of words of Slurm's own: distributions, mail types, hints, …"""

from __future__ import annotations

from shim.core.errors import ShimError, Unsupported, UsageError
from shim.core.formats.integers import leading_int
from shim.core.formats.lists import comma_list
from shim.core.options.value_parsing import PrintAndExit, invalid_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set

    from shim.core.options.getopt import Option

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
HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread")
MPI_TYPES = ("none", "openmpi", "pmi2", "pmix")
_LEVELS = ("block", "cyclic", "fcyclic", "*")
_PROFILES = ("Energy", "Lustre", "Network", "Task")
_SHARED_GPUS = (
    "allow-task-sharing",
    "disable-binding",
    "enforce-binding",
    "multiple-tasks-per-sharing",
    "one-task-per-sharing",
)
_PACKS = ("pack", "nopack")


HINT_HELP = """\
Application hint options:
    --hint=             Bind tasks according to application hints
        compute_bound   use all cores in each socket
        memory_bound    use only one core in each socket
        [no]multithread [don't] use extra threads with in-core multi-threading
        help            show this help message
"""


def mail_types(text: str) -> str:
    """The types of mail in Slurm's order. Words that it does not know are dropped; "" if none is known."""
    known: Set[str] = set()
    for word in text.split(","):
        upper = word.upper()
        if upper == "NONE":
            return "NONE"
        if upper == "ALL":
            known.update(name for name, in_all in MAIL_TYPES if in_all)
        elif any(upper == name for name, _ in MAIL_TYPES):
            known.add(upper)
    return ",".join(name for name, _ in MAIL_TYPES if name in known)


def _mail(option: Option, text: Optional[str]) -> str:
    types = mail_types(text or "")
    if not types:
        raise invalid_value(option)
    return types


def more_mail(before: str, after: str) -> str:
    """What ``--mail-type`` given twice comes to: all of the types."""
    names = set(before.split(",")) | set(after.split(","))
    return ",".join(name for name, _ in MAIL_TYPES if name in names) or "NONE"


def _distribution(option: Option, text: Optional[str]) -> str:
    """``node[:socket[:core]][,pack|nopack]``, ``plane=size``, ``arbitrary``; ``*`` becomes the default of its place."""
    levels, comma, pack = (text or "").lower().partition(",")
    if not comma and levels in _PACKS:
        return levels
    comma = comma and "," * bool(pack)
    words = [word for word in levels.split(":") if word] or [""]
    first, equals, size = words[0].partition("=")
    if first.startswith("plane"):
        number, rest = leading_int(size)
        if first != "plane" or not equals or number is None or number <= 0 or rest or len(words) > 1 or comma:
            raise UsageError(
                "error: Invalid plane size or size not specified", f"error: Invalid --{option.long} specification"
            )
        return levels
    good = (
        not equals
        and first in ("block", "cyclic", "*")
        and len(words) <= 3
        and all(word in _LEVELS for word in words[1:])
    )
    if first == "arbitrary":
        good = len(words) == 1
    if not good or (comma and pack not in _PACKS):
        raise invalid_value(option)
    settled = [default if word == "*" else word for word, default in zip(words, ("block", "cyclic", "cyclic"))]
    return ":".join(settled) + comma + pack


def _exclusive(option: Option, text: Optional[str]) -> str:
    word = (text or "exclusive").lower()
    if word not in ("exclusive", "user", "mcs"):
        raise invalid_value(option)
    return word


def _open_mode(option: Option, text: Optional[str]) -> str:
    """Slurm looks at the first letter only."""
    letter = (text or "")[:1].lower()
    if letter not in ("a", "t"):
        raise invalid_value(option)
    return letter


def _yes_no(option: Option, text: Optional[str]) -> bool:
    word = (text or "").lower()
    if word not in ("yes", "no"):
        raise invalid_value(option)
    return word == "yes"


def _send_libs(option: Option, text: Optional[str]) -> bool:
    """As yes or no, where letters will do."""
    word = (text or "").lower()
    return _yes_no(option, {"": "yes", "y": "yes", "n": "no"}.get(word, word))


def checked_hint(text: str) -> str:
    """The hints in small letters. Slurm looks at them when all options are read: one that is dropped then is never wrong."""
    words = text.lower().split(",")
    for word in words:
        if word == "help":
            raise PrintAndExit(HINT_HELP, code=1)
        if word not in HINTS:
            raise ShimError(f'error: unrecognized --hint argument "{word}", see --hint=help')
    return ",".join(words)


def _gres_flags(option: Option, text: Optional[str]) -> str:
    word = (text or "").lower()
    if word not in ("disable-binding", "enforce-binding"):
        raise invalid_value(option)
    return word


def _gres_flags_new(option: Option, text: Optional[str]) -> str:
    """As later releases have it: a list, with words about shared GPUs."""
    word = (text or "").lower()
    if any(part not in _SHARED_GPUS for part in word.split(",")):
        raise invalid_value(option)
    return word


def _requeue(option: Option, text: Optional[str]) -> bool:
    """``--requeue[=expedite]``; a variable sets it as it sets a flag."""
    if text and text.lower() not in ("expedite", "yes", "0", "1", "no"):
        raise invalid_value(option)
    return text not in ("0", "no")


def _tres_per_task(option: Option, text: Optional[str]) -> Dict[str, str]:
    """``cpu=2,gres/gpu:a100=1`` (or ``:`` before the number) as what --cpus-per-task and --gpus-per-task would say."""
    found: Dict[str, str] = {}
    for part in (text or "").split(","):
        name, count = part.rpartition("=")[::2] if "=" in part else part.rpartition(":")[::2]
        kind = name.replace("gres:", "gres/").lower()
        if not (count.isascii() and count.isdigit() and int(count[:10])):
            raise invalid_value(option)
        if kind == "cpu" and "cpus-per-task" not in found:
            found["cpus-per-task"] = count
        elif kind == "gres/gpu" or kind.startswith("gres/gpu:"):
            gpus = kind[len("gres/gpu:") :]
            more = f"{gpus}:{count}" if gpus else count
            found["gpus-per-task"] = f"{found['gpus-per-task']},{more}" if "gpus-per-task" in found else more
        elif kind.startswith(("gres/", "license/", "bb/")):
            raise Unsupported(f"error: --{option.long}={part} is not supported here: cpu and gres/gpu are")
        else:
            raise invalid_value(option)
    return found


def _power(option: Option, text: Optional[str]) -> str:
    """``LEVEL`` or nothing; other words are ignored (``ignored_power`` names them)."""
    return "LEVEL" if "level" in (text or "").lower().split(",") else ""


def ignored_power(text: str) -> List[str]:
    """The words of ``--power`` that Slurm does not know."""
    return [word for word in comma_list(text) if word.lower() != "level"]


def _profile(option: Option, text: Optional[str]) -> str:
    """``None``, or what to sample in Slurm's order. Words are looked for anywhere in the text: ``taskx`` is task."""
    lower = (text or "").lower()
    if "none" in lower:
        return "None"
    known = [name for name in _PROFILES if name.lower() in lower or "all" in lower]
    if not known:
        raise UsageError(f"error: invalid --profile={text or ''} option")
    return ",".join(known)


def limits_to_pass(text: str) -> List[str]:
    """The resource limits that ``--propagate=text`` names, without RLIMIT_: all for ALL or no text, none for NONE.

    Slurm reads the list when it submits, after -v has shown the options. ShimError for a name that it does not know.
    """
    from shim.core.limits import RLIMITS

    if text in ("", "ALL"):
        return list(RLIMITS)
    if text == "NONE":
        return []
    names: List[str] = []
    for word in comma_list(text):
        name = word[7:] if word.startswith("RLIMIT_") else word
        if name not in RLIMITS:
            raise ShimError(f"error: Bad rlimit name: {name}", f"error: --propagate={text} is not valid.")
        names.append(name)
    return names


def _mpi(option: Option, text: Optional[str]) -> str:
    word = text or ""
    if word == "list":
        raise PrintAndExit("MPI plugin types are...\n\tnone\n\tpmi2\n")
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
    "gres-flags": _gres_flags,
    "gres-flags-new": _gres_flags_new,
    "requeue": _requeue,
    "send-libs": _send_libs,
    "tres-per-task": _tres_per_task,
    "power": _power,
    "profile": _profile,
}
