"""A run that is started is made in the cluster: what all runs share, its ticket here, its objects. Every step can be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shim.control.backends.base import BackendError, Run
from shim.control.backends.kubernetes import names, trying
from shim.control.backends.kubernetes.bundle import Bundle
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.made import made
from shim.control.backends.kubernetes.orphans import record_of
from shim.control.backends.kubernetes.settings import settings_of
from shim.control.backends.kubernetes.threads import beside
from shim.control.backends.kubernetes.tickets import TicketFolder
from shim.core.model.cluster import Cluster
from shim.job.spec import RunSpec

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.estates import Estates
    from shim.control.backends.kubernetes.life import Life
    from shim.control.backends.kubernetes.shape import Shape
    from shim.control.backends.kubernetes.site import Site
    from shim.control.backends.kubernetes.sweeping import Sweeping


class Making:
    """``lives``: the runs that are followed; ``lost``: those that another machine acts for: nothing is made of them."""

    def __init__(
        self,
        configured: Cluster,
        site: Site,
        estates: Estates,
        bundle: Bundle,
        shape: Shape,
        sweeping: Sweeping,
        lives: Mapping[Run, Life],
        lost: set[Run],
    ) -> None:
        self._configured = configured
        self._site = site
        self._estates = estates
        self._bundle = bundle
        self._shape = shape
        self._sweeping = sweeping
        self._lives = lives
        self._lost = lost
        self._common = False

    async def make(
        self,
        spec: RunSpec,
        run: Run,
        folder: TicketFolder,
        environment: Mapping[str, str],
        script: bytes | None,
        spool: str,
    ) -> None:
        """Makes the run's objects, or what is missing of them. Raises BackendError when the run cannot begin: what there is of it is
        removed, and the next try makes it anew, of what the job is then. One that may have begun is to be followed, whatever the API
        server says now.
        """
        before = folder.load()
        if before is None or not before.made:
            await self._check_predecessors(run)
        try:
            await self._make(spec, run, folder, environment, script, spool)
            return
        except OSError as error:
            failed = BackendError(f"{error.strerror}: {error.filename}", transient=True)
        except BackendError as error:
            failed = error
        after = folder.load()
        if after is not None and after.let_go and (failed.transient or (before is not None and before.let_go)):
            self._site.log("job %s: %s", run.job_id, failed)
            return
        if after is not None:
            self._sweeping.sweep(run)
        raise failed

    async def _check_predecessors(self, run: Run) -> None:
        """A requeued job starts when nothing of the runs before can write its files any more.

        The API server is asked: what is watched may not be known yet, or belong to an owner that this home was before.
        """
        for other in self._lives:
            if other.job_id == run.job_id and other.restart < run.restart:
                raise BackendError("the run before is not over yet", transient=True)
        if run.restart:
            try:
                found = await self._site.objects.pods_of_job(run.job_id)
            except ApiError as error:
                raise BackendError(error.message, transient=True) from error
            text = self._site.still_there(pod for pod in found if names.restart_of(pod) < run.restart)
            if text:
                raise BackendError(text, transient=True)

    async def _make(
        self,
        spec: RunSpec,
        run: Run,
        folder: TicketFolder,
        environment: Mapping[str, str],
        script: bytes | None,
        spool: str,
    ) -> None:
        settings = settings_of(self._configured, spec.job.partition)
        await self._held()
        await self._common_objects()
        if run in self._lost:
            raise BackendError("another machine has carried on with it", transient=True)
        ticket = folder.make()
        # The user's folder is looked at: a server that does not answer holds up this job alone.
        found = await beside(
            lambda: made(
                spec,
                run,
                settings,
                ticket.submission,
                self._site.owner,
                self._bundle,
                self._shape,
                environment,
                script,
                folder.key(),
                spool,
            )
        )
        gang = found.gang
        if not ticket.made:
            outputs = await beside(lambda: trying.outputs(spec.job, settings, spec.cluster.output_wait))
            folder.keep(record_of(spec.job, outputs))
            folder.save(
                ticket.replace(
                    partition=spec.job.partition,
                    nodes=gang.nodes,
                    pinned=self._shape.counts or bool(gang.place.on),
                    outputs=outputs,
                    copied=spec.job.request.work_dir.rstrip("/") if gang.staged else "",
                    stage=found.stage,
                    once=found.once,
                )
            )
        await self._site.objects.make(gang, settings, found.contents, folder)

    async def _held(self) -> None:
        """From here on another machine can tell whether this one is there."""
        try:
            await self._estates.home.lease.hold()
        except ApiError as error:
            raise BackendError(error.message, transient=True) from error

    async def _common_objects(self) -> None:
        if not self._common:
            try:
                await self._site.objects.common(self._bundle.digest, self._bundle.archive)
            except ApiError as error:
                raise BackendError(error.message, transient=error.transient) from error
            self._common = True
