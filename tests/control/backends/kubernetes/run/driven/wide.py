"""More than ``DrivenSchedule`` has: arrays, whose tasks have no Jobs around their pods, and watches that are lost and list anew."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shim.control.lifecycle.tasks import pending_tasks
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.model.request import JobRequest
from tests.control.backends.kubernetes.run.driven.schedule import DrivenSchedule
from tests.control.backends.kubernetes.run.things import Violation


class WideSchedule(DrivenSchedule):
    """``arrays``: how many tasks each had."""

    def __init__(self, seed: int, kinds: Sequence[str] = (), *, one_host: bool = False) -> None:
        super().__init__(seed, kinds, one_host=one_host)
        self.arrays: dict[int, int] = {}
        self.ended: set[tuple[int, int]] = set()  # tasks, by array and number, of which an index has an end
        self.launched: dict[tuple[int, int], str] = {}  # the records that have launched them
        self.lists_anew = self.rng.choice((0.0, 0.1, 0.5))

    def submit(self, job_id: int) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            super().submit(job_id)
            return
        size = self.arrays[job_id] = rng.choice((1, 2, 3))
        job = Job(
            job_id=job_id,
            cluster="k8s",
            state=states.PENDING,
            array_job_id=job_id,
            array_tasks=f"0-{size - 1}",
            request=JobRequest(name="j", requeue=rng.random() < 0.8),
        )
        controller = rng.choice(self.homes).controller
        controller.task(controller.submit(job))

    # What must be so

    def note_end(self, job: Job) -> None:
        own = [] if job.array_task_id is None else [job.array_task_id]
        for task in pending_tasks(job) or own:
            self.ended.add((job.array_job_id, task))

    def note_launch(self, record: str) -> None:
        found = next(one for one in self.cluster.api.records.values() if one.uid == record)
        job = Job.from_dict(json.loads(found.data["job"]))  # type: ignore[attr-defined]
        if job.array_task_id is not None:
            by = self.launched.setdefault((job.array_job_id, job.array_task_id), record)
            if by != record:
                raise Violation(f"task {job.array_label} was launched by two records: {by}, {record}")

    def check_ends(self) -> None:
        """Also of every task of an accepted array."""
        super().check_ends()
        for array in self.arrays.keys() & self.accepted:
            for task in range(self.arrays[array]):
                if (array, task) not in self.ended:
                    raise Violation(f"task {task} of the accepted array {array} has no end")
