"""The kernel calls that Python has no name for: by ctypes, with the errno of the failure.

ctypes is dear to import; the agents' fork server does it once. Where an interpreter has none, every call here raises OSError
(ENOSYS), and callers do without.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
_MNT_DETACH = 2
_PIVOT_ROOT = {
    "x86_64": 155,
    "aarch64": 41,
    "ppc64le": 203,
    "riscv64": 41,
    "s390x": 217,
}  # the C library has no name for it everywhere
_PR_SET_CHILD_SUBREAPER = 36
_IN_MODIFY = 0x2
_IN_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_CLOCK_REALTIME = 0
_TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_TFD_TIMER_CANCEL_ON_SET = 2
_FAR_OFF = (1 << 31) - 1  # seconds since the epoch: also where a long has 32 bits

_libc: Any = None


def load() -> None:
    """Do now what the first call would do. OSError where there is no ctypes."""
    global _libc
    if _libc is None:
        try:
            import ctypes
        except ImportError:
            raise OSError(errno.ENOSYS, "this Python has no ctypes") from None
        _libc = ctypes.CDLL(None, use_errno=True)
        for name in ("prctl", "unshare", "mount", "sethostname"):
            getattr(_libc, name)


def _call(name: str, *arguments: object) -> None:
    load()
    if getattr(_libc, name)(*arguments) != 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def become_subreaper() -> bool:
    """Processes below this one whose parents end become its children. False: the kernel or the interpreter cannot."""
    try:
        _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except OSError:
        return False
    return True


def watch_writes(paths: Iterable[str]) -> int:
    """A descriptor that can be read whenever somebody on this machine has written to one of the files. OSError."""
    load()
    fd: int = _libc.inotify_init1(_IN_FLAGS)
    if fd < 0:
        raise OSError(errno.EMFILE, "inotify_init1")
    for path in paths:
        if _libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY) < 0:
            os.close(fd)
            raise OSError(errno.ENOSPC, f"inotify_add_watch: {path}")
    return fd


def watch_clock() -> int:
    """A descriptor that can be read (ECANCELED) whenever somebody has set this machine's clock, or it wakes from sleep. OSError."""
    load()
    import ctypes

    fd: int = _libc.timerfd_create(_CLOCK_REALTIME, _TFD_FLAGS)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    never = (ctypes.c_long * 4)(0, 0, _FAR_OFF, 0)  # interval and time, each in seconds and nanoseconds
    if _libc.timerfd_settime(fd, _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET, never, None) != 0:
        number = ctypes.get_errno()
        os.close(fd)
        raise OSError(number, "timerfd_settime")
    return fd


def unshare(flags: int) -> None:
    """Leave namespaces. OSError."""
    _call("unshare", flags)


def mount(source: str, target: str, flags: int, kind: str | None = None, data: str | None = None) -> None:
    """Mount: bind, change propagation, or (``kind``) a file system with its options ``data``. OSError that names the target."""
    named, options = (None if text is None else os.fsencode(text) for text in (kind, data))
    try:
        _call("mount", os.fsencode(source), os.fsencode(target), named, flags, options)
    except OSError as error:
        raise OSError(error.errno, f"mount on {target}: {os.strerror(error.errno or 0)}") from None


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that is open as ``fd``; ``kind``: its CLONE_ flag. OSError."""
    _call("setns", fd, kind)


def pivot_root() -> None:
    """The working directory, a mount point, becomes the root of this mount namespace; what was the root is gone from it. OSError."""
    load()
    import ctypes

    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root: not known for {os.uname().machine}")
    if _libc.syscall(ctypes.c_long(number), b".", b".") != 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"pivot_root: {os.strerror(failed)}")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def sethostname(name: str) -> None:
    """Set the host name of this UTS namespace. OSError."""
    encoded = name.encode("ascii", "replace")
    _call("sethostname", encoded, len(encoded))
