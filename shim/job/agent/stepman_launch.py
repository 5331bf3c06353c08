"""How the nodes are told to launch a step: each task's command line, environment and files."""

from __future__ import annotations

from shim.core.environ.export import prepend_path
from shim.core.environ.patterns import expand, job_names
from shim.core.environ.step import step_environment, task_environment
from shim.job.steps.multiprog import programs_of
from shim.job.steps.streams import streams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from shim.core.environ.patterns import Names
    from shim.core.layout.step import StepLayout
    from shim.core.model.request import StepRequest
    from shim.job.agent.stepman_step import StepRun
    from shim.job.spec import RunSpec

    Message = dict[str, Any]

_STREAMS = ("stdin", "stdout", "stderr")


def with_commands(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment with our command folder first on PATH. A task that is to have no PATH gets none."""
    return prepend_path(environment, folder) if "PATH" in environment else dict(environment)


def command_lines(request: StepRequest, layout: StepLayout) -> list[Sequence[str]]:
    """The command line of each rank. Raises ShimError when a --multi-prog file has none for a task."""
    if request.multi_prog:
        return [*programs_of(request.multi_prog, layout.ntasks, request.argv[0] if request.argv else "")]
    return [request.argv] * layout.ntasks


class Launcher:
    """Builds the ``launch`` messages of a run's steps."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec

    def srun_files(self, step: StepRun) -> dict[str, str | list[str]]:
        """The names of the files that srun itself opens, by stream: one name, or one for each rank.

        Files of tasks are opened on their nodes, except where srun has to put labels into them.
        """
        request = step.request
        streams = streams_of(request.stdin, request.stdout, request.stderr)
        files: dict[str, str | list[str]] = {}
        for name, stream in zip(_STREAMS, streams):
            if stream.kind == "shared":
                files[name] = expand(stream.pattern, self._names(step, 0, 0))
            elif stream.kind == "files" and request.label and name != "stdin":
                places = [(rank, at) for at, ranks in enumerate(step.layout.ranks) for rank in ranks]
                files[name] = [expand(stream.pattern, self._names(step, at, rank)) for rank, at in sorted(places)]
        return files

    def messages(self, step: StepRun, ends: Message) -> Iterator[tuple[int, Message]]:
        """The message for each node of the step. ``ends``: srun's ``launch``, with patterns for files of tasks."""
        job, cluster = self._spec.job, self._spec.cluster
        request, layout = step.request, step.layout
        environment = step_environment(step.environment, job, cluster, request, layout, step.number)
        environment = with_commands(environment, self._spec.commands)
        lines = command_lines(request, layout)
        same = {"argv": lines[0]} if all(line == lines[0] for line in lines) else {}
        for position, index in enumerate(layout.nodes):
            ranks = layout.ranks[position]
            own = [task_environment(job, cluster, request, layout, position, local) for local in range(len(ranks))]
            # What all tasks have alike is said once: the tasks of a node must fit one frame.
            shared = dict(set(own[0].items()).intersection(*(variables.items() for variables in own)))
            tasks = [
                {
                    "rank": rank,
                    "local": local,
                    **({} if same else {"argv": lines[rank]}),
                    "environment": {name: value for name, value in own[local].items() if name not in shared},
                    **self._own_files(step, ends, position, rank),
                }
                for local, rank in enumerate(ranks)
            ]
            yield (
                index,
                {
                    "do": "launch",
                    "step": step.number,
                    "name": step.name,
                    **same,
                    "tasks": tasks,
                    "environment": {**environment, **shared},
                    "work_dir": request.work_dir or job.request.work_dir,
                    "umask": job.request.umask if request.umask is None else request.umask,
                    **{name: ends[name] for name in _STREAMS},
                    "pty": request.pty,
                    "window": request.window,
                    "label": request.label,
                    "ntasks": step.ntasks,
                },
            )

    def _own_files(self, step: StepRun, ends: Message, position: int, rank: int) -> Message:
        """The streams of one task that are files of its own."""
        names = self._names(step, position, rank)
        return {
            name: {**ends[name], "path": expand(str(ends[name]["path"]), names)}
            for name in _STREAMS
            if ends[name]["to"] == "file"
        }

    def _names(self, step: StepRun, position: int, rank: int) -> Names:
        host = step.layout.names[position]
        return job_names(self._spec.job).replace(step=str(step.number), host=host, node=position, task=rank)
