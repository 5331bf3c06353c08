"""docs/support.md: every option and what becomes of it, made from the tables that the commands themselves use."""

from __future__ import annotations

from collections.abc import Iterator

from shim.core.options.support import rows

_PREFACE = """\
# What is supported

<!-- Made by `./dev docs` from shim/core/options/. -->

Every option of sbatch, srun and salloc of Slurm 22.05, and what becomes of it on the local backend. None is ignored
silently: it is **honoured**; **approximated** (read, checked and shown; the table says what is missing); **inert** (it
has nothing to act on here); or **refused** with an error that names it. `shim explain SCRIPT` says the same for one script.

Of the local backend as a whole: nodes are virtual, share the machine's ports and files, and are not separated by
cgroups ([local-backend.md](local-backend.md)). There is no accounting: account and QOS are recorded and have no limits.
`--json` and `--yaml` of squeue and sinfo are refused. A requeued job waits `requeue_delay` seconds (1; Slurm: 120).
"""


def text() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _PREFACE
    yield "| option | commands | variables | here | notes |"
    yield "| --- | --- | --- | --- | --- |"
    for spelling, commands, variables, fate, reason in rows():
        names = " ".join(f"`{name}`" for name in variables.split())
        yield f"| `{spelling}` | {commands} | {names} | {fate} | {reason} |"
