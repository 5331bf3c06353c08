"""The block of ``defined options`` that ``-v`` prints: every option that is set, as Slurm says its value."""

from __future__ import annotations

from shim.core.options.numeric_values import priority
from shim.core.options.sources import GEOMETRY, full_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence

    from shim.core.options.sources import Settings

_RULE = "-------------------- --------------------"
_ONCE = ("help", "usage", "version")


def defined_options(settings: Settings, directory: str) -> List[str]:
    """The lines after ``PROGRAM: ``. ``directory`` is where the command runs: paths are shown from the root."""
    lines = ["defined options", _RULE]
    shown = set()
    for option in settings.table:
        name = option.field
        if name == "switches":
            lines += _switch_variables(settings)
        if option.long == "bcast" and "SLURM_JOB_NODELIST" in settings:
            lines.append(f"{'(null)':<20}: {settings.get('SLURM_JOB_NODELIST')}")
        if name in settings.sources and name not in shown and name not in _ONCE:
            shown.add(name)
            lines.append(f"{name:<20}: {option.row.get('shown') or _show(settings, name, option.kind, directory)}")
    lines += [_RULE, "end of defined options"]
    return lines


def _switch_variables(settings: Settings) -> List[str]:
    """What variables say of --switches has no name."""
    count, wait = (settings.get("switches") or (None, None))[0], settings.get("switch-wait")
    values = (("REQ_SWITCH", str(count)), ("WAIT4SWITCH", _switch_wait(-2 if wait is None or wait < 0 else wait)))
    return [f"{'(null)':<20}: {value}" for name, value in values if name in settings]


def _show(settings: Settings, name: str, kind: str, directory: str) -> str:
    value = settings.get(name)
    if name in ("exclusive", "oversubscribe"):
        return settings.shared or ""
    if name in ("requeue", "no-requeue"):
        return "requeue" if settings.get("requeues") else "no-requeue"
    if name in ("nodefile", "nodelist") and value is None:
        return "(null)"
    if name in GEOMETRY and value is None:
        return "-2"  # Slurm's number for none
    if name == "extra-node-info":
        return _geometry([settings.get(one) for one in GEOMETRY])
    if kind == "path":
        return full_path(value, directory)
    if kind in _WITH_TEXT:
        return _WITH_TEXT[kind](value, settings.texts[name])
    if kind == "file" and settings.command != "srun":
        chdir = settings.get("chdir")
        return full_path(value, full_path(chdir, directory) if chdir else directory)
    show = _SHOW.get(kind)
    return show(value) if show is not None else str(value)


def _flag(value: bool) -> str:
    return "set" if value else "unset"


def _minutes(minutes: int) -> str:
    """``1-02:03:00``, or the words for no limit and for one that is none."""
    if minutes == -1:
        return "UNLIMITED"
    if minutes < 0:
        return "INVALID"
    days, rest = divmod(minutes, 1440)
    return (f"{days}-" if days else "") + f"{rest // 60:02d}:{rest % 60:02d}:00"


def _seconds(seconds: int) -> str:
    from shim.core.formats.times import show_clock

    return "UNLIMITED" if seconds == 0xFFFFFFFF else show_clock(seconds)


def _memory(mib: int) -> str:
    """Whole multiples of 1024 grow a unit, M being silent; 0 comes out as Slurm has it."""
    if not mib:
        return "0?"
    unit = 0
    while mib % 1024 == 0 and unit < 3:
        mib //= 1024
        unit += 1
    return f"{mib}{('', 'G', 'T', 'P')[unit]}"


def _when(epoch: int) -> str:
    from shim.core.formats.times import stamp

    return stamp(epoch)


def _nodes(value: Any) -> str:
    least, most = value
    return str(least) if most == least else f"{least}-{most}"


def _switches(value: Any) -> str:
    count, wait = value
    return f"{count}" if wait in (None, -1) else f"{count}@{_switch_wait(wait)}"


def _switch_wait(seconds: int) -> str:
    return "INVALID" if seconds < 0 else _seconds(seconds)


def _gres(text: str) -> str:
    if text.lower() == "none":
        return text
    return ",".join(word if word.startswith("gres:") else f"gres:{word}" for word in text.split(","))


def _geometry(numbers: Sequence[Optional[int]]) -> str:
    first, *others = numbers
    if all(number is None for number in numbers):
        return "unset"
    rest = "".join(f":{number}" for number in others if number is not None)
    return ("" if first is None else str(first)) + rest


def _priority(text: str) -> str:
    """A number as C reads it; TOP is a number too."""
    number = priority(text)
    return "-3" if number == 0xFFFFFFFD else str(number)


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def _signal(text: str) -> str:
    """The signal by name, the lead only if it is not the usual minute."""
    from shim.core.formats.signals import parse_signal_request, scope_of, show_signal_request

    wanted = parse_signal_request(text)
    letters = scope_of(text)[0]
    scope = ("R" if "R" in letters else "") + ("B" if "B" in letters else "")
    return (f"{scope}:" if scope else "") + show_signal_request(wanted.replace(batch=False))


def _power(text: str) -> str:
    return text or "unset"


_SHOW: Dict[str, Callable[[Any], str]] = {
    "flag": _flag,
    "no-kill": _flag,
    "minutes": _minutes,
    "boot-delay": _seconds,
    "memory": _memory,
    "when": _when,
    "nodes": _nodes,
    "switches": _switches,
    "gres": _gres,
    "power": _power,
    "priority": _priority,
    "set": _flag,
    "signal": _signal,
    "step-signal": _signal,
    "yes-no": _yes_no,
}
_LEVELS = ("quiet", "fatal", "error", "info", "verbose")


def _cpu_bind(value: str, text: str) -> str:
    """The lists alone of what has one, nothing for ways that are not bound to anything."""
    parts = value.split(",")
    for at, part in enumerate(parts):
        way, colon, first = part.lower().partition(":")
        if colon:
            return ",".join([first.replace("0x", ""), *(more.lower().replace("0x", "") for more in parts[at + 1 :])])
        if way in ("none", "no", "rank", "rank_ldom"):
            return "(null)"
    return value


def _level(value: str, text: str) -> str:
    """A level of messages by number or name; verbose is the highest that there is."""
    if text.isascii() and text.isdigit():
        return _LEVELS[min(int(text[:9]), 4)]
    return text.lower() if text.lower() in _LEVELS else _LEVELS[-1]


def _kill_signal(value: int, text: str) -> str:
    from shim.core.formats.signals import name_of

    return name_of(value)


# Kinds of which it counts how the value was written: by value and text.
_WITH_TEXT: Dict[str, Callable[[Any, str], str]] = {
    "bcast": lambda value, text: text or "set",
    "cpu-bind": _cpu_bind,
    "hint": lambda value, text: text,
    "node-file": lambda value, text: text,
    "ports": lambda value, text: text or "0",
    "seconds": lambda value, text: text or "1",
    "send-libs": lambda value, text: "set" if value else "(null)",
    "signal-name": _kill_signal,
    "signals": lambda value, text: text,
    "slurmd-debug": _level,
    "tres-per-task": lambda value, text: text,
}
