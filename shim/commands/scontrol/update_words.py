"""The words of ``scontrol update`` of a job: how far each may be cut, and which values scontrol itself refuses."""

from __future__ import annotations

from shim.core.errors import ShimError, plain
from shim.core.formats.integers import is_number, leading_int, strtol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_NICE = 2147483645


def _any(name: str, value: str) -> str:
    return value


def _invalid(name: str, value: str) -> ShimError:
    return ShimError(f"error: Invalid {name} value: {value}")


def _below(limit: int) -> Callable[[str, str], str]:
    """Numbers of which nothing may be left over, from 0 up to below ``limit``; no number at all is 0."""

    def check(name: str, value: str) -> str:
        number, rest = strtol(value)
        if rest or not 0 <= number < limit:
            raise _invalid(name, value)
        return str(number)

    return check


_short, _long, _memory = _below(1 << 16), _below(1 << 32), _below(1 << 63)


def _flag(name: str, value: str) -> str:
    return value if value.lower() in ("yes", "no") else _short(name, value)


def _reboot(name: str, value: str) -> str:
    return _flag("reboot", value)


def _cpus(name: str, value: str) -> str:
    """``3``, ``2-4``, ``2k``: what is no count at all is told of twice. Without a word nothing is asked."""
    low, dash, high = value.partition("-")
    for text in (low, high) if dash else (low,):
        number, rest = leading_int(text)
        if value and (number is None or rest.lower() not in ("", "k", "m")):
            raise ShimError(
                f'error: Invalid numeric value "{value}" for NumCPUs.', f"error: Invalid NumCPUs value: {value}"
            )
    if value and (strtol(low)[0] < 1 or (dash and strtol(high)[0] < strtol(low)[0])):
        raise _invalid(name, value)
    return value


def _nodes(name: str, value: str) -> str:
    if value.strip("0123456789-,kKmM") + value[:1].strip("0123456789"):
        raise ShimError(f'error: Invalid numeric value "{value}" for requested node count.', code=0)
    return value


def _throttle(name: str, value: str) -> str:
    number = strtol(value)[0]
    if number < 0:
        raise ShimError(f"error: Invalid {name} value")
    return str(number)


def _in_range(name: str, value: str) -> str:
    number = strtol(value)[0]
    if abs(number) > _MOST_NICE:
        raise ShimError(f"error: {name} value out of range (+/- {_MOST_NICE}). Value ignored")
    return str(number)


def _nice(name: str, value: str) -> str:
    return _in_range(name, value) if value else value  # 100


def _minutes(name: str, value: str) -> str:
    from shim.core.formats.times import parse_minutes

    try:
        parse_minutes(value)
    except ValueError:
        raise ShimError(f"error: Invalid {name} value") from None
    return value


def _wait(name: str, value: str) -> str:
    try:
        return _minutes(name, value)
    except ShimError:
        raise _invalid(name, value) from None


def _instant(name: str, value: str) -> str:
    if not value or not _can_be_read(value):
        raise ShimError(plain("No changes specified"))
    return value


def _end(name: str, value: str) -> str:
    """A time that cannot be read is no error to scontrol: nothing is changed."""
    if not value or not _can_be_read(value):
        raise ShimError(code=0)
    return value


def _can_be_read(value: str) -> bool:
    """Whether it is a time; says where not."""
    import time

    from shim.commands import output
    from shim.core.formats.datetimes import WhenError, parse_when

    try:
        parse_when(value, time.time())
    except WhenError as error:
        output.say("", f"Invalid time specification (pos={error.position}): {value}")
        return False
    return True


def _user(name: str, value: str) -> str:
    """Who asks decides what may be changed: this is only looked at."""
    import pwd

    try:
        pwd.getpwuid(int(value)) if is_number(value) else pwd.getpwnam(value)
    except (KeyError, OverflowError):
        raise ShimError(plain(f"Invalid UserID: {value}"), plain("Request aborted")) from None
    return value


def _mail(name: str, value: str) -> str:
    from shim.core.options.keyword_values import mail_types

    types = mail_types(value)
    if not types:
        raise ShimError(plain(f"Invalid MailType: {value}"))
    return types


# Each word with its fewest letters, in the order in which Slurm compares them: the first that begins so is meant. Then the field as
# the controller knows it ("": nothing here could be changed by it) and what looks at the value.
_ROWS: tuple[tuple[str, int, str, Callable[[str, str], str]], ...] = (
    ("JobId", 3, "JobId", _any),
    ("AdminComment", 6, "AdminComment", _any),
    ("SiteFactor", 5, "SiteFactor", _in_range),
    ("ArrayTaskThrottle", 10, "ArrayTaskThrottle", _throttle),
    ("Comment", 3, "Comment", _any),
    ("Clusters", 8, "Clusters", _any),
    ("ClusterFeatures", 8, "ClusterFeatures", _any),
    ("DelayBoot", 5, "", _minutes),
    ("TimeLimit", 5, "TimeLimit", _any),  # update.py reads its signs
    ("TimeMin", 5, "TimeMin", _minutes),
    ("Priority", 2, "Priority", _long),
    ("Nice", 2, "Nice", _nice),
    ("CPUsPerTask", 9, "", _short),
    ("NumCPUs", 6, "NumCPUs", _cpus),
    ("NumTasks", 8, "NumTasks", _long),
    ("ReqProcs", 8, "NumTasks", lambda name, value: _long("NumTasks", value)),
    ("Requeue", 4, "Requeue", _short),
    ("ReqNodes", 8, "NumNodes", _nodes),
    ("NumNodes", 8, "NumNodes", _nodes),
    ("ReqSockets", 4, "", _short),
    ("ReqCores", 4, "", _short),
    ("TasksPerNode", 2, "", _short),
    ("ReqThreads", 4, "", _short),
    ("MinCPUsNode", 4, "MinCPUsNode", _long),
    ("MinMemoryNode", 10, "MinMemoryNode", _memory),
    ("MinMemoryCPU", 10, "MinMemoryCPU", _memory),
    ("MinTmpDiskNode", 5, "MinTmpDiskNode", _memory),
    ("Partition", 2, "Partition", _any),
    ("QOS", 2, "QOS", _any),
    ("ReservationName", 3, "Reservation", _any),
    ("Name", 2, "Name", _any),
    ("JobName", 4, "JobName", _any),
    ("WCKey", 1, "WCKey", _any),
    ("StdOut", 6, "StdOut", _any),
    ("Switches", 5, "Switches", _any),
    ("wait-for-switch", 5, "", _wait),
    ("OverSubscribe", 2, "OverSubscribe", _flag),
    ("Shared", 2, "OverSubscribe", lambda name, value: _flag("OverSubscribe", value)),
    ("Contiguous", 3, "Contiguous", _flag),
    ("CoreSpec", 4, "", _short),
    ("ThreadSpec", 4, "", _short),
    ("TresPerNode", 8, "TresPerNode", _any),
    ("ExcNodeList", 3, "ExcNodeList", _any),
    ("NodeList", 8, "NodeList", _any),
    ("ReqNodeList", 8, "ReqNodeList", _any),
    ("Features", 1, "Features", _any),
    ("Prefer", 3, "Prefer", _any),
    ("Gres", 2, "Gres", _any),
    ("Account", 1, "Account", _any),
    ("BurstBuffer", 1, "BurstBuffer", _any),
    ("Dependency", 1, "Dependency", _any),
    ("EligibleTime", 2, "EligibleTime", _instant),
    ("StartTime", 2, "StartTime", _instant),
    ("EndTime", 2, "EndTime", _end),
    ("Licenses", 1, "Licenses", _any),
    ("Reboot", 3, "Reboot", _reboot),
    ("UserID", 3, "UserID", _user),
    ("Deadline", 3, "Deadline", _instant),
    ("WorkDir", 2, "WorkDir", _any),
    ("MailType", 5, "MailType", _mail),
    ("MailUser", 5, "MailUser", _any),
)


def read_word(key: str, value: str, word: str) -> tuple[str, str]:
    """The field that ``key`` names or abbreviates, and the value as the controller reads it. ShimError in Slurm's words, which name ``word``,
    for a word or a value that is none.
    """
    tag = key.lower()
    for name, fewest, field, check in _ROWS:
        if len(tag) >= fewest and name.lower().startswith(tag):
            value = check(name, value)
            if field:
                return field, value
            break
    raise ShimError(plain(f"Update of this parameter is not supported: {word}"), plain("Request aborted"))
