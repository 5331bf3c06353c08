#!/usr/bin/env python3
"""Faults on the real Kubernetes, counted: what is killed or deleted while jobs run, and how often each script ran all the same.

    compat/cluster/k8s.py up
    compat/faults.py kills 100      submissions, the controller killed at random moments
    compat/faults.py server 2       the API server is killed under ten jobs, and comes back after some seconds
    compat/faults.py kubelet 3      a kubelet is killed under a running job
    compat/faults.py node 4         a whole node is killed under a running job: without and with --requeue
    compat/faults.py node_early 4   the same while the job's pods are being made
    compat/faults.py before 6       the pod of a leader or of a worker is deleted before the start
    compat/faults.py after 4        the same under running jobs
    compat/faults.py suspended 4    a Job is suspended by hand, before and after its start
    compat/faults.py lost 2         a machine is lost with two running jobs: `shim adopt` in another home
    compat/faults.py gangs 20       two jobs that each need two of three GPU nodes, from two homes at once
    compat/faults.py unaided 20     the same without the cluster's PodGroup
    compat/faults.py homes 50       so many jobs each from two homes, in turns
    compat/faults.py chaos 500      jobs of all kinds from two homes while everything is killed, suspended, deleted at random
    compat/faults.py many 500       so many jobs that run: what the controller costs, and squeue

``--restricted``: by a user who has the documented Role and nothing else, in a namespace that is `restricted`, with a claim for the shared
folder. Every script leaves a line on that folder when it runs: "twice" must be 0. A namespace is made and removed; a line with figures
is printed, and the exit code is 1 where something was lost, ran twice or was left behind.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from compat import chaos, crowd, darkened, killed, meddled

SHOWS: dict[str, Callable[[int, bool], bool]] = {
    show.__name__: show
    for show in (
        *(killed.kills, killed.server, killed.kubelet, killed.lost),
        *(darkened.node, darkened.node_early),
        *(meddled.before, meddled.after, meddled.suspended),
        chaos.chaos,
        *(crowd.gangs, crowd.unaided, crowd.homes, crowd.many),
    )
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("show", choices=SHOWS)
    parser.add_argument("count", type=int)
    parser.add_argument("--restricted", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # what was made is removed all the same
    raise SystemExit(not SHOWS[given.show](given.count, given.restricted))
