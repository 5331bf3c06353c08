"""What becomes of each option on each backend, and why. ``shim explain`` and docs/support.md read it.

honoured      it does what it does on Slurm
approximated  it is read, checked and shown; the reason says what is missing
inert         it has nothing to act on here, so having no effect is right
refused       the command ends with an error that names it: running without it would be another job
"""

from __future__ import annotations

from shim.core.errors import RequestError, Unsupported
from shim.core.options.table_submit import options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Tuple

    from shim.core.options.merge import Settings
    from shim.core.options.option import Option

HONOURED = "honoured"
APPROXIMATED = "approximated"
INERT = "inert"
REFUSED = "refused"
FATES = (HONOURED, APPROXIMATED, INERT, REFUSED)
COMMANDS = ("sbatch", "srun", "salloc")

HET = "heterogeneous jobs are not supported yet"

_LOCAL: Dict[str, Dict[str, str]] = {
    APPROXIMATED: {
        "account": "recorded and shown; no accounts are known, so every one is accepted and none has limits",
        "contiguous": "recorded; nodes are chosen in order, which is contiguous on an idle cluster",
        "cores-per-socket": "checked against the nodes; cores are not bound",
        "distribution": "tasks go to nodes as asked; within a node nothing is bound",
        "exclusive": "=user and =mcs are as without a value in that nodes are not shared with other users",
        "extra-node-info": "checked against the nodes; cores are not bound",
        "get-user-env": "the login environment is made when the job starts; the timeout has no effect",
        "gpu-bind": "recorded; which GPUs a task sees follows from --gpus-per-task alone",
        "hint": "sets --cores-per-socket and --threads-per-core as on Slurm; cores are not bound",
        "kill-command": "the command is signalled when the allocation ends",
        "mail-type": "recorded and shown; no mail is sent",
        "mail-user": "recorded and shown; no mail is sent",
        "no-kill": "recorded; a job that loses a node ends all the same",
        "ntasks-per-core": "counts tasks; cores are not bound",
        "ntasks-per-socket": "counts tasks; cores are not bound",
        "prefer": "recorded; any node that satisfies the rest is taken",
        "priority": "recorded; as on Slurm an ordinary user's value does not count",
        "qos": "recorded and shown; no QOS is known, so every one is accepted and none has limits",
        "sockets-per-node": "checked against the nodes; cores are not bound",
        "spread-job": "recorded; tasks are placed as without it",
        "threads-per-core": "checked against the nodes; threads are not bound",
        "time-min": "checked against --time; the job gets --time",
        "use-min-nodes": "recorded; the smallest count that fits is what is taken anyway",
        "wckey": "recorded and shown",
    },
    INERT: {
        "accel-bind": "nothing is bound to sockets",
        "acctg-freq": "usage is not sampled",
        "bell": "the terminal's bell is not rung",
        "cluster-constraint": "no federation of clusters",
        "compress": "goes with --bcast",
        "core-spec": "ignored with Slurm's message: no cores are set aside (AllowSpecResourcesUsage = No)",
        "cpu-bind": "tasks are not bound to CPUs, as with Slurm's task/none",
        "cpu-freq": "CPU frequencies are not touched",
        "delay-boot": "nodes are not booted",
        "gpu-freq": "GPU frequencies are not touched",
        "gres-flags": "GPUs are not bound to sockets",
        "interactive": "a mark for steps of salloc",
        "mcs-label": "no labels of this kind (mcs/none)",
        "mem-bind": "memory is not bound",
        "msg-timeout": "messages stay on one machine",
        "network": "no switch to configure (switch/none)",
        "no-bell": "the terminal's bell is not rung",
        "power": "power is not managed",
        "profile": "usage is not sampled",
        "send-libs": "goes with --bcast",
        "slurmd-debug": "there is no slurmd",
        "switches": "there is one switch",
        "thread-spec": "ignored with Slurm's message: no threads are set aside (AllowSpecResourcesUsage = No)",
        "threads": "tasks are not started over a network tree",
        "wait-all-nodes": "a job starts when all its nodes are ready",
        "whole": "the default of this version",
    },
    REFUSED: {
        "batch": "the batch script's node cannot be chosen by features",
        "bb": "there are no burst buffers",
        "bbf": "there are no burst buffers",
        "bcast": "programs are not copied to nodes: they share the file system",
        "bcast-exclude": "programs are not copied to nodes: they share the file system",
        "container": "OCI bundles are not run",
        "context": "SELinux contexts are not set",
        "debugger-test": "parallel debuggers cannot attach",
        "epilog": "srun runs no program after the step",
        "gid": "jobs run as the user who submits them",
        "het-group": HET,
        "no-allocate": "tasks run in an allocation only",
        "preserve-env": "the command line wins over the environment",
        "prolog": "srun runs no program before the step",
        "reboot": "nodes are not rebooted",
        "resv-ports": "no ports are reserved",
        "task-epilog": "no program is run after each task",
        "task-prolog": "no program is run before each task",
        "uid": "jobs run as the user who submits them",
        "x11": "X11 is not forwarded",
    },
}
_NOTES = {
    "deadline": "a job that cannot end in time is cancelled",
    "mpi": "none; the other types need a PMI server and are refused",
    "reservation": "there are no reservations: every name is refused as unknown",
}
_BY_NAME = {name: (fate, reason) for fate, names in _LOCAL.items() for name, reason in names.items()}


def fate_of(name: str, backend: str = "local") -> Tuple[str, str]:
    """What becomes of the option ``name`` (its field) there, and the reason; no reason is needed for what is honoured."""
    if backend != "local":
        return REFUSED, f"the {backend} backend does not exist yet"
    return _BY_NAME.get(name) or (HONOURED, _NOTES.get(name, ""))


def refuse_unsupported(settings: Settings, backend: str = "local") -> None:
    """Raises Unsupported, naming the option, if something is asked for that cannot be had."""
    for name in settings.sources:
        if settings.get(name) == "" and not settings.given(name):
            continue  # an empty variable asks for nothing
        fate, reason = fate_of(name, backend)
        if name == "reboot" and settings.context.uid:
            raise RequestError(
                "error: rebooting of nodes is only allowed for admins",
                "error: Batch job submission failed: Access/permission denied",
            )
        if fate == REFUSED:
            raise Unsupported(f"error: --{name} is not supported here: {reason}")
    mpi = settings.get("mpi")
    if mpi not in (None, "none"):
        raise Unsupported(f"error: --mpi={mpi} is not supported here: there is no PMI server; --mpi=none is")


def approximations(settings: Settings, backend: str = "local") -> List[str]:
    """A line for stderr (``-v``) for each option asked for that does less here than on Slurm."""
    lines = []
    for name in settings.sources:
        fate, reason = fate_of(name, backend)
        if fate == APPROXIMATED:
            lines.append(f"--{name} is approximated here: {reason}")
    return lines


def refuse_het() -> Unsupported:
    """The refusal of a heterogeneous job."""
    return Unsupported(f"error: {HET}")


def rows(backend: str = "local") -> Iterator[Tuple[str, str, str, str, str]]:
    """For each option of sbatch, srun and salloc: spelling, commands, variables, fate and reason, by name."""
    seen: Dict[Tuple[str, str], List[str]] = {}
    options: Dict[Tuple[str, str], Option] = {}
    variables: Dict[Tuple[str, str], List[str]] = {}
    for command in COMMANDS:
        for option in options_of(command):
            key = (option.long, option.short)
            options.setdefault(key, option)
            seen.setdefault(key, []).append(command)
            variables.setdefault(key, []).extend(name for name in option.env if name not in variables.get(key, ()))
    for key, option in sorted(options.items()):
        fate, reason = fate_of(option.field, backend)
        if option.field != option.long:
            reason = f"the same as --{option.field}"
        yield spelling(option), " ".join(seen[key]), " ".join(variables[key]), fate, reason


def spelling(option: Option) -> str:
    """``-t, --time=…`` as help texts have it."""
    value = {0: "", 1: "=…", 2: "[=…]"}[option.arity]
    return (f"-{option.short}, " if option.short else "") + f"--{option.long}{value}"
