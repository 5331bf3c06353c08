"""Where an agent's process is: the node whose namespaces it has entered, and the processes that are below it.

A process may be agent of one run after the other, as long as each finds its place as the first one did. They share an event loop.
"""

from __future__ import annotations

import os
import select

from shim.job.agent import cgroup, isolation
from shim.job.libc import become_subreaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.job.agent.kept_line import KeptLine
    from shim.job.loop import Loop
    from shim.job.spec import RunSpec


class Place:
    """One process's. ``subreaper``: whether it adopts what its tasks leave behind; known once it is taken. ``loop``: for every run
    (None: each has its own). ``group``: the control group that it has for itself, "" for none. ``line``: what the last run has left of its
    connection to the controller.
    """

    def __init__(self, loop: Loop | None = None, group: str = "") -> None:
        self.loop = loop
        self._group = group
        self.line: KeptLine | None = None
        self.subreaper = False
        self._taken: tuple[str, str, str] | None = None
        self._node = ""  # whose namespaces these are
        self._mounts: int | None = None

    def take(self, spec: RunSpec, index: int) -> None:
        """Become node ``index`` of a run, or still be it. OSError: the machine allows no namespaces. ValueError: it is another."""
        wanted = (spec.isolate, spec.private, spec.nodes[index].name)
        if self._taken is not None:
            if wanted != self._taken:
                raise ValueError(f"an agent of {self._taken} was asked to be one of {wanted}")
            return
        self._taken = wanted
        self.subreaper = become_subreaper()
        if spec.isolate == isolation.NAMESPACES:
            isolation.enter(spec.private, wanted[2])
            self._node = wanted[2]
            self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)

    def untouched(self) -> bool:
        """Whether the next run would find it as the last one did: nothing below this process or in its group, the same mounts, the
        same host name.

        A job of root's can change the namespaces it runs in.
        """
        if not self.subreaper or self._taken is None:
            return False
        if self._taken[0] == isolation.NAMESPACES and not self._node:
            return False
        try:
            # What has ended since the loop's last look is nothing: it was killed as the run ended.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return False
        except ChildProcessError:
            pass  # none
        if self._group and not cgroup.alone(self._group):
            return False
        return self._mounts is None or (self._same_mounts() and os.uname().nodename == self._node)

    def _same_mounts(self) -> bool:
        assert self._mounts is not None
        poll = select.poll()
        poll.register(self._mounts, select.POLLPRI)
        return not poll.poll(0)  # the kernel tells of every change since the file was opened
