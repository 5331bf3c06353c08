"""scontrol where real Slurms are among the clusters: their jobs and nodes are passed on to their scontrol; listings show all clusters."""

from __future__ import annotations

from shim.commands import real_slurm, site_view
from shim.commands.job_ids import parse_job_id
from shim.commands.scontrol.session import OF_JOBS, PROGRAM
from shim.control import site
from shim.core.errors import ShimError
from shim.core.formats.lists import split_outside_brackets
from shim.core.options.to_argv import to_query_argv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Dict, List, Optional

    from shim.commands.scontrol.session import Session
    from shim.core.routing import ClusterRef

_BY_ID = (*OF_JOBS, "wait_job", "notify")
# Verbs for which no cluster is asked.
_LOCAL = ("version", "help", "errnumstr", "all", "hide", "details", "oneliner", "quiet", "verbose")
_OUR_NAMES = ("hostnames", "hostlist", "hostlistsorted", "aliases")
_LISTS = ("jobs", "jobid", "steps", "nodes", "nodename", "partitions", "partitionname")
_NOTHING = ("No jobs in the system", "No job steps in the system", "No nodes in the system")


def done(session: Session, verb: str, words: Sequence[str], entity: Optional[str]) -> Optional[int]:
    """Executes the command if a real Slurm has a part in it; the exit code. None: the command concerns our clusters only.

    ``words`` begin with the verb; ``entity``: what ``show`` shows.
    """
    refs = site_view.real_clusters()
    if not refs or verb in _LOCAL or entity in _OUR_NAMES:
        return None
    if session.cluster is not None:
        ref = next((ref for ref in refs if ref.name == session.cluster), None)
        if ref is not None and verb == "update":
            _check_dependency(words, ref)
        return None if ref is None else _run(session, ref, words)
    if verb == "show" and entity in _LISTS:
        return _show(session, refs, words, str(entity))
    ids = _ids(verb, words[1:])
    if ids:
        return _act(session, refs, verb, words, ids)
    first = site.cluster_refs()[0]
    return _run(session, first, words) if first.real and verb not in _BY_ID else None


def _ids(verb: str, words: Sequence[str]) -> List[str]:
    """The job ids that the words name; [] where they name jobs otherwise, or something else."""
    if verb == "update":
        return _updated(words)
    if verb == "write":
        return [word.partition("=")[2] or word for word in words[-2:] if parse_job_id(word.partition("=")[2] or word)][
            :1
        ]
    if verb == "notify":
        words = words[:1]
    found: List[str] = []
    for word in words if verb in _BY_ID else ():
        key, equals, value = word.partition("=")
        found += split_outside_brackets(value if equals and key.lower() in ("job", "jobid") else word)
    return found if all(parse_job_id(word) for word in found) else []


def _updated(words: Sequence[str]) -> List[str]:
    for place, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key.lower() in ("job", "jobid"):
            return split_outside_brackets(value if equals else words[place + 1] if place + 1 < len(words) else "")
    return []


def _act(
    session: Session, refs: Sequence[ClusterRef], verb: str, words: Sequence[str], ids: List[str]
) -> Optional[int]:
    """Executes the verb on each cluster for the jobs of that cluster."""
    numbers = {word: one.job_id for word in ids for one in [parse_job_id(word)] if one is not None}
    found = real_slurm.owners_of(numbers.values(), refs, PROGRAM)
    theirs: Dict[str, List[str]] = {}
    for word, number in numbers.items():
        ref = found[number]
        theirs.setdefault(ref.name if ref is not None else "", []).append(word)
    if list(theirs) == [""]:
        return None
    if len(theirs) == 1:
        ref = next(ref for ref in refs if ref.name in theirs)
        if verb == "update":
            _check_dependency(words, ref)
        return _run(session, ref, words)
    if verb not in _BY_ID or verb == "notify":
        raise ShimError("error: these jobs are on several clusters: one command for each of them, or -M")
    code = 0
    for name, own in theirs.items():
        if name:
            ref = next(ref for ref in refs if ref.name == name)
            code = real_slurm.run(PROGRAM, ref, [*_options(session), verb, ",".join(own)]) or code
        else:
            from shim.commands.scontrol import actions

            code = actions.act(session, verb, own) or code
    return code


def _check_dependency(words: Sequence[str], ref: ClusterRef) -> None:
    """ShimError for an update that makes a job of a real Slurm wait for one of ours, as its sbatch is refused."""
    for word in words:
        key, equals, value = word.partition("=")
        if equals and len(key) > 2 and "dependency".startswith(key.lower()):
            from shim.control import command_line

            command_line.refuse_foreign(value, ref.name, key)


def _show(session: Session, refs: Sequence[ClusterRef], words: Sequence[str], entity: str) -> Optional[int]:
    """A listing of everything, or what somebody has of that name."""
    from shim.control.backends.slurm.questions import Question

    tag, equals, value = words[1].partition("=")
    wanted = value if equals else words[2] if len(words) > 2 else None
    if wanted is not None and entity in ("jobs", "jobid", "steps"):
        one = parse_job_id(wanted)
        ref = real_slurm.owners_of([one.job_id], refs, PROGRAM)[one.job_id] if one is not None else None
        return None if ref is None else _run(session, ref, words)
    if wanted is not None and _ours(entity, wanted):
        return None
    asked = real_slurm.ClusterQuery(PROGRAM, [], [], header=False)
    asked.questions = [Question(ref, PROGRAM, [*_options(session), *words]) for ref in refs]
    if wanted is None:
        session.beside = True
        code = _OURS[entity](session, None) if len(refs) < len(site.cluster_refs()) else 0
        asked.wait()
        for question in asked.questions:
            if question.out.strip().decode(errors="replace") in _NOTHING:
                question.out = b""
            code = asked.put(question) or code
        return code
    asked.wait()
    known = [question for question in asked.questions if question.code == 0] or asked.questions
    codes = [asked.put(question) for question in known]
    return max(codes)


def _ours(entity: str, wanted: str) -> bool:
    """Whether a cluster of ours has a node or partition of that name."""
    if entity.startswith("partition"):
        return any(cluster.partition(wanted) is not None for cluster in site_view.site_clusters())
    from shim.core.formats import hostlist

    try:
        names = hostlist.expand(wanted)
    except hostlist.HostlistError:
        names = [wanted]
    known = [site_view.recorded(cluster) for cluster in site_view.site_clusters()]
    return any(cluster.node(name) is not None for name in names for cluster in known)


def _jobs(session: Session, wanted: Optional[str]) -> int:
    from shim.commands.scontrol import show_jobs

    return show_jobs.jobs(session, wanted)


def _steps(session: Session, wanted: Optional[str]) -> int:
    from shim.commands.scontrol import show_jobs

    return show_jobs.steps(session, wanted)


def _nodes(session: Session, wanted: Optional[str]) -> int:
    from shim.commands.scontrol import show_site

    return show_site.nodes(session, wanted)


def _partitions(session: Session, wanted: Optional[str]) -> int:
    from shim.commands.scontrol import show_site

    return show_site.partitions(session, wanted)


_OURS: Dict[str, Callable[[Session, Optional[str]], int]] = {
    "jobs": _jobs,
    "jobid": _jobs,
    "steps": _steps,
    "nodes": _nodes,
    "nodename": _nodes,
    "partitions": _partitions,
    "partitionname": _partitions,
}


def _options(session: Session) -> List[str]:
    """The options, and the flags that verbs have set since, as options."""
    found = to_query_argv(PROGRAM, session.argv, ("clusters",))[0]
    flags = (("--details", session.details), ("--oneliner", session.oneliner))
    return [*found, *(flag for flag, is_set in flags if is_set and flag not in found)]


def _run(session: Session, ref: ClusterRef, words: Sequence[str]) -> int:
    argv = [*_options(session), *words]
    if not session.interactive:
        real_slurm.become(PROGRAM, ref, argv)
    return real_slurm.run(PROGRAM, ref, argv)
