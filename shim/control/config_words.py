"""Every word of the configuration: its type, its default, what it means. docs/configuration.md is made from it.

Types: str, int, bool, minutes (a Slurm time), memory (a Slurm size), hosts (a hostlist), words (a list of strings),
gpus (``4`` or ``"a100:4"``), release (a version of Slurm), data (a table or list that the backend reads), table (a table of words).
"""

from __future__ import annotations

from shim.core.value import Value


class Word(Value):
    """One word of the configuration file."""

    name: str
    type: str
    default: object = None
    text: str = ""
    backends: tuple[str, ...] = ("local", "kubernetes")
    least: int = 0  # of a number
    most: int = 1 << 31
    slurm: str = ""  # what slurm.conf and ``scontrol show config`` call it; the docs begin with it
    limit: bool = False  # sets the field of Cluster that has its name; beside slurm_conf too, where it wins
    with_slurm_conf: bool = False  # is no limit, and may stand beside slurm_conf: it says nothing about nodes


TOP = (
    Word(name="default", type="str", default="local", text="cluster of jobs that name none"),
    Word(
        name="slurm_version",
        type="release",
        default="22.05",
        text="whose options sbatch, srun and salloc have, and what `--version` says: `22.05` or `25.11` ([support.md](support.md))",
    ),
    Word(
        name="operators",
        type="words",
        default=None,
        text="who may do what Slurm leaves to operators, beside root and the owner of the index, also from other accounts ([controller.md](internals/controller.md#root-and-other-operators)); `[]`: root alone",
    ),
    Word(
        name="retention",
        type="int",
        default=30,
        most=36500,
        text="days for which ended jobs are kept, for sacct; 0: for ever (`shim prune` removes them by hand)",
    ),
    Word(name="plugins", type="table", text="options that a site's plugins add"),
    Word(name="clusters", type="table", text="the clusters, one table each: what `-M` names"),
)

PLUGINS = (
    Word(name="pyxis", type="bool", default=False, text="the container options of pyxis (`--container-image` …)"),
    Word(
        name="ignore",
        type="words",
        default=(),
        text='options accepted without effect: `["turbo", "uenv=", "view[=]"]` (`=`: takes a value, `[=]`: may take one)',
    ),
    Word(
        name="map",
        type="data",
        text='options that are others here: `{ edf = "container-image", long = "time=2-00:00:00" }`',
    ),
)

_KUBERNETES = ("kubernetes",)
_REAL = ("slurm",)
_ALL = ("local", "kubernetes", "slurm")

# May stand in a cluster's table and in a partition's, where they win (mounts and tables: replace it).
POD = tuple(
    Word(name=name, type=type_, default=default, text=text, backends=_KUBERNETES, least=name == "cpu_request")
    for name, type_, default, text in (
        ("image", "str", "", "the image of the pods; needs `sh` and Python 3.9 or later"),
        ("pull_policy", "str", "IfNotPresent", "`IfNotPresent`, `Always` or `Never`"),
        ("pull_secrets", "words", (), "Secrets for pulling images"),
        ("mounts", "data", None, '`[{ path = "/home", pvc = "home" }]`; or `host_path`, `nfs = "server:/export"`'),
        ("node_selector", "data", None, "labels that the nodes of the partition have"),
        ("tolerations", "data", None, "taints that its pods tolerate"),
        ("labels", "data", None, "further labels of the pods"),
        ("annotations", "data", None, "further annotations of the pods"),
        ("priority_class", "str", "", "PriorityClass of the pods"),
        ("runtime_class", "str", "", "RuntimeClass of the pods"),
        ("service_account", "str", "", "service account whose token the pods get; empty: none"),
        ("queue", "str", "", "Kueue's LocalQueue"),
        ("overlay", "data", None, "merged into the pod template last"),
        (
            "identity",
            "str",
            "submitter",
            "pods run as the `submitter`, as the `image` says or as the `platform` decides",
        ),
        ("root_uid", "int", 1000, "the uid that root's jobs run as"),
        ("gpu_resource", "str", "nvidia.com/gpu", "the resource that a GPU is"),
        (
            "gpu_types",
            "data",
            None,
            'what nodes with a type of GPU are labelled: `{ a100 = { "nvidia.com/gpu.product" = "A100" } }`',
        ),
        ("node_features", "data", None, "what nodes with a feature (--constraint) are labelled"),
        ("cpu_request", "int", 100, "per cent of a CPU that is requested for each CPU of a job"),
        ("shm", "memory", None, "size of /dev/shm; unset: half of the job's memory"),
        ("spread", "bool", True, "the nodes of a job are different nodes of the cluster"),
        (
            "encrypt",
            "bool",
            True,
            "what the pods of a job say to each other is encrypted; needs `ssl` in the image's Python",
        ),
        ("bind_wait", "int", 60, "seconds until a job that got only a part of its nodes gives them back"),
        ("boot_limit", "int", 600, "seconds until a job whose pods cannot start has failed (BOOT_FAIL)"),
        (
            "autoscale",
            "bool",
            False,
            "nodes are added when needed: pods are made though nothing is free, or no node exists",
        ),
        ("autoscale_nodes", "int", 16, "how many nodes of each kind jobs may wait for at a time"),
        (
            "autoscale_node",
            "data",
            None,
            'what a node has that is added, one table or several: `{ cpus = 64, memory = "256G", gpus = "a100:8", features = ["ib"] }`;'
            " unset: as those that are there",
        ),
        ("stage_limit", "int", 256, "MiB of a working directory that may be copied into the pods"),
        ("files_limit", "int", 1024, "MiB of files made or changed there that come back from each pod; 0: none do"),
        ("files_count", "int", 100_000, "how many files come back from each pod"),
        ("files_wait", "int", 600, "seconds that a job's first pod stays when no machine of yours fetches its files"),
    )
)
CLUSTER = (
    Word(
        name="backend",
        with_slurm_conf=True,
        type="str",
        default="local",
        text="`local`, `kubernetes` or `slurm`",
        backends=_ALL,
    ),
    Word(
        name="nodes",
        type="int",
        default=4,
        text="how many virtual nodes",
        backends=("local", "kubernetes"),
        least=1,
        most=10000,
    ),
    Word(
        name="node_names", type="hosts", default="", text="their names, e.g. `n[1-4]`", backends=("local", "kubernetes")
    ),
    Word(name="cpus", type="int", default=0, text="CPUs of each node; 0 = as found", backends=("local", "kubernetes")),
    Word(name="sockets", type="int", default=0, text="sockets of each node", backends=("local", "kubernetes")),
    Word(
        name="threads_per_core",
        type="int",
        default=1,
        text="threads of each core",
        backends=("local", "kubernetes"),
        least=1,
    ),
    Word(
        name="memory",
        type="memory",
        default=0,
        text="memory of each node; 0 = as found",
        backends=("local", "kubernetes"),
    ),
    Word(
        name="tmp_disk",
        type="memory",
        default=0,
        text="temporary disk of each node; unset: /tmp's size, 0 where `cpus` is set",
        backends=("local",),
    ),
    Word(
        name="gpus",
        type="gpus",
        default=None,
        text="GPUs of each node: `4` or `a100:4`",
        backends=("local", "kubernetes"),
    ),
    Word(
        name="features",
        type="words",
        default=(),
        text="features of each node (--constraint)",
        backends=("local", "kubernetes"),
    ),
    Word(
        name="slurm_conf",
        with_slurm_conf=True,
        type="str",
        default="",
        text="the shape of an existing cluster: path of its slurm.conf; limits given here win, nodes and partitions may not be",
    ),
    Word(name="node", type="table", default=None, text="tables of nodes that differ: `names` and any word above"),
    Word(name="partitions", type="table", default=None, text="the partitions, one table each", backends=_ALL),
    Word(
        name="first_job_id",
        limit=True,
        slurm="FirstJobId",
        type="int",
        default=None,
        text="the first job id; unset: 1, or as [clusters.md](clusters.md#job-ids) says where there are several clusters",
        least=1,
        backends=_ALL,
    ),
    Word(
        name="max_array_size",
        limit=True,
        slurm="MaxArraySize",
        type="int",
        default=1001,
        text="one more than the highest index",
        most=4000001,
    ),
    Word(
        name="max_jobs", limit=True, slurm="MaxJobCount", type="int", default=10000, text="how many jobs may be active"
    ),
    Word(name="kill_wait", limit=True, slurm="KillWait", type="int", default=30, text="seconds from TERM to KILL"),
    Word(
        name="output_wait",
        limit=True,
        type="int",
        default=2,
        text="seconds for which a start waits for the folder of `-o` and `-e`, before the job fails; on Kubernetes for that on the submitting machine, in the pods it is made",
    ),
    Word(
        name="mpi_default",
        limit=True,
        slurm="MpiDefault",
        type="str",
        default="none",
        text="the `--mpi` of steps that name none: `none` or `pmi2`",
    ),
    Word(
        name="mail_prog",
        limit=True,
        slurm="MailProg",
        type="str",
        default="",
        text="the program that sends the mails of `--mail-type`, called with `-s SUBJECT USER`",
    ),
    Word(
        name="mail_server",
        limit=True,
        type="str",
        default="",
        text="an SMTP server, `HOST` or `HOST:PORT`, that takes the mails of `--mail-type` in place of a `mail_prog`; with neither none are sent",
    ),
    Word(
        name="mail_domain",
        limit=True,
        slurm="MailDomain",
        type="str",
        default="",
        text="what follows the `@` where `--mail-user` names no domain, and in the sender of what goes to `mail_server`",
    ),
    Word(
        name="min_job_age",
        limit=True,
        slurm="MinJobAge",
        type="int",
        default=300,
        text="seconds an ended job stays in `squeue -t all`",
    ),
    Word(
        name="requeue_delay",
        with_slurm_conf=True,
        type="int",
        default=1,
        text="seconds a requeued job waits (Slurm: 120)",
    ),
    Word(
        name="def_mem_per_cpu",
        limit=True,
        slurm="DefMemPerCPU",
        type="memory",
        default=None,
        text="of a job that asks for no memory; unset: none is charged",
    ),
    Word(name="max_mem_per_cpu", limit=True, slurm="MaxMemPerCPU", type="memory", default=None),
    Word(name="max_mem_per_node", limit=True, slurm="MaxMemPerNode", type="memory", default=None),
    Word(
        name="enforce_part_limits",
        limit=True,
        slurm="EnforcePartLimits",
        type="bool",
        default=False,
        text="refuse at submit",
    ),
    Word(
        name="requeue",
        limit=True,
        slurm="JobRequeue",
        type="bool",
        default=True,
        text="jobs may be requeued unless they say no",
    ),
    Word(name="licenses", type="str", default="", text="licences: `matlab:2,ansys:1`"),
    Word(
        name="isolation",
        with_slurm_conf=True,
        type="str",
        default="auto",
        text="node names by `namespaces`, `addresses` or `auto`",
        backends=("local",),
    ),
    Word(
        name="share",
        type="str",
        default="nodes",
        text="`nodes`: each node has what it shows; `machine`: together they have no more CPUs and memory than this machine",
        backends=("local",),
    ),
    Word(name="kubeconfig", type="str", default="", text="a file; unset: as kubectl finds it", backends=_KUBERNETES),
    Word(
        name="context",
        type="str",
        default="",
        text="the kubeconfig's context; unset: its current one",
        backends=_KUBERNETES,
    ),
    Word(name="namespace", type="str", default="", text="unset: the context's", backends=_KUBERNETES),
    Word(name="cluster_domain", type="str", default="cluster.local", text="of DNS names", backends=_KUBERNETES),
    Word(name="gang", type="str", default="auto", text="`auto`, `suspend` or `podgroup`", backends=_KUBERNETES),
    Word(
        name="node_wait",
        type="int",
        default=300,
        text="SlurmdTimeout: seconds a silent node is waited for",
        backends=_KUBERNETES,
    ),
    Word(
        name="lease",
        type="int",
        default=300,
        text="seconds of silence after which another machine of yours carries on with the jobs",
        backends=_KUBERNETES,
    ),
    *POD,
    Word(
        name="bin",
        type="str",
        default="",
        text="folder of the real commands; unset: found on PATH, past our own",
        backends=_REAL,
    ),
    Word(name="conf", type="str", default="", text="SLURM_CONF for the real commands; unset: as it is", backends=_REAL),
    Word(
        name="timeout",
        type="int",
        default=10,
        text="seconds that a cluster elsewhere has to answer while somebody looks at it (clusters.md)",
        backends=_REAL + _KUBERNETES,
        least=1,
    ),
    Word(
        name="skypilot_env",
        type="bool",
        default=False,
        text="give a real Slurm's jobs SKYPILOT_* (real-slurm.md)",
        backends=_REAL,
    ),
)

PARTITION = (
    Word(name="nodes", type="hosts", default="", text="its nodes; empty = all"),
    Word(name="default", type="bool", default=False, text="jobs that name no partition go here"),
    Word(name="state", type="str", default="UP", text="`UP`, `DOWN`, `DRAIN` or `INACTIVE`"),
    Word(name="max_time", type="minutes", default=None, text="MaxTime"),
    Word(name="default_time", type="minutes", default=None, text="DefaultTime"),
    Word(
        name="alloc_nodes",
        type="hosts",
        default="",
        text="AllocNodes: the hosts jobs may be submitted from; empty = all",
    ),
    Word(name="min_nodes", type="int", default=0, text="MinNodes"),
    Word(name="max_nodes", type="int", default=None, text="MaxNodes"),
    Word(name="def_mem_per_cpu", type="memory", default=None, text="DefMemPerCPU"),
    Word(name="max_mem_per_cpu", type="memory", default=None, text="MaxMemPerCPU"),
    Word(name="priority_tier", type="int", default=1, text="PriorityTier"),
    *POD,
)


def words_of(path: tuple[str, ...]) -> tuple[Word, ...] | None:
    """The words that may stand in the table at ``path``; None for a table that is passed on as it is."""
    if not path:
        return TOP
    if path == ("plugins",):
        return PLUGINS
    if len(path) == 2 and path[0] == "clusters":
        return CLUSTER
    if len(path) == 4 and path[2] == "partitions":
        return PARTITION
    if len(path) == 3 and path[2] == "node":
        node_words = ("cpus", "sockets", "threads_per_core", "memory", "tmp_disk", "gpus", "features")
        names = Word(name="names", type="hosts", text="names")
        return (names, *(word for word in CLUSTER if word.name in node_words))
    return None
