"""seff: how much of its CPUs and of its memory a job has used, in the words of Slurm's contributed script."""

from __future__ import annotations

import os
import time

from shim.commands import job_leader, output, site_view
from shim.commands.job_ids import parse_job_id
from shim.core.errors import ShimError, plain
from shim.core.formats.times import show_clock
from shim.core.model import states
from shim.core.options.query_options import read
from shim.core.render import job_facts, sacct_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.core.model.job import Job, Step

_PROGRAM = "seff"
_UNITS = "KMGTPE"


def main(argv: list[str]) -> int:
    """Runs seff; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    if len(words) != 1:
        raise ShimError(plain("Usage: seff [Options] <Jobid>"))
    wanted = parse_job_id(words[0])
    if wanted is None:
        raise ShimError(plain("Job not found."), code=2)
    job_leader.hand_on(_PROGRAM, argv, [wanted.job_id])
    job = job_leader.find(_PROGRAM, wanted)
    reader = site_view.open_index(_PROGRAM)
    if job is None or reader is None:
        raise ShimError(plain("Job not found."), code=2)
    steps = [step for _, step in reader.steps_of([job])]
    script = sacct_rows.batch_step(job)
    if script is not None and not any(step.step_id == "batch" for step in steps):
        steps.append(script)
    report = _Report(job, steps, time.time())
    if "debug" in values:
        output.put([report.raw()])
    output.put(report.lines())
    return 0


class _Report:
    """The figures of one job. Memory in KiB."""

    def __init__(self, job: Job, steps: Iterable[Step], now: float) -> None:
        self._job = job
        view = site_view.view(job.cluster)
        usage = sacct_rows.used((job, step) for step in steps).get((job.key, job.restarts))
        self._cpu = int(usage.user + usage.system) if usage is not None else 0
        row = sacct_rows.Row(job, None, view)
        self._elapsed = row.elapsed
        self._state = row.state
        self._status = sacct_rows.exit_code(row.status).partition(":")[0]
        self._wanted = job_facts.memory_total(job, view) * 1024
        self._memory, self._tasks = max(
            (
                (int(step.usage.memory.most) * step.tasks, step.tasks)
                for step in steps
                if step.usage and step.usage.memory
            ),
            default=(0, 1),
        )

    def lines(self) -> list[str]:
        """As the script prints them."""
        job = self._job
        lines = [f"Job ID: {job.job_id}"]
        if job.array_task_id is not None:
            lines.append(f"Array Job ID: {job.array_label}")
        lines += [
            f"Cluster: {job.cluster}",
            f"User/Group: {job.user}/{job.group}",
            f"State: {self._state} (exit code {self._status})",
        ]
        if not job.shares:
            return [*lines, f"Efficiency not available for jobs in the {self._state} state."]
        lines += self._cores()
        walltime = self._elapsed * job.cpus
        lines += [
            f"CPU Utilized: {show_clock(self._cpu)}",
            f"CPU Efficiency: {_percent(self._cpu, walltime)} of {show_clock(walltime)} core-walltime",
            f"Job Wall-clock time: {show_clock(self._elapsed)}",
            f"Memory Utilized: {_size(self._memory)}{' (estimated maximum)' if self._tasks > 1 else ''}",
            f"Memory Efficiency: {_percent(self._memory, self._wanted)} of {_size(self._wanted)}",
        ]
        if job.state not in states.TERMINAL:
            lines.append(f"WARNING: Efficiency statistics may be misleading for {self._state} jobs.")
        return lines

    def raw(self) -> str:
        """-d: what the lines are made of."""
        job = self._job
        names = "JobID ArrayJobID User Group State Clustername Ncpus Nnodes Ntasks Reqmem PerNode Cput Walltime Mem ExitStatus"
        figures = (
            job.cpus,
            job.nodes,
            self._tasks,
            self._wanted,
            0,
            self._cpu,
            self._elapsed,
            self._memory,
            self._status,
        )
        array = job.array_label if job.array_task_id is not None else ""
        given = (job.job_id, array, job.user, job.group, self._state, job.cluster, *figures)
        return f"Slurm data: {names}\nSlurm data: {' '.join(map(str, given))}\n"

    def _cores(self) -> list[str]:
        nodes, cpus = self._job.nodes, self._job.cpus
        if nodes == 1 and cpus == 1:
            return ["Cores: 1"]
        return [f"Nodes: {nodes}", f"Cores per node: {cpus // max(1, nodes)}"]


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.2f}%"


def _size(kib: int) -> str:
    """``1.25 GB``, ``0.00 MB`` for nothing."""
    if not kib:
        return "0.00 MB"
    place, amount = 0, float(kib)
    while amount >= 1024 and place < len(_UNITS) - 1:
        amount /= 1024
        place += 1
    return f"{amount:.2f} {_UNITS[place]}B"
