"""What becomes of each option on the Kubernetes backend: as on this machine, or what is said here."""

from __future__ import annotations

from shim.core.options.fates import APPROXIMATED, HONOURED, INERT, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

# Options for which it makes no difference that the job runs in pods.
AS_LOCAL = """
accel-bind account acctg-freq array async autocomplete batch bb bbf begin bell cluster cluster-constraint clusters comment compress
consolidate-segments container container-id container-type context core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu
cpus-per-task deadline debugger-test delay-boot dependency disable-status distribution epilog exact export export-file external
external-launcher extra extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres-flags help
hint hold ignore-pbs ignore-signals input interactive job-name jobid kill-command kill-on-bad-exit kill-on-invalid-dep
label mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mem-update mincpus mpi multi-prog network no-allocate
no-bell no-kill no-requeue no-shell nodefile nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
ntasks-per-tres open-mode overcommit overlap parsable partition power prefer preserve-env priority profile prolog pty qos quiet
quit-on-interrupt reboot relative requeue reservation resources resv-ports segment send-libs signal slurmd-debug
sockets-per-node spread-job spread-segments stepmgr switches task-epilog task-prolog test-only thread-spec threads
threads-per-core time time-min treewidth tres-bind tres-per-task uid unbuffered usage use-min-nodes verbose version wait
wait-all-nodes wait-for-children wckey whole wrap x11
"""

KUBERNETES: Dict[str, Dict[str, str]] = {
    HONOURED: {
        "chdir": "a directory that no mount provides is copied in when the job is submitted",
        "constraint": "features are labels of nodes, as the configuration says",
        "container-image": "the image of the job's pods; a step that asks for another one is refused",
        "error": "streamed back where no mount provides the file",
        "exclude": "by the names of nodes in the cluster",
        "gres": "gpu; the configuration names the cluster's resource for it",
        "nodelist": "by the names of nodes in the cluster",
        "output": "streamed back where no mount provides the file; one that srun in a script names is a file of its pod",
        "tmp": "checked against the ephemeral storage that the node offers",
    },
    APPROXIMATED: {
        "container-env": "recorded; the job's variables win over the image's, as --export says",
        "container-mounts": "nothing is mounted for it: targets that the configuration does not mount from there are refused",
        "container-workdir": "recorded; the script begins in the job's working directory (--chdir)",
        "container-remap-root": "the pod's user is what the configuration says",
        "contiguous": "recorded; the cluster's scheduler chooses the nodes",
        "exclusive": "no other job of this index runs on its nodes; other pods of the cluster may",
        "het-group": "a job in pods has one component: as in a plain job of Slurm there is none to choose",
        "get-user-env": "the login environment is that of the image",
        "immediate": "the job is given up when its pods have not started by then",
        "licenses": "counted among the jobs of this index",
        "nice": "orders the jobs of this index; the cluster's own queue does not see it",
        "no-container-remap-root": "the pod's user is what the configuration says",
        "propagate": "as far as the limits of the container allow",
    },
    INERT: {
        "container-entrypoint-log": "an image's entry point is not run",
        "container-mount-home": "homes are mounted as the configuration says",
        "container-readonly": "a pod's own file system can be written, and is gone with it",
        "container-writable": "a pod's own file system can be written",
        "msg-timeout": "agents have their own time limits",
        "no-container-entrypoint": "an image's entry point is not run",
        "no-container-mount-home": "homes are mounted as the configuration says",
        "oom-kill-step": "the kubelet ends what uses too much memory",
        "oversubscribe": "pods share nodes, each with its own CPUs",
    },
    REFUSED: {
        "bcast": "programs come with the image or the working directory",
        "bcast-exclude": "programs come with the image or the working directory",
        "container-entrypoint": "an image's entry point is not run",
        "container-name": "a pod is made anew for each job",
        "container-save": "the file system of a pod is gone with it",
    },
}
