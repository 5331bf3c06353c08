"""scancel where real Slurms are among the clusters: each job's own cluster ends it."""

from __future__ import annotations

from shim.commands import elsewhere, owners
from shim.core.options.again import again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Dict, List, Tuple

    from shim.commands.job_ids import JobId
    from shim.core.routing import Place

    Ids = List[Tuple[str, JobId]]

_PROGRAM = "scancel"


def divided(ids: Ids, places: Sequence[Place], *, named: bool, filtered: bool) -> Tuple[Ids, Dict[str, List[str]]]:
    """The ids that are for us, and for each real Slurm those that are for it, by its name.

    ``named``: -M says that all of them are for each. ``filtered``: filters look for jobs, everywhere unless ids say where.
    """
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


def cancel(
    argv: Sequence[str], places: Sequence[Place], theirs: Dict[str, List[str]], *, alone: bool, interactive: bool
) -> int:
    """Runs the real scancels; the exit code. ``alone``: nothing else is to be done, so one of them takes this process's place."""
    options, _ = again(_PROGRAM, argv, ("clusters",))
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
