#!/usr/bin/env python3
"""A real Kubernetes on this machine: ``k8s.py up``, ``k8s.py down``, ``k8s.py status``.

Three nodes with a kubelet and a containerd each, in namespaces of their own; programs built and images made when they
are missing. Needs root. ``up`` may be repeated: it starts only what does not run. ``down`` ends everything and leaves
the cache only. Where KUBECONFIG names a cluster that is there already, that one is taken, and neither command touches it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from compat.cluster.kubernetes import cluster, existing
from compat.cluster.kubernetes.settings import KUBECONFIG, ClusterError
from compat.cluster.packages import PackageError


def main(argv: list[str]) -> int:
    """The command line; 0 when done (status: when it is up), 1 when not, 2 when not understood."""
    verb = argv[0] if len(argv) == 1 else ""
    if verb not in ("up", "down", "status"):
        print("usage: k8s.py up|down|status", file=sys.stderr)
        return 2
    before = os.umask(0o077)
    try:
        return _run(verb, existing.given())
    except (ClusterError, PackageError, OSError, subprocess.CalledProcessError) as problem:
        print(f"k8s.py: {problem}", file=sys.stderr)
        return 1
    finally:
        os.umask(before)


def _run(verb: str, theirs: str) -> int:
    if theirs:
        names = "left alone" if verb == "down" else "nodes: " + " ".join(existing.nodes(theirs))
        print(f"up: KUBECONFIG={theirs} (not ours), {names}")
        return 0
    if verb == "down":
        cluster.down()
        return 0
    if verb == "up":
        cluster.up()
    states = cluster.states()
    print(f"up: KUBECONFIG={KUBECONFIG}" if cluster.is_up() else "down" if not states else "partly up")
    for name, state in states.items():
        print(f"{name:24} {state}")
    return 0 if cluster.is_up() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
