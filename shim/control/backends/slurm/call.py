"""The call of the real program that answers a route, and becoming it."""

from __future__ import annotations

import os

from shim.control.backends.slurm import guard, programs
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn

    from shim.core.routing import Route
else:
    import _signal


class Call:
    """One call of a real program: its path, ``argv`` with the name it is called by, its environment."""

    __slots__ = ("argv", "environment", "path")

    def __init__(self, path: str, argv: list[str], environment: dict[str, str]) -> None:
        self.path = path
        self.argv = argv
        self.environment = environment


def become(call: Call) -> NoReturn:
    """Makes this process the real command. ShimError if the system refuses."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # which Python ignores, for itself and what it becomes
        _signal.signal(number, _signal.SIG_DFL)
    try:
        os.execve(call.path, call.argv, call.environment)
    except OSError as error:
        raise ShimError(f"error: {call.path}: {error.strerror}") from None


def follow(program: str, route: Route) -> NoReturn:
    """Makes this process the real command that answers this route. ShimError if there is none."""
    become(made(program, route))


def made(program: str, route: Route) -> Call:
    """The call of the real program that answers this route. ShimError if there is none."""
    before = guard.tried(os.environ)
    path, kind = programs.find(program, route.ref.folder, os.environ.get("PATH", ""), before)
    environment = _environment()
    for name in route.dropped:
        del environment[name]
    if route.ref.conf and not route.in_job:
        environment["SLURM_CONF"] = route.ref.conf
    if kind == programs.SCRIPT:
        environment[guard.VARIABLE] = guard.value(environment, [*before, path])
    return Call(path, [program, *route.argv], environment)


def _environment() -> dict[str, str]:
    """The caller's environment: without the LC_CTYPE that Python sets for itself in the C locale, and without our guard."""
    environment = dict(os.environ)
    environment.pop(guard.VARIABLE, None)
    if environment.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        try:
            with open("/proc/self/environ", "rb") as file:
                if not any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0")):
                    del environment["LC_CTYPE"]
        except OSError:
            pass  # then it stays, and says what most machines say anyway
    return environment
