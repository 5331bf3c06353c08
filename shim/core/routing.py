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


class Place:
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
    """Where a command line goes that a real Slurm answers: the place, the arguments, variables that are not passed on."""

    __slots__ = ("argv", "dropped", "in_job", "place")

    def __init__(self, place: Place, argv: Sequence[str], dropped: Sequence[str] = (), *, in_job: bool = False) -> None:
        self.place = place
        self.argv = argv
        self.dropped = dropped
        self.in_job = in_job


def route(
    program: str, argv: Sequence[str], environ: Mapping[str, str], places: Sequence[Place], asked: Asked
) -> Optional[Route]:
    """The real Slurm that answers, or None: the command is ours. ``places``: all clusters, the default one first.

    ``asked`` is called only where there is a choice: it may have to read the script.
    """
    if own_job(environ) and program in OF_THE_JOB:
        return None
    if real_job(environ):
        return _in_real_job(program, argv, environ, places, asked)
    if not any(place.real for place in places):
        return None
    if len(places) == 1:
        return _as_named(program, argv, environ, places[0])
    if program not in SUBMITTING:
        return None  # they show, or look through, all clusters
    if own_job(environ):  # what it submits goes where it is itself
        places = sorted(places, key=lambda place: place.name != environ.get("SLURM_CLUSTER_NAME"))
    place = chosen(places, *asked())
    return _as_named(program, argv, environ, place) if place is not None and place.real else None


def own_job(environ: Mapping[str, str]) -> bool:
    """Whether this runs in an allocation of ours: the run's folder is named JOB.RESTARTS."""
    run_dir = environ.get("SHIM_RUN_DIR", "")
    return bool(run_dir) and run_dir.rpartition("/")[2].partition(".")[0] == environ.get("SLURM_JOB_ID")


def real_job(environ: Mapping[str, str]) -> bool:
    """Whether this runs in a job, or in salloc's allocation, of a real Slurm. SLURM_JOB_ID alone may be the user's own wish."""
    return "SLURM_JOB_ID" in environ and "SLURM_JOB_NODELIST" in environ and not own_job(environ)


def chosen(places: Sequence[Place], clusters: str, partition: str) -> Optional[Place]:
    """The place of a submission by its ``-M`` and ``-p``; None for a name that no cluster here has and no real Slurm could know."""
    default = places[0]
    if clusters:
        names = clusters.split(",")
        for place in places:
            if place.name in names:
                return place
        return default if default.real else None
    for name in partition.split(",") if partition else ():
        for place in places:
            if name in place.partitions:
                return place
    if partition and not default.real and default.partitions:
        # No cluster lists it: a real Slurm whose partitions are not listed here may have it.
        for place in places:
            if place.real and not place.partitions:
                return place
    return default


def _in_real_job(
    program: str, argv: Sequence[str], environ: Mapping[str, str], places: Sequence[Place], asked: Asked
) -> Optional[Route]:
    """That job's Slurm, unless ``-M`` names a cluster of ours."""
    ours = [place.name for place in places if not place.real]
    if ours and mentioned(argv, environ, ours) and any(name in ours for name in asked()[0].split(",")):
        return None
    return Route(place_of_job(environ, places), argv, in_job=True)


def place_of_job(environ: Mapping[str, str], places: Sequence[Place]) -> Place:
    """The configured cluster whose job this runs in; one without a name of ours where none fits."""
    real = [place for place in places if place.real]
    conf, name = environ.get("SLURM_CONF", ""), environ.get("SLURM_CLUSTER_NAME", "")
    for place in real:
        if conf and place.conf == conf:
            return place
    for place in real:
        if name and name in (place.real_name, place.name):
            return place
    return real[0] if len(real) == 1 else Place(name or "slurm", "slurm")


def mentioned(argv: Sequence[str], environ: Mapping[str, str], names: Sequence[str]) -> bool:
    """Whether any of the names could be asked for: a quick look before options are read."""
    words = [*argv, *[value for name, value in environ.items() if name.endswith("_CLUSTERS")]]
    return any(name in word for name in names for word in words)


def _as_named(program: str, argv: Sequence[str], environ: Mapping[str, str], place: Place) -> Route:
    """The route to ``place`` without a ``-M`` that only we understand."""
    if place.name == place.real_name or not mentioned(argv, environ, [place.name]):
        return Route(place, argv)
    from shim.core.options.to_argv import without_cluster

    variables = [name for name in environ if name.endswith("_CLUSTERS") and environ[name] == place.name]
    return Route(place, without_cluster(program, argv, place.name), variables)
