"""What becomes of each option on this machine (the local backend), and why. Every option is in one of the four tables."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

HONOURED = "honoured"
APPROXIMATED = "approximated"
INERT = "inert"
REFUSED = "refused"
FATES = (HONOURED, APPROXIMATED, INERT, REFUSED)

_IMAGE = "goes with --container-image"
_BLOCKS = "nodes are in no blocks (topology/block)"

DONE = """
array autocomplete begin chdir cluster clusters comment constraint cpus-per-gpu cpus-per-task deadline dependency disable-status
epilog error
exact exclude export export-file gpus gpus-per-node gpus-per-socket gpus-per-task gres help het-group hold ignore-pbs immediate input
job-name jobid kill-on-bad-exit kill-on-invalid-dep label licenses mem mem-per-cpu mem-per-gpu mincpus mpi multi-prog nice
ignore-signals no-requeue no-shell nodefile nodelist nodes ntasks ntasks-per-gpu ntasks-per-node ntasks-per-tres open-mode output overcommit
overlap oversubscribe parsable partition preserve-env prolog propagate pty quiet quit-on-interrupt relative requeue reservation resv-ports signal
task-epilog task-prolog test-only time tmp tres-per-task unbuffered usage verbose version wait wait-for-children wrap
"""

# Where what is honoured needs a word.
NOTES = {
    "cpus-per-gpu": "of a job; in a step it changes nothing, as on Slurm",
    "deadline": "a job that cannot end in time is cancelled",
    "gpus-per-socket": "of a job; a step is refused where no node of its job has as many, and gets no others by it, as on Slurm",
    "het-group": "docs/heterogeneous.md",
    "mem-per-gpu": "of a job; in a step it changes nothing, as on Slurm",
    "mpi": "none; the other types need a PMI server and are refused",
    "parsable": "srun has no message that it would shorten",
    "requeue": "=expedite is as without a value",
    "reservation": "there are no reservations: every name is refused as unknown",
    "resv-ports": "a number of ports is refused, as by a Slurm without MpiParams=ports; without one it reserves none",
    "tres-per-task": "cpu and gres/gpu; anything else is refused",
}

LOCAL: Dict[str, Dict[str, str]] = {
    APPROXIMATED: {
        "account": "recorded and shown; no accounts are known, so every one is accepted and none has limits",
        "batch": "checked against --constraint; the script runs on the job's first node",
        "contiguous": "recorded; nodes are chosen in order, which is contiguous on an idle cluster",
        "cores-per-socket": "checked against the nodes; cores are not bound",
        "distribution": "tasks go to nodes as asked; within a node nothing is bound",
        "exclusive": "=user and =mcs are as without a value in that nodes are not shared with other users",
        "external-launcher": "as --overlap",
        "extra": "recorded; nothing is chosen by it",
        "extra-node-info": "checked against the nodes; cores are not bound",
        "get-user-env": "the login environment is made when the job starts; the timeout has no effect",
        "gpu-bind": "tasks see the GPUs that it says (single, per_task, map_gpu, mask_gpu); closest binds nothing",
        "hint": "sets --cores-per-socket and --threads-per-core as on Slurm; cores are not bound",
        "kill-command": "the command is signalled when the allocation ends",
        "mail-type": "sent by the program that mail_prog (MailProg) names, without it none",
        "mem-update": "the job keeps the memory of --mem to its end",
        "mail-user": "mail is sent where the configuration names a mail_prog (MailProg)",
        "no-kill": "recorded; a job that loses a node ends all the same",
        "ntasks-per-core": "counts tasks; cores are not bound",
        "ntasks-per-socket": "counts tasks; cores are not bound",
        "oom-kill-step": "recorded; the process with the most memory is killed",
        "prefer": "recorded; any node that satisfies the rest is taken",
        "priority": "honoured of an operator; as on Slurm an ordinary user's value does not count",
        "qos": "recorded and shown; no QOS is known, so every one is accepted and none has limits",
        "sockets-per-node": "checked against the nodes; cores are not bound",
        "spread-job": "taken as by Slurm, but for the counts that --ntasks-per-node beside it shows",
        "threads-per-core": "checked against the nodes; threads are not bound",
        "time-min": "a job that starts before others of its partition gets so much time, any other --time",
        "tres-bind": "recorded; which GPUs a task sees follows from --gpu-bind, --gpus-per-task and --ntasks-per-gpu",
        "use-min-nodes": "recorded; the smallest count that fits is what is taken anyway",
        "wckey": "recorded and shown",
    },
    INERT: {
        "accel-bind": "nothing is bound to sockets",
        "acctg-freq": "usage is not sampled",
        "bb": "no burst buffers, as on a Slurm without a plugin for them",
        "bbf": "no burst buffers, as on a Slurm without a plugin for them",
        "bell": "the terminal's bell is not rung",
        "cluster-constraint": "no federation of clusters",
        "compress": "goes with --bcast",
        "consolidate-segments": _BLOCKS,
        "context": "no SELinux contexts, as on a Slurm without their plugin",
        "container-entrypoint-log": _IMAGE,
        "container-env": _IMAGE,
        "container-mount-home": _IMAGE,
        "container-mounts": _IMAGE,
        "container-readonly": _IMAGE,
        "container-remap-root": _IMAGE,
        "container-workdir": _IMAGE,
        "container-writable": _IMAGE,
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
        "no-container-entrypoint": _IMAGE,
        "no-container-mount-home": _IMAGE,
        "no-container-remap-root": _IMAGE,
        "power": "power is not managed",
        "profile": "usage is not sampled",
        "segment": _BLOCKS,
        "send-libs": "goes with --bcast",
        "slurmd-debug": "there is no slurmd",
        "spread-segments": _BLOCKS,
        "stepmgr": "steps are always managed by their own job",
        "switches": "there is one switch",
        "thread-spec": "ignored with Slurm's message: no threads are set aside (AllowSpecResourcesUsage = No)",
        "threads": "tasks are not started over a network tree",
        "treewidth": "tasks are not started over a network tree",
        "wait-all-nodes": "a job starts when all its nodes are ready",
        "whole": "the default of this version",
    },
    REFUSED: {
        "async": "a step ends with its srun, which takes its output",
        "bcast": "programs are not copied to nodes: they share the file system",
        "bcast-exclude": "programs are not copied to nodes: they share the file system",
        "container": "OCI bundles are not run; a Slurm without oci.conf takes one and starts the job outside of it, without a word",
        "container-entrypoint": "containers are not started on this machine",
        "container-id": "OCI bundles are not run",
        "container-image": "containers are not started on this machine",
        "container-name": "containers are not started on this machine",
        "container-save": "containers are not started on this machine",
        "container-type": "OCI bundles are not run",
        "debugger-test": "parallel debuggers cannot attach",
        "external": "a job that another system runs: every job runs on nodes of its cluster",
        "gid": "jobs run as the user who submits them",
        "no-allocate": "tasks run in an allocation only",
        "reboot": "nodes are not rebooted",
        "resources": "no resources of several layers (resources.yaml) are configured; Slurm refuses unknown ones too",
        "uid": "jobs run as the user who submits them",
        "x11": "X11 is not forwarded",
    },
}
