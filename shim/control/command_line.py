"""A command line read before it is known which cluster it is for: its ``-M``, ``-p`` and dependency, or all options of a submission."""

from __future__ import annotations

import os
import sys
from time import time

from shim.control import site
from shim.core import script
from shim.core.errors import ShimError
from shim.core.options import value_parsing, values
from shim.core.routing import HIGHEST_REAL, SUBMITTING
from shim.job import capped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.options.sources import Settings


def routing_options(program: str, argv: Sequence[str]) -> tuple[str, str, str]:
    """Two comma lists, of clusters and of partitions, and the dependency, from options, variables and the script's directives.

    A step in a job that is known (``srun --jobid``) asks for that job's cluster.
    A command line with options that are not known here (a real Slurm may be newer) is searched for these two.
    """
    try:
        if program not in SUBMITTING:
            from shim.core.options import query_options

            return query_options.read(program, argv, os.environ)[0].get("clusters", ""), "", ""
        settings, _, _ = read(program, argv)
        clusters = settings.get("clusters") or ""
        if program == "srun" and not clusters and settings.get("jobid"):
            clusters = _cluster_of(settings.get("jobid"))
        return clusters, settings.get("partition") or "", settings.get("dependency") or ""
    except (ShimError, value_parsing.PrintAndExit, KeyError):
        return (
            found_in(argv, "--clusters", "-M"),
            found_in(argv, "--partition", "-p"),
            found_in(argv, "--dependency", "-d"),
        )


def refuse_mixed(clusters: str) -> None:
    """ShimError for a ``-M`` that names both clusters of ours and real Slurms: nobody could compare them."""
    backends = site.backends()
    named = [name for name in clusters.split(",") if name in backends]
    real = [name for name in named if backends[name] == "slurm"]
    if real and len(real) < len(named):
        raise ShimError(f"error: --clusters={clusters}: {real[0]} is a real Slurm, which can only be named alone")


def refuse_foreign(dependency: str, cluster: str, option: str = "--dependency") -> None:
    """ShimError for a dependency of a job on a real Slurm on one of ours: that one would take it for ended long ago.

    ``option``: what it was asked by.
    """
    from shim.control import paths
    from shim.control.index.reader import open_reader

    numbers = "".join([character if character.isdigit() else " " for character in dependency]).split()
    ids = [int(number) for number in numbers if int(number) > HIGHEST_REAL]
    reader = open_reader(paths.index_path()) if ids else None
    for job_id in ids:
        job = reader.job(None, job_id) if reader is not None else None
        if job is not None:
            raise ShimError(
                f"error: {option}={dependency}: job {job_id} is on {job.cluster}, of which {cluster} knows nothing"
            )


def read(program: str, argv: Sequence[str], *, stdin: bool = True) -> tuple[Settings, list[str], str | None]:
    """A submission's options from all their sources, the words that are none, and the path of the batch script, if it has one. Of a
    heterogeneous job these are the first component's: all of it goes to one cluster.

    ``stdin``: a script on standard input may be read, and is put back. ShimError for what Slurm 22.05 would refuse.
    """
    from shim.core.options.sources import COMMAND_LINE, Reading, first_pass, put_environment

    context = values.Context(time(), os.getuid(), capped.text, site.grammar())
    if program != "sbatch":
        found, words = first_pass(program, argv, context)
        reading = Reading(program, context)
        put_environment(reading, os.environ)
        reading.put_all(found, COMMAND_LINE)
        return reading.settings(), words, None
    from shim.core.options.batch import command_line as components_of
    from shim.core.options.batch import settle

    parts, words = components_of(argv, context)
    text, path = None, None
    if not any(option.field == "wrap" for part in parts for option, _ in part):
        chdir = [value for part in parts for option, value in part if option.field == "chdir"]
        path = _path(words[0], chdir[-1] or "" if chdir else os.getcwd()) if words else None
        data = bytes_of(path) if path else standard_input() if stdin and not words else None
        text = script.text_of(data) if data is not None else None
    name = words[0] if words else "stdin"
    return settle(context, parts, os.environ, text, name, lambda settings: settings)[0], words, path


def _cluster_of(job_id: int) -> str:
    """The cluster of the job with this id, ours or a real Slurm's; "" for one that is not known."""
    from shim.control import paths
    from shim.control.index.reader import open_reader

    reader = open_reader(paths.index_path())
    if reader is None:
        return ""
    own = reader.job(None, job_id)
    found = [own] if own is not None else reader.passed_jobs([job_id])
    return found[-1].cluster if found else ""


def found_in(argv: Sequence[str], long: str, short: str) -> str:
    """The last value of an option among words that cannot be read as a whole; "" for none."""
    value = ""
    for number, word in enumerate(argv):
        if word in (long, short):
            value = argv[number + 1] if number + 1 < len(argv) else ""
        elif word.startswith(long + "="):
            value = word[len(long) + 1 :]
        elif word.startswith(short) and word != short:
            value = word[len(short) :]
    return value


def _path(name: str, directory: str) -> str | None:
    """The batch script of that name, as sbatch finds it; None if there is none."""
    for path in (*script.candidates(name, directory, os.environ.get("PATH", "")), name):
        if os.path.exists(path) and not os.path.isdir(path):
            return path
    return None


def bytes_of(path: str) -> bytes:
    """The script in the file; empty where that cannot be read, which the command that gets it will say.

    Of a pipe (``sbatch <(…)``) too: what is read here would be gone.
    """
    if not os.path.isfile(path):
        return b""
    try:
        return capped.start_of(path)
    except OSError:
        return b""


def standard_input() -> bytes:
    """All of standard input, as far as a script may go. It is put back: whoever reads it next reads it again."""
    data = capped.start(sys.stdin.buffer if sys.stdin is not None else None)
    put_back(data)
    return data


def put_back(data: bytes) -> None:
    """Makes ``data`` the whole of standard input."""
    kept = os.memfd_create("script", os.MFD_CLOEXEC)
    with open(kept, "wb") as file:
        file.write(data)
        file.flush()
        file.seek(0)
        os.dup2(kept, 0, inheritable=True)
