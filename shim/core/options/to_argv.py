"""Command lines made again: a request as options of another sbatch, a query for another command, a line with one option changed."""

from __future__ import annotations

from shim.core.errors import UsageError
from shim.core.options.getopt import parse
from shim.core.options.grammar import VERSIONS, Grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Collection, Dict, Iterator, List, Optional, Sequence, Tuple

    from shim.core.model.request import JobRequest
    from shim.core.options.getopt import Found, Table

    Edit = Callable[[List[Found], Sequence[str]], Sequence[str]]  # of the words of one option

_CLUSTERS = ("clusters", "cluster")
_SUBMITTING = ("sbatch", "srun", "salloc")


def to_sbatch_argv(request: JobRequest) -> Tuple[List[str], List[str]]:
    """The options of a real sbatch for a job that goes to another Slurm than the one it was submitted to, each in one word, and
    the options that had to be given up.

    Only options that Slurm 22.05 has are used; whatever the script's directives say is said again, so that the command line wins.
    """
    from shim.core.options.submit_options import options_of

    recorded: Dict[str, str] = request.extra
    unsaid = {"dependency", *_of_hint(request), *_of_gpus(request)}  # jobs have other ids there
    found: List[str] = []
    for option in options_of("sbatch"):
        field = option.row.get("job", "").lstrip("*")
        if field == "extra":
            if option.long in recorded:
                unsaid.add(option.long)
                found.append(
                    f"--{option.long}={recorded[option.long]}" if recorded[option.long] else f"--{option.long}"
                )
        elif field == "container":
            if option.long in request.container:
                found.append(f"--{option.long}={request.container[option.long]}")
        elif field and field not in unsaid:
            value = getattr(request, field)
            if value is not None:
                found += _written(option.long, option.kind, value, request)
    return found, [f"--{name}" for name in recorded if name not in unsaid and name != "submit_dir"]


def _written(name: str, kind: str, value: Any, request: JobRequest) -> List[str]:
    """An option whose field has this value; nothing where the value is the one that is meant by saying nothing."""
    if kind in _WRITTEN:
        text = _WRITTEN[kind](value, request)
        return [] if text is None else [f"--{name}={text}"]
    if kind in ("flag", "no-kill", "user-env"):
        return [f"--{name}"] if value else ["--no-requeue"] if name == "requeue" else []
    if value == "node" and kind == "exclusive":
        return [f"--{name}"]
    return [f"--{name}={value}"]


def _signal(value: Any, request: JobRequest) -> str:
    return f"{'B:' if value.batch else ''}{value.number}@{value.lead}"


def _nodes(least: int, request: JobRequest) -> str:
    return f"{least}" if request.max_nodes is None else f"{least}-{request.max_nodes}"


def _when(epoch: int, request: JobRequest) -> Optional[str]:
    from shim.core.formats.times import stamp

    return stamp(epoch) if epoch else None


_WRITTEN: Dict[str, Callable[[Any, JobRequest], Optional[str]]] = {
    "memory": lambda mib, request: f"{mib}M",
    "minutes": lambda minutes, request: "UNLIMITED" if minutes < 0 else f"{minutes}",
    "nice": lambda nice, request: f"{nice}" if nice else None,
    "nodes": _nodes,
    "open-mode": lambda mode, request: "append" if mode == "a" else "truncate",
    "signal": _signal,
    "when": _when,
    "yes-no": lambda value, request: "yes" if value else "no",
}


def _of_hint(request: JobRequest) -> List[str]:
    """The fields that --hint says already: Slurm ignores hints beside the one, and counts tasks by the other."""
    if "hint" not in request.extra:
        return []
    bound = "memory_bound" in request.extra["hint"].lower().split(",") and request.cores_per_socket == 1
    return ["threads_per_core", *(["cores_per_socket"] if bound else [])]


def _of_gpus(request: JobRequest) -> List[str]:
    """The field that follows from GPUs: said beside them it would be checked against them as what the user wants."""
    if request.ntasks_per_node is None or not request.gpus_per_task:
        return []
    from shim.core.options.gpu_rules import tasks_per_node

    follows = tasks_per_node(request.replace(ntasks_per_node=None)) == request.ntasks_per_node
    return ["ntasks_per_node"] if follows else []


def to_query_argv(program: str, argv: Sequence[str], without: Collection[str]) -> Tuple[List[str], List[str]]:
    """The options of ``argv`` except those fields, each in one word, and the words that are no options.

    Raises UsageError as the command itself does for a line that it cannot read.
    """
    from shim.core.options.query_options import options_of

    found, words = parse(program, argv, options_of(program), permute=True, code=1)
    options = [
        f"--{option.long}" if value is None else f"--{option.long}={value}"
        for option, value in found
        if option.field not in without
    ]
    return options, words


def without_cluster(program: str, argv: Sequence[str], name: str) -> List[str]:
    """``argv`` without each ``-M``/``--clusters`` whose value is exactly ``name``. A command line that cannot be read stays."""

    def edit(found: List[Found], words: Sequence[str]) -> Sequence[str]:
        if found[-1][0].field not in _CLUSTERS or found[-1][1] != name:
            return words
        # Of letters such as -hMname the flags before the M stay.
        return [] if len(found) == 1 else [words[0][: len(found)]]

    return _edited(program, argv, edit)


def with_value(program: str, argv: Sequence[str], long: str, value: str) -> List[str]:
    """``argv`` with ``value`` wherever it has the option ``long``. A command line that cannot be read stays."""

    def edit(found: List[Found], words: Sequence[str]) -> Sequence[str]:
        return [f"--{long}={value}"] if found[-1][0].field == long else words

    return _edited(program, argv, edit)


def _edited(program: str, argv: Sequence[str], edit: Edit) -> List[str]:
    for options in _tables(program):
        left = _left(program, argv, options, edit)
        if left is not None:
            return left
    return list(argv)


def _tables(program: str) -> Iterator[Table]:
    """The options that the real command may have: of older Slurms, of newer ones; none for a grammar that is not known."""
    from shim.core.options import query_options, submit_options

    if program in _SUBMITTING:
        for release in VERSIONS:
            yield submit_options.options_of(program, Grammar(release=release))
    elif program in query_options.ROWS:
        yield query_options.options_of(program)


def _left(program: str, argv: Sequence[str], options: Table, edit: Edit) -> Optional[List[str]]:
    """The words that are left; None if one of them is not in the table."""
    left: List[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--" or (program in _SUBMITTING and (word == "-" or not word.startswith("-"))):
            break  # the rest belongs to the script or the command
        used = _length(program, argv, at, options)
        if used == 0:
            return None
        words = argv[at : at + used]
        found = parse(program, words, options, permute=True)[0]
        left.extend(edit(found, words) if found else words)
        at += used
    return [*left, *argv[at:]]


def _length(program: str, argv: Sequence[str], at: int, options: Table) -> int:
    """How many words the option (or the single word) at ``at`` takes; 0 if it cannot be read."""
    for used in (1, 2):
        if at + used > len(argv):
            break
        try:
            parse(program, argv[at : at + used], options, permute=True)
        except UsageError:
            continue  # it wants a value
        return used
    return 0
