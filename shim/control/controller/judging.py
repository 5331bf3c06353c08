"""Dependencies of the pending jobs, judged when a job that might matter has changed."""

from __future__ import annotations

from shim.control.controller.book import Book, Change
from shim.control.lifecycle import running, tasks, waiting
from shim.core.formats import dependency
from shim.core.formats.dependency import Dependency
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job


class Judge:
    """Remembers whether anything happened that a dependency could depend on."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._news = True
        self.due: float | None = None  # when ``after:12+5`` may come true
        book.followers.append(self._changed)

    def _changed(self, old: Job | None, job: Job) -> None:
        if old is None or old.state != job.state or old.dependency != job.dependency or old.key != job.key:
            self._news = True

    @property
    def wanted(self) -> bool:
        """Whether something happened since the last pass and a job has a dependency."""
        return self._news and any(job.dependency and job.state == states.PENDING for job in self._book.active())

    def pass_over(self, change: Change, cluster: Cluster, now: float) -> None:
        """Judges every pending job of the cluster that has a dependency."""
        for job in self._book.active(cluster.name):
            job = change.get(job.key) or job
            if job.state == states.PENDING and job.dependency:
                self._judge(change, job, cluster, now)

    def begin(self, now: float) -> bool:
        """Whether a pass must judge: there was news, or the time has come. What happens from now on is news again."""
        if not self._news and (self.due is None or self.due > now):
            return False
        self._news = False
        self.due = None
        return True

    def again(self) -> None:
        """The pass was not committed: all that it looked at is still news."""
        self._news = True

    def _put(self, change: Change, job: Job, now: float) -> None:
        """A component whose dependency can never be satisfied takes the others with it."""
        change.put(job, now)
        if job.het_job_id and job.state == states.CANCELLED:
            for one in self._book.components(job):
                current = change.get(one.key) or one
                if current.state == states.PENDING:
                    change.put(running.cancelled(current, job.uid, now).replace(cancelled_by=None), now)

    def _judge(self, change: Change, job: Job, cluster: Cluster, now: float) -> None:
        wish = Dependency.parse(job.dependency)
        spec = tasks.pending_tasks(job)
        if spec is None or not any(condition.type == "aftercorr" for condition in wish.conditions):
            verdict, left = self._verdict(wish, job, cluster, now, job.array_task_id)
            self._put(change, waiting.judged(job, verdict, left, now), now)
            return
        verdicts = {task: self._verdict(wish, job, cluster, now, task) for task in spec}
        if len(set(verdicts.values())) == 1:
            verdict, left = verdicts[spec.first]
            change.put(waiting.judged(job, verdict, left, now), now)
            return
        self._split(change, job, verdicts, cluster, now)

    def _split(
        self, change: Change, job: Job, verdicts: dict[int, tuple[str, str]], cluster: Cluster, now: float
    ) -> None:
        """Task by task: those whose counterpart decided their fate leave the array's record."""
        rest: Job | None = job
        for task, (verdict, left) in verdicts.items():
            if verdict == dependency.WAITING or rest is None:
                continue
            alone, rest = split(change, rest, task, cluster, now)
            change.put(waiting.judged(alone, verdict, left, now), now)
        if rest is not None:
            change.put(tasks.settled(rest), now)

    def _verdict(self, wish: Dependency, job: Job, cluster: Cluster, now: float, task: int | None) -> tuple[str, str]:
        def lookup(job_id: int, wanted: int | None) -> list[Job]:
            found = self._book.known(cluster.name, job_id, wanted)
            self._note_delays(wish, found, now)
            # Slurm forgets a job MinJobAge after its end: who names it later finds nobody.
            forgotten = bool(found) and all(
                item.state in states.TERMINAL and item.end_time + cluster.min_job_age < job.submit_time
                for item in found
            )
            return [] if forgotten else found

        return dependency.judge(wish, lookup, now, task, lambda: self._earlier_namesake(job))

    def _note_delays(self, wish: Dependency, found: list[Job], now: float) -> None:
        for condition in wish.conditions:
            for job in found if condition.minutes else ():
                due = job.start_time + 60 * condition.minutes
                if job.state != states.PENDING and due > now and (self.due is None or due < self.due):
                    self.due = due

    def _earlier_namesake(self, job: Job) -> bool:
        """--dependency=singleton: an earlier job of the same user and name that has not ended."""
        return any(
            other.key < job.key
            and other.uid == job.uid
            and other.request.name == job.request.name
            and other.array_job_id != (job.array_job_id or -1)
            and other.het_job_id != (job.het_job_id or -1)
            for other in self._book.active(job.cluster)
        )


def split(change: Change, rest: Job, task: int, cluster: Cluster, now: float) -> tuple[Job, Job | None]:
    """A task as a record of its own, both records in the transaction; the rest is None when the task took it over."""
    spec = tasks.pending_tasks(rest)
    own_id = change.next_id(cluster) if spec is not None and len(spec) > 1 else 0
    alone, left = tasks.split(rest, task, own_id)
    if left is None:
        return change.put(alone, now), None
    alone = change.add(alone, now)
    return alone, change.put(left, now)
