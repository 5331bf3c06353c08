"""How the nodes are told to launch a step: each task's command line, environment and files."""

from __future__ import annotations

from shim.core.environ.export import prepend_path
from shim.core.environ.filenames import expand, job_names
from shim.core.environ.het import step_group_variables
from shim.core.environ.step import step_environment, task_environment
from shim.core.model.usage import sampling
from shim.job.agent.step_manager.parts import command_lines
from shim.job.pmi.wire import mapping
from shim.job.steps.streams import streams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from shim.core.environ.filenames import Names
    from shim.core.model.job import Job, NodeShare
    from shim.core.model.request import StepRequest
    from shim.job.agent.step_manager.parts import Part
    from shim.job.agent.step_manager.step import StepRun
    from shim.job.spec import RunSpec

    Message = dict[str, Any]

_STREAMS = ("stdin", "stdout", "stderr")


def with_ours(environment: Mapping[str, str], spec: RunSpec) -> dict[str, str]:
    """The environment with our own variables, and our command folder first on PATH. A task that is to have no PATH gets none."""
    found = prepend_path(environment, spec.commands) if "PATH" in environment else dict(environment)
    return {**found, **spec.own}


class Launcher:
    """Builds the ``launch`` messages of a run's steps."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec

    def created(self, step: StepRun) -> Message:
        """What srun is told of its step."""
        layout = step.layout
        return {
            "do": "created",
            "job_id": self._spec.job.job_id,
            "step": step.number,
            "name": step.name,
            "ntasks": step.ntasks,
            "nodes": [step.name_of(index) for index in layout.nodes],
            "ranks": layout.ranks,
            "kill_wait": self._spec.cluster.kill_wait,
            "parts": [
                {
                    "id": part.label(step.number),
                    "ranks": part.ranks,
                    "files": self.srun_files(step, part),
                    **(self._details(step, part) if part.request.verbose else {}),
                }
                for part in step.parts
            ],
            "notes": layout.warnings,
            "mpi": self._mpi(step.parts[0]),
        }

    def _details(self, step: StepRun, part: Part) -> Message:
        """What ``srun -v`` tells of a part and its job."""
        shares = part.job.shares
        return {
            "name": part.name,
            "job": {
                "id": part.job.job_id,
                "nodes": [share.name for share in shares],
                "cpus": [share.cpus for share in shares],
            },
            "nodes": [step.name_of(index) for index in part.nodes],
            "tasks": part.layout.ranks,
        }

    def srun_files(self, step: StepRun, part: Part) -> dict[str, str | list[str]]:
        """The names of the files that srun itself opens for a part, by stream: one name, or one for each of its ranks.

        Files of tasks are opened on their nodes, except where srun has to put labels into them, or each node has a working directory of
        its own: there the script finds them all on its own node, as on a file system that the nodes share.
        """
        request = part.request
        streams = streams_of(request.stdin, request.stdout, request.stderr)
        files: dict[str, str | list[str]] = {}
        for name, stream in zip(_STREAMS, streams):
            if stream.kind == "shared":
                files[name] = expand(stream.pattern, self._names(step, part, 0, 0))
            elif (
                stream.kind == "files" and name != "stdin" and (request.label or self._copied(request, stream.pattern))
            ):
                places = [(rank, at) for at, ranks in enumerate(part.layout.ranks) for rank in ranks]
                files[name] = [expand(stream.pattern, self._names(step, part, at, rank)) for rank, at in sorted(places)]
        return files

    def _copied(self, request: StepRequest, pattern: str) -> bool:
        """Whether files of that name would be in a copy of the working directory that the node has for itself."""
        folder = self._spec.job.request.work_dir.rstrip("/") + "/"
        work_dir = request.work_dir or folder
        path = pattern if pattern.startswith("/") else f"{work_dir.rstrip('/')}/{pattern}"
        return self._spec.staged and path.startswith(folder)

    def messages(self, step: StepRun, ends: Message) -> Iterator[tuple[int, Message]]:
        """The message for each node of the step. ``ends``: srun's ``launch``, with patterns for files of tasks."""
        own_ends = ends.get("parts", [ends])
        for part, of_part in zip(step.parts, own_ends):
            yield from self._of_part(step, part, of_part)

    def _of_part(self, step: StepRun, part: Part, ends: Message) -> Iterator[tuple[int, Message]]:
        job, cluster = part.job, self._spec.cluster
        request, layout = part.request, part.layout
        environment = with_ours(self._environment(step, part), self._spec)
        lines = command_lines(request, layout)
        first = part.ranks[0]
        pmi = self._pmi(step, part)
        same = {"argv": lines[0]} if all(line == lines[0] for line in lines) else {}
        for position, index in enumerate(part.nodes):
            ranks = layout.ranks[position]
            own = [task_environment(job, cluster, request, layout, position, local) for local in range(len(ranks))]
            # What all tasks have alike is said once: the tasks of a node must fit one frame.
            shared = dict(set(own[0].items()).intersection(*(variables.items() for variables in own)))
            if part.node:
                shared["SLURM_NODEID"] = str(part.node + position)
            tasks = [
                {
                    "rank": rank,
                    "local": local,
                    **({} if same else {"argv": lines[rank - first]}),
                    "environment": {name: value for name, value in own[local].items() if name not in shared},
                    **self._own_files(step, part, ends, position, rank),
                }
                for local, rank in enumerate(ranks)
            ]
            sent = str(ends.get("program", "")).replace(
                "%N", step.name_of(index)
            )  # --bcast: what the program is called there
            if sent:
                same = {"argv": [sent, *lines[0][1:]]} if same else {}
                for task in tasks:
                    if "argv" in task:
                        task["argv"] = [sent, *task["argv"][1:]]
            yield (
                index,
                {
                    "do": "launch",
                    "step": step.number,
                    "name": part.name,
                    **same,
                    "tasks": tasks,
                    "environment": {**environment, **shared, **_library_path(ends, step.name_of(index), environment)},
                    "work_dir": request.work_dir or job.request.work_dir,
                    "umask": job.request.umask if request.umask is None else request.umask,
                    **{name: ends[name] for name in _STREAMS},
                    "pty": request.pty,
                    "window": request.window,
                    **({} if request.rlimits is None else {"rlimits": request.rlimits}),
                    "label": request.label,
                    "task_prolog": request.task_prolog or "",
                    "container": self._container(job, request),
                    "task_epilog": request.task_epilog or "",
                    "wait_for_children": request.wait_for_children,
                    "sampling": sampling(request.acctg_freq or job.request.extra.get("acctg-freq")),
                    "ntasks": step.ntasks,
                    **pmi,
                },
            )

    def _mpi(self, part: Part) -> str:
        return part.request.mpi or self._spec.cluster.mpi_default

    def _pmi(self, step: StepRun, part: Part) -> Message:
        """What PMI tells the tasks of the whole step, where they are to find each other by it."""
        if self._mpi(part) != "pmi2":
            return {}
        order = {index: position for position, index in enumerate(dict.fromkeys(step.layout.nodes))}
        nodes = {rank: order[index] for rank, index in step.place.items()}
        return {"pmi": {"job": part.label(step.number), "size": step.ntasks, "mapping": mapping(nodes)}}

    def _container(self, job: Job, request: StepRequest) -> dict[str, str]:
        """The options about the container of a step: srun's own or, but not the batch script's, salloc's. A pod is one already."""
        if self._spec.apart:
            return {}
        return request.container or (job.request.container if job.request.kind == "alloc" else {})

    def _environment(self, step: StepRun, part: Part) -> dict[str, str]:
        """What the tasks of a part share. The whole step's size and nodes are told to all of them."""
        spec = self._spec
        job, layout = part.job, part.layout
        if len(step.parts) > 1 or spec.components:
            shares = tuple(share for one in step.parts for share in self._seen(one))
            job = job.replace(job_id=spec.job.job_id, shares=shares)
            layout = step.layout.replace(distribution=layout.distribution, plane_size=layout.plane_size)
        environment = step_environment(part.environment, job, spec.cluster, part.request, layout, step.number)
        if self._mpi(part) != "none":
            environment["SLURM_MPI_TYPE"] = self._mpi(part)
        if part.component and not part.request.name:
            environment["SLURM_JOB_NAME"] = part.job.name  # the script's variable has the first component's
        if spec.components and spec.job.request.kind == "run":
            environment.update(step_group_variables(spec.components, spec.cluster))
            environment["SLURM_DISTRIBUTION"] = layout.distribution if part.request.distribution else "block"
        return environment

    def _seen(self, part: Part) -> Sequence[NodeShare]:
        """The nodes that the tasks see of a part: all of its component's, in a plain job those that it runs on."""
        if self._spec.components:
            return part.job.shares
        return [part.job.shares[index] for index in part.layout.nodes]

    def _own_files(self, step: StepRun, part: Part, ends: Message, position: int, rank: int) -> Message:
        """The streams of one task that are files of its own."""
        names = self._names(step, part, position, rank)
        return {
            name: {**ends[name], "path": expand(str(ends[name]["path"]), names)}
            for name in _STREAMS
            if ends[name]["to"] == "file"
        }

    def _names(self, step: StepRun, part: Part, position: int, rank: int) -> Names:
        host = part.layout.names[position]
        return job_names(part.job).replace(step=str(step.number), host=host, node=position, task=rank)


def _library_path(ends: Message, node: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Where a program finds the libraries that came with it (--send-libs)."""
    folder = str(ends.get("libraries") or "").replace("%N", node)
    if not folder:
        return {}
    return {"LD_LIBRARY_PATH": ":".join(filter(None, [folder, environment.get("LD_LIBRARY_PATH", "")]))}
