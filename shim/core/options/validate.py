"""What sbatch, srun and salloc check themselves after all options are read, and the numbers they settle."""

from __future__ import annotations

from shim.core.errors import ShimError
from shim.core.options.sources import GEOMETRY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from shim.core.options.sources import Settings

_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")

_NOT_WITH_HINT = ("ntasks-per-core", "threads-per-core", "extra-node-info")
_HINT_DROPPED = (
    "Following options are mutually exclusive with --hint: --ntasks-per-core, --threads-per-core, -B and --cpu-bind "
    "(other then --cpu-bind=verbose). Ignoring --hint."
)

# Of messages of tasks' daemons, by name and number; what is none of these is more than there is.
_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "0", "1", "2", "3", "4")


def verify(settings: Settings) -> List[str]:
    """Refuses combinations as Slurm does; settles ``nodes``, ``ntasks`` and memory. Returns warnings for stderr."""
    notes: List[str] = []
    try:
        _verify(settings, notes)
    except ShimError as problem:
        problem.lines = (*(note for note in notes if note.startswith("error: ")), *problem.lines)
        raise
    return notes


def _verify(settings: Settings, notes: List[str]) -> None:
    """The checks in Slurm's order: of several mistakes it tells the first one."""
    _verbose_or_quiet(settings)
    _tasks_of_gpus(settings)
    _one_memory(settings)
    _tres_per_task(settings)
    _node_lists_of_files(settings)
    _exact_or_whole(settings)
    _core_spec(settings, notes)
    _slurmd_debug(settings, notes)
    _nodefile(settings)
    _cpu_binding(settings, notes)
    _hint(settings, notes)
    _mincpus(settings)
    submission = settings.command != "srun"
    if submission:
        _hostfile(settings)
    _nodes(settings, notes)
    _tasks(settings, notes)
    _plane(settings)
    _begin_before_deadline(settings)
    if submission:
        _names_as_tasks(settings)
    else:
        _hostfile(settings)


def _verbose_or_quiet(settings: Settings) -> None:
    if settings.get("quiet") and settings.get("verbose"):
        raise ShimError("error: don't specify both --verbose (-v) and --quiet (-Q)")
    if settings.command == "salloc" and settings.get("container"):
        raise ShimError("error: --container requires LaunchParameters=use_interactive_step")


def _node_lists_of_files(settings: Settings) -> None:
    """A node list with a slash in it names a file of nodes."""
    for name in ("nodelist", "exclude"):
        if "/" in settings.get(name, ""):
            from shim.core.options.node_files import of_file

            settings.values[name] = of_file(settings.values[name], settings)


def _exact_or_whole(settings: Settings) -> None:
    """What a step cannot be told together."""
    if settings.get("exact") and settings.get("whole"):
        raise ShimError("error: --exact and --whole are mutually exclusive.")
    if settings.get("pty") and any(name in settings for name in ("error", "input", "output")):
        raise ShimError("error: --error/--input/--output are incompatible with --pty")


def _core_spec(settings: Settings, notes: List[str]) -> None:
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


def _slurmd_debug(settings: Settings, notes: List[str]) -> None:
    if settings.get("slurmd-debug", "0").lower() not in _LEVELS:
        notes.append("Using srun's max debug increment of 4")


def _nodefile(settings: Settings) -> None:
    if "nodefile" in settings:
        from shim.core.options.node_files import from_nodefile

        from_nodefile(settings)


def _cpu_binding(settings: Settings, notes: List[str]) -> None:
    threads = "threads-per-core" in settings.sources  # not by way of -B
    if settings.get("verbose") and threads:
        notes.append("Setting --cpu-bind=threads as a default of --threads-per-core use")
    if settings.command == "srun" and ("cpu-bind" in settings or threads):
        notes.append("cluster configuration lacks support for cpu binding")


def _hint(settings: Settings, notes: List[str]) -> None:
    """--hint gives way to the options that say the same directly."""
    if "hint" not in settings:
        return
    bound = settings.get("cpu-bind", "verbose").lower() not in ("verbose", "v")
    if bound or any(name in settings for name in _NOT_WITH_HINT):
        settings.drop("hint")
        if settings.get("verbose"):
            notes.append(_HINT_DROPPED)
        return
    from shim.core.options.keyword_values import checked_hint

    settings.values["hint"] = checked_hint(settings.get("hint"))


def _mincpus(settings: Settings) -> None:
    if "mincpus" in settings:
        settings.values["mincpus"] = max(settings.get("mincpus"), settings.get("cpus-per-task", 1))


def _begin_before_deadline(settings: Settings) -> None:
    begin, deadline = settings.get("begin"), settings.get("deadline")
    if begin and deadline and deadline < begin:
        raise ShimError("error: Incompatible begin and deadline time specification")


def _tasks_of_gpus(settings: Settings) -> None:
    """Tasks are counted by GPUs or by something else."""
    by_gpu, by_tres = settings.get("ntasks-per-gpu"), settings.get("ntasks-per-tres")
    if by_gpu and by_tres and by_gpu != by_tres:
        both = f"--ntasks-per-gpu={by_gpu} and --ntasks-per-tres={by_tres}"
        raise ShimError(f"fatal: Inconsistent values set to {both} ")  # a blank at its end, as Slurm has it
    if by_gpu or by_tres:
        for name in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
            if settings.given(name) and name in settings.sources:
                raise ShimError(f"fatal: --{name} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU")


def _hostfile(settings: Settings) -> None:
    if settings.hostfile is not None and "nodelist" not in settings:
        from shim.core.options.node_files import from_hostfile

        from_hostfile(settings, settings.hostfile)


def _names_as_tasks(settings: Settings) -> None:
    """-m arbitrary: where nothing else says how many tasks there are, one for each node that is named."""
    if not (settings.get("distribution") or "").startswith("arbitrary") or "ntasks-per-node" in settings:
        return
    listed = _listed(settings.get("nodelist"))
    if listed:
        settings.values.setdefault("ntasks", listed)


def _one_memory(settings: Settings) -> None:
    """One of the three memory options: what the user wrote wins over variables, two that he wrote are an error."""
    given = [name for name in _MEMORY if settings.given(name)]
    if len(given) > 1:
        raise ShimError("fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if given:
        for name in _MEMORY:
            if name != given[0]:
                settings.drop(name)
    elif sum(name in settings for name in _MEMORY) > 1:
        raise ShimError("fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.")


def _tres_per_task(settings: Settings) -> None:
    """``--tres-per-task`` says what the options of single resources say, and not beside them."""
    for name, text in settings.get("tres-per-task", {}).items():
        if settings.given(name):
            raise ShimError(f"fatal: --tres-per-task and --{name} are mutually exclusive.")
        settings.values[name] = int(text) if name == "cpus-per-task" else text


def _nodes(settings: Settings, notes: List[str]) -> None:
    """A node list needs at least its own number of nodes."""
    nodes = settings.get("nodes")
    listed = _listed(settings.get("nodelist"))
    if nodes and listed:
        if settings.given("nodelist") and not settings.given("nodes") and listed > nodes[1] > 0:
            # srun in a job: the variable that describes the job gives way to what the user wrote.
            settings.values["nodes"] = (listed, listed)
            return
        least, most = max(listed, nodes[0]), nodes[1]
        if most and least > most and settings.command == "srun":
            notes.append(
                "error: Required nodelist includes more nodes than permitted by max-node count "
                f"({least} > {most}). Eliminating nodes from the nodelist."
            )
            settings.values["nodelist"] = _first_names(settings.get("nodelist"), most)
            least = most
        if most and least > most:
            tasks = settings.get("ntasks", listed)
            fewer = [f"Warning: can't run {tasks} processes on {listed} nodes, setting nnodes to {tasks}"]
            raise ShimError(f"error: invalid number of nodes (-N {least}-{most})", *(fewer if tasks < listed else ()))
        settings.values["nodes"] = (least, most)


def _plane(settings: Settings) -> None:
    """sbatch -m plane=SIZE: so few tasks that a node would get none."""
    word, _, size = (settings.get("distribution") or "").partition("=")
    if settings.command != "sbatch" or word != "plane" or not size:
        return
    nodes = (settings.get("nodes") or (_listed(settings.get("nodelist")), 0))[0]
    if (nodes - 1) * int(size) >= settings.get("ntasks", 1):
        raise ShimError("error: Too few processes for the requested {plane,node} distribution")


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


def _tasks(settings: Settings, notes: List[str]) -> None:
    """The number of tasks, where -B says it, and the nodes that so many tasks can have."""
    nodes, tasks = settings.get("nodes"), settings.get("ntasks")
    listed = _listed(settings.get("nodelist"))
    if tasks is None:
        tasks = _tasks_of_geometry(settings, listed)
        if tasks is None or (not tasks and nodes):  # -B 0
            return
        settings.values["ntasks"] = tasks
        if settings.get("verbose"):
            end = "." if settings.command == "sbatch" else ""
            notes.append(f"Number of tasks implicitly set to {tasks}{end}")
    if not nodes:
        _fewer_names(settings, tasks, notes)
        return
    if nodes[0] <= tasks < nodes[1]:
        nodes = settings.values["nodes"] = (nodes[0], tasks)
    if tasks < nodes[0]:
        notes.append(f"Warning: can't run {tasks} processes on {nodes[0]} nodes, setting nnodes to {tasks}")
        nodes = settings.values["nodes"] = (tasks, tasks)
        if tasks < listed and not _names_tasks(settings):
            settings.values["nodelist"] = _first_names(settings.get("nodelist"), tasks)
    if settings.command == "srun":
        _ntasks_per_node(settings, tasks, nodes[0], notes)


def _tasks_of_geometry(settings: Settings, listed: int) -> Optional[int]:
    """How many tasks the sockets, cores and threads of -B and its like have room for; None where they say nothing of it."""
    nodes = settings.get("nodes")
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


def _ntasks_per_node(settings: Settings, tasks: int, nodes: int, notes: List[str]) -> None:
    """srun forgets an --ntasks-per-node (SLURM_NTASKS_PER_NODE too, measured) that would come to another number of tasks."""
    per_node = settings.get("ntasks-per-node")
    if per_node and nodes and tasks > per_node and tasks // nodes != per_node:
        notes.append(
            f"Warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the requested tasks "
            f"{tasks} with the number of requested nodes {nodes}. Ignoring --ntasks-per-node."
        )
        settings.drop("ntasks-per-node")


def _fewer_names(settings: Settings, tasks: int, notes: List[str]) -> None:
    """More nodes named than there are tasks: the first ones are taken."""
    listed = _listed(settings.get("nodelist"))
    if tasks >= listed:
        return
    if _names_tasks(settings):
        return
    notes.append(f"Warning: can't run {tasks} processes on {listed} nodes, setting nnodes to {tasks}")
    settings.values["nodelist"] = _first_names(settings.get("nodelist"), tasks)
    settings.values["nodes"] = (tasks, tasks)


def _names_tasks(settings: Settings) -> bool:
    """Whether the node list has a name for each task of a step, which says itself what is wrong with it."""
    return settings.command == "srun" and (settings.get("distribution") or "").startswith("arbitrary")


def _first_names(text: str, count: int) -> str:
    """So many names of a list, which Slurm sorts first."""
    from shim.core.formats import hostlist

    return hostlist.fold(hostlist.expand(hostlist.fold_sorted(hostlist.expand(text)))[:count])
