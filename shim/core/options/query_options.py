"""The options of the commands that look or act on jobs: squeue, scancel, sinfo, scontrol, sacct, sstat (22.05), in Slurm's order.

One row each: ``getopt.Row``.
"""

from __future__ import annotations

from shim.core.options.getopt import Table, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Mapping, Sequence, Tuple

    from shim.core.options.getopt import Row

    Rows = Tuple[Row, ...]
    _Base = Dict[str, str]
else:
    Row, _Base = dict, dict


_LAYOUT = "honoured: the layout v0.0.43, and no other one"  # of what 25.11 writes


# fmt: off
def _squeue() -> Rows:
    return (
        Row(name="accounts", short="A", takes="=names", env="SQUEUE_ACCOUNT", help="only jobs of these accounts"),
        Row(name="all", short="a", env="SQUEUE_ALL", help="hidden partitions too"),
        Row(name="array", short="r", env="SQUEUE_ARRAY", help="one line for each task of an array"),
        Row(name="array-unique", env="SQUEUE_ARRAY_UNIQUE", help="one line for each task of an array",
            support="inert: an array's waiting tasks are on one line unless -r is given"),
        Row(name="Format", short="O", takes="=fields", env="SQUEUE_FORMAT2",
            help="columns by name, as name[:width],..."),
        Row(name="format", short="o", takes="=letters", env="SQUEUE_FORMAT", help="columns, as %[[.]width]letter..."),
        Row(name="federation", env="SQUEUE_FEDERATION", help="all clusters of the federation",
            support="inert: no federation of clusters; -M and the default listing name clusters"),
        Row(name="help", help="this text"),
        Row(name="hide", help="no hidden partitions"),
        Row(name="iterate", short="i", takes="=seconds", help="say it again and again"),
        Row(name="jobs", short="j", takes="[=ids]", help="only these jobs"),
        Row(name="json", until="22.05", help="JSON output, of everything",
            support="honoured: the layout of Slurm 22.05 (v0.0.38), at 25.11 v0.0.43 of the jobs that the other options choose"),
        Row(name="json", since="25.11", takes="[=layout]", help="JSON output",
            support=_LAYOUT),
        Row(name="local", env="SQUEUE_LOCAL", help="this cluster only",
            support="inert: no federation of clusters"),
        Row(name="long", short="l", help="more columns"),
        Row(name="licenses", short="L", takes="=names", env="SQUEUE_LICENSES", help="only jobs with these licences"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=names"),
        Row(name="clusters", short="M", takes="=names", env="SLURM_CLUSTERS", help="the cluster to use"),
        Row(name="me", help="only jobs of the caller"),
        Row(name="name", short="n", takes="=names", env="SQUEUE_NAMES", help="only jobs with these names"),
        Row(name="noconvert", help="do not shorten amounts"),
        Row(name="node", spelling_of="nodelist", short="w", takes="=hosts"),
        Row(name="nodes", spelling_of="nodelist", short="w", takes="=hosts"),
        Row(name="nodelist", short="w", takes="=hosts", help="only jobs on these nodes"),
        Row(name="noheader", short="h", help="no header"),
        Row(name="partitions", short="p", takes="=names", env="SQUEUE_PARTITION", help="only these partitions"),
        Row(name="priority", short="P", env="SQUEUE_PRIORITY", help="one line for each partition of a pending job"),
        Row(name="qos", short="q", takes="=names", env="SQUEUE_QOS", help="only jobs of these QOS"),
        Row(name="reservation", short="R", takes="=name", help="only this reservation",
            support="honoured: there are none: no job has one"),
        Row(name="sib", spelling_of="sibling", env="SQUEUE_SIB"),
        Row(name="sibling", env="SQUEUE_SIBLING", help="jobs of other clusters too",
            support="inert: no federation of clusters"),
        Row(name="sort", short="S", takes="=fields", env="SQUEUE_SORT", help="order of the lines"),
        Row(name="start", help="when pending jobs are expected to start"),
        Row(name="steps", short="s", takes="[=ids]", help="steps instead of jobs"),
        Row(name="states", short="t", takes="=states", env="SQUEUE_STATES", help="only these states"),
        Row(name="usage", help="the options in brief"),
        Row(name="user", spelling_of="users", short="u", takes="=names"),
        Row(name="users", short="u", takes="=names", env="SQUEUE_USERS", help="only jobs of these users"),
        Row(name="verbose", short="v", help="say more; several times for still more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="yaml", until="22.05", help="YAML output, of everything",
            support="honoured: as --json"),
        Row(name="yaml", since="25.11", takes="[=layout]", help="YAML output",
            support=_LAYOUT),
    )


def _scancel() -> Rows:
    return (
        Row(name="account", short="A", takes="=names", env="SCANCEL_ACCOUNT", help="only jobs of these accounts"),
        Row(name="batch", short="b", env="SCANCEL_BATCH", help="signal the batch shell only"),
        Row(name="ctld", env="SCANCEL_CTLD", help="let the controller do the selection",
            support="inert: every signal goes through the controller"),
        Row(name="full", short="f", env="SCANCEL_FULL", help="signal the batch shell and all steps"),
        Row(name="help", help="this text"),
        Row(name="hurry", short="H", env="SCANCEL_HURRY", help="no stage-out",
            support="inert: no burst buffers whose files would be waited for"),
        Row(name="interactive", short="i", env="SCANCEL_INTERACTIVE", help="ask before each job"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=names"),
        Row(name="clusters", short="M", takes="=names", env="SLURM_CLUSTERS", help="the cluster to use"),
        Row(name="jobname", spelling_of="name", short="n", takes="=names"),
        Row(name="me", help="only jobs of the caller"),
        Row(name="name", short="n", takes="=names", env="SCANCEL_NAME", help="only jobs with these names"),
        Row(name="nodelist", short="w", takes="=hosts", help="only jobs on these nodes"),
        Row(name="partition", short="p", takes="=names", env="SCANCEL_PARTITION", help="only these partitions"),
        Row(name="qos", short="q", takes="=names", env="SCANCEL_QOS", help="only jobs of these QOS"),
        Row(name="quiet", short="Q", help="say less"),
        Row(name="reservation", short="R", takes="=name", help="only this reservation"),
        Row(name="sibling", takes="=name", help="jobs of other clusters too",
            support="honoured: as by a Slurm without a federation: `Not a valid federated job`"),
        Row(name="signal", short="s", takes="=signal", help="signal to send"),
        Row(name="state", short="t", takes="=states", env="SCANCEL_STATE", help="only jobs in these states"),
        Row(name="usage", help="the options in brief"),
        Row(name="user", short="u", takes="=names", env="SCANCEL_USER", help="only jobs of these users"),
        Row(name="verbose", short="v", env="SCANCEL_VERBOSE", help="say more; several times for still more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="wckey", takes="=key", env="SCANCEL_WCKEY", help="only jobs with this key"),
    )


def _sinfo() -> Rows:
    return (
        Row(name="all", short="a", env="SINFO_ALL", help="hidden partitions too"),
        Row(name="dead", short="d", help="only nodes that do not respond"),
        Row(name="exact", short="e", help="do not group nodes"),
        Row(name="federation", env="SINFO_FEDERATION", help="all clusters of the federation",
            support="inert: no federation of clusters; -M and the default listing name clusters"),
        Row(name="help", help="this text"),
        Row(name="hide", help="no hidden partitions"),
        Row(name="iterate", short="i", takes="=seconds", help="say it again and again"),
        Row(name="json", until="22.05", help="JSON output, of everything",
            support="honoured: the layout of Slurm 22.05 (v0.0.38); at 25.11 refused, as its layout is published nowhere"),
        Row(name="json", since="25.11", takes="[=layout]", help="JSON output",
            support="refused: the layout of its groups of nodes is published nowhere; scontrol show nodes has each node"),
        Row(name="local", env="SINFO_LOCAL", help="this cluster only",
            support="inert: no federation of clusters"),
        Row(name="long", short="l", help="more columns"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=names"),
        Row(name="clusters", short="M", takes="=names", env="SLURM_CLUSTERS", help="the cluster to use"),
        Row(name="nodes", short="n", takes="=hosts", help="only these nodes"),
        Row(name="noconvert", help="do not shorten amounts",
            support="inert: no amount is shortened, as by Slurm's own sinfo"),
        Row(name="noheader", short="h", help="no header"),
        Row(name="Node", short="N", help="one line for each node"),
        Row(name="format", short="o", takes="=letters", env="SINFO_FORMAT", help="columns, as %[[.]width]letter..."),
        Row(name="Format", short="O", takes="=fields", help="columns by name, as name[:width],..."),
        Row(name="partition", short="p", takes="=names", env="SINFO_PARTITION", help="only these partitions"),
        Row(name="responding", short="r", help="only nodes that respond",
            support="inert: every node responds"),
        Row(name="list-reasons", short="R", help="why nodes are down or drained"),
        Row(name="summarize", short="s", help="one line for each partition"),
        Row(name="sort", short="S", takes="=fields", env="SINFO_SORT", help="order of the lines"),
        Row(name="states", short="t", takes="=states", help="only these states"),
        Row(name="reservation", short="T", help="reservations instead of nodes",
            support="honoured: there are none, but on a real Slurm"),
        Row(name="usage", help="the options in brief"),
        Row(name="verbose", short="v", help="say more; several times for still more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="yaml", until="22.05", help="YAML output, of everything",
            support="honoured: as --json"),
        Row(name="yaml", since="25.11", takes="[=layout]", help="YAML output",
            support="refused: the layout of its groups of nodes is published nowhere; scontrol show nodes has each node"),
    )


def _scontrol() -> Rows:
    return (
        Row(name="all", short="a", env="SCONTROL_ALL", help="hidden records too"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=names"),
        Row(name="clusters", short="M", takes="=names", env="SLURM_CLUSTERS", help="the cluster to use"),
        Row(name="details", short="d", help="more of each record"),
        Row(name="federation", env="SCONTROL_FEDERATION", help="all clusters of the federation",
            support="inert: no federation of clusters; -M and the default listing name clusters"),
        Row(name="future", short="F", env="SCONTROL_FUTURE", help="nodes that do not exist yet too",
            support="inert: no nodes are kept for later (State=FUTURE)"),
        Row(name="help", short="h", help="this text"),
        Row(name="hide", help="no hidden partitions"),
        Row(name="json", since="25.11", takes="[=layout]", help="show jobs, nodes or partitions as JSON",
            support="honoured: at 25.11, of show jobs, nodes and partitions: the layout v0.0.43"),
        Row(name="local", env="SCONTROL_LOCAL", help="this cluster only",
            support="inert: no federation of clusters"),
        Row(name="oneliner", short="o", help="one line for each record"),
        Row(name="quiet", short="Q", help="say less",
            support="approximated: errors are not told; that something is not there is"),
        Row(name="sibling", env="SCONTROL_SIB SCONTROL_SIBLING", help="jobs of other clusters too",
            support="inert: no federation of clusters"),
        Row(name="uid", short="u", takes="=user", help="act as this user",
            support="refused: a command acts as who gives it"),
        Row(name="usage", short="h", help="the options in brief"),
        Row(name="verbose", short="v", help="say more; several times for still more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="yaml", since="25.11", takes="[=layout]", help="show jobs, nodes or partitions as YAML",
            support="honoured: as --json"),
    )


def _sacct() -> Rows:
    return (
        Row(name="allusers", short="a", help="jobs of all users"),
        Row(name="accounts", short="A", takes="=names", adds_up=True, help="only jobs of these accounts"),
        Row(name="allocations", short="X", help="no steps"),
        Row(name="brief", short="b", help="job, state and exit code only"),
        Row(name="batch-script", short="B", help="the scripts of the jobs that --jobs names"),
        Row(name="completion", short="c", help="the data of job completion",
            support="honoured: as by a Slurm without a job completion log: `Slurm job completion is disabled`"),
        Row(name="constraints", short="C", takes="=list", adds_up=True,
            help="only jobs that asked for these features"),
        Row(name="delimiter", takes="=text", help="what separates fields with -p and -P"),
        Row(name="duplicates", short="D", help="the runs before a requeue too"),
        Row(name="federation", env="SACCT_FEDERATION", help="all clusters of the federation",
            support="inert: no federation of clusters; -M and the default listing name clusters"),
        Row(name="helpformat", short="e", help="the names of all fields"),
        Row(name="help-fields", spelling_of="helpformat", short="e"),
        Row(name="endtime", short="E", takes="=time", help="only jobs before this time"),
        Row(name="env-vars", help="the environments of the jobs that --jobs names",
            support="refused: a job's variables are told to nobody"),
        Row(name="file", short="f", takes="=file", help="the data of job completion from this file",
            support="honoured: as by a Slurm without a job completion log: `Slurm job completion is disabled`"),
        Row(name="flags", short="F", takes="=list", help="only jobs that were scheduled in this way"),
        Row(name="gid", short="g", takes="=groups", adds_up=True, help="only jobs of these groups"),
        Row(name="group", spelling_of="gid", short="g", takes="=groups"),
        Row(name="help", short="h", help="this text"),
        Row(name="local", env="SACCT_LOCAL", help="this cluster only",
            support="inert: no federation of clusters"),
        Row(name="name", takes="=names", adds_up=True, help="only jobs with these names"),
        Row(name="nnodes", short="i", takes="=min[-max]", help="only jobs with so many nodes"),
        Row(name="ncpus", short="I", takes="=min[-max]", help="only jobs with so many CPUs"),
        Row(name="jobs", short="j", takes="=ids", adds_up=True, help="only these jobs"),
        Row(name="timelimit-min", short="k", takes="=time", help="only jobs with this time limit"),
        Row(name="timelimit-max", short="K", takes="=time", help="the longest time limit, with -k"),
        Row(name="long", short="l", help="more columns"),
        Row(name="allclusters", short="L", help="jobs of all clusters"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=names"),
        Row(name="clusters", short="M", takes="=names", help="the cluster to use"),
        Row(name="nodelist", short="N", takes="=hosts", help="only jobs on these nodes"),
        Row(name="noconvert", help="do not change units"),
        Row(name="units", takes="=unit", help="sizes in K, M, G, T or P"),
        Row(name="noheader", short="n", help="no header"),
        Row(name="fields", spelling_of="format", short="o", takes="=fields"),
        Row(name="format", short="o", takes="=fields", env="SACCT_FORMAT", adds_up=True,
            help="columns, as name[%[-]width],..."),
        Row(name="parsable", short="p", help="fields with a delimiter behind each"),
        Row(name="parsable2", short="P", help="fields with a delimiter between them"),
        Row(name="qos", short="q", takes="=names", adds_up=True, help="only jobs of these QOS"),
        Row(name="partition", short="r", takes="=names", adds_up=True, help="only these partitions"),
        Row(name="reason", takes="=list", adds_up=True, help="only jobs that waited for these reasons"),
        Row(name="state", short="s", takes="=states", adds_up=True, help="only jobs that were in these states"),
        Row(name="starttime", short="S", takes="=time", help="only jobs after this time; today unless said"),
        Row(name="truncate", short="T", help="cut times at the ends of the window"),
        Row(name="uid", spelling_of="user", short="u", takes="=names"),
        Row(name="use-local-uid", help="uids as this machine has them",
            support="inert: users are looked up on this machine anyway"),
        Row(name="usage", short="U", help="the options in brief"),
        Row(name="user", short="u", takes="=names", adds_up=True, help="only jobs of these users"),
        Row(name="verbose", short="v", help="say more; several times for still more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="wckeys", short="W", takes="=keys", adds_up=True, help="only jobs with these keys"),
        Row(name="whole-hetjob", takes="[=yes|no]", help="all parts of heterogeneous jobs"),
        Row(name="associations", short="x", takes="=ids", adds_up=True, help="only jobs of these associations"),
        Row(name="json", until="22.05", help="JSON output",
            support="honoured: the layout of Slurm 22.05 (dbv0.0.38), at 25.11 v0.0.43"),
        Row(name="json", since="25.11", takes="[=layout]", help="JSON output", support=_LAYOUT),
        Row(name="yaml", until="22.05", help="YAML output",
            support="honoured: as --json"),
        Row(name="yaml", since="25.11", takes="[=layout]", help="YAML output", support=_LAYOUT),
    )


def _sstat() -> Rows:
    return (
        Row(name="allsteps", short="a", help="all steps of the jobs that name none, the batch script too"),
        Row(name="helpformat", short="e", help="the names of all fields"),
        Row(name="help", short="h", help="this text"),
        Row(name="jobs", short="j", takes="=ids", adds_up=True, help="these jobs or steps: job[.step],..."),
        Row(name="noheader", short="n", help="no header"),
        Row(name="fields", spelling_of="format", short="o", takes="=fields"),
        Row(name="format", short="o", takes="=fields", adds_up=True, help="columns, as name[%[-]width],..."),
        Row(name="noconvert", help="sizes in bytes"),
        Row(name="pidformat", short="i", help="the processes of each step, by node"),
        Row(name="parsable", short="p", help="fields with a delimiter behind each"),
        Row(name="parsable2", short="P", help="fields with a delimiter between them"),
        Row(name="usage", help="the options in brief"),
        Row(name="verbose", short="v", help="say more; what is asked with -vv"),
        Row(name="version", short="V", help="print the version"),
    )


def _sbcast() -> Rows:
    return (
        Row(name="compress", short="C", takes="[=library]", env="SBCAST_COMPRESS", help="compress what is sent",
            support="approximated: it goes uncompressed; a library that there is none of is told of"),
        Row(name="exclude", takes="=paths", env="SBCAST_EXCLUDE", help="no libraries from these folders, or NONE"),
        Row(name="fanout", short="F", takes="=number", env="SBCAST_FANOUT", help="to how many at once",
            support="inert: the job's first node sends to all"),
        Row(name="force", short="f", env="SBCAST_FORCE", help="replace what is there"),
        Row(name="jobid", short="j", takes="=job[.step]", help="the job, or the step whose nodes are meant"),
        Row(name="send-libs", takes="[=yes|no]", env="SBCAST_SEND_LIBS", help="the program's libraries too"),
        Row(name="preserve", short="p", env="SBCAST_PRESERVE", help="keep modes and times"),
        Row(name="size", short="s", takes="=bytes", env="SBCAST_SIZE", help="bytes in a message",
            support="approximated: the size is read; messages are of 64 KiB"),
        Row(name="timeout", short="t", takes="=seconds", env="SBCAST_TIMEOUT", help="how long an answer is waited for",
            support="inert: a node that is gone is told by the job's first node"),
        Row(name="verbose", short="v", help="say more"),
        Row(name="help", help="this text"),
        Row(name="usage", help="the options in brief"),
        Row(name="version", short="V", help="print the version"),
    )


def _sattach() -> Rows:
    return (
        Row(name="help", short="h", help="this text"),
        Row(name="label", short="l", help="the task's number in front of each line"),
        Row(name="quiet", short="Q", help="say less",
            support="inert: nothing is said but errors"),
        Row(name="usage", short="u", help="the options in brief"),
        Row(name="verbose", short="v", help="say more; with -vv which step is meant"),
        Row(name="version", short="V", help="print the version"),
        Row(name="layout", help="only tell which task is where"),
        Row(name="input-filter", takes="=task", help="input for this task alone"),
        Row(name="output-filter", takes="=task", help="standard output of this task alone"),
        Row(name="error-filter", takes="=task", help="standard error of this task alone"),
        Row(name="pty", help="the step has a terminal: pass every key on"),
    )


def _seff() -> Rows:
    return (
        Row(name="help", short="h", help="this text"),
        Row(name="version", short="v", help="print the version"),
        Row(name="debug", short="d", help="what the figures are made of, first"),
    )


def _sprio() -> Rows:
    none = "inert: priority/basic has no factors to show"
    return (
        Row(name="federation", help="all clusters of the federation", support="inert: no federation of clusters"),
        Row(name="help", help="this text"),
        Row(name="noheader", short="h", help="no header"),
        Row(name="jobs", short="j", takes="[=ids]", help="only these jobs"),
        Row(name="local", help="only the local cluster", support="inert: no federation of clusters"),
        Row(name="long", short="l", help="more columns", support=none),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=names"),
        Row(name="clusters", short="M", takes="=names", env="SLURM_CLUSTERS", help="the cluster to use"),
        Row(name="norm", short="n", help="normalized values", support=none),
        Row(name="format", short="o", takes="=format", help="columns", support=none),
        Row(name="partition", short="p", takes="=names", help="only jobs of these partitions", support=none),
        Row(name="sibling", help="jobs of each cluster separately", support="inert: no federation of clusters"),
        Row(name="user", short="u", takes="=names", help="only jobs of these users"),
        Row(name="usage", help="the options in brief"),
        Row(name="verbose", short="v", help="say more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="weights", short="w", help="the weights of the factors", support=none),
    )


def _sdiag() -> Rows:
    return (
        Row(name="all", short="a", help="all statistics; what is shown anyway, and what takes --reset back"),
        Row(name="help", short="h", help="this text"),
        Row(name="reset", short="r", help="count from now on; for operators"),
        Row(name="sort-by-id", short="i", help="RPCs by number, users by uid"),
        Row(name="sort-by-time", short="t", help="RPCs and users by their total time"),
        Row(name="sort-by-time2", short="T", help="RPCs and users by their average time"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=name"),
        Row(name="clusters", short="M", takes="=name", env="SLURM_CLUSTERS", help="the cluster to use"),
        Row(name="usage", help="the options in brief"),
        Row(name="version", short="V", help="print the version"),
    )


# fmt: on
def _accounting(command: str) -> Callable[[], Rows]:
    def made() -> Rows:
        from shim.core.options import accounting_options

        rows: Rows = getattr(accounting_options, command)()
        return rows

    return made


def _scrontab() -> Rows:
    from shim.core.options import recurring_options

    return recurring_options.scrontab()


def _strigger() -> Rows:
    from shim.core.options import trigger_options

    return trigger_options.strigger()


# The options of a command are made when it runs, and no others.
ROWS: Dict[str, Callable[[], Rows]] = {
    "squeue": _squeue,
    "scancel": _scancel,
    "sinfo": _sinfo,
    "scontrol": _scontrol,
    "sacct": _sacct,
    "sstat": _sstat,
    "seff": _seff,
    "sprio": _sprio,
    "sdiag": _sdiag,
    "sacctmgr": _accounting("sacctmgr"),
    "sreport": _accounting("sreport"),
    "sshare": _accounting("sshare"),
    "scrontab": _scrontab,
    "strigger": _strigger,
    "sbcast": _sbcast,
    "sattach": _sattach,
}


_built: Dict[Tuple[str, bool], Table] = {}


def options_of(command: str, newer: bool = False) -> Table:
    """The table of ``command`` (squeue, scancel, sinfo, scontrol, sacct …), in Slurm's order. ``newer``: with what only 25.11 has."""
    table = _built.get((command, newer))
    if table is None:
        absent = "until" if newer else "since"
        table = _built[command, newer] = Table([row for row in ROWS[command]() if absent not in row])
    return table


class Values(_Base):
    """What was asked, by field. ``said``: what the command line says, in its order: field and value."""

    def __init__(self) -> None:
        super().__init__()
        self.said: List[Tuple[str, str]] = []

    def each(self, field: str) -> List[str]:
        """Every value that the command line has for ``field``."""
        return [value for name, value in self.said if name == field]

    def shows_all(self, naming: str) -> bool:
        """Whether hidden partitions are shown: of --all, --hide and ``naming``, which names partitions, the last one decides."""
        told = [name for name, _ in self.said if name in ("all", "hide", naming)]
        return told[-1] != "hide" if told else "all" in self or naming in self


def read(
    command: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    from_environment: bool = True,
    permute: bool = True,
    newer: bool = False,
) -> Tuple[Values, List[str]]:
    """What squeue, scancel, sinfo, scontrol, sacct … was asked: values by field, and the words that are no options.

    A flag and an optional value that was not given have the value ``""``. Of an option given several times the last value
    counts, except those that add up, whose values are one list, and ``verbose``, which has one ``v`` for each time. The
    command line wins over variables. UsageError (rc 1).

    ``squeue -j 5`` and ``-s 5.0``: these take a value only in attached form, so the 5 is among the words.
    """
    options = options_of(command, newer)
    found, words = parse(command, argv, options, permute=permute, code=1)
    values = Values()
    if from_environment:
        for row in options.rows:
            if "env" in row:
                for variable in options.variables(row):
                    if variable in environ:
                        values[row["name"]] = environ[variable] if row.get("takes") else ""
    for option, value in found:
        values.said.append((option.field, value or ""))
        if option.field == "verbose":
            values["verbose"] = values.get("verbose", "") + "v"
        else:
            values[option.field] = value or ""
    for row in options.rows:
        if "adds_up" in row and len(values.each(row["name"])) > 1:
            values[row["name"]] = ",".join(values.each(row["name"]))
    return values, words
