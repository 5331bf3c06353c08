"""A request as options of a real sbatch again: for a job that goes to another Slurm than the one it was submitted to.

Only options that Slurm 22.05 has are used; whatever the script's directives say is said again, so that the command line wins.
"""

from __future__ import annotations

from shim.core.formats.times import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

    from shim.core.model.request import JobRequest

_TEXTS = (
    ("name", "job-name"),
    ("partition", "partition"),
    ("ntasks", "ntasks"),
    ("cpus_per_task", "cpus-per-task"),
    ("ntasks_per_node", "ntasks-per-node"),
    ("ntasks_per_socket", "ntasks-per-socket"),
    ("ntasks_per_core", "ntasks-per-core"),
    ("ntasks_per_gpu", "ntasks-per-gpu"),
    ("min_cpus", "mincpus"),
    ("sockets_per_node", "sockets-per-node"),
    ("cores_per_socket", "cores-per-socket"),
    ("threads_per_core", "threads-per-core"),
    ("gres", "gres"),
    ("gpus", "gpus"),
    ("gpus_per_node", "gpus-per-node"),
    ("gpus_per_socket", "gpus-per-socket"),
    ("gpus_per_task", "gpus-per-task"),
    ("cpus_per_gpu", "cpus-per-gpu"),
    ("node_list", "nodelist"),
    ("exclude", "exclude"),
    ("constraint", "constraint"),
    ("prefer", "prefer"),
    ("distribution", "distribution"),
    ("licenses", "licenses"),
    ("reservation", "reservation"),
    ("switches", "switches"),
    ("array", "array"),
    ("priority", "priority"),
    ("stdin", "input"),
    ("stdout", "output"),
    ("stderr", "error"),
    ("export", "export"),
    ("account", "account"),
    ("qos", "qos"),
    ("comment", "comment"),
    ("wckey", "wckey"),
    ("mail_type", "mail-type"),
    ("mail_user", "mail-user"),
)
_SIZES = (("mem_per_node", "mem"), ("mem_per_cpu", "mem-per-cpu"), ("mem_per_gpu", "mem-per-gpu"), ("tmp_disk", "tmp"))
_FLAGS = (
    ("oversubscribe", "oversubscribe"),
    ("overcommit", "overcommit"),
    ("contiguous", "contiguous"),
    ("spread_job", "spread-job"),
    ("use_min_nodes", "use-min-nodes"),
    ("hold", "hold"),
    ("no_kill", "no-kill"),
    ("get_user_env", "get-user-env"),
)
_OTHERS: Tuple[Tuple[str, Callable[[Any], str]], ...] = (
    ("time_limit", lambda minutes: "--time=UNLIMITED" if minutes < 0 else f"--time={minutes}"),
    ("time_min", lambda minutes: f"--time-min={minutes}"),
    ("begin", lambda epoch: f"--begin={stamp(epoch)}" if epoch else ""),
    ("deadline", lambda epoch: f"--deadline={stamp(epoch)}" if epoch else ""),
    ("exclusive", lambda kind: "--exclusive" if kind == "node" else f"--exclusive={kind}"),
    ("kill_on_invalid_dep", lambda kill: f"--kill-on-invalid-dep={'yes' if kill else 'no'}"),
    ("nice", lambda nice: f"--nice={nice}" if nice else ""),
    ("requeue", lambda may: "--requeue" if may else "--no-requeue"),
    ("open_mode", lambda mode: f"--open-mode={'append' if mode == 'a' else 'truncate'}"),
    ("work_dir", lambda folder: f"--chdir={folder}"),
)
# Recorded options of 22.05; those of newer Slurms are given up.
_RECORDED = [
    "acctg-freq",
    "batch",
    "bb",
    "cluster-constraint",
    "cpu-bind",
    "cpu-freq",
    "delay-boot",
    "gpu-bind",
    "gpu-freq",
    "gres-flags",
    "hint",
    "mcs-label",
    "mem-bind",
    "network",
    "power",
    "profile",
    "wait-all-nodes",
]


def arguments(request: JobRequest) -> Tuple[List[str], List[str]]:
    """The options, each in one word, and those that had to be given up."""
    found = []
    hinted = _of_hint(request)
    for field, option in _TEXTS:
        value = getattr(request, field)
        if value is not None and field not in hinted:
            found.append(f"--{option}={value}")
    for field, option in _SIZES:
        if getattr(request, field) is not None:
            found.append(f"--{option}={getattr(request, field)}M")
    found += [f"--{option}" for field, option in _FLAGS if getattr(request, field)]
    for field, said in _OTHERS:
        value = getattr(request, field)
        if value is not None and said(value):
            found.append(said(value))
    if request.min_nodes is not None:
        most = "" if request.max_nodes is None else f"-{request.max_nodes}"
        found.append(f"--nodes={request.min_nodes}{most}")
    if request.signal is not None:
        batch = "B:" if request.signal.batch else ""
        found.append(f"--signal={batch}{request.signal.number}@{request.signal.lead}")
    recorded: Dict[str, str] = request.extra
    found += [f"--{name}={recorded[name]}" if recorded[name] else f"--{name}" for name in _RECORDED if name in recorded]
    kept = (*_RECORDED, "submit_dir", "dependency")
    return found, [f"--{name}" for name in recorded if name not in kept]


def _of_hint(request: JobRequest) -> List[str]:
    """The fields that --hint says already: Slurm ignores hints beside the one, and counts tasks by the other."""
    if "hint" not in request.extra:
        return []
    bound = "memory_bound" in request.extra["hint"].lower().split(",") and request.cores_per_socket == 1
    return ["threads_per_core", *(["cores_per_socket"] if bound else [])]
