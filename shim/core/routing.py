"""Which cluster a command line is for: pure, and the first thing every command decides.

Order: the job that the command runs in (``srun`` in a job of ours; everything in a job of a real Slurm), ``-M``, the
partition's cluster, the default cluster. A real Slurm gets the command line as it is; only a ``-M`` that names the cluster as
it is called here, and not there, is taken out.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping, Optional, Sequence, Tuple

    # What an invocation asks for by -M and -p, from its options, variables and directives: two comma lists.
    Asked = Callable[[], Tuple[str, str]]

HIGHEST_REAL = 67108863  # no real Slurm gives out a higher job id
SUBMITTING = ("sbatch", "srun", "salloc")
# In an allocation of ours these speak to the job's own leader.
OF_THE_JOB = ("srun", "sattach", "sbcast", "sstat")


class ClusterRef:
    """A cluster as far as routing looks at it. ``real_name``: what a real Slurm calls itself ("" = not known)."""

    __slots__ = ("backend", "conf", "folder", "name", "partitions", "real_name", "skypilot", "timeout")

    def __init__(
        self,
        name: str,
        backend: str,
        partitions: Sequence[str] = (),
        folder: str = "",
        conf: str = "",
        real_name: str = "",
        skypilot: bool = False,
        timeout: float = 10,
    ) -> None:
        self.name = name
        self.backend = backend
        self.partitions = partitions
        self.folder = folder  # of the real commands; "" = found on PATH
        self.conf = conf  # SLURM_CONF for them; "" = as it is
        self.real_name = real_name
        self.skypilot = skypilot
        self.timeout = timeout  # seconds that its answer is waited for where several clusters are asked

    @property
    def real(self) -> bool:
        """Whether a real Slurm runs this cluster's jobs."""
        return self.backend == "slurm"


class Route:
    """Where a command line goes that a real Slurm answers: the cluster, the arguments, variables that are not passed on."""

    __slots__ = ("argv", "dropped", "in_job", "ref")

    def __init__(
        self, ref: ClusterRef, argv: Sequence[str], dropped: Sequence[str] = (), *, in_job: bool = False
    ) -> None:
        self.ref = ref
        self.argv = argv
        self.dropped = dropped
        self.in_job = in_job


def route(
    program: str, argv: Sequence[str], environ: Mapping[str, str], refs: Sequence[ClusterRef], asked: Asked
) -> Optional[Route]:
    """The real Slurm that answers, or None: the command is ours. ``refs``: all clusters, the default one first.

    ``asked`` is called only where there is a choice: it may have to read the script.
    """
    if own_job(environ) and program in OF_THE_JOB:
        return None
    if real_job(environ):
        return _in_real_job(program, argv, environ, refs, asked)
    if not any(ref.real for ref in refs):
        return None
    if len(refs) == 1:
        return _as_named(program, argv, environ, refs[0])
    if program not in SUBMITTING:
        return None  # they show, or look through, all clusters
    if own_job(environ):  # what it submits goes where it is itself
        refs = sorted(refs, key=lambda ref: ref.name != environ.get("SLURM_CLUSTER_NAME"))
    ref = chosen(refs, *asked())
    return _as_named(program, argv, environ, ref) if ref is not None and ref.real else None


def own_job(environ: Mapping[str, str]) -> bool:
    """Whether this runs in an allocation of ours: the run's folder is named JOB.RESTARTS."""
    run_dir = environ.get("SHIM_RUN_DIR", "")
    return bool(run_dir) and run_dir.rpartition("/")[2].partition(".")[0] == environ.get("SLURM_JOB_ID")


def real_job(environ: Mapping[str, str]) -> bool:
    """Whether this runs in a job, or in salloc's allocation, of a real Slurm. SLURM_JOB_ID alone may be the user's own wish."""
    return "SLURM_JOB_ID" in environ and "SLURM_JOB_NODELIST" in environ and not own_job(environ)


def chosen(refs: Sequence[ClusterRef], clusters: str, partition: str) -> Optional[ClusterRef]:
    """The cluster of a submission by its ``-M`` and ``-p``; None for a name that no cluster here has and no real Slurm could know."""
    default = refs[0]
    if clusters:
        names = clusters.split(",")
        for ref in refs:
            if ref.name in names:
                return ref
        return default if default.real else None
    for name in partition.split(",") if partition else ():
        for ref in refs:
            if name in ref.partitions:
                return ref
    if partition and not default.real and default.partitions:
        # No cluster lists it: a real Slurm whose partitions are not listed here may have it.
        for ref in refs:
            if ref.real and not ref.partitions:
                return ref
    return default


def _in_real_job(
    program: str, argv: Sequence[str], environ: Mapping[str, str], refs: Sequence[ClusterRef], asked: Asked
) -> Optional[Route]:
    """That job's Slurm, unless ``-M`` names a cluster of ours."""
    ours = [ref.name for ref in refs if not ref.real]
    if ours and mentioned(argv, environ, ours) and any(name in ours for name in asked()[0].split(",")):
        return None
    return Route(place_of_job(environ, refs), argv, in_job=True)


def place_of_job(environ: Mapping[str, str], refs: Sequence[ClusterRef]) -> ClusterRef:
    """The configured cluster whose job this runs in; one without a name of ours where none fits."""
    real = [ref for ref in refs if ref.real]
    conf, name = environ.get("SLURM_CONF", ""), environ.get("SLURM_CLUSTER_NAME", "")
    for ref in real:
        if conf and ref.conf == conf:
            return ref
    for ref in real:
        if name and name in (ref.real_name, ref.name):
            return ref
    return real[0] if len(real) == 1 else ClusterRef(name or "slurm", "slurm")


def mentioned(argv: Sequence[str], environ: Mapping[str, str], names: Sequence[str]) -> bool:
    """Whether any of the names could be asked for: a quick look before options are read."""
    words = [*argv, *[value for name, value in environ.items() if name.endswith("_CLUSTERS")]]
    return any(name in word for name in names for word in words)


def _as_named(program: str, argv: Sequence[str], environ: Mapping[str, str], ref: ClusterRef) -> Route:
    """The route to ``ref`` without a ``-M`` that only we understand."""
    if ref.name == ref.real_name or not mentioned(argv, environ, [ref.name]):
        return Route(ref, argv)
    from shim.core.options.to_argv import without_cluster

    variables = [name for name in environ if name.endswith("_CLUSTERS") and environ[name] == ref.name]
    return Route(ref, without_cluster(program, argv, ref.name), variables)
