"""Which mails a job's change sends (--mail-type), and their subjects in Slurm's words. Pure; a mail has no text but its subject."""

from __future__ import annotations

from shim.core.formats.times import show_clock
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.model.cluster import Cluster
    from shim.core.model.job import Job

_BEFORE = (states.PENDING, states.CONFIGURING)
_WELL = (states.COMPLETED, states.CANCELLED)  # ends that are no failure


def mails(old: Job | None, job: Job, array: Sequence[Job] = ()) -> list[tuple[str, str]]:
    """The type and the subject of each mail that is due as ``job`` is no longer ``old``. ``array``: every record of its array.

    Without ARRAY_TASKS among the types an array sends one mail when its first task begins and one when its last task has ended.
    """
    types = _types(job)
    found = [kind for kind in _events(old, job, types) if kind in types]
    head = _head(job)
    if job.array_job_id and "ARRAY_TASKS" not in types:
        others = [one for one in array if one.key != job.key]
        return [(kind, head + _WORDS[kind] + _summary(kind, [job, *others])) for kind in found if _whole(kind, others)]
    return [(kind, head + _WORDS[kind] + _time(kind, old, job) + _end(kind, job)) for kind in found]


def marks(job: Job) -> list[tuple[str, float]]:
    """The types of the mails that tell how much of its limit the job has run, and when they are due; [] while it does not run."""
    if job.state != states.RUNNING or not job.time_limit or job.time_limit < 0:
        return []
    types = _types(job)
    return [
        (kind, job.end_time - job.time_limit * 0.6 * (100 - part)) for kind, part in _PARTS.items() if kind in types
    ]


def reminder(job: Job, kind: str, now: float) -> str:
    """The subject of a mail of ``marks``."""
    return f"{_head(job)}Reached {_PARTS[kind]}% of time limit, Run time {show_clock(max(now - job.start_time, 0))}"


def unsent(job: Job, cluster: Cluster) -> list[str]:
    """What the submitter of a job that asks for mail is told where the cluster has no way to send any."""
    if cluster.mail_prog or cluster.mail_server or _types(job) in ([""], ["NONE"]):
        return []
    return ["--mail-type: no mail will be sent: the configuration names neither mail_prog (MailProg) nor mail_server"]


def recipients(user: str, domain: str) -> str:
    """``user`` (of --mail-user, or who submitted; several with commas) as MailDomain completes it: a name without "@" gets ``domain``."""
    if not domain:
        return user
    return ",".join(f"{one}@{domain}" if one and "@" not in one else one for one in user.split(","))


def server(text: str) -> tuple[str, int]:
    """``HOST``, ``HOST:PORT`` or ``[ADDRESS]:PORT`` as host and port (25 where none is said). ValueError for anything else."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, "25"
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    plain = host.replace("-", "").replace(".", "").replace(":" if bracketed else ".", "")
    if not (plain.isascii() and plain.isalnum() and host[0] != "-" and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(text)
    return host, int(port)


def _types(job: Job) -> list[str]:
    return (job.request.mail_type or "").split(",")


def _head(job: Job) -> str:
    if not job.array_job_id:
        return f"Slurm Job_id={job.job_id} Name={job.name} "
    if "ARRAY_TASKS" in _types(job):
        return f"Slurm Array Task Job_id={job.array_job_id}_{job.array_task_id} ({job.job_id}) Name={job.name} "
    return f"Slurm Array Summary Job_id={job.array_job_id}_* ({job.job_id}) Name={job.name} "


_PARTS = {"TIME_LIMIT_50": 50, "TIME_LIMIT_80": 80, "TIME_LIMIT_90": 90}  # percent of the limit
_WORDS = {
    "BEGIN": "Began",
    "END": "Ended",
    "FAIL": "Failed",
    "REQUEUE": "Requeued",
    "INVALID_DEPEND": "Invalid dependency",
    "TIME_LIMIT": "Reached time limit",
}


def _events(old: Job | None, job: Job, types: Sequence[str]) -> list[str]:
    """What has happened, as far as somebody may want to know it."""
    if old is None:
        return []
    found = []
    if old.reason != job.reason == "DependencyNeverSatisfied":
        found.append("INVALID_DEPEND")
    if old.restarts != job.restarts:
        return [*found, "REQUEUE"]
    if job.shares and old.state in _BEFORE and job.state not in _BEFORE:  # it may have ended already
        found.append("BEGIN")
    if job.state in states.TERMINAL and old.state not in states.TERMINAL:
        if job.state == states.TIMEOUT:
            found.append("TIME_LIMIT")
        # One mail: FAIL, or END for a user who did not ask for FAIL.
        found.append("END" if job.state in _WELL or "FAIL" not in types else "FAIL")
    return found


def _whole(kind: str, others: Sequence[Job]) -> bool:
    """Whether the event is one of the whole array: the first task begins, or all tasks have ended."""
    if kind == "BEGIN":
        return all(one.state in _BEFORE for one in others)
    return kind not in ("END", "FAIL") or all(one.state in states.TERMINAL for one in others)


def _time(kind: str, old: Job | None, job: Job) -> str:
    if kind == "BEGIN":
        return f", Queued time {show_clock(max(job.start_time - job.submit_time, 0))}"
    if kind == "REQUEUE" and old is not None:
        job = old.replace(end_time=job.submit_time)
    if kind in ("END", "FAIL", "REQUEUE", "TIME_LIMIT"):
        return f", Run time {show_clock(max(job.end_time - job.start_time, 0) if job.start_time else 0)}"
    return ""


def _end(kind: str, job: Job) -> str:
    if kind not in ("END", "FAIL"):
        return ""
    return f", {job.state}" + ("" if job.exit_status & 0x7F else f", ExitCode {job.exit_status >> 8}")


def _summary(kind: str, jobs: Sequence[Job]) -> str:
    if kind not in ("END", "FAIL"):
        return ""
    found = {job.state for job in jobs}
    codes = [job.exit_status >> 8 for job in jobs]
    return f", {found.pop() if len(found) == 1 else 'Mixed'}, ExitCode [{min(codes)}-{max(codes)}]"
