"""The jobs that a sacct selects: by id, time, state, user …. Slurm's defaults and refusals."""

from __future__ import annotations

import os

from shim.commands import output, site_view
from shim.commands.job_ids import exactly, narrowed, parse_job_id
from shim.control.index.query import JobQuery
from shim.core.errors import ShimError, plain
from shim.core.formats.lists import comma_list, split_outside_brackets
from shim.core.model import states
from shim.core.render import sacct_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.commands.job_ids import JobId
    from shim.core.model.job import Job, Step
    from shim.core.options.query_options import Values
    from shim.core.render.sacct_rows import Row

_ALL = "0"  # -j 0: every job
# The reasons of jobs that --reason knows, as Slurm lists them.
_REASONS = """
AccountNotAllowed AccountingPolicy AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes AssocGrpBilling
AssocGrpBillingMinutes AssocGrpBillingRunMinutes AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit
AssocGrpCpuLimit AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocGrpGRES AssocGrpGRESMinutes
AssocGrpGRESRunMinutes AssocGrpJobsLimit AssocGrpLicense AssocGrpLicenseMinutes AssocGrpLicenseRunMinutes
AssocGrpMemLimit AssocGrpMemMinutes AssocGrpMemRunMinutes AssocGrpNodeLimit AssocGrpNodeMinutes
AssocGrpNodeRunMinutes AssocGrpSubmitJobsLimit AssocGrpUnknown AssocGrpUnknownMinutes AssocGrpUnknownRunMinutes
AssocGrpWallLimit AssocMaxBBMinutesPerJob AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBillingMinutesPerJob
AssocMaxBillingPerJob AssocMaxBillingPerNode AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit
AssocMaxCpuPerNode AssocMaxEnergyMinutesPerJob AssocMaxEnergyPerJob AssocMaxEnergyPerNode
AssocMaxGRESMinutesPerJob AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxJobsLimit AssocMaxLicenseMinutesPerJob
AssocMaxLicensePerJob AssocMaxMemMinutesPerJob AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxNodeMinutesPerJob
AssocMaxNodePerJobLimit AssocMaxSubmitJobLimit AssocMaxUnknownMinutesPerJob AssocMaxUnknownPerJob
AssocMaxUnknownPerNode AssocMaxWallDurationPerJobLimit AssociationJobLimit AssociationResourceLimit
AssociationTimeLimit BadConstraints BeginTime BlockFreeAction BlockMaxError BurstBufferOperation
BurstBufferResources BurstBufferStageIn Cleaning DeadLine Dependency DependencyNeverSatisfied FedJobLock
FrontEndDown InactiveLimit InvalidAccount InvalidQOS JobArrayTaskLimit JobHeldAdmin JobHeldUser
JobHoldMaxRequeue JobLaunchFailure Licenses MaxBBPerAccount MaxBillingPerAccount MaxCpuPerAccount
MaxEnergyPerAccount MaxGRESPerAccount MaxJobsPerAccount MaxLicensePerAccount MaxMemPerLimit MaxMemoryPerAccount
MaxNodePerAccount MaxSubmitJobsPerAccount MaxUnknownPerAccount NodeDown NonZeroExitCode None OutOfMemory
PartitionConfig PartitionDown PartitionInactive PartitionNodeLimit PartitionTimeLimit PowerNotAvail
PowerReserved Priority Prolog QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSGrpBilling QOSGrpBillingMinutes
QOSGrpBillingRunMinutes QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpCpuLimit QOSGrpEnergy
QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESMinutes QOSGrpGRESRunMinutes QOSGrpJobsLimit
QOSGrpLicense QOSGrpLicenseMinutes QOSGrpLicenseRunMinutes QOSGrpMemLimit QOSGrpMemoryMinutes
QOSGrpMemoryRunMinutes QOSGrpNodeLimit QOSGrpNodeMinutes QOSGrpNodeRunMinutes QOSGrpSubmitJobsLimit
QOSGrpUnknown QOSGrpUnknownMinutes QOSGrpUnknownRunMinutes QOSGrpWallLimit QOSJobLimit QOSMaxBBPerJob
QOSMaxBBPerNode QOSMaxBBPerUser QOSMaxBillingMinutesPerJob QOSMaxBillingPerJob QOSMaxBillingPerNode
QOSMaxBillingPerUser QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxCpuPerUserLimit
QOSMaxEnergyMinutesPerJob QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxEnergyPerUser QOSMaxGRESMinutesPerJob
QOSMaxGRESPerJob QOSMaxGRESPerNode QOSMaxGRESPerUser QOSMaxJobsPerUserLimit QOSMaxLicenseMinutesPerJob
QOSMaxLicensePerJob QOSMaxLicensePerUser QOSMaxMemoryMinutesPerJob QOSMaxMemoryPerJob QOSMaxMemoryPerNode
QOSMaxMemoryPerUser QOSMaxNodeMinutesPerJob QOSMaxNodePerJobLimit QOSMaxNodePerUserLimit
QOSMaxSubmitJobPerUserLimit QOSMaxUnknownMinutesPerJob QOSMaxUnknownPerJob QOSMaxUnknownPerNode
QOSMaxUnknownPerUser QOSMaxWallDurationPerJobLimit QOSMinBB QOSMinBilling QOSMinCpuNotSatisfied QOSMinEnergy
QOSMinGRES QOSMinLicense QOSMinMemory QOSMinNode QOSMinUnknown QOSNotAllowed QOSResourceLimit QOSTimeLimit
QOSUsageThreshold ReqNodeNotAvail Reservation ReservationDeleted Resources SystemFailure TimeLimit
"""


class Selection:
    """One sacct, checked. ``since`` and ``until``: the window in seconds since the epoch."""

    def __init__(self, values: Values, clusters: Sequence[str], now: float) -> None:
        self.values = values
        self.clusters = tuple(clusters)
        self.named = "jobs" in values  # -j: whenever they ran, whoever they belong to
        self.ids = _ids(values.get("jobs", ""))
        self.states = _states(values.get("state"))
        _check_reasons(values.get("reason"))
        self.since, self.until = self._window(now)
        self.users = self._users()
        self.groups = _groups(values.get("gid"))
        self.nodes = _nodes(_first(values.each("nodelist")))
        self.node_counts = _range(values.get("nnodes"))
        self.cpu_counts = _range(values.get("ncpus"))
        self.limits = _limits(values)
        self.units = _units(values)
        # Jobs that only waited have no steps that could have been meant.
        self.steps = "allocations" not in values and self.states != (states.PENDING,)

    def _window(self, now: float) -> tuple[float, float]:
        """-S and -E. Without these options: today since midnight; with -s now; with -j all time. The end is inclusive."""
        end = _instant(self.values.get("endtime"), now)
        start = _instant(self.values.get("starttime"), now)
        if start is None and self.named:
            start = 0.0
        elif start is None:
            start = float(int(now)) if self.states else float(_midnight(now))
        until = float(int(now) + 1) if end is None or int(end) == int(now) else end
        if start > until:
            raise ShimError(f"error: Start time ({_clock(start)}) requested is after end time ({_clock(until)}).")
        return start, until

    def _users(self) -> tuple[int, ...] | None:
        """Uids; None for everybody's: -a, root, and -j."""
        text = self.values.get("user")
        if text:
            return tuple(_uid(word) for word in comma_list(text))
        if "allusers" in self.values or self.named or os.getuid() == 0:
            return None
        return (os.getuid(),)

    def query(self) -> JobQuery:
        """The part of the selection that the index can evaluate."""
        return JobQuery(
            clusters=self.clusters,
            job_ids=tuple(one.job_id for one in self.ids),
            active=False,
            ended_since=self.ended_since,
            users=self.users or (),
            names=comma_list(self.values.get("name")),
            partitions=comma_list(self.values.get("partition")),
        )

    @property
    def ended_since(self) -> float | None:
        """Jobs that ended before are not meant; None where -j names them."""
        return None if self.named else self.since

    def means(self, job: Job) -> bool:
        """The conditions of ``query`` on users, names and partitions, for jobs that do not come from the index."""
        names, partitions = comma_list(self.values.get("name")), comma_list(self.values.get("partition"))
        return (
            (not self.users or job.uid in self.users)
            and (not names or job.name in names)
            and (not partitions or not job.partition or any(name in partitions for name in job.partition.split(",")))
        )

    def narrow(self, job: Job) -> Job | None:
        """What -j means of the record. A task that still waits is no record of its own, as in the database.

        A heterogeneous job's id means all its components, with --whole-hetjob=no the first alone.
        """
        if not self.ids:
            return job
        wanted = [one for one in self.ids if one.het in (None, job.het_offset)]
        if self.values.get("whole-hetjob", "").lower() == "no" and not exactly(job, wanted):
            wanted = [one for one in wanted if one.het is not None]
        found = narrowed(job, wanted)
        return None if found is not None and found.array_task_id != job.array_task_id else found

    def fits(self, job: Job) -> bool:
        """The conditions that the index does not know."""
        values, request = self.values, job.request
        for option, value in (
            ("accounts", request.account),
            ("qos", request.qos or "normal"),
            ("wckeys", request.wckey),
        ):
            wanted = comma_list(values.get(option))
            if wanted and value not in wanted:
                return False
        reasons = comma_list((values.get("reason") or "").lower())
        if reasons and ("none" if job.shares else job.reason.lower()) not in reasons:
            return False
        if any(word not in (request.constraint or "") for word in comma_list(values.get("constraints"))):
            return False
        flags = comma_list(values.get("flags", "").lower())
        if flags and "schedmain" not in flags:
            return False  # whatever runs was started by the one scheduler there is
        if values.get("associations") or (self.groups and job.gid not in self.groups):
            return False
        if self.nodes and not any(share.name in self.nodes for share in job.shares):
            return False
        if not _within(job.nodes, self.node_counts) or not _within(job.cpus, self.cpu_counts):
            return False
        if self.limits is not None and not _within(job.time_limit or 0, self.limits):
            return False
        if self.named and not self.states:
            return True
        return sacct_rows.in_window(job, self.states, self.since, self.until)

    def names(self, row: Row) -> bool:
        """Whether the job's own line is wanted: not where only steps of the job are named."""
        return row.step is not None or not self._steps_of(row.job)

    def wants_step(self, job: Job, step: Step) -> bool:
        """Whether -j names the step, or the whole job."""
        wanted = self._steps_of(job)
        return not wanted or step.step_id in wanted

    def _steps_of(self, job: Job) -> set[str]:
        """The steps of this job that are named; empty where the whole job is meant."""
        own = [one.step for one in self.ids if narrowed(job, [one]) is not None]
        return set() if None in own else {step for step in own if step is not None}


def _ids(text: str) -> list[JobId]:
    found = []
    words = split_outside_brackets(text)
    for word in words:
        one = parse_job_id(word)
        if one is None and word != _ALL:
            raise ShimError(f"fatal: Bad job/step specified: {word}")
        if one is not None:
            found.append(one)
    return [] if _ALL in words else found


def _states(text: str | None) -> tuple[str, ...]:
    found = []
    for word in comma_list(text):
        state = states.state_of(word)
        if state is None:
            raise ShimError(f"fatal: unrecognized job state value '{word}'")
        found.append(state)
    return tuple(found)


def _check_reasons(text: str | None) -> None:
    words = comma_list(text)
    known = _REASONS.lower().split() if words else ()
    for word in words:
        if word.lower() not in known:
            raise ShimError(f"fatal: unrecognized job reason value '{word}'")


def _instant(text: str | None, now: float) -> float | None:
    """-S and -E; what is left out of them lies in the past."""
    if not text:
        return None
    from shim.core.formats.datetimes import WhenError, parse_when

    try:
        return float(parse_when(text, now, past=True))
    except WhenError as error:
        raise ShimError(plain(str(error))) from None


def _midnight(now: float) -> int:
    from shim.core.formats.datetimes import parse_when

    return parse_when("today", now, past=True)


def _clock(epoch: float) -> str:
    from shim.core.formats.times import stamp

    return stamp(epoch)


def _uid(word: str) -> int:
    uid = site_view.uid_of(word)
    if uid is None:
        raise ShimError(f"error: Invalid user id: {word}")
    return uid


def _groups(text: str | None) -> frozenset[int]:
    if not text:
        return frozenset()
    import grp

    found = set()
    for word in comma_list(text):
        try:
            found.add(int(word) if word.isascii() and word.isdigit() else grp.getgrnam(word).gr_gid)
        except KeyError:
            raise ShimError(f"error: Invalid group id: {word}") from None
    return frozenset(found)


def _first(said: Sequence[str]) -> str | None:
    """-N: only the first of several counts; each of the others is reported."""
    output.say("sacct", *[f"error: Already asked for nodes '{said[0]}'" for _ in said[1:]])
    return said[0] if said else None


def _nodes(text: str | None) -> frozenset[str]:
    if not text:
        return frozenset()
    from shim.core.formats import hostlist

    try:
        return frozenset(hostlist.expand(text))
    except hostlist.HostlistError:
        return frozenset((text,))


def _range(text: str | None) -> tuple[int, int] | None:
    """``min[-max]``: exactly, or from and to."""
    if not text:
        return None
    least, dash, most = text.partition("-")
    if not least.isascii() or not least.isdigit() or (dash and not (most.isascii() and most.isdigit())):
        raise ShimError(f"error: Invalid range: {text}")
    return int(least), int(most if dash else least)


def _limits(values: dict[str, str]) -> tuple[int, int] | None:
    """-k and -K in minutes; -K alone means nothing, as in Slurm."""
    if not values.get("timelimit-min"):
        return None
    from shim.core.formats.times import parse_minutes

    try:
        least = parse_minutes(values["timelimit-min"])
        return least, parse_minutes(values["timelimit-max"]) if values.get("timelimit-max") else least
    except ValueError:
        raise ShimError("error: Invalid time limit specification") from None


def _units(values: dict[str, str]) -> str:
    """--units; --noconvert leaves sizes in the unit that they are kept in."""
    text = values.get("units", "").upper()
    if text and (len(text) != 1 or text not in "KMGTP"):
        raise ShimError(f"fatal: Invalid unit type specified: {values['units']}")
    return text or ("M" if "noconvert" in values else "")


def _within(number: int, wanted: tuple[int, int] | None) -> bool:
    return wanted is None or wanted[0] <= number <= wanted[1]
