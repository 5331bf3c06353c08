"""Where every program starts: the launchers in bin/, which pip installs as they are, call ``launch``.

They run the interpreter with ``-I -S``: neither the user's PYTHON* variables nor site-packages are seen. What needs a
dependency (the controller, ``shim``) calls ``add_site_packages`` first.
"""

from __future__ import annotations

import gc
import os
import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType
    from typing import NoReturn


# These may run for days; the others end before garbage in cycles could matter, and looking for it costs a tenth of their work.
_LASTING = ("srun", "salloc", "shim")
_HAND_ON = ("sbatch", "srun", "salloc")  # their environment


def launch() -> NoReturn:
    """Runs the program named in the first argument and ends this process with its exit code.

    ``NAME:PID:FD``: our child PID is a copy of the shell that became this process, with the environment that the shell was given;
    it waits for the end of descriptor FD.
    """
    here = globals().get("__file__", "")  # none in a pod, where modules come out of an archive
    if here.endswith("/shim/main.py"):
        sys.meta_path.insert(0, Finder(here[: -len("shim/main.py")]))
    sys.argv[1], *copy = sys.argv[1].split(":")
    if sys.argv[1] in _HAND_ON:
        _restore_environment(*map(int, copy))
    if sys.argv[1] not in _LASTING:
        gc.disable()
    if sys.version_info < (3, 9):  # noqa: UP036 - the launcher takes whatever python3 is
        sys.stderr.write(
            f"{sys.argv[1]}: error: Python 3.9 or later is needed, this is {sys.version.split()[0]}"
            f" ({sys.executable}); name another interpreter in SHIM_PYTHON\n"
        )
        sys.exit(1)
    _call_process(sys.argv[1])
    _end(sys.argv[1], sys.argv[2:])


def _call_process(name: str) -> None:
    """Lets ``ps`` and ``pgrep`` find this process by the command's name, not the interpreter's."""
    try:
        comm = os.open("/proc/self/comm", os.O_WRONLY)
    except OSError:
        return  # no Linux, or no /proc
    try:
        os.write(comm, os.fsencode(name))
    except OSError:
        pass
    finally:
        os.close(comm)


class Compiled(SourceFileLoader):
    """A module of ours whose byte code is there and fits its source, by the same signs that Python goes by."""

    code: CodeType

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's code."""
        exec(self.code, module.__dict__)


class Finder:
    """Finds the modules below ``root``: a file's status and a file read for each, which is half of what Python's own finders do for them.

    What has no byte code that fits is left to these, which write it.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._compiled = f".{sys.implementation.cache_tag}.pyc"

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As a meta path's finder."""
        if not name.startswith("shim."):
            return None
        folder, _, last = f"{self._root}{name.replace('.', '/')}".rpartition("/")
        spec = self._spec(name, folder, last)
        if spec is None:
            folder = f"{folder}/{last}"
            spec = self._spec(name, folder, "__init__")
            if spec is not None:
                spec.submodule_search_locations = [folder]
        return spec

    def _spec(self, name: str, folder: str, file: str) -> ModuleSpec | None:
        path = f"{folder}/{file}.py"
        cached = f"{folder}/__pycache__/{file}{self._compiled}"
        try:
            source = os.stat(path)
            opened = os.open(cached, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        # Taken out while it is in use: another thread may be at another module.
        room = _room.pop() if _room else bytearray(_MOST)
        try:
            return self._fitting(name, path, cached, source, memoryview(room)[: os.readv(opened, [room])])
        except OSError:
            return None
        finally:
            os.close(opened)
            _room.append(room)

    def _fitting(
        self, name: str, path: str, cached: str, source: os.stat_result, data: memoryview
    ) -> ModuleSpec | None:
        # How it is to be checked (0: by these), time and size of the source.
        signs = (0, int(source[8]) & 0xFFFFFFFF, int(source[6]) & 0xFFFFFFFF)
        if len(data) == _MOST or data[:16] != MAGIC_NUMBER + b"".join([sign.to_bytes(4, "little") for sign in signs]):
            return None
        loader = Compiled(name, path)
        try:
            loader.code = loads(data[16:])
        except (EOFError, ValueError, TypeError):
            return None
        _fix_co_filename(loader.code, path)
        spec = ModuleSpec(name, loader, origin=path)
        spec.has_location = True
        spec.cached = cached
        return spec


_MOST = 1 << 16  # bytes of byte code that are read at once
# To read into. New memory of that size for each module would be asked of the kernel, and given back, each time.
_room: list[bytearray] = []


def add_site_packages() -> None:
    """Makes installed packages importable in an interpreter that was started with ``-S``; otherwise does nothing."""
    if sys.flags.no_site and "site" not in sys.modules:
        import site

        site.main()


def _restore_environment(copy: int = 0, fd: int = -1) -> None:
    """Undoes what shells, and Python in the C locale (LC_CTYPE), do to the variables that they are given."""
    given = _given(str(copy)) if copy else {}
    if copy:
        os.close(fd)
        os.kill(copy, 9)
        os.waitpid(copy, 0)
    given = given or _given("self")
    if not given or given == posix.environ:  # which is what os.environ began with
        return
    found = os.environb
    for name in [name for name in found if name not in given]:
        del found[name]
    for name, value in given.items():
        if found.get(name) != value:
            found[name] = value


def _given(process: str) -> dict[bytes, bytes]:
    """The environment that a process was started with; nothing where that cannot be read. Of a name's values the first one counts."""
    try:
        with open(f"/proc/{process}/environ", "rb", buffering=0) as file:
            lines = file.readall().split(b"\0")
    except OSError:
        return {}
    return {
        name: value for name, equals, value in (line.partition(b"=") for line in reversed(lines)) if name and equals
    }


def _open_streams() -> None:
    """Puts /dev/null where the caller closed a standard stream (``<&-``, ``>&-``).

    Otherwise the next file or socket that is opened would get the number and be read, or written on, as that stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 - it lasts as long as the process


def _passed(program: str, arguments: list[str]) -> Callable[[list[str]], int] | None:
    """Does not return if a real Slurm answers the command. A ``main`` that raises what stands in the way, if anything does."""
    from shim.core import routing

    if program == "shim" or (program in routing.OF_THE_JOB and routing.own_job(os.environ)):
        return None
    from shim.core.errors import ShimError

    try:
        from shim.control.backends.slurm import passing
    except ImportError:  # in a pod there is only what jobs need
        return None
    try:
        passing.attempt(program, arguments)
    except ShimError as error:
        problem = error

        def refuse(_arguments: list[str]) -> int:
            raise problem

        return refuse
    return None


def _submits(program: str, arguments: list[str]) -> bool:
    """Whether new jobs may come of it. All else acts on jobs that are there, or shows them."""
    if program == "scrontab":
        return not {"-l", "-r"}.intersection(arguments)
    return program in _HAND_ON and (program != "srun" or "SHIM_RUN_DIR" not in os.environ)


def _warn(program: str, arguments: list[str]) -> None:
    """Says what of the configuration is not read."""
    try:
        from shim.control import sources
    except ImportError:  # in a pod there is none
        return
    from shim.core import memo

    if program != "shim":
        memo.hold()
    sources.warn(program)
    if program != "shim" and not _submits(program, arguments):
        from shim.control import site

        site.go_on(program)


def _simulate_time() -> None:
    """The clock of a throw-away cluster (``shim/testing``) becomes this process's, if it is such a cluster that the process is for."""
    import time

    from shim.core.errors import ShimError
    from shim.job import simulated_time

    try:
        from shim.control import paths

        clock = simulated_time.clock(paths.state_dir())
    except (ImportError, ShimError):
        return  # in a pod; or a state folder that the command itself will refuse
    if clock is not None:
        time.time = clock


def _end_unread() -> None:
    """Ends this process as SIGPIPE does, which Python ignores from its start."""
    import _signal  # type: ignore[import-not-found]

    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    os.kill(os.getpid(), _signal.SIGPIPE)


def _end(program: str, arguments: list[str]) -> NoReturn:
    if "SHIM_SIMULATED_TIME" in os.environ:
        _simulate_time()
    _warn(program, arguments)
    main = _passed(program, arguments)
    from shim.commands import entrypoint
    from shim.commands.output import Messages

    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # Names and paths are bytes to Slurm: what was not valid text on the way in goes out unchanged.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding=sys.getfilesystemencoding(), errors="surrogateescape")
    sys.stderr = Messages(sys.stderr.buffer, sys.getfilesystemencoding(), "surrogateescape", line_buffering=True)
    if program == "shim":
        add_site_packages()
    code = entrypoint.run(program, arguments, main)
    if code == entrypoint.PIPE_CLOSED:
        _end_unread()
    if "threading" in sys.modules or "asyncio" in sys.modules:
        sys.exit(code)
    # All output is flushed: a short command need not take its interpreter apart.
    os._exit(code)
