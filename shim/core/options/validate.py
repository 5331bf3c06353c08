"""What sbatch, srun and salloc check themselves after all options are read, and the numbers that follow from what was asked.

``validate`` makes Validated settings of Settings by the rules of ``RULES``, one after the other: each takes settings and returns
settings, refuses what does not go together, and may add to the warnings.
"""

from __future__ import annotations

from shim.core.errors import ShimError, fewer_nodes, tasks_per_node_ignored
from shim.core.options.sources import GEOMETRY, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional, Tuple

_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")

_NOT_WITH_HINT = ("ntasks-per-core", "threads-per-core", "extra-node-info")
_HINT_DROPPED = (
    "Following options are mutually exclusive with --hint: --ntasks-per-core, --threads-per-core, -B and --cpu-bind "
    "(other then --cpu-bind=verbose). Ignoring --hint."
)

# Of messages of tasks' daemons, by name and number; what is none of these is more than there is.
_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "0", "1", "2", "3", "4")


class Validated(Settings):
    """Settings that go together, with the nodes, tasks and memory that follow from each other: what a request is built of."""

    __slots__ = ()


def validate(settings: Settings) -> Tuple[Validated, List[str]]:
    """The settings as Slurm goes on with them, and warnings for stderr. ShimError for combinations that it refuses."""
    notes: List[str] = []
    try:
        for rule in RULES:
            settings = rule(settings, notes)
    except ShimError as problem:
        problem.lines = (*(note for note in notes if note.startswith("error: ")), *problem.lines)
        raise
    return accepted(settings), notes


def accepted(settings: Settings) -> Validated:
    """The settings of a command line that a real Slurm has taken."""
    return Validated(settings, settings.values, settings.sources)


def _verbose_or_quiet(settings: Settings, notes: List[str]) -> Settings:
    if settings.get("quiet") and settings.get("verbose"):
        raise ShimError("error: don't specify both --verbose (-v) and --quiet (-Q)")
    if settings.command == "salloc" and settings.get("container"):
        raise ShimError("error: --container requires LaunchParameters=use_interactive_step")
    return settings


def _tasks_of_gpus(settings: Settings, notes: List[str]) -> Settings:
    """Tasks are counted by GPUs or by something else."""
    by_gpu, by_tres = settings.get("ntasks-per-gpu"), settings.get("ntasks-per-tres")
    if by_gpu and by_tres and by_gpu != by_tres:
        both = f"--ntasks-per-gpu={by_gpu} and --ntasks-per-tres={by_tres}"
        raise ShimError(f"fatal: Inconsistent values set to {both} ")  # a blank at its end, as Slurm has it
    if by_gpu or by_tres:
        for name in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
            if settings.given(name) and name in settings.sources:
                raise ShimError(f"fatal: --{name} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU")
    return settings


def _one_memory(settings: Settings, notes: List[str]) -> Settings:
    """One of the three memory options: what the user wrote wins over variables, two that he wrote are an error."""
    given = [name for name in _MEMORY if settings.given(name)]
    if len(given) > 1:
        raise ShimError("fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if not given:
        if sum(name in settings for name in _MEMORY) > 1:
            raise ShimError(
                "fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive."
            )
        return settings
    others = [name for name in _MEMORY if name in settings and name != given[0]]
    return settings.without(*others) if others else settings


def _tres_per_task(settings: Settings, notes: List[str]) -> Settings:
    """``--tres-per-task`` says what the options of single resources say, and not beside them."""
    said = settings.get("tres-per-task")
    if not said:
        return settings
    for name in said:
        if settings.given(name):
            raise ShimError(f"fatal: --tres-per-task and --{name} are mutually exclusive.")
    return settings.changed({name: int(text) if name == "cpus-per-task" else text for name, text in said.items()})


def _node_lists_of_files(settings: Settings, notes: List[str]) -> Settings:
    """A node list with a slash in it names a file of nodes."""
    for name in ("nodelist", "exclude"):
        if "/" in settings.get(name, ""):
            from shim.core.options.node_files import of_file

            settings = settings.changed({name: of_file(settings.get(name), settings)})
    return settings


def _exact_or_whole(settings: Settings, notes: List[str]) -> Settings:
    """What a step cannot be told together."""
    if settings.get("exact") and settings.get("whole"):
        raise ShimError("error: --exact and --whole are mutually exclusive.")
    if settings.get("pty") and any(name in settings for name in ("error", "input", "output")):
        raise ShimError("error: --error/--input/--output are incompatible with --pty")
    return settings


def _core_spec(settings: Settings, notes: List[str]) -> Settings:
    """No cores and no threads are set aside."""
    if "core-spec" in settings and "thread-spec" in settings:
        raise ShimError("fatal: -S/--core-spec and --thred-spec options are mutually exclusive")  # Slurm's spelling
    for name in ("core-spec", "thread-spec"):
        if name in settings:
            # Slurm keeps both in one number, whose highest bit of 16 says that threads are meant.
            option = "-S" if name == "core-spec" and not settings.get(name) & 0x8000 else "--thread-spec"
            notes.append(
                f"error: Ignoring {option} since it's not allowed by configuration (AllowSpecResourcesUsage = No)"
            )
    return settings


def _slurmd_debug(settings: Settings, notes: List[str]) -> Settings:
    if settings.get("slurmd-debug", "0").lower() not in _LEVELS:
        notes.append("Using srun's max debug increment of 4")
    return settings


def _nodefile(settings: Settings, notes: List[str]) -> Settings:
    if "nodefile" not in settings:
        return settings
    from shim.core.options.node_files import from_nodefile

    return from_nodefile(settings)


def _cpu_binding(settings: Settings, notes: List[str]) -> Settings:
    threads = "threads-per-core" in settings.sources  # not by way of -B
    if settings.get("verbose") and threads:
        notes.append("Setting --cpu-bind=threads as a default of --threads-per-core use")
    if settings.command == "srun" and ("cpu-bind" in settings or threads):
        notes.append("cluster configuration lacks support for cpu binding")
    return settings


def _hint(settings: Settings, notes: List[str]) -> Settings:
    """--hint gives way to the options that say the same directly."""
    if "hint" not in settings:
        return settings
    bound = settings.get("cpu-bind", "verbose").lower() not in ("verbose", "v")
    if bound or any(name in settings for name in _NOT_WITH_HINT):
        if settings.get("verbose"):
            notes.append(_HINT_DROPPED)
        return settings.without("hint")
    from shim.core.options.keyword_values import checked_hint

    return settings.changed({"hint": checked_hint(settings.get("hint"))})


def _mincpus(settings: Settings, notes: List[str]) -> Settings:
    """A node has the CPUs of a task at least."""
    if "mincpus" not in settings:
        return settings
    return settings.changed({"mincpus": max(settings.get("mincpus"), settings.get("cpus-per-task", 1))})


def _hostfile(settings: Settings) -> Settings:
    if settings.hostfile is None or "nodelist" in settings:
        return settings
    from shim.core.options.node_files import from_hostfile

    return from_hostfile(settings, settings.hostfile)


def _hostfile_of_job(settings: Settings, notes: List[str]) -> Settings:
    return settings if settings.command == "srun" else _hostfile(settings)


def _hostfile_of_step(settings: Settings, notes: List[str]) -> Settings:
    """srun reads the file last, when the numbers of nodes and tasks are settled."""
    return _hostfile(settings) if settings.command == "srun" else settings


def _nodes(settings: Settings, notes: List[str]) -> Settings:
    """A node list needs at least its own number of nodes."""
    nodes = settings.get("nodes")
    listed = _listed(settings.get("nodelist"))
    if not nodes or not listed:
        return settings
    least, most = max(listed, nodes[0]), nodes[1]
    if settings.given("nodelist") and not settings.given("nodes") and listed > most > 0:
        # srun in a job: the variable that describes the job gives way to what the user wrote.
        return settings.changed({"nodes": (listed, listed)})
    if not most or least <= most:
        return settings.changed({"nodes": (least, most)})
    if settings.command == "srun":
        notes.append(
            "error: Required nodelist includes more nodes than permitted by max-node count "
            f"({least} > {most}). Eliminating nodes from the nodelist."
        )
        return settings.changed({"nodes": (most, most), "nodelist": _first_names(settings.get("nodelist"), most)})
    tasks = settings.get("ntasks", listed)
    fewer = [fewer_nodes(tasks, listed)] if tasks < listed else []
    raise ShimError(f"error: invalid number of nodes (-N {least}-{most})", *fewer)


def _tasks_of_geometry(settings: Settings, notes: List[str]) -> Settings:
    """As many tasks as the sockets, cores and threads of -B and its like have room for, where nothing else says how many."""
    tasks = None if settings.get("ntasks") is not None else _room_of_geometry(settings)
    if tasks is None or (not tasks and settings.get("nodes")):  # -B 0
        return settings
    if settings.get("verbose"):
        end = "." if settings.command == "sbatch" else ""
        notes.append(f"Number of tasks implicitly set to {tasks}{end}")
    return settings.changed({"ntasks": tasks})


def _room_of_geometry(settings: Settings) -> Optional[int]:
    nodes, listed = settings.get("nodes"), _listed(settings.get("nodelist"))
    if "ntasks-per-node" in settings or not (nodes or listed or "extra-node-info" in settings):
        return None
    if nodes and nodes[1] not in (0, nodes[0]):
        return None
    geometry = [settings.get(name) for name in GEOMETRY if name in settings]
    if not geometry or (settings.command == "srun" and (None in geometry or len(geometry) < len(GEOMETRY))):
        return None
    tasks: int = max(nodes[0] if nodes else listed, 1)
    for number in geometry:
        tasks *= 1 if number is None else number
    return tasks


def _no_more_nodes_than_tasks(settings: Settings, notes: List[str]) -> Settings:
    """A node without a task is of no use: so many tasks have so many nodes at most, and the first names of a list."""
    tasks, nodes = settings.get("ntasks"), settings.get("nodes")
    if tasks is None:
        return settings
    listed = _listed(settings.get("nodelist"))
    names = (
        {} if _names_tasks(settings) or tasks >= listed else {"nodelist": _first_names(settings.get("nodelist"), tasks)}
    )
    if not nodes:
        if not names:
            return settings
        notes.append(fewer_nodes(tasks, listed))
        return settings.changed({"nodes": (tasks, tasks), **names})
    if tasks < nodes[0]:
        notes.append(fewer_nodes(tasks, nodes[0]))
        return settings.changed({"nodes": (tasks, tasks), **names})
    return settings.changed({"nodes": (nodes[0], tasks)}) if tasks < nodes[1] else settings


def _tasks_per_node_of_step(settings: Settings, notes: List[str]) -> Settings:
    """srun forgets an --ntasks-per-node (SLURM_NTASKS_PER_NODE too, measured) that would come to another number of tasks."""
    per_node, tasks = settings.get("ntasks-per-node"), settings.get("ntasks")
    if settings.command != "srun" or not per_node or tasks is None:
        return settings
    nodes = (settings.get("nodes") or (0, 0))[0]
    if not nodes or tasks <= per_node or tasks // nodes == per_node:
        return settings
    notes.append(tasks_per_node_ignored(per_node, tasks, nodes))
    return settings.without("ntasks-per-node")


def _plane(settings: Settings, notes: List[str]) -> Settings:
    """sbatch -m plane=SIZE: so few tasks that a node would get none."""
    word, _, size = (settings.get("distribution") or "").partition("=")
    if settings.command == "sbatch" and word == "plane" and size:
        nodes = (settings.get("nodes") or (_listed(settings.get("nodelist")), 0))[0]
        if (nodes - 1) * int(size) >= settings.get("ntasks", 1):
            raise ShimError("error: Too few processes for the requested {plane,node} distribution")
    return settings


def _begin_before_deadline(settings: Settings, notes: List[str]) -> Settings:
    begin, deadline = settings.get("begin"), settings.get("deadline")
    if begin and deadline and deadline < begin:
        raise ShimError("error: Incompatible begin and deadline time specification")
    return settings


def _names_as_tasks(settings: Settings, notes: List[str]) -> Settings:
    """-m arbitrary: where nothing else says how many tasks a job has, one for each node that is named."""
    arbitrary = settings.command != "srun" and (settings.get("distribution") or "").startswith("arbitrary")
    if not arbitrary or "ntasks-per-node" in settings or "ntasks" in settings:
        return settings
    listed = _listed(settings.get("nodelist"))
    return settings.changed({"ntasks": listed}) if listed else settings


# In Slurm's order: of several mistakes it tells the first one, and what a rule settles counts for those behind it.
RULES: Tuple[Callable[[Settings, List[str]], Settings], ...] = (
    _verbose_or_quiet,
    _tasks_of_gpus,
    _one_memory,
    _tres_per_task,
    _node_lists_of_files,
    _exact_or_whole,
    _core_spec,
    _slurmd_debug,
    _nodefile,
    _cpu_binding,
    _hint,
    _mincpus,
    _hostfile_of_job,
    _nodes,
    _tasks_of_geometry,
    _no_more_nodes_than_tasks,
    _tasks_per_node_of_step,
    _plane,
    _begin_before_deadline,
    _names_as_tasks,
    _hostfile_of_step,
)


def _listed(text: Optional[str]) -> int:
    """How many nodes a list names; 0 for one whose brackets do not match: the controller refuses it, ShimError for a bad range."""
    if not text:
        return 0
    from shim.core.formats import hostlist

    try:
        return len(set(hostlist.expand(text)))
    except hostlist.HostlistError as error:
        if "_parse_single_range" in error.lines[0]:
            raise ShimError(error.lines[0], "error: memory allocation failure") from None
        if len(error.lines) == 1:
            raise ShimError("error: memory allocation failure") from None
        return 0


def _names_tasks(settings: Settings) -> bool:
    """Whether the node list has a name for each task of a step, which says itself what is wrong with it."""
    return settings.command == "srun" and (settings.get("distribution") or "").startswith("arbitrary")


def _first_names(text: str, count: int) -> str:
    """So many names of a list, which Slurm sorts first."""
    from shim.core.formats import hostlist

    return hostlist.fold(hostlist.expand(hostlist.fold_sorted(hostlist.expand(text)))[:count])
