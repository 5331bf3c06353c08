"""Which options sbatch, srun and salloc have at a site: those of a release of Slurm, and those of its plugins.

Where nothing is configured there is None in the place of a Grammar, and this module is not imported.
"""

from __future__ import annotations

from shim import SLURM_VERSION
from shim.core.value import Value

OLD = "22.05"
NEW = "25.11"
# The release of a site -> the version that its commands and nodes say they are.
VERSIONS = {OLD: SLURM_VERSION, NEW: "25.11.0"}
DEFAULT_RELEASE = OLD


class Grammar(Value):
    """The options of a site.

    ``release``: a key of VERSIONS. ``pyxis``: whether the options of that container plugin are there. ``plugins``: options of
    other plugins as (long name, arity, target): an empty target is accepted and has no effect; ``name`` is another
    spelling of that option; ``name=value`` is a flag that stands for it.
    """

    release: str = DEFAULT_RELEASE
    pyxis: bool = False
    plugins: tuple[tuple[str, int, str], ...] = ()

    @property
    def newer(self) -> bool:
        """Whether the later release's options are there."""
        return self.release != OLD

    @property
    def version(self) -> str:
        """What ``--version`` says after ``slurm``."""
        return VERSIONS[self.release]
