"""Where the state of this user on this host lives, and the gate in front of it and the configuration: what others could write to, or own, is not used.

Strings; writers call ``ensure`` before they create anything. What is in the folder is believed (jobs are run from it, caches are
loaded), so ``state_dir``, which every other path here begins with, looks at every level that leads to it first.

Homes are shared between hosts and SQLite is not, so the folder has one part per host. Inside a job the host's name may
be a virtual node's (``node1``), therefore each task is given the folder itself in ``SHIM_HOST_STATE_DIR``, which wins over
everything else; and one that clears its environment (``env -i``, ``su -``) finds the machine's own name in ``/etc/hosts``.
"""

from __future__ import annotations

import os

from shim.core import memo
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import stat as _stat
    from collections.abc import Iterator
else:
    import _stat

HOST_VARIABLE = "SHIM_HOST_STATE_DIR"
_HOSTS = "/etc/hosts"
_NODE_OF = b"# a virtual node of "
_OTHERS_WRITE = _stat.S_IWGRP | _stat.S_IWOTH
_MOST_LINKS = 40  # on one path, as for the kernel


class NotOurs(ShimError):
    """A state folder that is not to be used, or not to be changed, by this user; the lines say how to mend it.

    ``user``: whose it is, where it was refused because it is another's.
    """

    user: int | None = None


def state_dir() -> str:
    """The state folder. NotOurs where others than its user and root could have put things there.

    For root it may be another user's: to be read, and never to be written or run from (``ensure``, ``owner``).
    """
    folder = named()
    if folder not in _looked_at:
        _gate(folder)
    return folder


def owner() -> int:
    """The user whose state folder it is; another one than we are only where we are root."""
    folder = state_dir()
    return _looked_at[folder] if folder in _looked_at else _gate(folder)


def anothers() -> NotOurs | None:
    """What refuses the folder that ``SHIM_STATE_DIR`` names, where it is another user's: an operator asks that user's controller."""
    if "SHIM_STATE_DIR" not in os.environ:
        return None
    try:
        state_dir()
    except NotOurs as refused:
        return refused if refused.user is not None else None
    return None


def refuse_others() -> None:
    """NotOurs where the state folder is another user's: no controller is started there by root, nothing is made, no cache believed."""
    user = owner()
    if user != os.geteuid():
        raise NotOurs(
            f"error: the state folder {named()} belongs to {_name(user)}: root looks at it, but runs and changes nothing there",
            "error: name a folder of root's own (SHIM_STATE_DIR, or HOME), or run this as that user",
        )


def named() -> str:
    """``$SHIM_HOST_STATE_DIR``; else the host's part of ``$SHIM_STATE_DIR``, or of shim's folder among the user's. Not looked at."""
    exact = os.environ.get(HOST_VARIABLE)
    if exact:
        return os.path.abspath(exact)
    base = os.environ.get("SHIM_STATE_DIR")
    if not base:
        xdg = os.environ.get("XDG_STATE_HOME")
        # The XDG rules: a relative path is to be ignored.
        base = f"{xdg}/shim" if xdg and xdg.startswith("/") else os.path.expanduser("~/.local/state/shim")
    return f"{os.path.abspath(base)}/{machine()}"


def machine() -> str:
    """The name of this machine, whatever a virtual node is called."""
    return memo.once("machine", _machine)


def _machine() -> str:
    try:
        file = os.open(_HOSTS, os.O_RDONLY | os.O_CLOEXEC)
        first = os.read(file, 256).partition(b"\n")[0]
        os.close(file)
    except OSError:
        first = b""
    if first.startswith(_NODE_OF):
        return os.fsdecode(first[len(_NODE_OF) :])
    return os.uname().nodename or "localhost"


def hosts_head() -> str:
    """The first line of the ``/etc/hosts`` of virtual nodes: there ``machine`` finds its name."""
    return os.fsdecode(_NODE_OF) + machine()


def index_path() -> str:
    """The SQLite index of all jobs."""
    return state_dir() + "/index.db"


def run_dir() -> str:
    """What lives as long as a job runs: the agents' sockets, journals and locks."""
    return state_dir() + "/run"


def spool_dir() -> str:
    """Scripts and environments of jobs, one folder per index key."""
    return state_dir() + "/spool"


def job_spool(key: int) -> str:
    """The folder of one job's script and environment."""
    return f"{spool_dir()}/{key}"


def socket_path() -> str:
    """The controller's socket. May be longer than a socket address can be: see the client for how it is reached."""
    return state_dir() + "/controller.sock"


def log_path() -> str:
    """The controller's log, also where commands leave the traceback of an internal error."""
    return state_dir() + "/controller.log"


def ensure(folder: str) -> str:
    """Creates ``folder`` and what is missing above it, readable by nobody else; returns it.

    OSError if that fails; NotOurs where a level is others' to write, or the state folder another user's.
    """
    refuse_others()
    base = named()
    if base in _looked_at and folder.startswith(base + "/"):
        try:
            _walk(folder, True, base)
            return folder
        except FileNotFoundError:
            pass  # the state folder itself was removed meanwhile
    _walk(folder, True)
    return folder


_looked_at: dict[str, int] = {}  # folders that are there, with all levels above them, and whose they are


def _gate(folder: str) -> int:
    user, there = _walk(folder, False)
    if there:
        _looked_at[folder] = user
    return user


def unsafe(path: str) -> str:
    """Why a file is not to be believed: whose it is, or who else can write to it or exchange it, in words; "" where nobody else could have.

    "" too for one that is not there or cannot be looked at: who opens it is told.
    """
    own = os.geteuid()
    try:
        for level, found, last in _levels(path):
            if _anothers(found, own, last):
                return f"{level} belongs to {_name(found.st_uid)}"
            if _others_write(found, last):
                return f"{level} can be written by others (chmod go-w {level})"
    except OSError:
        pass
    return ""


def _walk(folder: str, make: bool, level: str = "") -> tuple[int, bool]:
    """Looks at each level below ``level``; whose the folder is, and whether all of it is there. ``make``: what is missing is made.

    A level that was found good cannot be exchanged afterwards by anybody but its owner and root. OSError only with ``make``.
    """
    user = os.geteuid()
    here, whose = level, user
    try:
        for here, found, last in _levels(folder, make, level):
            user, whose = _owner(folder, here, found, user, last), found.st_uid
    except OSError as error:
        if whose != os.geteuid() and isinstance(error, PermissionError) and os.environ.get("SHIM_STATE_DIR"):
            raise _hidden(folder, here, whose) from None
        if make:
            raise
        return user, False  # the next use of the folder reports the error
    return user, True


def _levels(path: str, make: bool = False, level: str = "") -> Iterator[tuple[str, os.stat_result, bool]]:
    """What leads to a path, below ``level``, links and what they lead through too: each level, what it is, and whether it is the last. OSError."""
    links = 0
    names = path[len(level) :].split("/")[::-1]
    while names:
        name = names.pop()
        if name in ("", ".", ".."):
            level = os.path.dirname(level) if name == ".." else level
            continue
        here = f"{level}/{name}"
        found = _made(here) if make else os.lstat(here)
        yield here, found, not any(names)
        if _stat.S_ISLNK(found.st_mode) and links < _MOST_LINKS:
            links += 1
            target = os.readlink(here)
            level = "" if target.startswith("/") else level
            names.extend(target.split("/")[::-1])
        else:
            level = here


def _owner(folder: str, level: str, found: os.stat_result, user: int, last: bool) -> int:
    """Whose a folder is, as far as ``level``, and above it ``user``'s. NotOurs for a level that others could have exchanged."""
    own = os.geteuid()
    if _anothers(found, user, last):
        if own != 0:
            refused = _refused(folder, level, f"belongs to {_name(found.st_uid)}", "")
            refused.user = found.st_uid
            raise refused
        user = found.st_uid
    if user == own and _others_write(found, last):
        raise _refused(folder, level, "can be written by others", f"chmod go-w {level}")
    return user


def _anothers(found: os.stat_result, user: int, last: bool) -> bool:
    return found.st_uid not in (user, 0) and (last or found.st_uid != _unknown())


def _others_write(found: os.stat_result, last: bool) -> bool:
    """Whether others can exchange what is there; in a level above it that is sticky they cannot, and nobody writes what /dev/null is read as."""
    if _stat.S_ISLNK(found.st_mode) or _stat.S_ISCHR(found.st_mode) or not found.st_mode & _OTHERS_WRITE:
        return False
    return last or not found.st_mode & _stat.S_ISVTX


def _made(folder: str) -> os.stat_result:
    try:
        return os.lstat(folder)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)  # whatever the umask takes away
    except FileExistsError:
        pass  # somebody was faster: it is looked at like any other
    return os.lstat(folder)


def _unknown() -> int:
    """The uid that stands for users without a number here: in a user namespace root, whose the upper levels are, may be one. -1: there is none."""
    if not _unknown_uid:
        try:
            with open("/proc/sys/kernel/overflowuid") as file:
                uid = int(file.read())
            with open("/proc/self/uid_map") as file:
                ranges = [[int(word) for word in line.split()] for line in file]
            _unknown_uid.append(-1 if any(first <= uid < first + size for first, _, size in ranges) else uid)
        except (OSError, ValueError):
            _unknown_uid.append(-1)
    return _unknown_uid[0]


_unknown_uid: list[int] = []  # once it is known


def _refused(folder: str, level: str, what: str, remedy: str) -> NotOurs:
    which = "" if level == folder else f" {level}"
    return NotOurs(
        f"error: the state folder {folder} is not safe:{which or ' it'} {what}, who could have put jobs there",
        f"error: {remedy + ' if you trust what is there, or ' if remedy else ''}name a folder of your own in SHIM_STATE_DIR",
    )


def _hidden(folder: str, level: str, user: int) -> NotOurs:
    """Where ``SHIM_STATE_DIR`` leads into what another user lets nobody look into (root's, too: whose levels are good as such)."""
    refused = NotOurs(
        f"error: the state folder {folder} cannot be looked at: {level} belongs to {_name(user)}",
        "error: name a folder of your own in SHIM_STATE_DIR",
    )
    refused.user = user
    return refused


def _name(uid: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"
