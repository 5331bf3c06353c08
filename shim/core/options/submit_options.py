"""Every option of sbatch, srun and salloc: one row each, in the order in which Slurm's messages list them (22.05: measured).

What stands in a row says ``getopt.Row``. A row with the name of the row before it is that option for other commands or another
release: what it does not say is as there, but for ``on``, ``since`` and ``until``. The table is complete on purpose: with a name
missing, abbreviations would resolve to something else than on Slurm. The places of the newer options among the others are not
measured.
"""

from __future__ import annotations

from shim.core.options.getopt import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

    from shim.core.options.getopt import Row
    from shim.core.options.grammar import Grammar
else:
    Row = dict

COMMANDS = ("sbatch", "srun", "salloc")

# fmt: off
ROWS: Tuple[Row, ...] = (
    Row(name="accel-bind", takes="=options", kind="accel-bind", on="srun", anew=True, section="affinity",
        help="bind tasks to nearby accelerators",
        support="inert: nothing is bound to sockets"),
    Row(name="account", short="A", takes="=name", env="SBATCH_ACCOUNT SLURM_ACCOUNT SALLOC_ACCOUNT", job="*account",
        help="the account to charge",
        support="approximated: shown, and checked against the partition's lists; every account is accepted, none has limits"),
    Row(name="acctg-freq", takes="=intervals", kind="acctg-freq",
        env="SBATCH_ACCTG_FREQ SLURM_ACCTG_FREQ SALLOC_ACCTG_FREQ", job="extra", step="acctg_freq",
        help="how often usage is sampled",
        support="approximated: every so many seconds for tasks (30 unless said); energy, networks and file systems are not sampled"),
    Row(name="array", short="a", takes="=indexes", on="sbatch", env="SBATCH_ARRAY_INX", job="array",
        help="run the script once for each index"),
    Row(name="async", on="srun", since="25.11", help="do not wait for the step",
        support="refused: a step ends with its srun, which takes its output"),
    Row(name="autocomplete", takes="=text", kind="autocomplete", since="25.11",
        help="print the options that begin so"),
    Row(name="batch", takes="=features", on="sbatch", env="SBATCH_BATCH", job="extra",
        help="features of the batch script's node",
        support="approximated: checked against --constraint; the script runs on the job's first node"),
    Row(name="bcast", takes="[=path]", kind="bcast", on="srun", env="SLURM_BCAST", anew=True, step="bcast",
        help="copy the program to the nodes first"),
    Row(name="bcast-exclude", takes="=paths", on="srun", env="SLURM_BCAST_EXCLUDE", anew=True, step="bcast_exclude",
        help="libraries not to copy with --bcast"),
    Row(name="begin", short="b", takes="=time", kind="when", job="begin", help="do not start before this time"),
    Row(name="bell", on="salloc", env="SALLOC_BELL", shown="bell-always",
        help="ring the terminal's bell when the job starts",
        support="inert: the terminal's bell is not rung"),
    Row(name="bb", takes="=spec", env="SBATCH_BURST_BUFFER SLURM_BURST_BUFFER SALLOC_BURST_BUFFER", job="extra",
        anew=True, help="burst buffer wanted",
        support="inert: no burst buffers, as on a Slurm without a plugin for them"),
    Row(name="bbf", takes="=file", anew=True, help="burst buffer wanted, described in a file",
        support="inert: no burst buffers, as on a Slurm without a plugin for them"),
    Row(name="cluster-constraint", takes="=list",
        env="SBATCH_CLUSTER_CONSTRAINT SLURM_CLUSTER_CONSTRAINT SALLOC_CLUSTER_CONSTRAINT", job="extra",
        section="constraint", help="features of clusters in a federation",
        support="inert: no federation of clusters"),
    Row(name="chdir", short="D", takes="=directory", kind="path", env="SLURM_REMOTE_CWD SLURM_WORKING_DIR",
        job="*work_dir", step="*work_dir", help="where the job runs",
        kubernetes="honoured: a directory that no mount provides is copied in when the job is submitted"),
    Row(name="cluster", takes="=names", help="the same as --clusters"),
    Row(name="clusters", short="M", takes="=names", env="*SLURM_CLUSTERS SBATCH_CLUSTERS SALLOC_CLUSTERS",
        help="the cluster to use"),
    Row(name="comment", takes="=text", job="comment", help="any text, shown with the job"),
    Row(name="compress", takes="[=library]", kind="compress", on="srun", env="SLURM_COMPRESS", anew=True,
        help="compress what --bcast copies",
        support="inert: what --bcast copies goes uncompressed"),
    Row(name="consolidate-segments", since="25.11",
        env="SBATCH_CONSOLIDATE_SEGMENTS SLURM_CONSOLIDATE_SEGMENTS SALLOC_CONSOLIDATE_SEGMENTS",
        help="segments on as few blocks as possible",
        support="inert: nodes are in no blocks (topology/block)"),
    Row(name="container", takes="=bundle", env="SBATCH_CONTAINER SALLOC_CONTAINER SRUN_CONTAINER",
        job="*container", step="*container", help="OCI bundle to run",
        support="honoured: run by runc or crun; a Slurm without oci.conf starts the job outside of the bundle, without a word",
        kubernetes="refused: OCI bundles are not run in pods"),
    Row(name="container-id", takes="=id", since="25.11",
        env="SBATCH_CONTAINER_ID SALLOC_CONTAINER_ID SRUN_CONTAINER_ID", help="OCI container of that name",
        support="refused: OCI bundles are not run"),
    Row(name="container-type", takes="=kind", since="25.11",
        env="SBATCH_CONTAINER_TYPE SALLOC_CONTAINER_TYPE SRUN_CONTAINER_TYPE", help="how OCI containers are started",
        support="refused: OCI bundles are not run"),
    Row(name="context", takes="=text", help="SELinux context",
        support="inert: no SELinux contexts, as on a Slurm without their plugin"),
    Row(name="contiguous", job="contiguous", anew=True, section="constraint", help="neighbouring nodes only",
        support="honoured: neighbours are nodes that follow each other in the partition",
        kubernetes="approximated: the pods are bound to neighbours by name, but not to nodes that are added for them"),
    Row(name="constraint", short="C", takes="=list", env="SBATCH_CONSTRAINT SLURM_CONSTRAINT SALLOC_CONSTRAINT",
        job="constraint", step="constraint", anew=True, section="constraint", help="features the nodes must have",
        kubernetes="honoured: features are labels of nodes, as the configuration says"),
    Row(name="core-spec", short="S", takes="=count", kind="natural",
        env="SBATCH_CORE_SPEC SLURM_CORE_SPEC SALLOC_CORE_SPEC", anew=True, help="cores set aside for the system",
        support="inert: ignored with Slurm's message: no cores are set aside (AllowSpecResourcesUsage = No)"),
    Row(name="cores-per-socket", takes="=count", kind="count", env="SLURM_NCORES_PER_SOCKET", job="cores_per_socket",
        anew=True, sixteen_bits=True, section="affinity", help="cores each socket must have at least",
        support="approximated: checked against the nodes; cores are not bound"),
    Row(name="cpu-bind", takes="=way", kind="cpu-bind", on="srun", env="SLURM_CPU_BIND", job="extra", anew=True,
        section="affinity", help="bind tasks to CPUs",
        support="inert: tasks are not bound to CPUs, as with Slurm's task/none"),
    Row(name="cpu_bind", spelling_of="cpu-bind", takes="=way", kind="cpu-bind", on="srun"),
    Row(name="cpu-freq", takes="=range", kind="cpu-freq",
        env="SBATCH_CPU_FREQ_REQ SLURM_CPU_FREQ_REQ SALLOC_CPU_FREQ_REQ", job="extra", anew=True,
        help="CPU frequency or governor",
        support="inert: CPU frequencies are not touched"),
    Row(name="cpus-per-gpu", takes="=count", kind="count",
        env="SBATCH_CPUS_PER_GPU SLURM_CPUS_PER_GPU SALLOC_CPUS_PER_GPU", job="cpus_per_gpu",
        step="cpus_per_gpu", anew=True, section="gpu", help="CPUs for each GPU",
        support="honoured: of a job; a step of a job without GPUs is refused, in others it changes nothing, as on Slurm"),
    Row(name="cpus-per-task", short="c", takes="=count", kind="count",
        env="-SRUN_CPUS_PER_TASK +SLURM_CPUS_PER_TASK", job="cpus_per_task", step="cpus_per_task", anew=True,
        help="CPUs for each task"),
    Row(name="deadline", takes="=time", kind="when", job="deadline", help="drop the job if it cannot end by then",
        support="honoured: a job that cannot end in time is cancelled"),
    Row(name="debugger-test", on="srun", help="for debuggers only",
        support="refused: parallel debuggers cannot attach"),
    Row(name="delay-boot", takes="=minutes", kind="boot-delay",
        env="SBATCH_DELAY_BOOT SLURM_DELAY_BOOT SALLOC_DELAY_BOOT", job="extra", help="wait before nodes are booted",
        support="inert: nodes are not booted"),
    Row(name="dependency", short="d", takes="=list", env="SLURM_DEPENDENCY", job="*dependency",
        help="other jobs to wait for, as type:id[:id...]"),
    Row(name="disable-status", short="X", on="srun", env="SLURM_DISABLE_STATUS", help="pass on the first Ctrl-C"),
    Row(name="distribution", short="m", takes="=way", kind="distribution",
        env="SBATCH_DISTRIBUTION SLURM_DISTRIBUTION", job="distribution", step="distribution", anew=True,
        help="how tasks go to nodes: block, cyclic, plane=n, arbitrary",
        support="approximated: tasks go to nodes as asked; within a node nothing is bound"),
    Row(name="epilog", takes="=program", on="srun", env="SLURM_EPILOG", help="run once after the step"),
    Row(name="error", short="e", takes="=file", kind="file", on="sbatch srun",
        env="SBATCH_ERROR SLURM_STDERRMODE +SRUN_ERROR", job="*stderr", step="stderr", help="file for standard error",
        kubernetes="honoured: streamed back where no mount provides the file"),
    Row(name="exact", on="srun", env="SLURM_EXACT", step="exact", section="consumable",
        help="give the step only what it asks for"),
    Row(name="exclude", short="x", takes="=hosts", kind="hosts", job="exclude", step="exclude", section="constraint",
        help="nodes not to use",
        kubernetes="honoured: by the names of nodes in the cluster"),
    Row(name="exclusive", takes="[=kind]", kind="exclusive", env="SBATCH_EXCLUSIVE SLURM_EXCLUSIVE SALLOC_EXCLUSIVE",
        job="*exclusive", step="*exclusive", anew=True, section="consumable", help="share no node with other jobs",
        support="approximated: =user and =mcs add nothing: nodes are not shared with other users anyway",
        kubernetes="approximated: no other job of this index runs on its nodes; other pods of the cluster may"),
    Row(name="export", takes="=names", on="sbatch srun", env="SBATCH_EXPORT SLURM_EXPORT_ENV SRUN_EXPORT_ENV",
        job="export", step="export", help="variables that the job gets: ALL, NONE, names, name=value"),
    Row(name="export-file", takes="=file", on="sbatch", help="file with the job's variables"),
    Row(name="external", on="sbatch", since="25.11", help="a job that runs elsewhere",
        support="refused: a job that another system runs: every job runs on nodes of its cluster"),
    Row(name="external-launcher", takes="[=kind]", on="srun", since="25.11", env="SLURM_EXTERNAL_LAUNCHER",
        help="a step for the daemons of another launcher",
        support="approximated: as --overlap"),
    Row(name="extra", takes="=text", since="25.11", job="extra", help="any text, shown with the job",
        support="approximated: recorded; nothing is chosen by it"),
    Row(name="extra-node-info", short="B", takes="=S[:C[:T]]", kind="geometry", anew=True, section="affinity",
        help="sockets, cores and threads in one word",
        support="approximated: checked against the nodes; cores are not bound"),
    Row(name="get-user-env", takes="[=timeout]", kind="user-env", on="sbatch salloc", until="22.05",
        env="SBATCH_GET_USER_ENV", job="*get_user_env", help="use the user's login environment",
        support="approximated: the login environment is made when the job starts; the timeout has no effect",
        kubernetes="approximated: the login environment is that of the image"),
    Row(name="get-user-env", takes="", kind="flag", on="sbatch", since="25.11"),
    Row(name="gid", takes="=group", kind="root", until="22.05", help="group of the job (root only)",
        support="refused: jobs run as the user who submits them"),
    Row(name="gid", on="sbatch", since="25.11"),
    Row(name="gpu-bind", takes="=way", kind="gpu-bind", env="SBATCH_GPU_BIND SLURM_GPU_BIND SALLOC_GPU_BIND",
        job="extra", step="gpu_bind", anew=True, section="gpu", help="which GPUs a task sees",
        support="approximated: tasks see the GPUs that it says (single, per_task, map_gpu, mask_gpu); closest binds nothing"),
    Row(name="gpu-freq", takes="=values", kind="gpu-freq", env="SBATCH_GPU_FREQ SLURM_GPU_FREQ SALLOC_GPU_FREQ",
        job="extra", anew=True, section="gpu", help="frequency of GPUs",
        support="inert: GPU frequencies are not touched"),
    Row(name="gpus", short="G", takes="=[type:]count", env="SBATCH_GPUS SLURM_GPUS SALLOC_GPUS", job="gpus",
        step="gpus", anew=True, section="gpu", help="GPUs of the whole job"),
    Row(name="gpus-per-node", takes="=[type:]count",
        env="SBATCH_GPUS_PER_NODE SLURM_GPUS_PER_NODE SALLOC_GPUS_PER_NODE", job="gpus_per_node",
        step="gpus_per_node", anew=True, section="gpu", help="GPUs on each node"),
    Row(name="gpus-per-socket", takes="=[type:]count",
        env="SBATCH_GPUS_PER_SOCKET SLURM_GPUS_PER_SOCKET SALLOC_GPUS_PER_SOCKET", job="gpus_per_socket",
        step="gpus_per_socket", anew=True, section="gpu", help="GPUs on each socket",
        support="honoured: of a job; a step is refused where no node of its job has as many, and gets no others by it, as on Slurm"),
    Row(name="gpus-per-task", takes="=[type:]count",
        env="SBATCH_GPUS_PER_TASK SLURM_GPUS_PER_TASK SALLOC_GPUS_PER_TASK", job="gpus_per_task",
        step="gpus_per_task", anew=True, section="gpu", help="GPUs for each task"),
    Row(name="gres", takes="=list", kind="gres", env="SBATCH_GRES SLURM_GRES SALLOC_GRES", job="*gres", step="*gres",
        anew=True, help="generic resources on each node, as name[:type]:count",
        kubernetes="honoured: gpu; the configuration names the cluster's resource for it"),
    Row(name="gres-flags", takes="=flags", kind="gres-flags", until="22.05",
        env="SBATCH_GRES_FLAGS SLURM_GRES_FLAGS SALLOC_GRES_FLAGS", job="extra", anew=True,
        help="how generic resources are given out",
        support="inert: GPUs are not bound to sockets"),
    Row(name="gres-flags", kind="gres-flags-new", since="25.11"),
    Row(name="help", short="h", early=True, help="this text"),
    Row(name="het-group", takes="=groups", on="srun", help="components of a heterogeneous job",
        support="honoured: docs/heterogeneous.md",
        kubernetes="approximated: a job in pods has one component: as in a plain job of Slurm there is none to choose"),
    Row(name="hint", takes="=kind", kind="hint", env="*SLURM_HINT SBATCH_HINT SALLOC_HINT", job="extra",
        section="affinity", help="what kind of program it is",
        support="approximated: sets --cores-per-socket and --threads-per-core as on Slurm; cores are not bound"),
    Row(name="hold", short="H", job="hold", help="submit held; wait to be released"),
    Row(name="ignore-pbs", on="sbatch", env="SBATCH_IGNORE_PBS", help="do not read #PBS and #BSUB lines"),
    Row(name="ignore-signals", takes="=signals", kind="signals", on="srun", since="25.11",
        help="signals that srun does not pass on"),
    Row(name="immediate", short="I", takes="[=seconds]", kind="seconds", on="srun salloc",
        env="SLURM_IMMEDIATE SALLOC_IMMEDIATE", job="immediate", step="immediate",
        help="give up unless resources are free by then",
        kubernetes="approximated: the job is given up when its pods have not started by then"),
    Row(name="input", short="i", takes="=file", kind="file", on="sbatch srun",
        env="SBATCH_INPUT SLURM_STDINMODE +SRUN_INPUT", job="*stdin", step="stdin", help="file for standard input"),
    Row(name="interactive", on="srun", help="a mark for interactive steps",
        support="inert: a mark for steps of salloc"),
    Row(name="jobid", takes="=id", kind="count", on="srun", env="SLURM_JOB_ID", help="run in this job's allocation"),
    Row(name="job-name", short="J", takes="=name", env="SBATCH_JOB_NAME SLURM_JOB_NAME", job="*name", step="name",
        help="name of the job"),
    Row(name="kill-command", short="K", takes="[=signal]", kind="signal-name", on="salloc", env="SALLOC_KILL_CMD",
        help="end the command with the allocation",
        support="approximated: the command is signalled when the allocation ends"),
    Row(name="kill-on-bad-exit", short="K", takes="[=0|1]", kind="switch", on="srun", env="SLURM_KILL_BAD_EXIT",
        step="*kill_on_bad_exit", help="end the step when one task fails"),
    Row(name="kill-on-invalid-dep", takes="=yes|no", kind="yes-no", on="sbatch", job="kill_on_invalid_dep",
        help="cancel the job if its dependency cannot be met"),
    Row(name="label", short="l", on="srun", env="SLURM_LABELIO", step="label",
        help="task numbers in front of output lines"),
    Row(name="licenses", short="L", takes="=names", job="licenses", anew=True,
        help="licences wanted, as name[:count]",
        kubernetes="approximated: counted among the jobs of this index"),
    Row(name="mail-type", takes="=types", kind="mail", job="mail_type", anew=True,
        help="when to send mail: BEGIN, END, FAIL, ALL...",
        support="approximated: sent by the program that mail_prog (MailProg) names, or to mail_server; with neither none"),
    Row(name="mail-user", takes="=user", job="mail_user", anew=True, help="whom to send mail",
        support="approximated: mail is sent where the configuration names a mail_prog (MailProg) or a mail_server"),
    Row(name="threads", short="T", takes="=count", kind="threads", on="srun", env="SLURM_THREADS",
        help="how many connections at once",
        support="inert: tasks are not started over a network tree"),
    Row(name="mcs-label", takes="=label", job="extra", help="label of the job's security group",
        support="inert: no labels of this kind (mcs/none)"),
    Row(name="mem", takes="=size", kind="memory", env="SBATCH_MEM_PER_NODE SLURM_MEM_PER_NODE SALLOC_MEM_PER_NODE",
        job="mem_per_node", step="mem_per_node", section="constraint",
        help="memory on each node, in MB or with K, M, G, T"),
    Row(name="mem-bind", takes="=way", kind="mem-bind", env="SBATCH_MEM_BIND SLURM_MEM_BIND SALLOC_MEM_BIND",
        job="extra", anew=True, section="affinity", help="bind memory",
        support="inert: memory is not bound"),
    Row(name="mem-per-cpu", takes="=size", kind="memory",
        env="SBATCH_MEM_PER_CPU SLURM_MEM_PER_CPU SALLOC_MEM_PER_CPU", job="mem_per_cpu", step="mem_per_cpu",
        anew=True, section="consumable", help="memory for each CPU"),
    Row(name="mem-per-gpu", takes="=size", kind="memory",
        env="SBATCH_MEM_PER_GPU SLURM_MEM_PER_GPU SALLOC_MEM_PER_GPU", job="mem_per_gpu",
        step="mem_per_gpu", anew=True, section="gpu", help="memory for each GPU",
        support="honoured: of a job; a step of a job without GPUs is refused, in others it changes nothing, as on Slurm"),
    Row(name="mem-update", takes="=size", since="25.11", job="extra", help="change the memory while the job runs",
        support="approximated: the job keeps the memory of --mem to its end"),
    Row(name="mincpus", takes="=count", kind="count", job="min_cpus", anew=True, sixteen_bits=True, section="constraint",
        help="CPUs each node must give at least"),
    Row(name="mpi", takes="=type", kind="mpi", on="srun", env="SLURM_MPI_TYPE", anew=True, step="mpi",
        help="kind of MPI start-up: none, pmi2, list",
        support="honoured: none and pmi2 (MPICH, Intel MPI, MVAPICH; also PMI-1); pmix is refused"),
    Row(name="msg-timeout", takes="=seconds", kind="count", on="srun", help="time limit of messages",
        support="inert: messages stay on one machine",
        kubernetes="inert: agents have their own time limits"),
    Row(name="multi-prog", on="srun", env="SLURM_SRUN_MULTI",
        help="the program is a file that names one for each task"),
    Row(name="network", takes="=kind", env="SBATCH_NETWORK SLURM_NETWORK SALLOC_NETWORK", job="extra", anew=True,
        help="settings of the network",
        support="inert: no switch to configure (switch/none)"),
    Row(name="nice", takes="[=value]", kind="nice", job="nice", help="lower the job's priority",
        kubernetes="approximated: orders the jobs of this index; the cluster's own queue does not see it"),
    Row(name="no-allocate", short="Z", on="srun", section="constraint",
        help="run without an allocation (administrators)",
        support="refused: tasks run in an allocation only"),
    Row(name="no-bell", on="salloc", env="SALLOC_NO_BELL", shown="bell-never", help="do not ring the terminal's bell",
        support="inert: the terminal's bell is not rung"),
    Row(name="no-kill", short="k", takes="[=off]", kind="no-kill", env="SBATCH_NO_KILL SLURM_NO_KILL SALLOC_NO_KILL",
        job="no_kill", help="keep the job when a node fails",
        support="approximated: recorded; a job that loses a node ends all the same"),
    Row(name="no-requeue", on="sbatch", env="SBATCH_NO_REQUEUE", help="never start the job a second time"),
    Row(name="no-shell", on="salloc", help="allocate and return at once"),
    Row(name="nodefile", short="F", takes="=file", kind="node-file", anew=True, section="constraint",
        help="file that names the nodes to use"),
    Row(name="nodelist", short="w", takes="=hosts", kind="hosts", job="node_list", step="node_list", anew=True,
        section="constraint", help="nodes the job must have",
        kubernetes="honoured: by the names of nodes in the cluster"),
    Row(name="nodes", short="N", takes="=min[-max]", kind="nodes", env="SLURM_JOB_NUM_NODES", job="*min_nodes",
        step="*min_nodes", anew=True, help="number of nodes"),
    Row(name="ntasks", short="n", takes="=count", kind="count", env="SLURM_NPROCS SLURM_NTASKS", job="ntasks",
        step="ntasks", anew=True, help="number of tasks"),
    Row(name="ntasks-per-core", takes="=count", kind="count", env="+SLURM_NTASKS_PER_CORE", job="ntasks_per_core",
        anew=True, sixteen_bits=True, section="affinity", help="at most this many tasks on a core",
        support="approximated: counts tasks; cores are not bound"),
    Row(name="ntasks-per-gpu", takes="=count", kind="count", env="SLURM_NTASKS_PER_GPU", job="ntasks_per_gpu",
        step="ntasks_per_gpu", anew=True, section="gpu", help="tasks for each GPU"),
    Row(name="ntasks-per-node", takes="=count", kind="count", env="SLURM_NTASKS_PER_NODE", job="ntasks_per_node",
        step="ntasks_per_node", anew=True, sixteen_bits=True, help="tasks on each node"),
    Row(name="ntasks-per-socket", takes="=count", kind="count", job="ntasks_per_socket", anew=True, sixteen_bits=True,
        section="affinity", help="at most this many tasks on a socket",
        support="approximated: counts tasks; cores are not bound"),
    Row(name="ntasks-per-tres", takes="=count", kind="count", env="SLURM_NTASKS_PER_TRES", anew=True, section="gpu",
        help="tasks for each GPU"),
    Row(name="oom-kill-step", takes="[=0|1]", kind="switch", since="25.11", env="SLURM_OOM_KILL_STEP", job="extra",
        section="consumable", help="end the whole step when a task has too much memory",
        support="approximated: recorded; the process with the most memory is killed",
        kubernetes="inert: the kubelet ends what uses too much memory"),
    Row(name="open-mode", takes="=append|truncate", kind="open-mode", on="sbatch srun",
        env="SBATCH_OPEN_MODE SLURM_OPEN_MODE", job="open_mode", step="open_mode",
        help="what to do with output files that exist"),
    Row(name="output", short="o", takes="=file", kind="file", on="sbatch srun",
        env="SBATCH_OUTPUT SLURM_STDOUTMODE +SRUN_OUTPUT", job="*stdout", step="stdout",
        help="file for standard output",
        kubernetes="honoured: streamed back where no mount provides the file; one that srun in a script names is a file of its pod"),
    Row(name="overcommit", short="O", env="SBATCH_OVERCOMMIT SLURM_OVERCOMMIT SALLOC_OVERCOMMIT", job="overcommit",
        step="overcommit", anew=True, help="more than one task for a CPU"),
    Row(name="overlap", takes="[=value]", kind="set", on="srun", env="SLURM_OVERLAP", step="*overlap", anew=True,
        help="share resources with other steps"),
    Row(name="oversubscribe", short="s", job="*oversubscribe", anew=True, help="nodes may be shared with other jobs",
        kubernetes="inert: pods share nodes, each with its own CPUs"),
    Row(name="pack-group", spelling_of="het-group", takes="=groups", on="srun"),
    Row(name="parsable", on="sbatch", until="22.05", help="print the id (and cluster) only",
        support="honoured: srun has no message that it would shorten"),
    Row(name="parsable", on="sbatch srun", since="25.11"),
    Row(name="partition", short="p", takes="=names", env="SBATCH_PARTITION SLURM_PARTITION SALLOC_PARTITION",
        job="partition", anew=True, help="partition, or several of which one will do"),
    Row(name="power", takes="=flags", kind="power", until="22.05", env="SBATCH_POWER SLURM_POWER SALLOC_POWER",
        job="extra", anew=True, help="power management",
        support="inert: power is not managed"),
    Row(name="prefer", takes="=list", job="prefer", section="constraint", help="features wanted if they can be had",
        kubernetes="approximated: counts when nodes are chosen; the cluster's scheduler may take others that satisfy --constraint"),
    Row(name="preserve-env", short="E", on="srun", step="preserve_env",
        help="tasks get SLURM_NTASKS, SLURM_NNODES and the like as srun has them"),
    Row(name="priority", takes="=value", kind="priority", job="*priority",
        help="priority of the job (administrators)",
        support="honoured: of an operator; as on Slurm an ordinary user's value does not count"),
    Row(name="profile", takes="=kinds", kind="profile", env="SBATCH_PROFILE SLURM_PROFILE SALLOC_PROFILE",
        job="extra", help="what to sample in detail",
        support="inert: no series of samples is kept, as with acct_gather_profile/none; sums and peaks are"),
    Row(name="prolog", takes="=program", on="srun", env="SLURM_PROLOG", help="run once before the step"),
    Row(name="propagate", takes="[=limits]", kind="all", on="sbatch srun",
        help="resource limits to take along: ALL, NONE, names",
        kubernetes="approximated: as far as the limits of the container allow"),
    Row(name="pty", on="srun", until="22.05", step="pty", help="give task 0 a terminal"),
    Row(name="pty", takes="[=value]", kind="flag", on="srun", since="25.11"),
    Row(name="qos", short="q", takes="=name", env="SBATCH_QOS SLURM_QOS SALLOC_QOS", job="qos",
        help="quality of service",
        support="approximated: shown, and checked against the partition's lists where there is accounting; no QOS has limits"),
    Row(name="quiet", short="Q", step="quiet", early=True, help="say less"),
    Row(name="quit-on-interrupt", on="srun", help="end at the first Ctrl-C"),
    Row(name="reboot", help="boot the nodes first (administrators)",
        support="refused: nodes are not rebooted"),
    Row(name="relative", short="r", takes="=node", kind="natural", on="srun", step="relative", anew=True,
        help="first node of the step, counted in the allocation"),
    Row(name="requeue", on="sbatch", until="22.05", env="SBATCH_REQUEUE", job="*requeue",
        help="the job may be started a second time",
        support="honoured: =expedite is as without a value"),
    Row(name="requeue", takes="[=value]", kind="requeue", on="sbatch", since="25.11"),
    Row(name="reservation", takes="=name", env="SBATCH_RESERVATION SLURM_RESERVATION SALLOC_RESERVATION",
        job="reservation", section="constraint", help="use this reservation",
        support="honoured: there are no reservations: every name is refused as unknown"),
    Row(name="resources", takes="=list", since="25.11", section="consumable", help="resources of other kinds",
        support="refused: no resources of several layers (resources.yaml) are configured; Slurm refuses unknown ones too"),
    Row(name="resv-ports", takes="[=count]", kind="ports", on="srun", until="22.05", env="SLURM_RESV_PORTS",
        anew=True, section="consumable", help="reserve communication ports",
        support="honoured: a number of ports is refused, as by a Slurm without MpiParams=ports; without one it reserves none"),
    Row(name="resv-ports", since="25.11"),
    Row(name="segment", takes="=count", kind="count", since="25.11",
        env="SBATCH_SEGMENT_SIZE SALLOC_SEGMENT_SIZE SRUN_SEGMENT_SIZE", job="extra",
        help="nodes of a block that belong together",
        support="inert: nodes are in no blocks (topology/block)"),
    Row(name="send-libs", takes="[=yes|no]", kind="send-libs", on="srun", env="SLURM_SEND_LIBS", anew=True, step="send_libs",
        help="copy libraries with --bcast"),
    Row(name="signal", takes="=[[R][B]:]signal[@seconds]", kind="signal", on="sbatch", env="SBATCH_SIGNAL",
        job="*signal", help="send a signal before the time limit"),
    Row(name="signal", kind="step-signal", on="srun salloc", env="SLURM_SIGNAL SALLOC_SIGNAL"),
    Row(name="slurmd-debug", takes="=level", kind="slurmd-debug", on="srun", env="SLURMD_DEBUG",
        help="messages of the node's daemon",
        support="inert: there is no slurmd"),
    Row(name="sockets-per-node", takes="=count", kind="count", env="SLURM_NSOCKETS_PER_NODE", job="sockets_per_node",
        anew=True, sixteen_bits=True, section="affinity", help="sockets each node must have at least",
        support="approximated: checked against the nodes; cores are not bound"),
    Row(name="spread-job", env="SBATCH_SPREAD_JOB SLURM_SPREAD_JOB SALLOC_SPREAD_JOB", job="spread_job", anew=True,
        help="use as many nodes as possible",
        support="approximated: taken as by Slurm, but for the counts that --ntasks-per-node beside it shows"),
    Row(name="spread-segments", since="25.11",
        env="SBATCH_SPREAD_SEGMENTS SLURM_SPREAD_SEGMENTS SALLOC_SPREAD_SEGMENTS",
        help="each segment on a block of its own",
        support="inert: nodes are in no blocks (topology/block)"),
    Row(name="stepmgr", since="25.11", help="the job manages its steps itself",
        support="inert: steps are always managed by their own job"),
    Row(name="switches", takes="=count[@time]", kind="switches",
        env="SBATCH_REQ_SWITCH SLURM_REQ_SWITCH SALLOC_REQ_SWITCH", job="*switches", anew=True,
        help="at most this many switches",
        support="inert: there is one switch"),
    Row(name="task-epilog", takes="=program", on="srun", env="SLURM_TASK_EPILOG", step="task_epilog",
        help="run after each task"),
    Row(name="task-prolog", takes="=program", on="srun", env="SLURM_TASK_PROLOG", step="task_prolog",
        help="run before each task"),
    Row(name="tasks-per-node", spelling_of="ntasks-per-node", takes="=count", kind="count"),
    Row(name="test-only", on="sbatch srun", help="say when the job would start, submit nothing"),
    Row(name="thread-spec", takes="=count", kind="count",
        env="SBATCH_THREAD_SPEC SLURM_THREAD_SPEC SALLOC_THREAD_SPEC", anew=True,
        help="threads set aside for the system",
        support="inert: ignored with Slurm's message: no threads are set aside (AllowSpecResourcesUsage = No)"),
    Row(name="threads-per-core", takes="=count", kind="count",
        env="SBATCH_THREADS_PER_CORE SLURM_THREADS_PER_CORE SALLOC_THREADS_PER_CORE", job="threads_per_core",
        anew=True, sixteen_bits=True, section="affinity", help="threads each core must have at least",
        support="approximated: checked against the nodes; threads are not bound"),
    Row(name="time", short="t", takes="=time", kind="minutes",
        env="SBATCH_TIMELIMIT SLURM_TIMELIMIT SALLOC_TIMELIMIT", job="time_limit", step="time_limit",
        help="time limit: minutes, h:m:s, d-h:m:s"),
    Row(name="time-min", takes="=time", kind="minutes", job="time_min", help="a shorter limit that would do",
        support="approximated: a job that starts before others of its partition gets so much time, any other --time"),
    Row(name="tmp", takes="=size", kind="memory", job="tmp_disk", anew=True, section="constraint",
        help="temporary disk on each node",
        kubernetes="honoured: checked against the ephemeral storage that the node offers"),
    Row(name="treewidth", takes="=count", on="srun", since="25.11", help="how many nodes are told at once",
        support="inert: tasks are not started over a network tree"),
    Row(name="tres-bind", takes="=list", since="25.11", env="SBATCH_TRES_BIND SLURM_TRES_BIND SALLOC_TRES_BIND",
        job="extra", section="affinity", help="which resources a task sees, as gres/gpu:way",
        support="approximated: recorded; which GPUs a task sees follows from --gpu-bind, --gpus-per-task and --ntasks-per-gpu"),
    Row(name="tres-per-task", takes="=list", kind="tres-per-task", since="25.11",
        env="SBATCH_TRES_PER_TASK SLURM_TRES_PER_TASK SALLOC_TRES_PER_TASK", section="consumable",
        help="resources of each task, as cpu=n,gres/gpu=n",
        support="honoured: cpu and gres/gpu; anything else is refused"),
    Row(name="uid", takes="=user", kind="root", until="22.05", help="user of the job (root only)",
        support="refused: jobs run as the user who submits them"),
    Row(name="uid", on="sbatch", since="25.11"),
    Row(name="unbuffered", short="u", on="srun", env="SLURM_UNBUFFEREDIO", step="unbuffered",
        help="pass output on at once"),
    Row(name="use-min-nodes", env="SBATCH_USE_MIN_NODES SLURM_USE_MIN_NODES SALLOC_USE_MIN_NODES",
        job="use_min_nodes", anew=True, help="the fewest nodes of a range"),
    Row(name="verbose", short="v", kind="level", env="SBATCH_DEBUG SLURM_DEBUG SALLOC_DEBUG", step="verbose",
        anew=True, early=True, help="say more; several times for still more"),
    Row(name="version", short="V", early=True, help="print the version"),
    Row(name="usage", early=True, help="the options in brief"),
    Row(name="wait", short="W", on="sbatch", env="SBATCH_WAIT", help="wait until the job has ended"),
    Row(name="wait", takes="=seconds", kind="natural", on="srun", env="SLURM_WAIT", step="wait",
        help="end the step so long after its first task"),
    Row(name="wait-all-nodes", takes="=0|1", kind="binary", on="sbatch salloc",
        env="SBATCH_WAIT_ALL_NODES SALLOC_WAIT_ALL_NODES", job="extra", help="start when all nodes are ready",
        support="inert: a job starts when all its nodes are ready"),
    Row(name="wait-for-children", on="srun", since="25.11", step="wait_for_children",
        help="the step ends with the last process, not the last task"),
    Row(name="wckey", takes="=key", env="SBATCH_WCKEY SLURM_WCKEY SALLOC_WCKEY", job="wckey", help="workload key",
        support="approximated: recorded and shown"),
    Row(name="whole", on="srun", help="give the step whole nodes",
        support="inert: the default of this version"),
    Row(name="wrap", takes="=command", on="sbatch", early=True, help="submit a command instead of a script"),
    Row(name="x11", takes="[=kind]", on="srun salloc", help="forward X11",
        support="refused: X11 is not forwarded"),
)
# fmt: on

_built: Dict[Tuple[str, Optional[Grammar]], Table] = {}
# Whether the machine has a program for containers: told by who knows that nobody has configured anything, and asked only about such an option.
runs_containers: Optional[Callable[[], bool]] = None


def options_of(command: str, grammar: Optional[Grammar] = None) -> Table:
    """The options that ``command`` (sbatch, srun, salloc) takes at a site, in Slurm's order; None: one with nothing configured."""
    table = _built.get((command, grammar))
    if table is None:
        newer = grammar is not None and grammar.newer
        rows = selected(ROWS, command, newer)
        if grammar is not None:
            from shim.core.options.plugins import with_plugins

            rows = with_plugins(rows, command, grammar)
        late = _no_row if grammar is not None else _late_row
        table = _built[command, grammar] = Table(rows, _reader(command, newer), _advice, late)
    return table


def _no_row(name: str) -> Optional[Row]:
    return None


def _late_row(name: str) -> Optional[Row]:
    """The container option of that name, where nothing is configured and containers can be started here."""
    if "container-" not in name or runs_containers is None or not runs_containers():
        return None
    from shim.core.options.plugins import PYXIS

    found = [row for row in PYXIS if row["name"].startswith(name)]
    exact = [row for row in found if row["name"] == name]
    return exact[0] if exact else found[0] if len(found) == 1 else None


def _advice(word: str, argv: Sequence[str]) -> List[str]:
    if "container-" not in word:
        return []
    from shim.core.options.plugins import unknown_containers

    return unknown_containers(word, argv, runs_containers is not None)


def selected(rows: Iterable[Row], command: str, newer: bool) -> List[Row]:
    """The rows that the command has at the newer or the older release."""
    found: List[Row] = []
    last: Row = Row(name="")
    absent = "until" if newer else "since"
    for row in rows:
        if row["name"] == last["name"]:
            row = _varied(last, row)
        last = row
        if not row.get(absent) and command in row.get("on", command):
            found.append(row)
    return found


def _varied(row: Row, variant: Row) -> Row:
    merged = Row(**row)
    for key in ("on", "since", "until"):
        merged.pop(key, None)  # type: ignore[misc]
    merged.update(variant)
    return merged


def row_of(field: str) -> Row:
    """The first row of that name, whatever the command and release. KeyError for one that no option has."""
    for row in ROWS:
        if row["name"] == field:
            return row
    from shim.core.options.plugins import PYXIS

    for row in PYXIS:
        if row["name"] == field:
            return row
    raise KeyError(field)


def _reader(command: str, newer: bool) -> Callable[[Row], Sequence[str]]:
    """Which of a row's variables the command reads."""
    other = "-" if newer else "+"

    def variables(row: Row) -> Sequence[str]:
        found = []
        for word in row.get("env", "").split():
            if word[0] != other:
                name = word.lstrip("+-")
                owner = "sbatch" if name[:7] == "SBATCH_" else "salloc" if name[:7] == "SALLOC_" else "srun"
                if name[0] == "*" or owner == command:
                    found.append(name.lstrip("*"))
        return tuple(found)

    return variables
