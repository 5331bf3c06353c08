"""Sends the mails that jobs ask for (--mail-type) through the program that the configuration names (MailProg)."""

from __future__ import annotations

import asyncio
import logging

from shim.control.controller.world import World
from shim.core import mail
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job

log = logging.getLogger("shim.controller")

_PATIENCE = 60.0  # seconds for one mail


class Mailer:
    """Follows the book. A mail is handed to the program once, after the change is committed; a controller that is killed just then
    sends none."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.book.followers.append(self._changed)

    def _changed(self, old: Job | None, job: Job) -> None:
        if not job.request.mail_type:
            return
        cluster = self._world.cluster_of(job)
        if not cluster.mail_prog:
            return
        array = self._world.book.array(job.array_job_id, job.cluster) if job.array_job_id else ()
        for kind, subject in mail.mails(old, job, array):
            self._world.task(self._send(cluster, job, kind, subject))

    async def _send(self, cluster: Cluster, job: Job, kind: str, subject: str) -> None:
        user = job.request.mail_user or job.user
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
                cluster.mail_prog,
                "-s",
                subject,
                user,
                stdin=null,
                stdout=null,
                stderr=null,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            log.error("job %s: mail by %s: %s", job.job_id, cluster.mail_prog, error)
            return
        try:
            code = await asyncio.wait_for(sent.wait(), _PATIENCE)
        except TimeoutError:
            sent.kill()
            code = await sent.wait()
        if code:
            log.error("job %s: mail by %s: exit code %s", job.job_id, cluster.mail_prog, code)
