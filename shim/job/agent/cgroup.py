"""A control group for each agent, where this machine has one that its user may divide: what leaves its agent otherwise does not leave that.

A process that clears its environment, leaves its session and kills its agent with -9 cannot be told from the user's other processes by
anything else. Of version 2 any group will do (one that is delegated to the user, a systemd user's slice, root's own), of version 1 the
freezer's. No controller is switched on and no limit set. It is decided by trying, and done without where it cannot be.

An agent's group has the agent's pid in its name and is removed by it, with all that is still there, when it ends. One whose agent was killed is
ended by whoever finds that out, and by the next fork server (``sweep``). The folders in which there may be some are lines of a file in the state folder.
"""

from __future__ import annotations

import errno
import os
from time import sleep

from shim.job import rawfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Iterable
else:
    import _signal

MARK = "shim-agent-"
_FILE = "cgroups"
_PROCS = "cgroup.procs"
_TRIES = 100
_PAUSE = 0.01  # seconds between two tries: the kernel takes its time to take apart what was killed


class Home:
    """Where the agents of one state folder have their groups."""

    def __init__(self, base: str, prefix: str) -> None:
        self._base = base
        self._prefix = prefix

    def enter(self) -> str:
        """Puts this process into a group of its own, which all that it starts inherits: its folder. "" where that fails."""
        folder = f"{self._base}/{self._prefix}{os.getpid()}"
        for _ in range(3):
            try:
                os.mkdir(folder, 0o700)
                _write(f"{folder}/{_PROCS}", b"0")
                return folder
            except FileExistsError:
                end(folder)  # of one that had this pid before
            except FileNotFoundError:
                continue  # taken for one that was left, in this very moment
            except OSError:
                break
        end(folder)
        return ""


def home(state_dir: str) -> Home | None:
    """Where agents are to have their groups from now on; what agents that are gone have left is ended. None: nowhere."""
    try:
        base = find()
    except OSError:
        base = ""
    before = sweep(state_dir)
    known = [folder for folder in before if folder != base] + ([base] if base else [])
    if known != before:
        try:
            path = f"{state_dir}/{_FILE}"
            file = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.write(file, "".join(f"{folder}\n" for folder in known).encode("utf-8", "surrogateescape"))
            os.close(file)
            os.replace(f"{path}.new", path)
        except OSError:
            return None  # a full disk: nobody would find them again
    return Home(base, _prefix(state_dir)) if base else None


def find() -> str:
    """The folder below which this process may make groups: its own group's, or that of the agent below which it is. OSError: why none."""
    problem = OSError(errno.ENOENT, "this machine has neither version 2 nor version 1's freezer")
    for folder in _own():
        head, mark, _rest = folder.partition(f"/{MARK}")
        folder = head if mark else folder
        trial = f"{folder}/{MARK}trial-{os.getpid()}"
        try:
            os.mkdir(trial, 0o700)
            os.rmdir(trial)
        except OSError as refused:
            problem = OSError(refused.errno, f"{folder}: {refused.strerror}")
            continue
        if os.access(f"{folder}/{_PROCS}", os.W_OK):
            return folder
        problem = OSError(errno.EACCES, f"{folder}/{_PROCS}: {os.strerror(errno.EACCES)}")
    raise problem


def leave_jobs() -> None:
    """What a command inside a job starts for itself (a controller of another state folder) is not the job's: out of its agent's group."""
    for folder in _own():
        head, mark, _rest = folder.partition(f"/{MARK}")
        if mark:
            try:
                _write(f"{head}/{_PROCS}", b"0")
            except OSError:
                pass  # it will end with the job


def alone(folder: str) -> bool:
    """Whether nothing but this process is in its group."""
    return _processes(folder) == [os.getpid()]


def leave(folder: str) -> None:
    """Leaves this process's own group and ends all that is there."""
    try:
        _write(f"{os.path.dirname(folder)}/{_PROCS}", b"0")
    except OSError:
        return  # who sweeps does it
    end(folder)


def sweep(state_dir: str) -> list[str]:
    """Ends the groups of agents of this state folder that are gone. The folders in which there are still some."""
    text = rawfile.read_if_there(f"{state_dir}/{_FILE}").decode("utf-8", "surrogateescape")
    found = []
    for base in text.splitlines():
        left = False
        for folder in _groups(base, state_dir):
            if _has_agent(folder):
                left = True
            else:
                left = not end(folder) or left
        if left:
            found.append(base)
    return found


def end_those_of(state_dir: str, agents: Iterable[int]) -> None:
    """Ends the groups of these agents, and them: they may have been frozen by their job."""
    text = rawfile.read_if_there(f"{state_dir}/{_FILE}").decode("utf-8", "surrogateescape")
    wanted = {str(pid) for pid in agents}
    for base in text.splitlines():
        for folder in _groups(base, state_dir):
            if folder.rpartition("-")[2] in wanted:
                end(folder)


def end(folder: str) -> bool:
    """Kills all that is in a group, and in those below it, and removes them; whether it is gone."""
    for _ in range(_TRIES):
        try:
            _kill(folder)
            for below, _folders, _files in os.walk(folder, topdown=False):
                os.rmdir(below)
            return True
        except FileNotFoundError:
            return True
        except OSError:
            sleep(_PAUSE)
    return False


def _kill(folder: str) -> None:
    try:
        _write(f"{folder}/cgroup.kill", b"1")
        return
    except FileNotFoundError:
        pass  # version 1, or a kernel before 5.14: frozen, none can get away by forking
    _freeze(folder, True)
    try:
        for below, _folders, _files in os.walk(folder):
            for pid in _processes(below):
                os.kill(pid, _signal.SIGKILL)
    except ProcessLookupError:
        pass  # again, then
    finally:
        _freeze(folder, False)


def _freeze(folder: str, frozen: bool) -> None:
    for name, words in (("freezer.state", (b"THAWED", b"FROZEN")), ("cgroup.freeze", (b"0", b"1"))):
        try:
            _write(f"{folder}/{name}", words[frozen])
        except OSError:
            continue  # it has the other one, or none


def _has_agent(folder: str) -> bool:
    """Whether the agent lives that is in this group, or is about to enter it: pids come again."""
    pid = folder.rpartition("-")[2]
    return lives(pid) and (
        int(pid) in _processes(folder) or b"forkserver" in rawfile.read_if_there(f"/proc/{pid}/cmdline")
    )


def lives(pid: str) -> bool:
    """Whether there is such a process, and more of it than a zombie."""
    stat = rawfile.read_if_there(f"/proc/{pid}/stat")
    return bool(stat) and stat[stat.rfind(b")") + 2 :][:1] not in b"ZX"  # whoever is to wait for it may never do


def _processes(folder: str) -> list[int]:
    return [int(word) for word in rawfile.read_if_there(f"{folder}/{_PROCS}").split()]


def _groups(base: str, state_dir: str) -> list[str]:
    try:
        prefix = _prefix(state_dir)
        return [f"{base}/{name}" for name in os.listdir(base) if name.startswith(prefix)]
    except OSError:
        return []


def _prefix(state_dir: str) -> str:
    """Of the names of its agents' groups: other state folders have theirs beside them."""
    found = os.stat(state_dir)
    return f"{MARK}{found.st_dev:x}.{found.st_ino:x}-"


def _own() -> list[str]:
    """The folders of this process's groups that could be divided: version 2's first, then the freezer's."""
    paths = {}
    for line in os.fsdecode(rawfile.read_if_there("/proc/self/cgroup")).splitlines():
        _number, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    found = []
    for line in os.fsdecode(rawfile.read_if_there("/proc/self/mountinfo")).splitlines():
        head, _, tail = line.partition(" - ")
        root, point = head.split(" ")[3:5]
        kind, _source, options = tail.split(" ", 2)
        if kind != "cgroup2" and (kind != "cgroup" or "freezer" not in options.split(",")):
            continue
        own = paths.get("" if kind == "cgroup2" else "freezer", "/..")
        if (own + "/").startswith(root.rstrip("/") + "/") and "/.." not in own:
            found.append((kind != "cgroup2", (point + own[len(root.rstrip("/")) :]).rstrip("/")))
    return [folder for _later, folder in sorted(found)]


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)
