"""scontrol: records of jobs, nodes and partitions, and changes to jobs. One command per line without arguments."""

from __future__ import annotations

import os
import sys

from shim.commands import reading
from shim.commands.scontrol_session import ACTIONS, PROGRAM, Session
from shim.control import site
from shim.core import memo
from shim.core.errors import (
    ACCESS_DENIED,
    ALREADY_DONE,
    DEPENDENCY_PROBLEM,
    INVALID_JOB_ID,
    INVALID_PARTITION_NAME,
    ShimError,
    Unsupported,
    plain,
)
from shim.core.options.query_options import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
    values, _ = read(PROGRAM, argv, os.environ)
    if reading.answered(PROGRAM, values):
        return 0
    reading.refuse(PROGRAM, values)
    session = Session(values, argv)
    _, words = read(PROGRAM, argv, {})
    if not words:
        return _interactive(session)
    try:
        return _perform(session, words)
    except ShimError as error:
        if "quiet" in values and verb_of(words[0]) is not None:
            return error.code
        raise


def _interactive(session: Session) -> int:
    """Reads commands until exit, quit or the end of the input; 1 if one of them failed."""
    session.interactive = True
    code = 0
    last: list[str] = []
    while not session.over:
        sys.stdout.write(f"{PROGRAM}: ")
        sys.stdout.flush()
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line or not sys.stdin.isatty():
            sys.stdout.write(line or "\n")  # as readline shows what it read where nobody types
        if not line:
            break
        words = _split(line)
        if words == ["!!"]:
            words = last
        if not words:
            continue
        last = words
        memo.renew()
        try:
            code = _perform(session, words) or code
        except ShimError as error:
            sys.stdout.flush()
            from shim.commands import funnel

            funnel.say(PROGRAM, *error.lines)
            code = error.code
    return code


def _split(line: str) -> list[str]:
    """The words of a line; quotes group."""
    words: list[str] = []
    word = ""
    quote = ""
    inside = False
    for character in line:
        if quote:
            if character == quote:
                quote = ""
            else:
                word += character
        elif character in "\"'":
            quote = character
            inside = True
        elif character.isspace():
            if word or inside:
                words.append(word)
            word, inside = "", False
        else:
            word += character
    return [*words, word] if word or inside else words


def verb_of(word: str) -> str | None:
    """The verb that ``word`` or the beginning of it names."""
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
    if any(place.real for place in site.places()):
        from shim.commands import scontrol_elsewhere, scontrol_show

        entity = scontrol_show.entity_of(words[1]) if verb == "show" and len(words) > 1 else None
        code = scontrol_elsewhere.done(session, verb, words, entity)
        if code is not None:
            return code
    if len(words) > 1 and verb in _ALONE:
        what = f"{verb} keyword" if verb in ("verbose", "version") else f"keyword:{verb}"
        reading.complain("", [f"too many arguments for {what}"])
        if verb in ("help", "version"):
            _SIMPLE[verb]([])
        return 1
    if verb == "show":
        from shim.commands import scontrol_show

        return scontrol_show.show(session, words[1:])
    if verb == "update":
        from shim.commands import scontrol_update

        return scontrol_update.update(session, words[1:])
    if verb in ACTIONS:
        from shim.commands import scontrol_act

        return scontrol_act.act(session, verb, words[1:])
    if verb in _FLAGS or verb == "verbose":
        session.set_flag(verb)
        return 0
    simple = _SIMPLE.get(verb)
    if simple is None:
        raise Unsupported(f"error: {verb} is not supported here")
    return simple(words[1:])


def _version(words: list[str]) -> int:
    reading.answered(PROGRAM, {"version": ""})
    return 0


def _help(words: list[str]) -> int:
    reading.answered(PROGRAM, {"help": ""})
    reading.put(["", "Commands:", *(f"  {line}" for line in _COMMANDS.strip().split("\n"))])
    return 0


def _listpids(words: list[str]) -> int:
    from shim.commands import scontrol_pids

    return scontrol_pids.listpids(words)


def _ping(words: list[str]) -> int:
    """Whether a controller can be had: one is started if need be, as any other command would."""
    from shim.control import client

    host = os.uname().nodename
    try:
        client.call("ping")
    except ShimError:
        reading.put([f"Slurmctld(primary) at {host} is DOWN"])
        return 1
    reading.put([f"Slurmctld(primary) at {host} is UP"])
    return 0


def _reconfigure(words: list[str]) -> int:
    """Has the configuration read anew; what stays as it was for active jobs is said on stderr."""
    from shim.control import client

    if words:
        raise ShimError(plain("too many arguments for keyword:reconfigure"))
    kept = client.call("reconfigure")["kept"]
    reading.complain(PROGRAM, [f"warning: {line}" for line in kept])
    return 0


def _errnumstr(words: list[str]) -> int:
    """The text of an error number: the C library's, and the commonest of Slurm's own."""
    if not words:
        raise ShimError(plain("one arguments required for keyword:errnumstr"))
    if not words[0].isdigit():
        raise ShimError(plain(f"Invalid error number: {words[0]}"))
    reading.put([_ERRORS.get(int(words[0])) or os.strerror(int(words[0][:9]))])
    return 0


def _completing(words: list[str]) -> int:
    """The jobs that are ending: since when, and for how long."""
    from shim.control.index.query import JobQuery
    from shim.core.formats.times import show_clock
    from shim.core.model import states
    from shim.core.render.job_facts import nodelist

    if words:
        raise ShimError(plain("too many arguments for keyword:completing"))
    reader = reading.open_index(PROGRAM)
    if reader is None:
        return 0
    jobs = reader.jobs(JobQuery(states=(states.COMPLETING,)))
    became = reader.transitions([job.key for job in jobs])
    view = reading.view()
    for job in jobs:
        since = next((time for _, time, state in reversed(became.get(job.key, [])) if state == states.COMPLETING), 0)
        lasts = show_clock(max(0, view.now - since) if since else 0)
        end = view.stamp(since, "Unknown")
        reading.put([f"JobId={job.job_id} EndTime={end} CompletingTime={lasts} Nodes(COMPLETING)={nodelist(job)} "])
    return 0


def _wait_job(words: list[str]) -> int:
    """Whether the nodes of a job are ready: here those of a job that runs always are."""
    from shim.commands.job_ids import parse_job_id
    from shim.control.index.query import JobQuery
    from shim.core.model import states

    if len(words) != 1:
        raise ShimError(plain(f"too {'many' if words else 'few'} arguments for keyword:wait_job"))
    one = parse_job_id(words[0])
    if one is None:
        raise ShimError(plain(f"Invalid job_id {words[0]}"))
    reader = reading.open_index(PROGRAM)
    jobs = reader.jobs(JobQuery(job_ids=(one.job_id,), active=False)) if reader is not None else []
    if not jobs:
        raise ShimError(f"Problem running job {words[0]}")
    if all(job.state not in (states.RUNNING, states.SUSPENDED, states.STOPPED) for job in jobs):
        raise ShimError(f"Job {words[0]} no longer running")
    reading.complain(PROGRAM, [f"Nodes are ready for job {words[0]}"])
    return 0


def _notify(words: list[str]) -> int:
    """``notify 33 some words``: they reach the error output of the job's script, or of a step's srun."""
    from shim.commands.job_ids import parse_job_id
    from shim.commands.scontrol_act import targets
    from shim.control import client

    if len(words) < 2:
        raise ShimError(plain("too few arguments for keyword:notify"))
    one = parse_job_id(words[0])
    if one is None:
        raise ShimError(plain(f"Invalid job_id {words[0]}job notify failure: No error"))
    for target in targets(one, None):
        client.call("notify", {"target": target, "text": " ".join(words[1:])})
    return 0


_COMMANDS = """
show ENTITY [ID]               job, step, node, partition, config, licenses, hostnames, hostlist …
update job=ID FIELD=VALUE …    changes a job; TimeLimit+=30 and -=30 too
update stepid=ID TimeLimit=…   changes a step's limit
update nodename=LIST State=…   drain, down, resume, undrain; with Reason=…  (operators)
update partitionname=NAME …    State=up, down, drain, inactive; MaxTime=… …  (operators)
hold, uhold, release JOBS      keeps waiting jobs from starting; lets them go
suspend, resume, top JOBS      (operators)
requeue [incomplete] JOBS      queues batch jobs again; requeuehold [State=SpecialExit]: and holds them
notify JOB[.STEP] TEXT         a line for the error output of a job's script, or of a step
write batch_script JOB [FILE]  the script of a job
listpids [JOB[.STEP] [NODE]]   the processes of jobs on this machine
wait_job JOB                   whether a job's nodes are ready
completing                     jobs that are ending
ping, reconfigure, version     of the controller
errnumstr NUMBER               the text of an error
all, hide, details, oneliner, verbose, quiet    as the options of these names
help, exit, quit, !!           this text; the end; the last command again
"""
_ERRORS = {
    2000: INVALID_PARTITION_NAME,
    2002: ACCESS_DENIED,
    2017: INVALID_JOB_ID,
    2021: ALREADY_DONE,
    2028: DEPENDENCY_PROBLEM,
}
_SIMPLE: dict[str, Callable[[list[str]], int]] = {
    "version": _version,
    "help": _help,
    "ping": _ping,
    "reconfigure": _reconfigure,
    "errnumstr": _errnumstr,
    "completing": _completing,
    "listpids": _listpids,
    "wait_job": _wait_job,
    "notify": _notify,
}
