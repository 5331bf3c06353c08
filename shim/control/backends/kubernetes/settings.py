"""The Kubernetes words of a cluster and of its partitions, as the backend uses them."""

from __future__ import annotations

from shim.core.model.cluster import Cluster
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Settings(Value):
    """What applies to the jobs of one partition: the cluster's words, and the partition's own on top of them."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    image: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()  # {path, pvc | host_path | nfs, sub_path, read_only}
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, str] = {}  # further labels of the pods
    annotations: dict[str, str] = {}
    priority_class: str = ""
    service_account: str = ""
    runtime_class: str = ""
    queue: str = ""  # Kueue's LocalQueue
    overlay: dict[str, Any] = {}  # merged into the pod template last
    cluster_domain: str = "cluster.local"
    identity: str = "submitter"  # submitter, image or platform
    root_uid: int = 1000  # what uid 0 of the submitting machine becomes
    gpu_resource: str = "nvidia.com/gpu"
    gpu_types: dict[str, Any] = {}  # type -> {label: value or [values]}
    node_features: dict[str, Any] = {}  # feature -> {label: value or [values]}
    cpu_request: int = 100  # per cent of a CPU that a CPU of a job requests
    shm: int | None = None  # MiB of /dev/shm; None: half of the job's memory, else no limit
    spread: bool = True  # nodes of a job are different nodes
    gang: str = "auto"  # auto, suspend or podgroup
    bind_wait: int = 60  # seconds until a gang that is placed in part is undone
    boot_limit: int = 600  # seconds until a job whose pods cannot start has failed
    encrypt: bool = True  # what pods of a job say to each other
    timeout: int = 10  # seconds that the API server has to answer while somebody looks at the cluster
    node_wait: int = 300  # SlurmdTimeout: seconds a silent node is waited for
    lease: int = 60  # seconds of silence after which another machine may carry on with the jobs
    autoscale: bool = False
    autoscale_nodes: int = 16  # how many nodes of each kind jobs may wait for at a time
    autoscale_node: Any = ()  # what such a node has: {cpus, memory, gpus, features}, or several; (): as those that are there
    stage_limit: int = 256  # MiB of a working directory that is copied into the pods
    files_limit: int = 1024  # MiB of files that come back from each of a job's pods; 0: none
    files_count: int = 100_000  # how many
    files_wait: int = 600  # seconds that a job's first pod stays for files that no machine has fetched


def settings_of(cluster: Cluster, partition: str = "") -> Settings:
    """The words that hold in a partition (empty: the cluster's own)."""
    found = cluster.partition(partition.split(",")[0]) if partition else None
    words: dict[str, Any] = {}
    for source in (cluster.settings, found.settings if found is not None else {}):
        for name, text in source.items():
            if name in _FIELDS:
                words[name] = _value(name, text)
    return Settings(**words)


# What is each machine's own: where the cluster is, and how it orders its jobs.
_OF_MACHINE = frozenset(
    ("kubeconfig", "context", "namespace", "timeout", "lease", "autoscale", "autoscale_nodes", "autoscale_node")
)


def words_of(cluster: Cluster, partition: str) -> dict[str, str]:
    """What a configuration says of the pods of a partition's jobs, for any machine that starts one."""
    found = cluster.partition(partition.split(",")[0]) if partition else None
    words = {**cluster.settings, **(found.settings if found is not None else {})}
    return {name: text for name, text in words.items() if name in _FIELDS - _OF_MACHINE}


def settings_with(cluster: Cluster, words: Mapping[str, str]) -> Settings:
    """``words_of`` another machine's configuration, for a cluster as it is configured here."""
    own = {name: text for name, text in cluster.settings.items() if name in _OF_MACHINE}
    return settings_of(Cluster(name=cluster.name, settings={**words, **own}))


def _value(name: str, text: str) -> Any:
    import json  # dear beside what else a command does that only knows the defaults

    value = json.loads(text)
    return tuple(value) if isinstance(value, list) else value


def texts(words: Mapping[str, Any]) -> dict[str, str]:
    """The words in the form in which a cluster keeps a backend's settings."""
    import json

    return {name: json.dumps(value, sort_keys=True) for name, value in words.items() if name in _FIELDS}


_FIELDS = frozenset(slot[0] for slot in Settings._slots)
