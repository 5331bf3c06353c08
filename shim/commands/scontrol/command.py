"""scontrol: records of jobs, nodes and partitions, and changes to jobs. One command per line without arguments."""

from __future__ import annotations

import os

from shim.commands import output, site_view
from shim.commands.scontrol.session import ACTIONS, PROGRAM, Session
from shim.control import site
from shim.core.errors import ShimError, Unsupported, plain
from shim.core.options.query_options import read

# Verbs with the fewest letters that are understood, in the order in which Slurm tries them.
_VERBS = (
    ("abort", 5),
    ("all", 3),
    ("cancel_reboot", 3),
    ("completing", 3),
    ("cluster", 3),
    ("create", 3),
    ("delete", 3),
    ("details", 3),
    ("errnumstr", 3),
    ("exit", 3),
    ("fsdampeningfactor", 3),
    ("help", 2),
    ("hide", 2),
    ("hold", 3),
    ("holdu", 5),
    ("uhold", 5),
    ("listpids", 2),
    ("notify", 1),
    ("oneliner", 1),
    ("pidinfo", 3),
    ("ping", 3),
    ("quiet", 4),
    ("quit", 4),
    ("reboot", 3),
    ("reconfigure", 3),
    ("release", 3),
    ("requeue", 3),
    ("requeuehold", 8),
    ("resume", 3),
    ("setdebug", 2),
    ("setdebugflags", 9),
    ("schedloglevel", 3),
    ("show", 3),
    ("shutdown", 8),
    ("suspend", 2),
    ("takeover", 8),
    ("token", 3),
    ("top", 3),
    ("update", 1),
    ("verbose", 4),
    ("version", 4),
    ("wait_job", 2),
    ("write", 5),
)
_FLAGS = {"all": "all", "hide": "hide", "details": "details", "oneliner": "oneliner", "quiet": "quiet"}


_ALONE = ("details", "help", "oneliner", "ping", "quiet", "verbose", "version")  # take no words


def main(argv: list[str]) -> int:
    """Runs scontrol; its exit code."""
    newer = site_view.has_newer_options(argv)
    values, words = read(PROGRAM, argv, os.environ, newer=newer)
    if site_view.print_help(PROGRAM, values):
        return 0
    site_view.refuse_options(PROGRAM, values, newer)
    session = Session(values, argv)
    if site_view.is_document(values):
        from shim.commands import documents

        documents.clusters(values, values.get("clusters"))
        session.document = documents.asked_for(PROGRAM, argv, values)
    if not words:
        from shim.commands import prompt

        session.interactive = True
        return prompt.converse(PROGRAM, lambda words: _perform(session, words), lambda: session.over)
    try:
        return _perform(session, words)
    except ShimError as error:
        if "quiet" in values and verb_of(words[0]) is not None:
            return error.code
        raise


def verb_of(word: str) -> str | None:
    """The verb that ``word`` names or abbreviates."""
    lower = word.lower()
    for verb, least in _VERBS:
        if len(lower) >= least and verb.startswith(lower):
            return verb
    return None


def _perform(session: Session, words: list[str]) -> int:
    verb = verb_of(words[0])
    if verb is None:
        raise ShimError(plain(f"invalid keyword: {words[0]}"))
    if verb in ("exit", "quit"):
        session.over = True
        return 0
    if session.document is not None and verb != "show":
        raise Unsupported(f"error: {verb} is not supported here with --json or --yaml")
    if any(ref.real for ref in site.cluster_refs()):
        from shim.commands.scontrol import real_slurm, show

        entity = show.entity_of(words[1]) if verb == "show" and len(words) > 1 else None
        code = real_slurm.done(session, verb, words, entity)
        if code is not None:
            return code
    if len(words) > 1 and verb in _ALONE:
        what = f"{verb} keyword" if verb in ("verbose", "version") else f"keyword:{verb}"
        output.say("", f"too many arguments for {what}")
        if verb in ("help", "version"):
            _simple(verb, [])
        return 1
    if verb == "show":
        from shim.commands.scontrol import show

        return show.show(session, words[1:])
    if verb == "update":
        from shim.commands.scontrol import update

        return update.update(session, words[1:])
    if verb in ACTIONS:
        from shim.commands.scontrol import actions

        return actions.act(session, verb, words[1:])
    if verb in _FLAGS or verb == "verbose":
        session.set_flag(verb)
        return 0
    return _simple(verb, words[1:])


def _simple(verb: str, words: list[str]) -> int:
    from shim.commands.scontrol import verbs

    do = verbs.VERBS.get(verb)
    if do is None:
        raise Unsupported(f"error: {verb} is not supported here")
    return do(words)
