"""A case of the suite: a text file of sections, each opened by a line ``=== name argument``.

# What is shown, and why it matters.
=== file job.sh          a file in the work folder (mode 755)
=== run                  bash, with the functions of prelude.sh: what is done and recorded
=== sort                 texts whose lines come in no promised order, one shell pattern a line: a file, or
                         ``stdout:2`` / ``stderr:2`` of the second recorded command (``stdout:*``: of all)
=== replace              ``regular expression => replacement``, one a line, in every text of the record
=== differs local        this target (local, local-addresses) does otherwise by design: the reason
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

SUITE = Path(__file__).resolve().parent / "suite"
EXPECTED = Path(__file__).resolve().parent / "expected"


class CaseError(Exception):
    """A case file that cannot be understood: names the file and the line."""


@dataclass
class Case:
    """One case. ``files`` are written before ``script`` runs."""

    name: str
    title: str
    script: str
    files: dict[str, str] = field(default_factory=dict)
    sort: list[str] = field(default_factory=list)
    replace: list[tuple[re.Pattern[str], str]] = field(default_factory=list)
    differs: dict[str, str] = field(default_factory=dict)

    @property
    def expected(self) -> Path:
        """Where the record of real Slurm is kept."""
        return EXPECTED / f"{self.name}.txt"


def parse_case(name: str, text: str) -> Case:
    """The case that ``text`` describes; CaseError names the line that is wrong."""
    head, sections = _sections(name, text)
    title = " ".join(line.lstrip("# ").strip() for line in head if line.startswith("#"))
    case = Case(name, title, "")
    for number, kind, argument, lines in sections:
        body = "".join(lines)
        if kind == "file" and argument:
            case.files[argument] = body
        elif kind == "run" and not case.script:
            case.script = body
        elif kind == "sort":
            case.sort += body.split()
        elif kind == "replace":
            case.replace += [_rule(name, number, line) for line in body.splitlines() if line.strip()]
        elif kind == "differs" and argument:
            case.differs[argument] = " ".join(body.split())
        else:
            raise CaseError(f"{name}: line {number}: not understood: {kind} {argument}")
    if not title or not case.script:
        raise CaseError(f"{name}: a case needs a comment that says what it shows, and a section 'run'")
    return case


def _sections(name: str, text: str) -> tuple[list[str], list[tuple[int, str, str, list[str]]]]:
    head: list[str] = []
    sections: list[tuple[int, str, str, list[str]]] = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.startswith("=== "):
            kind, _, argument = line[4:].strip().partition(" ")
            sections.append((number, kind, argument.strip(), []))
        elif sections:
            sections[-1][3].append(line)
        else:
            head.append(line)
    # A blank line before the next section is for the reader, not part of a file.
    for _, _, _, lines in sections:
        while lines and not lines[-1].strip():
            lines.pop()
    return head, sections


def _rule(name: str, number: int, line: str) -> tuple[re.Pattern[str], str]:
    pattern, arrow, replacement = line.partition(" => ")
    if not arrow and line.endswith(" =>"):
        pattern, arrow = line[:-3], "=>"
    if not arrow:
        raise CaseError(f"{name}: section at line {number}: no ' => ' in {line!r}")
    try:
        return re.compile(pattern, re.MULTILINE), replacement
    except re.error as problem:
        raise CaseError(f"{name}: section at line {number}: {pattern!r}: {problem}")


def load(names: list[str] | None = None) -> list[Case]:
    """The cases of the suite in order of their names, or those named; CaseError for one that is not there."""
    paths = {path.stem: path for path in sorted(SUITE.glob("*.case"))}
    unknown = [name for name in names or () if name not in paths]
    if unknown:
        raise CaseError(f"no such case: {', '.join(unknown)}")
    return [parse_case(name, paths[name].read_text()) for name in names or paths]
