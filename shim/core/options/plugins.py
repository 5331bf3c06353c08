"""The options that plugins add to a site's sbatch, srun and salloc. Most sites have none: imported where there are some."""

from __future__ import annotations

from shim.core.options.option import IGNORED, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from shim.core.options.grammar import Grammar

# The options of the container plugin pyxis; Slurm puts those of plugins behind its own.
PYXIS = """
container-image - = bra text
container-mounts - = bra text
container-workdir - = bra text
container-name - = bra text
container-save - = bra text
container-mount-home - - bra flag
no-container-mount-home - - bra flag
container-remap-root - - bra flag
no-container-remap-root - - bra flag
container-entrypoint - - bra flag
no-container-entrypoint - - bra flag
container-entrypoint-log - - bra flag
container-writable - - bra flag
container-readonly - - bra flag
container-env - = bra text
"""


def with_plugins(options: List[Option], grammar: Grammar) -> List[Option]:
    """The options of a command with those of a site's other plugins behind them; of two of one name the configured one counts."""
    own: List[Option] = []
    by_name = {option.long: option for option in options}
    for long, arity, target in grammar.plugins:
        name, equals, value = target.partition("=")
        if not target:
            own.append(Option(long, "", arity, IGNORED))
        elif name in by_name:  # salloc has not all options of sbatch
            meant = by_name[name]
            own.append(Option(long, "", arity, meant.kind, (), meant.field, value if equals else None))
    names = {option.long for option in own}
    return [option for option in options if option.long not in names] + own
