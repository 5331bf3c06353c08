"""Sends the mails that jobs ask for (--mail-type), by the program (MailProg) or to the mail server that the configuration names."""

from __future__ import annotations

import asyncio
import logging

from shim.control.controller import smtp
from shim.control.controller.alarm import Alarm
from shim.control.controller.world import World
from shim.core import mail
from shim.core.model import states
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job

log = logging.getLogger("shim.controller")

_PATIENCE = 60.0  # seconds for one mail


def _program(cluster: Cluster) -> list[str]:
    """What is called with ``-s SUBJECT USER`` for each mail; [] where none are sent."""
    if cluster.mail_server:
        return smtp.argv(cluster.mail_server, cluster.mail_domain)
    return [cluster.mail_prog] if cluster.mail_prog else []


class Mailer:
    """Follows the book. A mail is handed to the program once, after the change is committed; a controller that is killed just then
    sends none, and what fell due while there was none is not sent later."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since = world.clock()
        self._told: dict[int, set[str]] = {}  # of jobs: the marks of their time limits that need no mail any more
        self.alarm = Alarm(asyncio.get_running_loop(), world.clock, self.remind)
        world.book.followers.append(self._changed)

    def _changed(self, old: Job | None, job: Job) -> None:
        if not job.request.mail_type:
            return
        if job.state in states.TERMINAL:
            self._told.pop(job.key, None)
        next_mark = min((at for _, at in self._marks(job)), default=None)
        if next_mark is not None and (self.alarm.due is None or next_mark < self.alarm.due):
            self.alarm.set(next_mark)
        cluster = self._world.cluster_of(job)
        if not _program(cluster):
            return
        array = self._world.book.array(job.array_job_id, job.cluster) if job.array_job_id else ()
        for kind, subject in mail.mails(old, job, array):
            self._world.task(self._send(cluster, job, kind, subject))

    def _marks(self, job: Job) -> list[tuple[str, float]]:
        told = self._told.get(job.key, ())
        return [(kind, at) for kind, at in mail.marks(job) if kind not in told]

    def remind(self) -> None:
        """Tells of the jobs that have run half, 80% or 90% of their time limits (once each), and sleeps until the next has."""
        now = self._world.clock()
        later = []
        for job in self._world.book.active():
            for kind, at in self._marks(job):
                if at > now:
                    later.append(at)
                    continue
                self._told.setdefault(job.key, set()).add(kind)
                cluster = self._world.cluster_of(job)
                if at > self._since and _program(cluster):  # else it fell due before this controller
                    self._world.task(self._send(cluster, job, kind, mail.reminder(job, kind, now)))
        self.alarm.set(min(later, default=None))

    async def _send(self, cluster: Cluster, job: Job, kind: str, subject: str) -> None:
        program = _program(cluster)
        user = mail.recipients(job.request.mail_user or job.user, cluster.mail_domain)
        if user.startswith("-"):
            log.error("job %s: no mail goes to %s, which the program would take for an option", job.job_id, user)
            return
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "SLURM_CLUSTER_NAME": job.cluster,
            "SLURM_JOB_ID": str(job.job_id),
            "SLURM_JOB_MAIL_TYPE": kind,
            "SLURM_JOB_NAME": job.name,
            "SLURM_JOB_PARTITION": job.partition,
            "SLURM_JOB_STATE": job.state,
            "SLURM_JOB_USER": job.user,
        }
        null = asyncio.subprocess.DEVNULL
        try:
            sent = await asyncio.create_subprocess_exec(
                *program,
                "-s",
                subject,
                user,
                stdin=null,
                stdout=null,
                stderr=asyncio.subprocess.PIPE if cluster.mail_server else null,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            log.error("job %s: mail by %s: %s", job.job_id, program[-1], error)
            return
        said = b""
        try:
            _, said = await asyncio.wait_for(sent.communicate(), _PATIENCE)
        except TimeoutError:
            sent.kill()
            await sent.wait()
        if sent.returncode:
            told = (said or b"").decode(errors="replace").strip()
            log.error("job %s: mail by %s: %s", job.job_id, program[-1], told or f"exit code {sent.returncode}")
