"""sbatch's options from all sources, in Slurm's order."""

from __future__ import annotations

from shim.core import script
from shim.core.options.merge import COMMAND_LINE, Settings, put_directive, put_environment, put_hostfile
from shim.core.options.support import refuse_het

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping, Optional, Sequence, Tuple

    from shim.core.options.option import Option
    from shim.core.options.values import Context

_HET_WORDS = ("hetjob", "packjob")


def settle(
    context: Context,
    found: Sequence[Tuple[Option, Optional[str]]],
    environ: Mapping[str, str],
    text: Optional[str],
    name: str,
) -> Settings:
    """The options of one sbatch call: the script's (``text``, None with --wrap; ``name`` for messages), then the variables',
    then the command line's (``found``). ShimError with Slurm's text for the first that is wrong. Not verified yet.
    """
    settings = Settings("sbatch", context)
    if text is not None:
        for _, words in script.directives(text, name):
            put_words(settings, words)
        if ("#PBS" in text or "#BSUB" in text) and not _ignores_foreign(found, environ, settings):
            from shim.core.options.foreign import foreign_directives

            for _, words in foreign_directives(text, name):
                put_directive(settings, words)
    put_environment(settings, environ)
    settings.put_all(found, COMMAND_LINE)
    put_hostfile(settings, environ)
    return settings


def put_words(settings: Settings, words: List[str]) -> None:
    """One directive line. Unsupported if it begins another component of a heterogeneous job."""
    for at, word in enumerate(words):
        if word.lower() in _HET_WORDS:
            put_directive(settings, words[:at])
            raise refuse_het()
    put_directive(settings, words)


def _ignores_foreign(
    found: Sequence[Tuple[Option, Optional[str]]], environ: Mapping[str, str], settings: Settings
) -> bool:
    return (
        "ignore-pbs" in settings
        or "SBATCH_IGNORE_PBS" in environ
        or any(option.field == "ignore-pbs" for option, _ in found)
    )
