"""sbatch's options from all sources, in Slurm's order."""

from __future__ import annotations

from shim.core import script
from shim.core.options.merge import COMMAND_LINE, Settings, put_directive, put_environment, put_hostfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Mapping, Optional, Sequence, Tuple

    from shim.core.options.option import Option
    from shim.core.options.values import Context

_HET_WORDS = ("hetjob", "packjob")


def settle(
    context: Context,
    found: Sequence[Tuple[Option, Optional[str]]],
    environ: Mapping[str, str],
    text: Optional[str],
    name: str,
    component: Optional[Callable[[Settings], object]] = None,
) -> Settings:
    """The options of one sbatch call: the script's (``text``, None with --wrap; ``name`` for messages), then the variables',
    then the command line's (``found``). ShimError with Slurm's text for the first that is wrong. Not verified yet.

    A heterogeneous job is refused once all its directives are read; ``component`` is told of each of its parts but the last.
    """
    settings = Settings("sbatch", context)
    if text is not None:
        first, *others = _components(text, name)
        put_directive(settings, first)
        for words in others:
            _put_outer(settings, environ, found)
            if component is not None:
                component(settings)
            settings = Settings("sbatch", context)
            put_directive(settings, words)
        if others:
            from shim.core.options.support import refuse_het

            raise refuse_het()
        if ("#PBS" in text or "#BSUB" in text) and not _ignores_foreign(found, environ, settings):
            from shim.core.options.foreign import foreign_directives

            for _, words in foreign_directives(text, name):
                put_directive(settings, words)
    _put_outer(settings, environ, found)
    return settings


def _put_outer(settings: Settings, environ: Mapping[str, str], found: Sequence[Tuple[Option, Optional[str]]]) -> None:
    put_environment(settings, environ)
    settings.put_all(found, COMMAND_LINE)
    put_hostfile(settings, environ)


def _components(text: str, name: str) -> List[List[str]]:
    """The words of all directives, for each component of a heterogeneous job its own.

    Slurm reads them as one command line, after it has read every line: an option without its value takes the next line's word.
    """
    components: List[List[str]] = [[]]
    for _, words in script.directives(text, name):
        for word in words:
            if word.lower() in _HET_WORDS:
                components.append([])
            else:
                components[-1].append(word)
    return components


def _ignores_foreign(
    found: Sequence[Tuple[Option, Optional[str]]], environ: Mapping[str, str], settings: Settings
) -> bool:
    return (
        "ignore-pbs" in settings
        or "SBATCH_IGNORE_PBS" in environ
        or any(option.field == "ignore-pbs" for option, _ in found)
    )
