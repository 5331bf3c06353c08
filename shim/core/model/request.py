"""What a user asks for: a job (sbatch, salloc, srun outside a job) and a step (srun).

Values are normalised: times in minutes, memory in MiB, instants in seconds since the epoch. ``None`` means that the
user did not say; a default is filled in by whoever needs one, so that "asked for" and "got" stay apart (SLURM_NTASKS is
set only for a user who asked). Texts that Slurm shows back as given (dependency, export, licences, comment) stay texts.
"""

from __future__ import annotations

from shim.core.value import Value

INFINITE = -1  # an unlimited time, in minutes


class SignalRequest(Value):
    """``--signal=[R][B]:num[@lead]``: ``lead`` seconds before the limit; ``batch`` = the batch shell only (B:)."""

    number: int
    lead: int = 60
    batch: bool = False


class JobRequest(Value):
    """One submission, after command line, environment and directives were merged."""

    kind: str = "batch"  # batch (sbatch), alloc (salloc), run (srun outside a job)
    name: str | None = None
    # What runs. ``command`` is the script's absolute path (None for stdin and --wrap); for kind run: the command.
    command: str | None = None
    arguments: tuple[str, ...] = ()
    work_dir: str = "/"
    umask: int = 0o022
    # Where and how much
    partition: str | None = None  # as given; may be a comma list
    min_nodes: int | None = None
    max_nodes: int | None = None
    ntasks: int | None = None
    cpus_per_task: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_socket: int | None = None
    ntasks_per_core: int | None = None
    ntasks_per_gpu: int | None = None
    min_cpus: int | None = None  # --mincpus
    sockets_per_node: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    mem_per_node: int | None = None  # MiB; 0 = all of the node
    mem_per_cpu: int | None = None
    mem_per_gpu: int | None = None
    tmp_disk: int | None = None  # MiB per node
    gres: str | None = None  # --gres, normalised: "gpu:a100:2,shard:1" (per node)
    gpus: str | None = None  # "[type:]count" of the job
    gpus_per_node: str | None = None
    gpus_per_socket: str | None = None
    gpus_per_task: str | None = None
    cpus_per_gpu: int | None = None
    node_list: str | None = None  # -w, as a hostlist
    exclude: str | None = None  # -x
    constraint: str | None = None
    prefer: str | None = None
    exclusive: str | None = None  # "node", "user", "mcs"; None = not asked
    oversubscribe: bool = False  # -s
    overcommit: bool = False
    contiguous: bool = False
    distribution: str | None = None
    spread_job: bool = False
    use_min_nodes: bool = False
    licenses: str | None = None
    reservation: str | None = None
    switches: str | None = None
    # When
    time_limit: int | None = None  # minutes, INFINITE
    time_min: int | None = None
    begin: int = 0  # epoch seconds; 0 = at once
    cron: str = ""  # of a job of scrontab: when it runs, again and again (formats/cron.py)
    deadline: int = 0
    dependency: str | None = None
    kill_on_invalid_dep: bool | None = None
    array: str | None = None  # normalised: "0-3%2"
    hold: bool = False
    priority: int | None = None
    nice: int = 0
    signal: SignalRequest | None = None
    requeue: bool | None = None  # --requeue / --no-requeue; None = the cluster's default (yes)
    no_kill: bool = False
    immediate: int | None = None  # -I: seconds; 0 = at once
    # Files and environment
    stdin: str | None = None
    stdout: str | None = None  # patterns as given
    stderr: str | None = None
    open_mode: str | None = None  # "a", "t"
    export: str | None = None  # --export as given
    get_user_env: bool = False
    # The container that the job runs in (pyxis); texts as given
    container_image: str | None = None
    container_mounts: str | None = None  # "source:target[:flags],…"
    container: dict[str, str] = {}  # all options about containers, by name, as given ("" for flags): core/container.py
    # Labels
    account: str | None = None
    qos: str | None = None
    comment: str | None = None
    wckey: str | None = None
    mail_type: str | None = None
    mail_user: str | None = None
    extra: dict[str, str] = {}  # options that are only recorded (profile, power, network …): name -> text
    _nested = {"signal": SignalRequest}

    @property
    def task_cpus(self) -> int:
        """CPUs of a task: as asked for, in the 16 bits that Slurm keeps of them; or those of its GPUs (--cpus-per-gpu)."""
        if self.cpus_per_task:
            kept = self.cpus_per_task & 0xFFFF
            return 1 if kept in (0, 0xFFFE) else kept
        if self.cpus_per_gpu and self.gpus_per_task:
            from shim.core.formats.tres import gpu_count

            return self.cpus_per_gpu * gpu_count(self.gpus_per_task) or 1
        return 1

    def output_folders(self) -> list[str]:
        """The folders of -o and -e that are known before the job has an id: those without a letter to expand in them."""
        found = []
        for pattern in (self.stdout, self.stderr):
            folder = (pattern or "").rpartition("/")[0]
            if folder and "%" not in folder:
                found.append(folder if folder.startswith("/") else f"{self.work_dir.rstrip('/')}/{folder}")
        return list(dict.fromkeys(found))


class StepRequest(Value):
    """What ``srun`` asks of an allocation. ``None``: not said; the rules of ``core.placement`` fill it in."""

    name: str | None = None
    argv: tuple[str, ...] = ()
    work_dir: str | None = None
    umask: int | None = None
    ntasks: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    nodes_inherited: bool = False  # the number of nodes is the environment's, of the job as it once was
    cpus_per_task: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_gpu: int | None = None
    node_list: str | None = None
    exclude: str | None = None
    relative: int | None = None  # -r
    distribution: str | None = None
    mem_per_node: int | None = None
    mem_per_cpu: int | None = None
    gres: str | None = None  # "none" = none
    gpus: str | None = None
    gpus_per_node: str | None = None
    gpus_per_task: str | None = None
    gpus_per_socket: str | None = None
    cpus_per_gpu: int | None = None
    mem_per_gpu: int | None = None  # MiB
    gpu_bind: str | None = None  # as given
    constraint: str | None = None
    exact: bool = False
    overlap: bool = False
    exclusive: bool = False
    overcommit: bool = False
    immediate: int | None = None
    kill_on_bad_exit: bool = False
    wait: int | None = None  # -W seconds after the first task's end; 0 = for ever
    time_limit: int | None = None  # minutes
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    open_mode: str | None = None
    label: bool = False
    unbuffered: bool = False
    pty: bool = False
    window: tuple[int, int] | None = None  # rows, columns of the terminal
    export: str | None = None
    multi_prog: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (ranks as hostlist-like text or "*", argv)
    task_prolog: str | None = None
    task_epilog: str | None = None
    wait_for_children: bool = False
    mpi: str | None = None  # how the tasks' MPI library finds them: "none" or "pmi2"
    container_image: str | None = None
    container: dict[str, str] = {}  # as a job's
    verbose: int = 0
    quiet: bool = False
    # RLIMIT_ name -> (soft, hard) of srun, by --propagate; None: the job's.
    rlimits: dict[str, tuple[int, int]] | None = None
    comm_port: int = 0  # where srun listens, for SLURM_SRUN_COMM_PORT
    acctg_freq: str | None = None
    bcast: str | None = None  # where the program is copied to; "" = the working directory
    bcast_exclude: str | None = None
    send_libs: bool = False
    preserve_env: bool = False  # -E: the numbers of tasks and nodes in the environment stay
