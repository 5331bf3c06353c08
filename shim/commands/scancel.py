"""scancel: ends or signals jobs, array tasks and steps. One call to the controller for all that is meant."""

from __future__ import annotations

import os

from shim.commands import elsewhere, reading
from shim.commands.job_ids import JobId, parse_job_id
from shim.commands.scancel_select import FILTERS, HARMLESS, Wish, not_federated, selected, wishes_of
from shim.control import site
from shim.core.errors import INVALID_JOB_ID, ShimError, plain
from shim.core.formats.lists import split_outside_brackets
from shim.core.model import states
from shim.core.options.query_options import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Dict, List, Tuple

    from shim.core.routing import Place

    Ids = List[Tuple[str, JobId]]
    from typing import Any

    from shim.core.options.query_options import Values

_PROGRAM = "scancel"
# What is left of Slurm's error numbers in an exit code, by how their texts begin.
_CODES = {
    "Access/permission": 210,
    "Operation not permitted on individual component": 60,
    "Not a valid federated job": 191,
}
_NO_STEP = 225
_KILL = 9


def main(argv: list[str]) -> int:
    """Runs scancel; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if reading.answered(_PROGRAM, values):
        return 0
    reading.refuse(_PROGRAM, values)
    _signal(values.get("signal"))
    _state(values.get("state"))
    if "me" in values:
        values["user"] = str(os.getuid())
    _uid(values.get("user"))
    clusters = reading.chosen_clusters(values.get("clusters"))
    ids = _ids(words)
    if len(values.get("verbose", "")) > 2:
        from shim.commands import told

        reading.complain(_PROGRAM, told.scancel(values, ids))
    filtered = any(values.get(option) for option, _ in FILTERS)
    if not ids and not filtered:
        raise ShimError("error: No job identification provided")
    real = elsewhere.real(clusters)
    if real:
        return _everywhere(argv, values, ids, clusters, real)
    return _here(values, ids, clusters)


def _everywhere(
    argv: list[str], values: Values, ids: list[tuple[str, JobId]], clusters: list[str], real: list[Place]
) -> int:
    """Some of the clusters are real Slurms: each ends its own jobs."""
    filtered = any(values.get(option) for option, _ in FILTERS)
    ours, theirs = _divided(ids, real, named=bool(clusters), filtered=filtered)
    names = [name for name in clusters if name not in {place.name for place in real}]
    here = bool(names) or (not clusters and (bool(ours) or not ids) and len(real) < len(site.places()))
    code = _here(values, ours, names) if here else 0
    if not theirs:
        return code
    interactive = "interactive" in values
    return _cancel_there(argv, real, theirs, alone=not here, interactive=interactive) or code


def _here(values: Values, ids: list[tuple[str, JobId]], clusters: list[str]) -> int:
    """What is for the clusters whose jobs run from here."""
    number = _signal(values.get("signal"))
    state = _state(values.get("state"))
    uid = _uid(values.get("user"))
    filtered = any(values.get(option) for option, _ in FILTERS)
    unknown = 0
    if filtered or "interactive" in values:
        wishes, unknown = selected(values, ids, state, uid, clusters)
    else:
        wishes = [wish for word, one in ids for wish in wishes_of(word, one)]
    if clusters:
        wishes = [wish.on(cluster) for cluster in clusters for wish in wishes]
    return (_cancel(wishes, values, number) if wishes else 0) or (1 if unknown else 0)


def _ids(words: list[str]) -> list[tuple[str, JobId]]:
    """The ids on the command line. ShimError for the first that is none: then nothing is cancelled."""
    found = []
    for word in words:
        for one in split_outside_brackets(word):
            parsed = parse_job_id(one)
            if parsed is None or (parsed.step is not None and not parsed.step.isdigit()):
                raise ShimError(f"error: Invalid job id {one}")
            found.append((one, parsed))
        if not split_outside_brackets(word):
            raise ShimError(f"error: Invalid job id {word}")
    return found


def _cancel(wishes: list[Wish], values: Values, number: int | None) -> int:
    """Makes the call and tells what failed; the exit code."""
    from shim.control import client

    scope = _scope(values, number)
    if values.get("sibling"):
        reply: dict[str, Any] = {"results": not_federated(wishes)}
    else:
        fields: dict[str, Any] = {"targets": wishes, "signal": number, "scope": scope, "uid": os.getuid()}
        reply = client.call("cancel", fields)
    # To signal a part of a job Slurm looks for the job first, and tells of one that it does not find.
    missed = [
        result["error"] in HARMLESS and (number is not None or wish["step"] is not None or scope == "batch")
        for wish, result in zip(wishes, reply["results"])
    ]
    if "verbose" in values:
        _tell([wish for wish, gone in zip(wishes, missed) if not gone], values, number)
    code = 0
    for wish, result, gone in zip(wishes, reply["results"], missed):
        error = HARMLESS[0] if gone else result["error"]
        harmless = not error or (error in HARMLESS and not gone)
        if not harmless:
            code = next((known for words, known in _CODES.items() if error.startswith(words)), 1)
        if error and "quiet" not in values and ("verbose" in values or not harmless):
            what = "job id" if wish["step"] is None else "job step id"
            reading.complain(_PROGRAM, [f"error: Kill job error on {what} {_name(wish)}: {error}"])
        if result.get("gone"):
            # So Slurm says it, whatever -Q says, and without the step.
            code = _NO_STEP
            reading.complain(
                _PROGRAM, [f"error: Kill job error on job step id {_name(wish, step=False)}: {INVALID_JOB_ID}"]
            )
    reading.say_untold(_PROGRAM, reply.get("ordered") or ())
    return code


def _tell(wishes: list[Wish], values: Values, number: int | None) -> None:
    """-v: what each of them gets."""
    word = "full " if "full" in values else "batch " if "batch" in values else ""
    what = "Terminating" if number is None else f"Signal {number} to"
    reading.complain(_PROGRAM, list(dict.fromkeys(f"{what} {wish.called(word)}" for wish in wishes)))


def _scope(values: Values, number: int | None) -> str:
    """Whom it is for. A signal to all (--full) is for the batch shell as well; to be killed first is the shell's own fate."""
    if "batch" in values and ("full" not in values or number in (None, _KILL)):
        return "batch"
    return "full" if "full" in values else "default"


def _name(wish: Wish, step: bool = True) -> str:
    name = f"{wish['job_id']}" if wish["task"] is None else f"{wish['job_id']}_{wish['task']}"
    name += f"+{wish['het']}" if "het" in wish else ""
    return name if wish["step"] is None or not step else f"{name}.{wish['step']}"


def _signal(text: str | None) -> int | None:
    if text is None:
        return None
    from shim.core.formats.signals import parse_signal

    try:
        return parse_signal(text)
    except ValueError:
        raise ShimError(plain(f"Unknown job signal: {text}")) from None


def _state(text: str | None) -> str | None:
    if text is None:
        return None
    state = states.state_of(text)
    if state is None:
        raise ShimError(
            plain(f"Invalid job state specified: {text}"),
            plain("Valid job states are PENDING, RUNNING, and SUSPENDED"),
        )
    return state


def _uid(name: str | None) -> int | None:
    if not name:
        return None
    uid = reading.uid_of(name)
    if uid is None:
        raise ShimError(f"error: Invalid user name: {name}")
    return uid


def _divided(ids: Ids, places: Sequence[Place], *, named: bool, filtered: bool) -> Tuple[Ids, Dict[str, List[str]]]:
    """The ids that are for us, and for each real Slurm those that are for it, by its name.

    ``named``: -M says that all of them are for each. ``filtered``: filters look for jobs, everywhere unless ids say where.
    """
    from shim.commands import owners

    words = [word for word, _ in ids]
    if named or (filtered and not ids):
        return ids, {place.name: words for place in places}
    found = owners.owners((one.job_id for _, one in ids), places, _PROGRAM)
    ours = [(word, one) for word, one in ids if found[one.job_id] is None]
    theirs: Dict[str, List[str]] = {}
    for word, one in ids:
        place = found[one.job_id]
        if place is not None:
            theirs.setdefault(place.name, []).append(word)
    return ours, theirs


def _cancel_there(
    argv: Sequence[str], places: Sequence[Place], theirs: Dict[str, List[str]], *, alone: bool, interactive: bool
) -> int:
    """Runs the real scancels; the exit code. ``alone``: nothing else is to be done, so one of them takes this process's place."""
    from shim.commands import owners
    from shim.core.options.to_argv import to_query_argv

    options, _ = to_query_argv(_PROGRAM, argv, ("clusters",))
    meant = [place for place in places if place.name in theirs]
    if alone and len(meant) == 1:
        owners.become(_PROGRAM, meant[0], [*options, *theirs[meant[0].name]])
    if interactive:
        codes = [owners.run(_PROGRAM, place, [*options, *theirs[place.name]]) for place in meant]
        return next((code for code in codes if code), 0)
    from shim.control.backends.slurm.questions import Question

    return elsewhere.put_answers(
        _PROGRAM, [Question(place, _PROGRAM, [*options, *theirs[place.name]]) for place in meant]
    )
