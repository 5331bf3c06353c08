"""Every word of the configuration: its type, its default, what it means. docs/configuration.md is made from it.

Types: str, int, bool, minutes (a Slurm time), memory (a Slurm size), hosts (a hostlist), words (a list of strings),
gpus (``4`` or ``"a100:4"``), licenses (``matlab:2,ansys:1``), server (``HOST:PORT``), release (a version of Slurm), data (a table or list
that the backend reads), table (a table of words).
"""

from __future__ import annotations

from shim.control.backends.kubernetes.settings import Settings
from shim.core.formats.tres import parse_licenses
from shim.core.model.cluster import Cluster, Gres, Partition
from shim.core.options.grammar import DEFAULT_RELEASE
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Word(Value):
    """One word of the configuration file. Where it sets a field (``limit``), or one of the Kubernetes Settings, its default is the field's."""

    name: str
    type: str
    default: object = None
    text: str = ""
    backends: tuple[str, ...] = ("local", "kubernetes")
    least: int = 0  # of a number
    most: int = 1 << 31
    choices: tuple[str, ...] = ()  # of a text that may be none but these, in any case
    slurm: str = ""  # what slurm.conf and ``scontrol show config`` call it; the docs begin with it
    unit: str = ""  # of the number in ``scontrol show config``
    limit: bool = (
        False  # sets the field of Cluster or Partition that has its name; beside slurm_conf too, where it wins
    )
    with_slurm_conf: bool = False  # is no limit, and may stand beside slurm_conf: it says nothing about nodes


TOP: tuple[Word, ...] = (
    Word(name="default", type="str", default="local", text="cluster of jobs that name none"),
    Word(
        name="slurm_version",
        type="release",
        default=DEFAULT_RELEASE,
        text="whose options sbatch, srun and salloc have, and what `--version` says: `22.05` or `25.11` ([support.md](support.md))",
    ),
    Word(
        name="operators",
        limit=True,
        type="words",
        text="who may do what Slurm leaves to operators, beside root and the owner of the index, also from other accounts ([controller.md](internals/controller.md#root-and-other-operators)); `[]`: root alone",
    ),
    Word(
        name="retention",
        limit=True,
        type="int",
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

_SETTINGS = Settings()
_CHOICES = {"pull_policy": ("IfNotPresent", "Always", "Never"), "identity": ("submitter", "image", "platform")}


def _of_pods(name: str, otherwise: object = None) -> object:
    """The default of one of the Settings, ``otherwise`` for no such and for an empty table or list."""
    found = getattr(_SETTINGS, name, otherwise)
    return otherwise if found in ({}, ()) else found


# May stand in a cluster's table and in a partition's, where they win (mounts and tables: replace it).
POD = tuple(
    Word(
        name=name,
        type=type_,
        default=_of_pods(name),
        text=text,
        backends=_KUBERNETES,
        least=name == "cpu_request",
        choices=_CHOICES.get(name, ()),
    )
    for name, type_, text in (
        ("image", "str", "the image of the pods; needs `sh` and Python 3.9 or later"),
        ("pull_policy", "str", "`IfNotPresent`, `Always` or `Never`"),
        ("pull_secrets", "words", "Secrets for pulling images"),
        ("mounts", "data", '`[{ path = "/home", pvc = "home" }]`; or `host_path`, `nfs = "server:/export"`'),
        ("node_selector", "data", "labels that the nodes of the partition have"),
        ("tolerations", "data", "taints that its pods tolerate"),
        ("labels", "data", "further labels of the pods"),
        ("annotations", "data", "further annotations of the pods"),
        ("priority_class", "str", "PriorityClass of the pods"),
        ("runtime_class", "str", "RuntimeClass of the pods"),
        ("service_account", "str", "service account whose token the pods get; empty: none"),
        ("queue", "str", "Kueue's LocalQueue"),
        ("overlay", "data", "merged into the pod template last"),
        (
            "identity",
            "str",
            "pods run as the `submitter`, as the `image` says or as the `platform` decides",
        ),
        ("root_uid", "int", "the uid that root's jobs run as"),
        ("gpu_resource", "str", "the resource that a GPU is"),
        (
            "gpu_types",
            "data",
            'what nodes with a type of GPU are labelled: `{ a100 = { "nvidia.com/gpu.product" = "A100" } }`',
        ),
        ("node_features", "data", "what nodes with a feature (--constraint) are labelled"),
        ("cpu_request", "int", "per cent of a CPU that is requested for each CPU of a job"),
        ("shm", "memory", "size of /dev/shm; unset: half of the job's memory"),
        ("spread", "bool", "the nodes of a job are different nodes of the cluster"),
        (
            "encrypt",
            "bool",
            "what the pods of a job say to each other is encrypted; needs `ssl` in the image's Python",
        ),
        ("bind_wait", "int", "seconds until a job that got only a part of its nodes gives them back"),
        ("boot_limit", "int", "seconds until a job whose pods cannot start has failed (BOOT_FAIL)"),
        (
            "autoscale",
            "bool",
            "nodes are added when needed: pods are made though nothing is free, or no node exists",
        ),
        ("autoscale_nodes", "int", "how many nodes of each kind jobs may wait for at a time"),
        (
            "autoscale_node",
            "data",
            'what a node has that is added, one table or several: `{ cpus = 64, memory = "256G", gpus = "a100:8", features = ["ib"] }`;'
            " unset: as those that are there",
        ),
        ("stage_limit", "int", "MiB of a working directory that may be copied into the pods"),
        ("files_limit", "int", "MiB of files made or changed there that come back from each pod; 0: none do"),
        ("files_count", "int", "how many files come back from each pod"),
        ("files_wait", "int", "seconds that a job's first pod stays when no machine of yours fetches its files"),
    )
)
CLUSTER: tuple[Word, ...] = (
    Word(
        name="backend",
        with_slurm_conf=True,
        type="str",
        default="local",
        choices=("local", "kubernetes", "slurm"),
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
        backends=("local",),
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
        text="one more than the highest index",
        most=4000001,
    ),
    Word(name="max_jobs", limit=True, slurm="MaxJobCount", type="int", text="how many jobs may be active"),
    Word(name="kill_wait", limit=True, slurm="KillWait", unit="sec", type="int", text="seconds from TERM to KILL"),
    Word(
        name="output_wait",
        limit=True,
        type="int",
        text="seconds for which a start waits for the folder of `-o` and `-e`, before the job fails; on Kubernetes for that on the submitting machine, in the pods it is made",
    ),
    Word(
        name="mpi_default",
        limit=True,
        slurm="MpiDefault",
        type="str",
        choices=("none", "pmi2"),
        text="the `--mpi` of steps that name none: `none` or `pmi2`",
    ),
    Word(
        name="mail_prog",
        limit=True,
        slurm="MailProg",
        type="str",
        text="the program that sends the mails of `--mail-type`, called with `-s SUBJECT USER`",
    ),
    Word(
        name="mail_server",
        limit=True,
        type="server",
        text="an SMTP server, `HOST` or `HOST:PORT`, that takes the mails of `--mail-type` in place of a `mail_prog`; with neither none are sent",
    ),
    Word(
        name="mail_domain",
        limit=True,
        slurm="MailDomain",
        type="str",
        text="what follows the `@` where `--mail-user` names no domain, and in the sender of what goes to `mail_server`",
    ),
    Word(
        name="min_job_age",
        limit=True,
        slurm="MinJobAge",
        unit="sec",
        type="int",
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
        text="of a job that asks for no memory; unset: none is charged",
    ),
    Word(name="max_mem_per_cpu", limit=True, slurm="MaxMemPerCPU", type="memory"),
    Word(name="max_mem_per_node", limit=True, slurm="MaxMemPerNode", type="memory"),
    Word(
        name="enforce_part_limits",
        limit=True,
        slurm="EnforcePartLimits",
        type="bool",
        text="refuse at submit",
    ),
    Word(
        name="requeue",
        limit=True,
        slurm="JobRequeue",
        type="bool",
        text="jobs may be requeued unless they say no",
    ),
    Word(name="licenses", limit=True, slurm="Licenses", type="licenses", text="`matlab:2,ansys:1`"),
    Word(
        name="isolation",
        with_slurm_conf=True,
        type="str",
        default="auto",
        choices=("namespaces", "addresses", "auto"),
        text="node names by `namespaces`, `addresses` or `auto`",
        backends=("local",),
    ),
    Word(
        name="share",
        type="str",
        default="nodes",
        choices=("nodes", "machine"),
        text="`nodes`: each node has what it shows; `machine`: together they have no more CPUs and memory than this machine",
        backends=("local",),
    ),
    Word(name="kubeconfig", type="str", text="a file; unset: as kubectl finds it", backends=_KUBERNETES),
    Word(
        name="context",
        type="str",
        text="the kubeconfig's context; unset: its current one",
        backends=_KUBERNETES,
    ),
    Word(name="namespace", type="str", text="unset: the context's", backends=_KUBERNETES),
    Word(name="cluster_domain", type="str", text="of DNS names", backends=_KUBERNETES),
    Word(
        name="gang",
        type="str",
        choices=("auto", "suspend", "podgroup"),
        text="`auto`, `suspend` or `podgroup`",
        backends=_KUBERNETES,
    ),
    Word(
        name="node_wait",
        type="int",
        text="SlurmdTimeout: seconds a silent node is waited for",
        backends=_KUBERNETES,
    ),
    Word(
        name="lease",
        type="int",
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

PARTITION: tuple[Word, ...] = (
    Word(name="nodes", type="hosts", default="", text="its nodes; empty = all"),
    Word(name="default", limit=True, slurm="Default", type="bool", text="jobs that name no partition go here"),
    Word(
        name="state",
        limit=True,
        slurm="State",
        type="str",
        choices=("UP", "DOWN", "DRAIN", "INACTIVE"),
        text="`UP`, `DOWN`, `DRAIN` or `INACTIVE`",
    ),
    Word(name="max_time", limit=True, slurm="MaxTime", type="minutes"),
    Word(name="default_time", limit=True, slurm="DefaultTime", type="minutes"),
    Word(
        name="alloc_nodes",
        limit=True,
        slurm="AllocNodes",
        type="hosts",
        text="the hosts jobs may be submitted from",
    ),
    Word(name="min_nodes", limit=True, slurm="MinNodes", type="int"),
    Word(name="max_nodes", limit=True, slurm="MaxNodes", type="int"),
    Word(name="def_mem_per_cpu", limit=True, slurm="DefMemPerCPU", type="memory"),
    Word(name="max_mem_per_cpu", limit=True, slurm="MaxMemPerCPU", type="memory"),
    Word(name="priority_tier", limit=True, slurm="PriorityTier", type="int"),
    *POD,
)


def _with_defaults(words: tuple[Word, ...], fields: Value) -> tuple[Word, ...]:
    """The words that set a field with its default. A first job id that nobody names is settled later (``id_ranges``)."""
    return tuple(
        word.replace(default=getattr(fields, word.name))
        if word.limit and word.name != "first_job_id"
        else word.replace(default=_of_pods(word.name, word.default))
        if word.default is None and hasattr(_SETTINGS, word.name)
        else word
        for word in words
    )


TOP = _with_defaults(TOP, Cluster(name=""))
CLUSTER = _with_defaults(CLUSTER, Cluster(name=""))
PARTITION = _with_defaults(PARTITION, Partition(name=""))


def given(words: Mapping[str, Any], table: tuple[Word, ...]) -> dict[str, Any]:
    """The fields that a table's words set. Of a text that is empty the default holds."""
    values = {word.name: words[word.name].value for word in table if word.limit and word.name in words}
    return {name: value for name, value in values.items() if value != ""}


def shown(cluster: Cluster) -> dict[str, str]:
    """What ``scontrol show config`` says of the words that have a line there."""
    return {word.slurm: _shown(word, getattr(cluster, word.name)) for word in CLUSTER if word.limit and word.slurm}


def _shown(word: Word, value: Any) -> str:
    if word.type == "licenses":
        value = show_licenses(value)
    return f"{int(value)} {word.unit}".rstrip() if isinstance(value, int) else value or "(null)"


def show_licenses(licenses: tuple[Gres, ...]) -> str:
    """``matlab:2,ansys:1``."""
    return ",".join(f"{one.name}:{one.count}" for one in licenses)


def read_licenses(text: str) -> tuple[Gres, ...]:
    """What ``show_licenses`` shows. Raises ValueError."""
    return tuple(Gres(name=name, count=count) for name, count in parse_licenses(text))


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
