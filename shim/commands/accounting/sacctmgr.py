"""sacctmgr: clusters, users, accounts, associations and QOS as the configuration and the jobs have them. Nothing can be changed."""

from __future__ import annotations

import os
import sys

from shim.commands import output, prompt, real_slurm, site_view
from shim.commands.accounting import listing
from shim.core.accounting import tables
from shim.core.errors import ShimError, Unsupported, plain
from shim.core.options.query_options import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.core.accounting.associations import Record, Site
    from shim.core.accounting.tables import Asked, Entity
    from shim.core.options.query_options import Values

_PROGRAM = "sacctmgr"
# Verbs with the fewest letters that are understood. What changes something here is nothing that could be changed.
_VERBS = (
    ("add", 3), ("archive", 3), ("associations", 3), ("clear", 3), ("create", 3), ("delete", 3), ("dump", 3), ("exit", 1), ("help", 2),
    ("list", 3), ("load", 2), ("modify", 1), ("oneliner", 1), ("parsable", 4), ("parsable2", 9), ("ping", 3), ("quiet", 4), ("quit", 4),
    ("readonly", 4), ("reconfigure", 4), ("remove", 3), ("show", 3), ("shutdown", 4), ("verbose", 4), ("version", 4),
)  # fmt: skip
_CHANGES = (
    "add", "archive", "clear", "create", "delete", "dump", "load", "modify", "reconfigure", "remove", "shutdown",
)  # fmt: skip
_FLAGS = ("associations", "oneliner", "parsable", "parsable2", "quiet", "readonly", "verbose")
_UNKNOWN = """No valid entity in list command
Input line must include "Account", "Association", "Cluster", "Configuration",
"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",
"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey\""""
# What only a database has: entities with their fewest letters.
_OF_A_DATABASE = {
    ("configuration", 2): "there is no slurmdbd, and `scontrol show config` shows the rest",
    ("events", 1): "it is not recorded when nodes were down",
    ("stats", 1): "there is no slurmdbd; `sdiag` shows what the controller has done",
    ("transactions", 1): "no database is changed",
}
_ASK = """You requested options that are only valid when querying with the withassoc option.
Are you sure you want to continue? (You have 30 seconds to decide)"""


class _Run:
    """One run: the options as they are, and whether it is over."""

    def __init__(self, values: Values, argv: Sequence[str]) -> None:
        self.argv = argv
        self.over = False
        self.values = values

    def set_flag(self, name: str) -> None:
        """Executes the verbs that set options."""
        self.values[name] = ""
        self.values.said.append((name, ""))


def main(argv: list[str]) -> int:
    """Runs sacctmgr; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    run = _Run(values, argv)
    clusters = listing.kept_clusters()
    real = site_view.real_clusters()
    if not clusters and not real:
        raise listing.no_database()
    if words:
        return _perform(run, words)
    return prompt.converse(_PROGRAM, lambda words: _perform(run, words), lambda: run.over)


def _verb_of(word: str) -> str:
    lower = word.lower()
    return next((verb for verb, least in _VERBS if len(lower) >= least and verb.startswith(lower)), "")


def _perform(run: _Run, words: list[str]) -> int:
    verb = _verb_of(words[0])
    if not verb:
        raise ShimError(plain(f"invalid keyword: {words[0]}"))
    if verb in ("exit", "quit"):
        run.over = True
    elif verb in ("help", "version"):
        site_view.print_help(_PROGRAM, {verb: ""})
    elif verb in _FLAGS:
        run.set_flag(verb)
    elif verb in _CHANGES:
        return _change(run, verb, words)
    elif verb == "ping":
        raise Unsupported("error: ping is not supported here: there is no slurmdbd")
    else:
        return _list(run, words)
    return 0


def _change(run: _Run, verb: str, words: list[str]) -> int:
    """What one real Slurm's database may be asked for; here there is none that could be changed."""
    real = site_view.real_clusters()
    if len(real) == 1 and not listing.kept_clusters():
        return real_slurm.run(_PROGRAM, real[0], run.argv)
    what = " ".join(words[:2]) if len(words) > 1 and "=" not in words[1] else verb
    raise Unsupported(
        f"error: {what}: not supported here: there is no accounting database; accounts and QOS are those that jobs and partitions name,"
        " users those of this machine"
    )


def _list(run: _Run, words: list[str]) -> int:
    word = words[1].lower() if len(words) > 1 else ""
    if word and "runawayjobs".startswith(word) and len(word) > 1:
        output.put([f"Runaway Jobs: No runaway jobs found on cluster {one.name}" for one in listing.kept_clusters()])
        return 0
    for (name, least), why in _OF_A_DATABASE.items():
        if len(word) >= least and name.startswith(word):
            raise Unsupported(f"error: {words[0]} {words[1]}: not supported here: {why}")
    entity = tables.entity_of(word) if word else None
    if entity is None:
        raise ShimError(plain(_UNKNOWN))
    header = "noheader" not in run.values
    clusters = listing.kept_clusters()
    real = site_view.real_clusters()
    if clusters and not _show(run, entity, listing.site(clusters), words[2:], header=header):
        return 0
    if not real:
        return 0
    asked = real_slurm.ClusterQuery(_PROGRAM, run.argv, real, header=header and not clusters)
    return real_slurm.print_answers(asked, None, found=False)


def _show(run: _Run, entity: Entity, site: Site, words: Sequence[str], *, header: bool) -> bool:
    """Prints the table; whether it was wanted after all."""
    wanted = tables.asked(entity, words, {"QOS": site.qos})
    if "associations" in run.values and entity.associated:
        wanted = wanted.replace(flags=(*wanted.flags, "withassoc"))
    if wanted.associated and "withassoc" not in wanted.flags and "immediate" not in run.values and not _sure():
        return False
    shown = tables.columns(entity, wanted)
    listing.put(run.values, shown, _rows(entity, site, wanted), header=header)
    return True


def _sure() -> bool:
    output.put([*_ASK.split("\n")])
    while True:
        sys.stdout.write("(N/y): ")
        sys.stdout.flush()
        answer = sys.stdin.readline() if sys.stdin is not None else ""
        output.put([""] if sys.stdin is None or not sys.stdin.isatty() else [])
        if answer[:1] in ("y", "Y"):
            return True
        if not answer or answer[:1] in ("n", "N", "\n"):
            output.put(["Aborted"])
            return False
        output.put(["Y or N please"])


def _rows(entity: Entity, site: Site, wanted: Asked) -> list[Record]:
    """The records that are asked for, in the order in which Slurm lists them."""
    if entity.name == "associations":
        return _associations(site, wanted)
    records = {
        "accounts": site.account_records,
        "clusters": site.clusters,
        "qos": site.qos_records,
        "tres": site.tres,
        "users": site.user_records,
        "wckeys": site.wckeys,
    }.get(entity.name, list)()
    rows = tables.fitting(records, wanted.conditions)
    if "withassoc" not in wanted.flags:
        return rows
    by = "User" if entity.name == "users" else "Account"
    associations = [one for one in site.associations() if by == "Account" or one["User"]]
    return tables.with_associations(rows, by, tables.fitting(associations, wanted.associated))


def _associations(site: Site, wanted: Asked) -> list[Record]:
    found = tables.fitting(site.associations(), wanted.conditions)
    if "onlydefaults" in wanted.flags:
        found = [one for one in found if one["User"] and one["Account"] == one["User"]]
    if "wopinfo" in wanted.flags:  # what comes from the account above
        found = [
            one if one["ParentID"] == "0" else {**one, "QOS": "", "QOS_RAW": "", "ParentName": ""} for one in found
        ]
    return tables.as_tree(found) if "tree" in wanted.flags else found
