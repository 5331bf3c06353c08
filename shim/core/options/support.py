"""What becomes of each option on each backend, and why. ``shim explain`` and docs/support.md read it.

honoured      it does what it does on Slurm
approximated  it is read, checked and shown; the reason says what is missing
inert         it has nothing to act on here, so having no effect is right
refused       the command ends with an error that names it: running without it would be another job
"""

from __future__ import annotations

from shim.core.errors import ACCESS_DENIED, KINDS, Unsupported, submission_failed
from shim.core.options.fates import APPROXIMATED, DONE, HONOURED, INERT, LOCAL, NOTES, REFUSED
from shim.core.options.option import IGNORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    from shim.core.options.merge import Settings
    from shim.core.options.option import Option

COMMANDS = ("sbatch", "srun", "salloc")
BACKENDS = ("local", "kubernetes", "slurm")
_HET_BACKENDS = ("local", "slurm")  # where the components of a heterogeneous job start together
_PASSED_ON = "passed on as it is"
_IGNORED = "accepted without effect, as the configuration says (plugins.ignore)"


def fate_of(name: str, backend: str = "local") -> Tuple[str, str]:
    """What becomes of the option ``name`` (its field) there, and the reason; no reason is needed for what is honoured."""
    if backend == "slurm":
        return HONOURED, _PASSED_ON
    if backend == "kubernetes":
        from shim.core.options.fates_kubernetes import AS_LOCAL, KUBERNETES

        for fate, names in KUBERNETES.items():
            if name in names:
                return fate, names[name]
        if name not in AS_LOCAL.split():
            raise KeyError(name)
    for fate, names in LOCAL.items():
        if name in names:
            return fate, names[name]
    if name not in DONE.split():
        raise KeyError(name)
    return HONOURED, NOTES.get(name, "")


def fate(option: Option, backend: str = "local") -> Tuple[str, str]:
    """``fate_of`` for an option as a site has it: a plugin's may be ignored."""
    return (INERT, _IGNORED) if option.kind == IGNORED else fate_of(option.field, backend)


def refuse_unsupported(settings: Settings, backend: str = "local") -> None:
    """Raises Unsupported, naming the option, if something is asked for that cannot be had."""
    for name in settings.sources:
        if settings.get(name) == "" and not settings.given(name):
            continue  # an empty variable asks for nothing
        fate_, reason = fate_of(name, backend)
        if name == "reboot" and settings.context.uid:
            kind = KINDS[settings.command]
            raise submission_failed(kind, ACCESS_DENIED, "rebooting of nodes is only allowed for admins")
        if fate_ == REFUSED:
            raise Unsupported(f"error: --{name} is not supported here: {reason}")
    if settings.command != "srun" and settings.get("resv-ports"):
        raise Unsupported("error: --resv-ports is not supported here: no ports are set aside (MpiParams)")
    mpi = settings.get("mpi")
    if mpi not in (None, "none"):
        raise Unsupported(f"error: --mpi={mpi} is not supported here: there is no PMI server; --mpi=none is")


def approximations(settings: Settings, backend: str = "local") -> List[str]:
    """A line for stderr (``-v``) for each option asked for that does less here than on Slurm."""
    lines = [f"--{name} is {_IGNORED}" for name in dict.fromkeys(settings.ignored)]
    for name in settings.sources:
        fate_, reason = fate_of(name, backend)
        if fate_ == APPROXIMATED:
            lines.append(f"--{name} is approximated here: {reason}")
    return lines


def refuse_het(components: int, backend: str = "local") -> None:
    """Raises Unsupported for a job of several components where the backend starts jobs of one only."""
    if components > 1 and backend not in _HET_BACKENDS:
        raise Unsupported(f"error: heterogeneous jobs are not supported on the {backend} backend")


def spelling(option: Option) -> str:
    """``-t, --time=…`` as help texts have it."""
    value = {0: "", 1: "=…", 2: "[=…]"}[option.arity]
    return (f"-{option.short}, " if option.short else "") + f"--{option.long}{value}"
