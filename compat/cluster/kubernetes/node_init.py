"""The first process of a node: brings its daemons up, starts them again when they end, buries orphans.

Runs as process 1 of the node's pid namespace; see ``node_enter``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from compat.cluster.kubernetes import node_config, node_files
from compat.cluster.kubernetes.api import Api, gpu_patch, ready_since
from compat.cluster.kubernetes.settings import API_PORT, BRIDGE_ADDRESS, GPUS, node_folder
from compat.cluster.processes import wait_for

RESTART_DELAY = 2.0


class Node:
    """The daemons of one node and when each was started."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = node_folder(name)
        self.commands = node_config.commands(name)
        self.pids: dict[int, str] = {}
        self.due: dict[str, float] = {}
        self.api = Api(BRIDGE_ADDRESS, API_PORT, name)
        self.unsettled_since = 0.0

    def start(self, daemon: str) -> None:
        """Start ``daemon``; a kubelet has to become Ready and get its GPUs again."""
        if daemon == "kubelet":
            self.unsettled_since = time.time()
        with (self.folder / "log" / f"{daemon}.log").open("ab") as log:
            process = subprocess.Popen(self.commands[daemon], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pids[process.pid] = daemon
        process.returncode = 0  # waited for below, with everybody else's orphans

    def bury(self) -> None:
        """Take note of everything that has ended; a daemon is started again after a moment."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = self.pids.pop(pid, None)
            if ended == "kubelet":
                (self.folder / "ready").unlink(missing_ok=True)
            if ended is not None:
                self.due[ended] = time.monotonic() + RESTART_DELAY

    def revive(self) -> None:
        """Start daemons whose delay is over."""
        for daemon, when in list(self.due.items()):
            if time.monotonic() >= when:
                del self.due[daemon]
                self.start(daemon)

    def settle(self) -> None:
        """Give the node its GPUs once its kubelet has reported, then say that it is ready."""
        status, node = self.api.ask("GET", f"/api/v1/nodes/{self.name}")
        begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.unsettled_since))
        # A kubelet takes away resources it does not know when it registers, so not before that.
        if status != 200 or ready_since(node) < begun:
            return
        if node["status"]["allocatable"].get("nvidia.com/gpu") != str(GPUS):
            self.api.ask("PATCH", f"/api/v1/nodes/{self.name}/status", gpu_patch(GPUS))
        else:
            (self.folder / "ready").touch()
            self.unsettled_since = 0.0

    def run(self) -> None:
        """Bring everything up and look after it until killed."""
        self.start("containerd")
        # A kubelet that starts before it gives up.
        wait_for(Path(node_config.SOCKET).exists, float("inf"))
        wait_for(self.api.ready, float("inf"), 0.1)
        self.start("kubelet")
        self.start("kube-proxy")
        while True:
            self.bury()
            self.revive()
            if self.unsettled_since:
                self.settle()
                time.sleep(0.1)
            else:
                time.sleep(0.5)


def main(node: str) -> None:
    """Does not return."""
    os.umask(0o022)  # containers run as other users and read what is written for them
    node_files.arrange(node)
    Node(node).run()


if __name__ == "__main__":
    main(sys.argv[1])
