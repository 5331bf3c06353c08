"""``node_enter NODE PID``: become the node NODE, in namespaces of its own and the network namespace of PID.

The process that was started turns into `unshare`, which waits for the node's first process and takes it along when it is
killed; with the first process of a pid namespace everything in it ends.
"""

from __future__ import annotations

import os
import sys

from compat.cluster.kubernetes import cgroups, network


def main(node: str, network_of: int) -> None:
    """Join the node's control groups, then the namespaces; does not return."""
    cgroups.join(cgroups.folders(node))
    own = ["--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--uts", "--ipc", "--cgroup", "--mount-proc"]
    init = [sys.executable, "-m", "compat.cluster.kubernetes.node_init", node]
    command = [*network.enter(network_of), "unshare", *own, *init]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
