"""``scontrol show job`` and ``scontrol show step``."""

from __future__ import annotations

from shim.commands import output, site_view
from shim.commands.job_ids import JobId, exactly, narrowed, parse_job_id
from shim.control.index.query import JobQuery
from shim.core.errors import INVALID_JOB_ID, ShimError, plain
from shim.core.formats.integers import leading_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.commands.documents import Document
    from shim.commands.scontrol.session import Session
    from shim.control.index.reader import Reader
    from shim.core.model.job import Job


def jobs(session: Session, wanted: str | None) -> int:
    """Prints all jobs that have not been purged, or those of a single id or array."""
    from shim.core.render.scontrol_job import job_record

    reader = site_view.open_index("scontrol")
    if _is_any(wanted):
        wanted = None
    outlook = session.outlook() if wanted is None else None
    if wanted is None:
        found = _visible(reader, session, None)
        if not found and not session.beside and session.document is None:
            output.put(["No jobs in the system"])
    else:
        one = parse_job_id(wanted)
        task = _task_of_any(wanted)
        if task is None and (one is None or one.step is not None or "[" in wanted):
            raise ShimError(plain(f"scontrol_print_job error: {INVALID_JOB_ID}"))
        known = _visible(reader, session, one)
        if not known:
            raise ShimError(plain(f"slurm_load_jobs error: {INVALID_JOB_ID}"))
        if one is not None and one.het is not None:
            known = [job for job in known if job.het_job_id and job.het_offset == one.het]
        meant = {job.key: one or JobId(job_id=job.array_job_id, tasks=task) for job in known}
        found = [part for part in (narrowed(job, [meant[job.key]]) for job in known) if part is not None]
        if not found:
            return output.not_found(f"Job {wanted} not found")
    views = site_view.Views()
    if session.document is not None:
        _put_document(session, session.document, found, views)
    else:
        session.tell_records(len(found))
        output.put(
            [
                job_record(job, views.of(job.cluster), details=session.details, oneliner=session.oneliner)
                for job in found
            ]
        )
    site_view.warn_unreachable("scontrol", reader, outlook, found)
    return 0


def _put_document(session: Session, document: Document, jobs: list[Job], views: site_view.Views) -> None:
    from shim.core.render.openapi.jobs import job_record
    from shim.core.render.openapi.layout import moments

    looked_at = max((job.last_sched for job in jobs), default=0.0)
    records = [job_record(job, views.of(job.cluster), newer=document.newer) for job in jobs]
    document.put("jobs", records, more=moments(views.now, looked_at), cluster=session.cluster or "")


def _is_any(wanted: str | None) -> bool:
    """Whether Slurm reads the number of no job."""
    return wanted is not None and wanted.isascii() and wanted.isdigit() and int(wanted[:20]) == 0


def _task_of_any(wanted: str) -> str | None:
    """The task in ``0_3``, which means that of every array."""
    job, _, task = wanted.partition("_")
    return task if _is_any(job) and task.isascii() and task.isdigit() else None


def _starts_with_an_id(wanted: str) -> bool:
    return bool(leading_int(wanted)[0])


def _visible(reader: Reader | None, session: Session, one: JobId | None) -> list[Job]:
    """The jobs that have not ended, or ended less than MinJobAge ago; only those of the given id or array."""
    if reader is None:
        return []
    return reader.jobs(
        JobQuery(
            cluster=session.cluster or "",
            job_ids=(one.job_id,) if one is not None else (),
            active=False,
            ended_since=site_view.shown_since(session.cluster),
        )
    )


def steps(session: Session, wanted: str | None) -> int:
    """Prints running steps: all, those of a job, or a single step."""
    from shim.core.render.scontrol_job import step_record
    from shim.core.render.step_fields import step_order

    reader = site_view.open_index("scontrol")
    if wanted is not None and not _starts_with_an_id(wanted):
        wanted = None  # Slurm reads 0, which is any job's
    one = parse_job_id(wanted) if wanted is not None else None
    if wanted is not None and one is None:
        raise ShimError(plain(f"slurm_get_job_steps error: {INVALID_JOB_ID}"))
    outlook = session.outlook() if one is None else None
    jobs = _visible(reader, session, one)
    if one is not None:
        jobs = [part for part in (narrowed(job, [one]) for job in jobs) if part is not None and exactly(part, [one])]
        if not jobs and _visible(reader, session, JobId(job_id=one.job_id)):
            return output.not_found(f"Job step {(wanted or '').partition('.')[0]}. not found")
        if not jobs:
            raise ShimError(plain(f"slurm_get_job_steps error: {INVALID_JOB_ID}"))
    items = [
        item for item in site_view.running_steps(reader, jobs) if one is None or one.step in (None, item[1].step_id)
    ]
    session.tell_records(len(items))
    if not items and wanted is None:
        output.put([] if session.beside else ["No job steps in the system"])
    elif not items:
        return output.not_found(f"Job step {wanted}{'.' if one is not None and one.step is None else ''} not found")
    views = site_view.Views()
    # A job's batch step, which is its oldest, comes before the others.
    ordered = sorted(items, key=lambda item: (item[0].job_id, item[1].step_id != "batch", step_order(item)))
    output.put([step_record(job, step, views.of(job.cluster), oneliner=session.oneliner) for job, step in ordered])
    site_view.warn_unreachable("scontrol", reader, outlook, jobs)
    return 0
