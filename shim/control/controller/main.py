"""The controller's process: one for each state folder, started by whoever needs it (starter.py).

Listens before it imports any large module, so that the command that started it can already connect. Its standard output and
error are the log.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from typing import TYPE_CHECKING

from shim.control import alive, paths, starter
from shim.core.errors import ShimError, missing_package
from shim.job import dispositions, simulated_time
from shim.job.agent import herald

if TYPE_CHECKING:
    import socket

    from shim.control.controller.controller import Controller

IDLE = 60.0  # seconds without jobs and connections after which it leaves; SHIM_CONTROLLER_IDLE
_LOCK_PATIENCE = 5.0  # seconds for one that is just leaving to give up the lock
_REFUSALS = 2.0  # seconds in which a controller that cannot work tells why
_LOOK = 2.0  # seconds between looks at the lock's place
_NEW_HERALD = 0.05  # seconds that a new herald has until it is looked whether it is there
_AGAIN = -1  # what the controller's work returns when it must restart
_LOG_LIMIT = 4 * 1024 * 1024  # bytes; a longer log is rotated


def main() -> int:
    """Runs the controller and ends the process; returns (0) only if there is another one already."""
    dispositions.reset()  # whoever started it
    from shim.control.controller.listening import listen

    starter.ties = _tied()
    try:  # whoever started it reads what is written here until it listens
        paths.refuse_others()
        starter.own_limits()
        # Once for all: it is asked for a dozen times a job, and nothing may move it while this process lives.
        os.environ[paths.HOST_VARIABLE] = paths.state_dir()
        lock = _handed_on() or _lock(_lock_path())
        if lock is None:
            return _over(0)  # another one is there
        path = paths.socket_path()
        sock = listen(path)
        _detach(paths.log_path())
    except (ShimError, starter.TooLow) as error:
        sys.stderr.write(f"{error}\n")
        return _over(1)
    except OSError as error:
        sys.stderr.write(f"{starter.problem(error)}\n")
        return _over(1)
    # A child that is forked without an exec (the trial of namespaces) must not keep a dead controller's place taken.
    os.register_at_fork(after_in_child=lambda: os.close(lock))
    os.register_at_fork(after_in_child=sock.close)
    code = 1
    try:
        code = _work(sock, lock)
        if code != _AGAIN:
            _over(code)
    except Exception:
        # The last line of defence: it is in the log, and who waits for an answer sees the connection end.
        import traceback

        traceback.print_exc()
    finally:
        # Made to be killed at any moment, it need not take itself apart either: nothing may keep a dead one's place taken.
        try:
            if code == _AGAIN:
                _begin_anew(lock)
            if _in_place(lock):
                os.unlink(path)  # else it is a successor's, in a folder created since
        finally:
            sys.stderr.flush()
            os._exit(code)


def _lock_path() -> str:
    return paths.state_dir() + "/controller.lock"


def _in_place(lock: int) -> bool:
    """Whether the lock is still the one at its path: who holds that has the socket, the log and the jobs of this folder."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(_lock_path()))
    except FileNotFoundError:
        return False
    except OSError:
        return True  # a network's troubles pass


def _tied() -> herald.Ties | None:
    """The ties to its herald that this controller was started with."""
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    if not word:
        return None
    bell, life = map(int, word.split(","))
    for fd in (bell, life):
        os.set_inheritable(fd, False)
    # A child that is forked without an exec must not seem to be a controller that lives.
    os.register_at_fork(after_in_child=lambda: os.close(life))
    return herald.Ties(bell, life, starter.argv())


def _over(code: int) -> int:
    """This controller ends in order, with that code: its herald starts no successor."""
    if starter.ties is not None:
        starter.ties.goodbye()
    return code


def _handed_on() -> int | None:
    """The lock that this process held before it restarted."""
    if len(sys.argv) < 4:
        return None
    lock = int(sys.argv[3])
    os.set_inheritable(lock, False)
    return lock


def _begin_anew(lock: int) -> None:
    """Restarts in this process, with the current configuration. Nobody else gets the lock meanwhile."""
    sys.stderr.flush()
    os.set_inheritable(lock, True)
    tied = herald.handed_on(starter.ties.bell, starter.ties.life) if starter.ties is not None else ""
    command = [*starter.argv(), tied, str(lock)]
    os.execve(command[0], command, starter.environment(os.environ))


def _lock(path: str) -> int | None:
    """The lock that makes this the only controller; None if there is one that listens."""
    end = time.monotonic() + _LOCK_PATIENCE
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _in_place(lock):
                _sign(lock)
                return lock
        except OSError:
            if alive.alive() or time.monotonic() > end:
                return None
            time.sleep(0.01)
        os.close(lock)


def _sign(lock: int) -> None:
    """Writes the pid into the lock, for people who look for it."""
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        pass  # on a full disk it still has to tell everybody about that


def _detach(path: str) -> None:
    """Output to the log, whoever started this process and with what; nothing of the caller's folder and umask is kept."""
    try:
        if os.path.getsize(path) > _LOG_LIMIT:
            os.replace(path, path + ".old")
    except FileNotFoundError:
        pass  # the first one
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    os.umask(0o077)
    os.chdir("/")


def _work(sock: socket.socket, lock: int) -> int:
    _spare_ssl()
    import asyncio
    import logging

    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(process)d %(levelname)s %(message)s"
    )
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(_serve(sock, lock))


def _spare_ssl() -> None:
    """Lets asyncio go without ssl, a tenth of a start: no stream of the controller is encrypted by asyncio."""
    if "ssl" not in sys.modules:
        sys.modules["ssl"] = None  # type: ignore[assignment]
        import asyncio as _asyncio  # noqa: F401

        del sys.modules["ssl"]


async def _serve(sock: socket.socket, lock: int) -> int:
    import asyncio
    import signal

    from shim.control.controller.server import refuse_all
    from shim.control.controller.world import log
    from shim.job.agent.herald import SUCCESSION

    try:
        controller = _made()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, controller.stop)
        log.info("controller %s begins", os.getpid())
        controller.world.task(_watch_place(lock, controller))
        if starter.ties is not None:
            _keep_herald(starter.ties)
        if await controller.run(sock, unasked=SUCCESSION in os.environ):
            log.info("controller %s begins anew: the configuration has changed", os.getpid())
            return _AGAIN
    except ShimError as error:
        log.error("%s", error)
        await refuse_all(sock, error.lines, _REFUSALS)
        return 1
    log.info("controller %s ends", os.getpid())
    return 0


def _keep_herald(ties: herald.Ties) -> None:
    """Has another herald made whenever there is none any more: it has the same pipes, so that leaders of before are heard by it."""
    import asyncio

    loop = asyncio.get_running_loop()

    def look() -> None:
        loop.add_reader(ties.bell, gone)

    def gone() -> None:
        loop.remove_reader(ties.bell)
        try:
            ties.herald()
        except OSError as error:
            sys.stderr.write(f"controller {os.getpid()} cannot have a herald: {error.strerror}\n")
        loop.call_later(_NEW_HERALD, look)

    look()


async def _watch_place(lock: int, controller: Controller) -> None:
    """Ends a controller whose state folder was removed: nobody can reach it, and it would disturb a successor in a folder of that name."""
    import asyncio

    while _in_place(lock):
        await asyncio.sleep(_LOOK)
    sys.stderr.write(f"controller {os.getpid()} leaves: its folder is gone\n")
    controller.stop()


def _made() -> Controller:
    """The controller over this host's index and configuration. Raises ShimError where one of them cannot be used, and where
    a package is missing.
    """
    if sys.flags.no_site:
        # Started with -S: what the index's migrations and the backends need is in site-packages.
        import site

        site.main()
    from shim.control.backends import make
    from shim.control.controller.configured import Configured

    try:
        from shim.control.controller.controller import Controller
        from shim.control.index.opening import open_store

        configured = Configured()
        store = open_store(paths.index_path())
        clock = simulated_time.clock(paths.state_dir()) or time.time
        return Controller(store, configured.clusters, make, clock, _idle_seconds(), configured)
    except ModuleNotFoundError as error:
        raise missing_package(error, sys.executable) from None


def _idle_seconds() -> float:
    try:
        return float(os.environ["SHIM_CONTROLLER_IDLE"])
    except (KeyError, ValueError):
        return IDLE
