"""What is made of a run that is to start: its objects for the cluster, its files here, and what all runs share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.api.threads import beside
from shim.control.backends.kubernetes.cluster.cluster_session import Site
from shim.control.backends.kubernetes.cluster.shape import Shape
from shim.control.backends.kubernetes.objects.bundle import Bundle
from shim.control.backends.kubernetes.objects.run_payload import made
from shim.control.backends.kubernetes.records.record import JobRecord, Way
from shim.control.backends.kubernetes.run.driver import Prepared
from shim.control.backends.kubernetes.settings import Settings, settings_of, settings_with
from shim.control.backends.kubernetes.submit import submit_checks
from shim.core.model.cluster import Cluster
from shim.job.spec import RunSpec


class Preparing:
    """``configured``: the cluster, with its namespace."""

    def __init__(self, configured: Cluster, site: Site, bundle: Bundle, shape: Shape) -> None:
        self._configured = configured
        self._site = site
        self._bundle = bundle
        self._shape = shape
        self._common = False

    async def common(self) -> None:
        """Makes what all runs share, once. ApiError."""
        if not self._common:
            await self._site.objects.common(self._bundle.digest, self._bundle.archive)
            self._common = True

    def of(
        self, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, spool: str
    ) -> Callable[[JobRecord, int], Awaitable[Prepared]]:
        """Makes ready the run of a record with a number. BackendError, also where a file of the job's output cannot be opened."""

        async def prepare(record: JobRecord, number: int) -> Prepared:
            payload = await self._site.records.payload(record)
            elsewhere = record.host not in ("", self._site.host)
            settings = settings_of(self._configured, spec.job.partition)
            if elsewhere and payload.words:
                settings = settings_with(self._configured, payload.words)
            groups = payload.groups if elsewhere else None
            numbered = spec.replace(record=record.uid, run=number)
            try:
                # The user's folder is looked at: a server that does not answer holds up this job alone.
                key = payload.key(record.uid, number)
                found = await beside(
                    lambda: made(numbered, settings, self._bundle, self._shape, environment, script, key, spool, groups)
                )
                register = record.register
                again = register is not None and register.run == number  # its files were begun when it was made
                if again:
                    ways = record.outputs
                elif elsewhere:
                    ways = _ways_elsewhere(spec, settings)
                else:
                    ways = await beside(lambda: _ways(spec, settings))
            except OSError as error:
                raise BackendError(f"{error.strerror}: {error.filename}", transient=True) from error
            return Prepared(
                gang=found.gang,
                settings=settings,
                contents=found.contents,
                stage=found.stage,
                outputs=ways,
                copied=spec.job.request.work_dir.rstrip("/") if found.gang.staged else "",
                pinned=self._shape.counts or bool(found.gang.place.on),
            )

        return prepare


def _ways_elsewhere(spec: RunSpec, settings: Settings) -> tuple[Way, ...]:
    """Files that the machine begins which submitted the job."""
    return tuple(Way(stream=stream, path=path, base=-1) for stream, path in submit_checks.streamed(spec.job, settings))


def _ways(spec: RunSpec, settings: Settings) -> tuple[Way, ...]:
    return tuple(
        Way(stream=stream, path=path, base=base)
        for stream, path, base in submit_checks.outputs(spec.job, settings, spec.cluster.output_wait)
    )
