"""Starts a controller from whatever needs one: a command, or a leader with news.

Any number of processes may do so at once: the controller that takes the lock stays, the others leave again. The new
process has its own interpreter flags, session and environment, so nothing of the caller's shell, job or virtual environment
reaches it or ends with it.
"""

from __future__ import annotations

import os
import sys

from shim.control import paths, sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.job.agent.herald import Ties

# By this the processes that clean up after a job know a controller that was started inside it, and leave it alone.
SERVICE_VARIABLE = "SHIM_SERVICE"

_KEPT = ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "KUBECONFIG")
# Of the caller's way to a cluster: proxies (in either case), a pod's service account, what kubeconfigs' credential plugins read.
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_KEPT_PREFIXES = ("XDG_", "SSL_CERT_", "KUBERNETES_SERVICE_", "AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_")
_LEADERS_PATIENCE = 2.0  # seconds that a leader has to answer
_NOT_HANDED_ON = ("SHIM_RUN_DIR", "SHIM_SUCCESSION")  # a job's; one controller's
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from shim.control.controller.main import main; sys.exit(main())"


def argv() -> list[str]:
    """The command that starts a controller; it goes to the background by itself once it listens or gives up."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable or "/usr/bin/python3", "-I", "-S", "-X", "utf8", "-c", _CODE, here]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a controller gets of the caller's environment: who and where, the way to a cluster, and this program's own settings."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT
        or name.upper() in _PROXIES
        or name.startswith(_KEPT_PREFIXES)
        or (name.startswith("SHIM_") and name not in _NOT_HANDED_ON)
    }
    kept.update(sources.stated(environ))
    if kept.get("KUBECONFIG"):
        kept["KUBECONFIG"] = sources.kubeconfig(environ)
    kept[SERVICE_VARIABLE] = "controller"
    return kept


def start() -> None:
    """Starts a controller that nobody waits for. OSError if the state folder cannot be made or no process can, NotOurs (paths)
    if it is not ours to use.
    """
    os.close(begin())


def begin() -> int:
    """As ``start``; a descriptor for ``told``. It ends empty once there is a controller, this or another."""
    paths.ensure(paths.state_dir())
    report, told = os.pipe()
    os.set_blocking(report, False)
    if _asked_outside(told):
        os.close(told)
        return report
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _become(told)
        except OSError as error:
            os.write(told, problem(error).encode())
        finally:
            os._exit(0)
    os.close(told)
    os.waitpid(child, 0)
    return report


def told(report: int) -> str:
    """Why there will be no controller, as far as the one that ``begin`` started has said it by now (its last line); else ""."""
    try:
        text = os.read(report, 65536)
    except BlockingIOError:
        return ""
    lines = text.decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "").replace("error: ", "", 1)


def _asked_outside(told: int) -> bool:
    """In a job: whether its leader was asked to have a controller started outside, or none can be. One that is started in here would see the
    node's mounts and names, and in them outlive the job.
    """
    own = os.environ.get("SHIM_RUN_DIR", "")
    if os.path.dirname(own) != paths.run_dir() or "SLURM_TASK_PID" not in os.environ:
        own = ""
    on_node = _on_a_node()
    if not own and not on_node:
        return False
    from shim.job import command
    from shim.job.run_folder import read_key

    others = [f"{paths.run_dir()}/{name}" for name in os.listdir(paths.run_dir())] if on_node else []
    for folder in (own, *others):
        try:
            command.ask(folder, read_key(folder), {"do": "controller"}, _LEADERS_PATIENCE)
            return True
        except (OSError, ValueError):
            continue  # that run is over
    if on_node:
        os.write(told, b"it is not started inside a job, and no agent of a job is there to have it done outside")
    return on_node


def _on_a_node() -> bool:
    """Whether this process has the mounts of a virtual node of this state folder."""
    folder = paths.state_dir()
    for name in os.listdir(folder):
        if name.startswith("private."):
            try:
                if os.path.samefile("/etc/hosts", f"{folder}/{name}/hosts"):
                    return True
                if os.path.samefile("/etc/profile", f"{folder}/{name}/profile"):
                    return True
            except OSError:
                continue
    return False


def problem(error: OSError) -> str:
    """The line that says what hinders a controller."""
    return f"it cannot be started: {error.strerror}" + (f": {error.filename}" if error.filename else "")


def _become(told: int) -> None:
    from shim.job import dispositions

    dispositions.reset()  # the caller may have been started by nohup, or by who ignores its children
    os.umask(0o077)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(paths.log_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(told, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 4096 else 4096)
    os.chdir("/")
    try:
        own_limits()
    except TooLow as why:
        os.write(2, str(why).encode())
        return
    from shim.job.agent import cgroup, herald

    cgroup.leave_jobs()
    command, own = argv(), environment(os.environ)
    ties = herald.begin(command, own)
    os.execve(command[0], [*command, herald.handed_on(ties.bell, ties.life)], own)


ties: Ties | None = None  # where this process is a controller: to its herald


class TooLow(Exception):
    """A limit of resources under which no controller can work; says which."""


# What a user sets for a program (ulimit -v, -f) is not meant for the controller of all their jobs: the least that it needs, in bytes.
_LIMITS = (("AS", 512 << 20, "-v"), ("DATA", 512 << 20, "-d"), ("FSIZE", 64 << 20, "-f"), ("CPU", 0, "-t"))


def own_limits() -> None:
    """Raises limits of this process that its caller may have lowered. TooLow where they cannot be raised enough."""
    import resource

    for name, _least, _option in _LIMITS:
        number = getattr(resource, f"RLIMIT_{name}")
        soft, hard = resource.getrlimit(number)
        if soft != hard:
            resource.setrlimit(number, (hard, hard))
    check_limits()


def check_limits() -> None:
    """TooLow for a hard limit under which no controller that is started from here can work."""
    import resource

    for name, least, option in _LIMITS:
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
        if hard != resource.RLIM_INFINITY and hard < least:
            raise TooLow(
                f"it cannot work under a hard limit of {hard >> 10} KiB (ulimit {option}): "
                "start it from a shell without that, shim controller start"
            )
