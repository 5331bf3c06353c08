"""A run that is started is made in the cluster: what all runs share, its ticket here, its objects. Every step can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shim.control.backends.base import BackendError, Run
from shim.control.backends.kubernetes import trying
from shim.control.backends.kubernetes.bundle import Bundle
from shim.control.backends.kubernetes.errors import ApiError
from shim.control.backends.kubernetes.made import made
from shim.control.backends.kubernetes.orphans import record_of
from shim.control.backends.kubernetes.settings import settings_of
from shim.control.backends.kubernetes.tickets import TicketFolder
from shim.core.model.cluster import Cluster
from shim.job.spec import RunSpec

if TYPE_CHECKING:
    from shim.control.backends.kubernetes.estates import Estates
    from shim.control.backends.kubernetes.shape import Shape
    from shim.control.backends.kubernetes.site import Site


class Making:
    """``lost``: the runs that another machine acts for: nothing is made of them."""

    def __init__(
        self, configured: Cluster, site: Site, estates: Estates, bundle: Bundle, shape: Shape, lost: set[Run]
    ) -> None:
        self._configured = configured
        self._site = site
        self._estates = estates
        self._bundle = bundle
        self._shape = shape
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
        """Makes the run's objects, or what is missing of them. Raises BackendError, OSError."""
        settings = settings_of(self._configured, spec.job.partition)
        await self._held()
        await self._common_objects()
        if run in self._lost:
            raise BackendError("another machine has carried on with it", transient=True)
        ticket = folder.make()
        found = await asyncio.to_thread(
            made,
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
        gang = found.gang
        if not ticket.made:
            outputs = trying.outputs(spec.job, settings)
            folder.keep(record_of(spec.job, outputs))
            folder.save(
                ticket.replace(
                    partition=spec.job.partition,
                    nodes=gang.nodes,
                    pinned=bool(gang.on),
                    outputs=outputs,
                    stage=found.stage,
                    once=found.once,
                )
            )
        self._site.note_job(run, await self._site.objects.make(gang, settings, found.contents, folder))

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
