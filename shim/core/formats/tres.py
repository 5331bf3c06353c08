"""Generic resources (``--gres``, ``--gpus…``) and the trackable resources text of scontrol and sacct.

A list is ``name[[:type]:count]`` with commas: ``gpu``, ``gpu:2``, ``gpu:a100``, ``gpu:a100:2``; ``gres:`` in front is
dropped. Lists given to the gpu options lack the name: ``a100:2``.
"""

from __future__ import annotations

from shim.core.errors import INVALID_GRES, INVALID_LICENSES, INVALID_TRES
from shim.core.formats.integers import leading_int, strtol
from shim.core.formats.lists import comma_list
from shim.core.formats.sizes import show_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Set

GPUS = "gres/gpu"
# The numbers that a database has of what is counted; GPUs have the first one that a site may give out.
TRES_NUMBERS = {
    "cpu": 1,
    "mem": 2,
    "energy": 3,
    "node": 4,
    "billing": 5,
    "fs/disk": 6,
    "vmem": 7,
    "pages": 8,
    GPUS: 1001,
}
_UNSIGNED = 1 << 64
_SUFFIXES = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50}


def parse_gres(text: str) -> tuple[tuple[str, str, int], ...]:
    """Name, type ("" = any) and count of each entry of a ``--gres`` text; ``none`` is nothing. Of what is repeated the last
    counts: ``gpu:2,gpu:3`` is three.

    Raises ValueError with Slurm's text. Whether the cluster has such resources is not asked here.
    """
    found = {}
    for word in _words(text):
        name, kind, count = _entry(word)
        found[name, kind] = count
    return tuple((name, kind, count) for (name, kind), count in found.items())


def normalize_gres(text: str) -> str:
    """The text as JobRequest keeps it: no ``gres:``, ``none`` is "", counts as the user wrote them. Raises ValueError."""
    words = _words(text)
    for word in words:
        _entry(word)
    return ",".join(words)


def kept_gres(text: str) -> str:
    """As ``normalize_gres``, with counts that nobody can read in it: of these the controller says what is wrong (``unknown_gres``)."""
    try:
        return normalize_gres(text)
    except ValueError as error:
        if str(error) != INVALID_TRES:
            raise
        return ",".join(_words(text))


def unknown_gres(text: str, known: Set[str]) -> str:
    """What is wrong with the names of a ``--gres`` text where the resources are those of ``known``; "" for nothing.

    Slurm's client looks for names of which something is asked, whether or not the count can be read; its controller looks for
    those of which nothing is asked too, unless the nothing begins with a digit (``0``, ``0K``; not ``+0``).
    """
    wrong = ""
    for word in _words(text):
        name, *rest = word.split(":")
        if not word or name in known:
            continue
        if not rest or _count(rest[-1]) != 0:
            return INVALID_GRES
        if not rest[-1][:1].isdigit():
            wrong = INVALID_TRES
    return wrong


def parse_gpus(text: str) -> tuple[tuple[str, int], ...]:
    """Type ("" = any) and count of each entry of a ``--gpus``-like text: ``2``, ``a100:2``, ``a100:1,v100:2``.

    A type alone is one GPU of it, commas too many are nothing, of a type that is repeated the last count counts. Raises
    ValueError with Slurm's text.
    """
    entries = {}
    for word in comma_list(text):
        _, kind, count = _entry(f"gpu:{word}")
        entries[kind] = count
    return tuple(entries.items())


def gpu_count(text: str | None) -> int:
    """How many GPUs a ``--gpus``-like text asks for; 0 for None. Raises ValueError."""
    return sum(count for _, count in parse_gpus(text)) if text else 0


def show_gres_field(text: str | None) -> str:
    """``gres:gpu:a100:2`` of ``gpu:a100:2``: squeue's ``%b`` and scontrol's TresPerNode. "" for nothing."""
    return ",".join(f"gres:{word}" for word in _words(text or ""))


def show_gpus_field(text: str | None) -> str:
    """``gres:gpu:a100:2`` of the ``a100:2`` that a ``--gpus``-like option took. "" for nothing."""
    return ",".join(f"gres:gpu:{word}" for word in comma_list(text))


def parse_licenses(text: str) -> tuple[tuple[str, int], ...]:
    """Name and count, in all, of each licence of ``--licenses``: ``matlab:2,ansys`` (also with ``;``). Raises ValueError."""
    counts: dict[str, int] = {}
    for word in comma_list(text.replace(";", ",")):
        name, colon, digits = word.partition(":")
        count, rest = strtol(digits) if colon else (1, "")
        if not _is_name(name) or count < 0 or rest:
            raise ValueError(INVALID_LICENSES)
        counts[name] = counts.get(name, 0) + count
    return tuple(counts.items())


def tres_text(
    cpus: int,
    memory: int,
    nodes: int,
    gres: Mapping[str, int] | None = None,
    billing: int | None = None,
) -> str:
    """``cpu=2,mem=2000M,node=2,billing=2,gres/gpu=4``. Memory in MiB; what is zero is left out.

    ``gres``: counts by name (``gpu``); ``billing`` is the CPUs unless given.
    """
    billing = cpus if billing is None else billing
    words = [f"cpu={cpus}"] if cpus else []
    words += [f"mem={show_memory(memory)}"] if memory else []
    words += [f"node={nodes}"] if nodes else []
    words += [f"billing={billing}"] if billing else []
    words.extend(f"gres/{name}={count}" for name, count in (gres or {}).items() if count)
    return ",".join(words)


def _words(text: str) -> list[str]:
    """The entries of a list without ``gres:``; nothing for ``none`` and for an empty text."""
    if not text or text.lower() == "none":
        return []
    return [word[5:] if word.startswith("gres:") else word for word in text.split(",")]


def _entry(word: str) -> tuple[str, str, int]:
    if not word:
        raise ValueError(INVALID_TRES)
    name, *rest = word.split(":")
    none = rest and _count(rest[-1]) == 0  # of what nothing is asked of, nobody looks at the name
    if not (none or _is_name(name)) or len(rest) > 2 or not all(rest):
        raise ValueError(INVALID_GRES)
    if not rest:
        return name, "", 1
    if len(rest) == 2:
        count = _count(rest[1])
        if count is None or count < 0:
            raise ValueError(INVALID_GRES)
        return name, rest[0], count
    if leading_int(rest[0])[0] is None:
        if not _is_name(name):  # ``:K``, none of a kilo to sbatch, is a type to its controller
            raise ValueError(INVALID_TRES)
        return name, rest[0], 1
    count = _count(rest[0])
    if count is None:
        raise ValueError(INVALID_TRES)
    return name, "", count if count >= 0 else count + _UNSIGNED  # more than any node has


def _is_name(word: str) -> bool:
    return bool(word) and word.isprintable() and not any(char in "=/ (" for char in word)


def _count(word: str) -> int | None:
    """The number of ``2``, ``4K`` or ``k`` (none of a kilo) as C reads it; None for a word that goes on behind it."""
    number, rest = strtol(word)
    shift = _SUFFIXES.get(rest[:1].upper(), 0)
    if rest[1 if shift else 0 :]:
        return None
    return number << shift
