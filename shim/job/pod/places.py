"""Where things are in a pod. The manifests of the Kubernetes backend mount by these names.

``SHIM_POD_ROOT`` in the environment stands for another folder than /opt/shim, and then also holds what is the container's
own otherwise (``termination-log``, ``hosts``, ``resolv.conf``): several pods can so be played on one machine.
"""

from __future__ import annotations

import os

ROOT = "/opt/shim"
PORT = 6818  # where every leader listens; slurmd's

INDEX = "JOB_COMPLETION_INDEX"  # by Kubernetes
DIGEST = "SHIM_AGENT_DIGEST"  # SHA-256 of agent.zip, hex
POD_UID = "SHIM_POD_UID"
POD_IP = "SHIM_POD_IP"
NODE_NAME = "SHIM_NODE_NAME"  # of the Kubernetes node
_OTHER_ROOT = "SHIM_POD_ROOT"
# Ours or Kubernetes' in the container's environment: no user's program is to see them.
PRIVATE = (INDEX, DIGEST, POD_UID, POD_IP, NODE_NAME, _OTHER_ROOT)


class Places:
    """The paths of one pod."""

    def __init__(self, root: str, own: str) -> None:
        self.agent_zip = f"{root}/agent/agent.zip"
        self.ticket = f"{root}/ticket"  # the Secret: spec.json, key, environment.json, slurm_script, stage.tar.gz
        self.run = f"{root}/run"  # empty at first, writable
        self.code = f"{root}/run/code"
        self.commands = f"{root}/run/bin"
        self.home = f"{root}/run/home"  # for a HOME that is not there
        self.relay = f"{root}/run/relay"
        self.termination_log = f"{own}/termination-log" if own else "/dev/termination-log"
        self.hosts = f"{own}/hosts" if own else "/etc/hosts"
        self.resolv_conf = f"{own}/resolv.conf" if own else "/etc/resolv.conf"

    def run_dir(self, name: str) -> str:
        """The run folder of the run called ``name`` (``7.0``)."""
        return f"{self.run}/{name}"


def places() -> Places:
    """Those of this pod."""
    other = os.environ.get(_OTHER_ROOT, "")
    return Places(other or ROOT, other)
