"""The options of srun and salloc: variables, then the command line. What is left is the command to run.

A colon begins the next component of a heterogeneous job, or of a step that runs on several components. For srun it may follow
the command, for salloc the options only; a component without a command runs that of the one behind it.
"""

from __future__ import annotations

from shim.core.errors import ShimError
from shim.core.options.sources import COMMAND_LINE, Reading, first_pass, put_environment, put_hostfile
from shim.core.options.validate import validate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Sequence, Tuple

    from shim.core.options.getopt import Option
    from shim.core.options.sources import Settings
    from shim.core.options.validate import Validated
    from shim.core.options.values import Context

    Found = Sequence[Tuple[Option, Optional[str]]]


MOST_COMPONENTS = 128  # of a job, as far as --het-group can name them


class Component:
    """One component: its validated options, the command to run, and the component of the job (``group``) that it is for.

    ``named``: the user chose it by --het-group. ``notes``: warnings for stderr.
    """

    __slots__ = ("group", "named", "notes", "settings", "words")

    def __init__(self, settings: Validated, words: Sequence[str], group: int, named: bool, notes: List[str]) -> None:
        self.settings = settings
        self.words = list(words)
        self.group = group
        self.named = named
        self.notes = notes


def settle(command: str, argv: Sequence[str], environ: Mapping[str, str], context: Context) -> List[Component]:
    """The components of one call of ``command`` (srun, salloc); usually one.

    Raises ShimError with Slurm's text and code, Unsupported for a heterogeneous job, PrintAndExit for ``--help`` and the like.
    """
    components: List[Component] = []
    before: Optional[Validated] = None
    named: List[int] = []
    parts = _parts(command, argv, context)
    for place, (found, words) in enumerate(parts):
        named = _named(found) or named  # a component without --het-group is for those of the one before it
        for group in named or [place]:
            reading = Reading(command, context, before)
            _fill(reading, before, environ, found, group, len(parts) > 1)
            before, notes = validate(reading.settings())
            if "propagate" in before:
                from shim.core.options.keyword_values import limits_to_pass

                limits_to_pass(before.get("propagate"))
            components.append(Component(before, words, group, bool(named), notes))
    for earlier, later in zip(components[-2::-1], components[:0:-1]):
        earlier.words = earlier.words or later.words
    return components


def _parts(command: str, argv: Sequence[str], context: Context) -> List[Tuple[Found, List[str]]]:
    """The options and the command of each component."""
    parts: List[Tuple[Found, List[str]]] = []
    while True:
        found, words = first_pass(command, argv, context)
        end = words.index(":") if ":" in words and (command == "srun" or words[0] == ":") else len(words)
        parts.append((found, words[:end]))
        if end == len(words):
            return parts
        argv = words[end + 1 :]


def het_groups(text: str) -> List[int]:
    """The component numbers that ``--het-group`` names: ``0,2``, ``0-2``, ``1-`` for one. ShimError with srun's text."""
    invalid = f"error: Invalid --het-group value: {text}"
    inner = text
    if text.startswith("["):
        inner = text[1:-1] if text.endswith("]") else text[1:]
    if "]" in inner:
        raise ShimError(invalid)
    found: List[int] = []
    for part in inner.split(","):
        first, _, last = part.lstrip(" ").partition("-")
        last = last or first
        if not _is_number(first) or not _is_number(last) or int(first) > int(last):
            raise ShimError(f"error: _parse_single_range: Invalid range: `{part}'", invalid)
        if int(last) >= MOST_COMPONENTS:
            raise ShimError(invalid)
        found.extend(range(int(first), int(last) + 1))
    return sorted(set(found))


def _named(found: Found) -> List[int]:
    texts = [text for option, text in found if option.field == "het-group"]
    return het_groups(texts[-1] or "") if texts else []


def _fill(
    reading: Reading, before: Optional[Settings], environ: Mapping[str, str], found: Found, group: int, several: bool
) -> None:
    """Reads the variables and the command line. ``several``: the component is one of many."""
    put_environment(reading, environ)
    if "SLURM_HET_SIZE" in environ:
        put_environment(reading, _of_group(environ, group))
    reading.put_all(found, COMMAND_LINE)
    reading.keep_verbosity(before)
    # In a plain job the variable tells of all its nodes, which the parts share out: a part that does not say has one.
    shares = several and "SLURM_HET_SIZE" not in environ and not reading.given("nodes")
    if shares and (reading.given("ntasks") or "ntasks" not in reading):
        reading.drop("nodes")
    put_hostfile(reading, environ)


def _of_group(environ: Mapping[str, str], group: int) -> Dict[str, str]:
    """The variables that tell about one component of the job: they count more than those about all of it.

    The job of a step is the leader's, whatever it runs on.
    """
    suffix = f"_HET_GROUP_{group}"
    found = {name[: -len(suffix)]: value for name, value in environ.items() if name.endswith(suffix)}
    found.pop("SLURM_JOB_ID", None)
    return found


def for_step(components: Sequence[Component]) -> List[Component]:
    """srun's components in the order of the job's. ShimError (``fatal``) where one is named twice, or there is no command."""
    if len({component.group for component in components}) < len(components):
        raise ShimError("fatal: Duplicate het groups in single srun not supported")
    if not components[-1].words and "test-only" not in components[-1].settings:
        raise ShimError("fatal: No command given to execute.")
    return sorted(components, key=lambda component: component.group)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
