"""sprio: the factors of jobs' priorities, of which priority/basic has none: said as Slurm's says it."""

from __future__ import annotations

import os

from shim.commands import output, real_slurm, site_view
from shim.core.errors import ShimError, plain
from shim.core.options.query_options import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.options.query_options import Values

_PROGRAM = "sprio"
_NO_FACTORS = (
    "You are not running a supported priority plugin\n(priority/basic).\nOnly 'priority/multifactor' is supported."
)
_BRIEF = """Usage: sprio [-j jid[s]] [-u user_name[s]] [-o format] [-p partitions]
   [--federation] [--local] [--sibling] [--usage] [-hlnvVw]"""


def main(argv: list[str]) -> int:
    """Runs sprio; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    _check(values, words)
    real = site_view.real_clusters(site_view.chosen_clusters(values.get("clusters")))
    header = "noheader" not in values
    if real:  # ours have nothing to show beside
        asked = real_slurm.ClusterQuery(_PROGRAM, argv, real, header=header, each=True)
        return real_slurm.print_answers(asked, None, found=False)
    for name in values.get("user", "").split(","):
        if name and site_view.uid_of(name) is None:
            output.say(_PROGRAM, f"error: Invalid user: {name}\n")
    if "verbose" in values:
        from shim.commands import verbose_options

        output.put(verbose_options.sprio(values, values["jobs"] or "".join(words[:1]) if "jobs" in values else None))
    raise ShimError(plain(_NO_FACTORS))


def _check(values: Values, words: list[str]) -> None:
    """ShimError for words that are no jobs, or that nothing asked for."""
    jobs = values.get("jobs")
    if jobs == "" and words:  # -j takes the word behind it
        jobs, words = words[0], words[1:]
    for one in (jobs or "").split(","):
        if one and not (one.isascii() and one.isdigit() and int(one)):
            raise ShimError(f"error: Invalid job id: {one}")
    if words:
        output.put(_BRIEF.split("\n"))
        raise ShimError(f"error: Unrecognized option: {words[0]}")
