"""What a task is started with."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

    from shim.job.container.enter import ContainerPlace


class TaskStart:
    """What a task is started with. ``files``: descriptors for 0, 1, 2. ``first``: of its step on this node (it tells of a missing
    working directory twice, for the node and for itself). ``pty``: descriptor 0 becomes its controlling terminal. ``prolog``: the
    program of --task-prolog, "" for none. ``container``: where the task runs in one, else None.
    """

    __slots__ = ("argv", "container", "environment", "files", "first", "prolog", "pty", "rlimits", "umask", "work_dir")

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        work_dir: str,
        umask: int,
        rlimits: Mapping[str, Sequence[int]],
        files: tuple[int, int, int],
        first: bool,
        pty: bool = False,
        prolog: str = "",
        container: ContainerPlace | None = None,
    ) -> None:
        self.argv = list(argv)
        self.environment = dict(environment)
        self.work_dir = work_dir
        self.umask = umask
        self.rlimits = rlimits
        self.files = files
        self.first = first
        self.pty = pty
        self.prolog = prolog
        self.container = container
