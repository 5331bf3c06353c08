"""What the controller asks of a backend, and what a backend tells it.

The controller has committed before it calls; it calls again after a restart. So every call is idempotent: the run's name
(cluster, job id, restart count) decides, and a run that has been started is never started again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from shim.core.value import Value
from shim.job.spec import RunSpec


class Run(Value):
    """Names one start of one job."""

    cluster: str
    job_id: int
    restart: int = 0


class Order(Value):
    """What the controller wants of a run. ``number`` makes repeating harmless: a leader obeys each number once.

    kinds: ``signal`` (signal, scope, step), ``end`` (state, uid, why), ``limit`` (seconds from the start), ``suspend``, ``resume``,
    ``release`` (an allocation's own end: status), ``notify`` (why: a line for the script's error output), ``resize`` (nodes:
    those that the job keeps; on the local backend). Scopes: "steps", "batch" (the batch shell), "all"; a step id in ``step``.
    ``end`` without step ends the run: TERM, KillWait, KILL, and its state is ``state`` (CANCELLED, TIMEOUT, REQUEUED …).
    ``component`` above 0: only that component of a heterogeneous job is meant (signal, end, limit).
    """

    number: int
    kind: str
    signal: int = 0
    scope: str = "all"
    step: str | None = None
    state: str = ""
    uid: int | None = None
    why: str = ""
    seconds: int | None = None
    status: int = 0
    component: int = 0
    nodes: tuple[str, ...] = ()


class BackendError(Exception):
    """A run could not be started. ``transient``: trying again may help; otherwise the job fails with ``reason``."""

    def __init__(self, text: str, *, reason: str = "JobLaunchFailure", transient: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.transient = transient


class Observer(Protocol):
    """The controller's side: what a backend reports. Called in the controller's event loop; never blocks."""

    def happened(self, run: Run, event: Mapping[str, Any]) -> None:
        """One line of the leader's journal: ``n`` (from 1, in order, may be repeated), ``at`` (epoch), ``kind`` and its fields.

        kinds (docs/internals/agent-protocol.md): started, step, step-end, ending, ended; and, from the backend itself and without a number:
        ``placed`` (nodes: the names of the nodes that it is on, in order), ``waits`` (reason, detail: why it does not start yet).
        """

    def lost(self, run: Run, reason: str, detail: str = "") -> None:
        """The run's leader is gone without having written its end: NODE_FAIL, or requeue. ``detail``: what its user has to know of that."""

    def withdrawn(self, run: Run, reason: str) -> None:
        """The run was never started and nothing of it is left: its job waits again. ``reason``: for the log."""

    def cluster_changed(self, cluster: Cluster) -> None:
        """Nodes appeared, vanished, changed state, or what others use of them has changed: the cluster as it is now."""

    def unknown(self, cluster: str) -> None:
        """The cluster has jobs that the index does not know, or tells them otherwise: see ``KeepsJobs``."""

    def wanted(self, cluster: str) -> None:
        """Something was noted for the machine that orders the jobs, which is this one: see ``KeepsJobs``."""

    def outdated(self, cluster: str) -> None:
        """Another machine has become the one that orders the cluster's jobs: what this controller knows counts no more."""

    def trouble(self, cluster: str, text: str) -> None:
        """The cluster cannot be asked: why, for users of listings. "" when it can again."""


class Backend(Protocol):
    """Where the jobs of one cluster run."""

    async def open(self, observer: Observer) -> Cluster:
        """Begin; the cluster's shape. Called once, before anything else."""

    async def recover(self, runs: Sequence[tuple[Run, int]]) -> None:
        """The runs that the index believes to be active, each with the last journal number it has committed.

        Events after that number follow through the observer, ``lost`` for the dead (a backend that keeps jobs: an end that is ``final``). A run the backend has never started
        is not reported here: ``start`` is called for it. Runs that the backend has and the list has not are ended, or
        told by ``KeepsJobs.kept``.
        """

    async def start(self, spec: RunSpec, environment: Mapping[str, str], script: bytes | None, spool: str = "") -> None:
        """Start a run, all nodes or none. Returns once the agents were asked; ``started`` comes as an event.

        ``spool``: the folder with what ``TriesOut.try_out`` kept for the job.
        """

    async def order(self, run: Run, order: Order) -> None:
        """Pass an order on. A run that cannot be reached gets it when it can be; a dead run's orders are dropped."""

    async def forget(self, run: Run) -> None:
        """The run's end is committed: its leader may go and its folder be removed."""

    def reach(self, run: Run) -> str:
        """The run folder, or another address, by which srun on this machine reaches the leader."""

    def hosts(self, shares: Sequence[NodeShare], job: Job) -> tuple[NodeShare, ...]:
        """The shares with ``host`` filled in: the names that resolve inside the job. ``planned`` where the cluster has yet to choose nodes."""

    def commands(self) -> str:
        """The folder with our commands, as a job sees it."""

    async def close(self) -> None:
        """The controller ends. Runs go on."""


@runtime_checkable
class CanWarm(Protocol):
    """A backend that can prepare its first start while the controller still reads."""

    async def warm(self) -> None:
        """Prepares; what fails is reported by the start that needs it."""


@runtime_checkable
class HasJournals(Protocol):
    """A backend that can read the journals of its runs at any moment, without asking anybody."""

    def catch_up(self, run: Run) -> None:
        """Tells the observer at once what the run's journal says by now, as far as it was not told."""


@runtime_checkable
class NumbersJobs(Protocol):
    """A backend whose jobs share their numbers with those of other controllers."""

    async def reserve(self, first: int) -> range:
        """Job ids, at least ``first``, that nobody else has or will get. Raises BackendError."""


class Progress:
    """How far something has come that takes long: who does it counts (in whatever thread), who waits looks. ``all`` 0: nobody knows."""

    __slots__ = ("all", "done", "unit", "what")

    def __init__(self, what: str = "", unit: str = "", all_: int = 0, done: int = 0) -> None:
        self.begin(what, unit, all_, done)

    def begin(self, what: str, unit: str = "", all_: int = 0, done: int = 0) -> None:
        """From now on it is about that."""
        self.what = what
        self.unit = unit
        self.all = all_
        self.done = done

    @property
    def fields(self) -> dict[str, Any]:
        """As a message has them."""
        return {"what": self.what, "unit": self.unit, "all": self.all, "done": min(self.done, self.all or self.done)}


@runtime_checkable
class ShowsProgress(Protocol):
    """A backend that knows how far a run's start, or the way of its files, has come."""

    def progress(self, run: Run) -> Progress | None:
        """What is under way of that run just now; None: nothing that takes long."""


@runtime_checkable
class TriesOut(Protocol):
    """A backend that can tell at submission what it would refuse later, and keeps what a job needs as it is now."""

    async def try_out(self, job: Job, spool: str, progress: Progress) -> list[str]:
        """Notes for the user about a job that is about to be accepted; files for its start go to the folder ``spool``. ``progress``: how far
        that is.

        Raises BackendError with the cluster's words for a job that could never start.
        """


@runtime_checkable
class ReturnsFiles(Protocol):
    """A backend whose jobs may work in copies of the working directory; at a run's end what they have changed is here by itself."""

    async def fetch(self, run: Run) -> tuple[int, int, str]:
        """What a run has changed by now comes here: how many files, bytes, and what is to be said of others. Raises BackendError."""


@runtime_checkable
class Listens(Protocol):
    """A backend whose cluster can fall silent without anything being wrong at this end."""

    async def listen(self) -> None:
        """Returns within the cluster's ``timeout``: the cluster has answered lately, or ``Observer.trouble`` was called."""


@runtime_checkable
class ShapedLater(Protocol):
    """A backend that may be open before the cluster's nodes are known."""

    async def shaped(self) -> Cluster:
        """The cluster's shape once it is known. Raises BackendError where that takes long."""


class Kept(Value):
    """A job that the cluster holds and an index does not know, with what was handed in with it.

    ``files``: further ones for its spool folder. ``token`` names the submission. ``job.origin`` says from where it was submitted.
    """

    run: Run
    job: Job
    handed_in: dict[str, Any] = {}
    script: bytes | None = None
    files: dict[str, bytes] = {}
    token: str = ""
    _nested = {"run": Run, "job": Job}


class Wanted(Value):
    """What somebody wants of a job who spoke to another machine: an operation of the controller and its message.

    ``operator``: it counts as an operator's.
    """

    job_id: int
    id: str
    op: str
    message: dict[str, Any]
    operator: bool = False


@runtime_checkable
class KeepsJobs(Protocol):
    """A backend whose cluster holds the jobs: the index is a cache of them, and the history.

    Whatever is lost (process, state folder, machine), a controller that is allowed to order the cluster's jobs carries on from there. One
    machine orders them at a time; the others look on: they submit, show what the cluster tells, and note there what is wanted of jobs.
    """

    @property
    def place(self) -> str:
        """What tells its jobs from those of any other place, under whatever name that is configured; "": not known yet."""

    @property
    def orders(self) -> bool:
        """Whether this machine orders the jobs."""

    async def ordering(self) -> None:
        """Returns when this machine orders the jobs, and all that the cluster holds is known."""

    async def accept(self, job: Job, handed_in: Mapping[str, Any], script: bytes | None, spool: str) -> int:
        """The id under which the cluster holds the job, with all that any controller needs to run it: from now on it is accepted.

        ``handed_in`` names the submission by its ``token``; one that was accepted before gives the id of then. Raises BackendError: the job
        is not accepted, or nobody knows; the same submission may be repeated.
        """

    def keep(self, job: Job) -> None:
        """The job as it has just been committed: the cluster is told soon. After its end the cluster need not hold it any more."""

    async def written(self, job_ids: Sequence[int]) -> None:
        """Returns when the cluster has these jobs as they were committed last. BackendError: it does not have them yet, and will be told."""

    async def kept(self) -> list[Kept]:
        """The jobs that the cluster holds and that were never told by ``accept`` or ``keep``. BackendError.

        One that has ended is to be recorded as it is, and then told by ``keep``.
        """

    async def shown(self, known: Sequence[Job]) -> list[Job]:
        """Those of these jobs of the index that the cluster tells otherwise, as it tells them: what other machines have done. BackendError."""

    async def handed_in(self, job: Job) -> Kept:
        """A job that was submitted elsewhere, with all that its start needs. BackendError."""

    @property
    def operates(self) -> bool:
        """Whether this user is an operator of what others have submitted."""

    async def want(self, job_id: int, op: str, message: Mapping[str, Any], *, done: bool = False) -> bool:
        """Notes in the cluster what is wanted of a job; whether the machine that orders it has seen to it within a moment.

        ``done``: this one has, and another that takes over has to see to it again. BackendError: it is not noted, or nobody knows.
        """

    def wanted(self) -> list[Wanted]:
        """What was noted by others and nobody has seen to. ``see_to`` says that it is done, and committed."""

    def see_to(self, wanted: Wanted) -> None:
        """See ``wanted``."""

    async def take_up(self, run: Run) -> None:
        """The run's job is in the index by now: it is followed from the beginning of its journal, if it was started."""
