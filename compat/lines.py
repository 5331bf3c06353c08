"""Command lines for the differential runner: ``lines/NAME.lines``, a text of sections like a case (case.py).

# What these lines are about.
=== file job.sh                 a file in the work folder
=== replace                     ``regular expression => replacement``, one a line
=== lines                       one command a line, in the words of a shell

Before a line may stand ``# differs: REASON``: ours does otherwise by design; and ``# any order``: its lines come in none that is
promised. Other lines that begin with ``#`` are notes. A line after ``- `` is run and not compared: a wait (prelude.sh), or a
variable that is set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from compat.case import Case, CaseError, parse_case

FOLDER = Path(__file__).resolve().parent / "lines"
_DIFFERS = "# differs: "
_ANY_ORDER = "# any order"
# Which node these get, and whether they wait, must not hang on how fast the job of the line before left its own.
_ALLOCATE = ("srun", "salloc")


@dataclass
class Line:
    """One command line. ``differs``: the reason why ours does otherwise; empty: it must not."""

    text: str
    number: int
    differs: str = ""
    any_order: bool = False


@dataclass
class Scene:
    """Lines that follow each other on one cluster; ``case`` runs them."""

    case: Case
    lines: list[Line] = field(default_factory=list)


def load(names: list[str] | None = None) -> list[Scene]:
    """All scenes, or those named; CaseError for one that is not there or cannot be understood."""
    paths = {path.stem: path for path in sorted(FOLDER.glob("*.lines"))}
    unknown = [name for name in names or () if name not in paths]
    if unknown:
        raise CaseError(f"no such lines: {', '.join(unknown)}")
    return [parse_scene(name, paths[name].read_text()) for name in names or paths]


def parse_scene(name: str, text: str) -> Scene:
    """The scene that ``text`` describes; CaseError for one that is none."""
    head, found, body = text.partition("\n=== lines\n")
    if not found:
        raise CaseError(f"{name}: a section 'lines' is needed, the last one")
    lines: list[Line] = []
    script: list[str] = []
    reason, any_order = "", False
    for number, line in enumerate(body.splitlines(), head.count("\n") + 3):
        if line.startswith(_DIFFERS):
            reason = line.removeprefix(_DIFFERS).strip()
        elif line == _ANY_ORDER:
            any_order = True
        elif line.startswith("- "):
            script.append(line.removeprefix("- "))
        elif line.strip() and not line.startswith("#"):
            lines.append(Line(line, number, reason, any_order))
            if line.startswith(_ALLOCATE):
                script.append("settled")
            script.append(f"run {line}")
            reason, any_order = "", False
    return Scene(parse_case(name, f"{head}\n=== run\n" + "\n".join(script) + "\n"), lines)
