"""sbatch's options from all sources, in Slurm's order."""

from __future__ import annotations

from shim.core import script
from shim.core.options.sources import (
    COMMAND_LINE,
    Reading,
    first_pass,
    put_directive,
    put_environment,
    put_hostfile,
    read_line,
)
from shim.core.options.values import is_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Mapping, Optional, Sequence, Tuple, TypeVar

    from shim.core.options.getopt import Option
    from shim.core.options.sources import Settings
    from shim.core.options.values import Context

    Kind = TypeVar("Kind", bound=Settings)

PACKJOB = 'Warning: the "packjob" component separator is being deprecated. Please, use "hetjob" instead.'


def command_line(
    argv: Sequence[str], context: Context
) -> Tuple[List[Sequence[Tuple[Option, Optional[str]]]], List[str]]:
    """The options of sbatch's command line, those of each component apart, and the words from the script on.

    Every value is read as it is met, over all components, before the script is looked for. A colon behind the script's name
    separates nothing and is dropped, as by Slurm.
    """
    if ":" not in argv:
        found, words = first_pass("sbatch", argv, context)
        return [found], words
    words = first_pass("sbatch", [word for word in argv if word != ":"], context)[1]
    parts: List[Sequence[Tuple[Option, Optional[str]]]] = []
    for part in _cut(argv[: len(argv) - len(words)]):
        found, rest = read_line("sbatch", part, context.grammar)
        parts.append(found)
        if rest:
            break
    return parts, words


def settle(
    context: Context,
    found: Sequence[Sequence[Tuple[Option, Optional[str]]]],
    environ: Mapping[str, str],
    text: Optional[str],
    name: str,
    component: Callable[[Settings], Kind],
) -> List[Kind]:
    """The options of one sbatch call for each component of its job (a plain job has one): the script's (``text``, None with
    --wrap; ``name`` for messages), then the variables', then the command line's (``found``; the last part counts for all
    components behind it too). ShimError with Slurm's text for the first that is wrong.

    ``component`` makes of each, as soon as it is read, what the next one begins with: it validates them.
    """
    mistaken = script.mistaken_from(text) if text is not None and context.say is not None else None
    if mistaken == 0 and context.say is not None:
        context.say(script.MISTAKEN_TEXT)  # before what is wrong in such a line
    scripted = _components(text, name) if text is not None else [[]]
    settled: List[Kind] = []
    before: Optional[Settings] = _of_all(context, found)
    for place in range(max(len(scripted), len(found))):
        reading = Reading("sbatch", context, before)
        if place and mistaken is not None and mistaken <= place and context.say is not None:
            context.say(script.MISTAKEN_TEXT)
        if place == 1 and context.say is not None and text is not None and packed(text):
            context.say(PACKJOB)  # once, where the separator is met
        if place < len(scripted):
            put_directive(reading, scripted[place])
        own = found[min(place, len(found) - 1)]
        if text is not None and ("#PBS" in text or "#BSUB" in text) and not _ignores_foreign(own, environ, reading):
            _put_foreign(reading, text, name)
        _put_outer(reading, environ, own)
        reading.keep_verbosity(before)
        before = component(reading.settings())
        settled.append(before)
    return settled


def _put_foreign(reading: Reading, text: str, name: str) -> None:
    """The directives of PBS or LSF; what they ask for by --gres is asked for beside what stands in Slurm's own."""
    from shim.core.options.pbs_lsf import foreign_directives

    for word in foreign_directives(text, name):
        if word.startswith("--gres=") and "gres" in reading:
            word = f"--gres={reading.texts['gres']},{word[len('--gres=') :]}"
        put_directive(reading, [word])


def _of_all(context: Context, found: Sequence[Sequence[Tuple[Option, Optional[str]]]]) -> Optional[Settings]:
    """What the whole command line leaves to the first component: sbatch reads all of it before it reads each part."""
    if len(found) < 2:
        return None
    reading = Reading("sbatch", context)
    for part in found:
        reading.put_all(part, COMMAND_LINE)
    return reading.settings()


def packed(text: str) -> bool:
    """Whether the script separates components by the old word, of which sbatch warns."""
    return "pack" in text.lower() and any(
        script.het_word(script.said(line) or "") == "packjob" for _, line in script.header(text)
    )


def _put_outer(reading: Reading, environ: Mapping[str, str], found: Sequence[Tuple[Option, Optional[str]]]) -> None:
    put_environment(reading, environ)
    reading.put_all(found, COMMAND_LINE)
    put_hostfile(reading, environ)


def _components(text: str, name: str) -> List[List[str]]:
    """The words of all directives, for each component of a heterogeneous job its own.

    Slurm reads them as one command line, after it has read every line: an option without its value takes the next line's word.
    """
    components: List[List[str]] = [[]]
    for _, words in script.directives(text, name):
        if words == [":"]:
            components.append([])
        else:
            components[-1].extend(words)
    return components


def _ignores_foreign(
    found: Sequence[Tuple[Option, Optional[str]]], environ: Mapping[str, str], reading: Reading
) -> bool:
    return (
        "ignore-pbs" in reading
        or is_set(environ.get("SBATCH_IGNORE_PBS"))
        or any(option.field == "ignore-pbs" for option, _ in found)
    )


def _cut(words: Sequence[str]) -> List[List[str]]:
    """The words between the colons."""
    parts: List[List[str]] = [[]]
    for word in words:
        if word == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
