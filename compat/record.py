"""What a run of a case left behind, as one text that is kept, compared and read.

$ sbatch --wait job.sh          a recorded command
> Submitted batch job <job1>    its standard output
! sbatch: Warning: …            its standard error
= 0                             its exit code
@ slurm-<job1>.out              a file that was not there before
| …                             its lines
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from compat.case import Case
from compat.normalise import Places, clean, name_jobs, names_for_pods, number_jobs

UNFINISHED = "\\ no newline at the end"


@dataclass
class Step:
    """One recorded command."""

    command: str
    out: str
    err: str
    code: str


@dataclass
class Outcome:
    """Everything that a run of a case showed, as it came. ``failure``: why the case itself did not go to its end."""

    steps: list[Step] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    failure: str = ""


def read_steps(folder: Path) -> list[Step]:
    """The commands that prelude.sh recorded in ``folder``; one that was cut short has the exit code "none"."""

    def text(number: int, kind: str) -> str:
        path = folder / f"{number}.{kind}"
        return path.read_bytes().decode(errors="replace") if path.exists() else ""

    count = len(list(folder.glob("*.command")))
    return [
        Step(text(n, "command"), text(n, "out"), text(n, "err"), text(n, "code") or "none") for n in range(1, count + 1)
    ]


def read_files(folder: Path, known: dict[str, str]) -> dict[str, str]:
    """Files below ``folder`` that were not there at the start, or read otherwise now than in ``known``."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink() or not path.is_file() or name.startswith("."):
            continue
        text = path.read_bytes().decode(errors="replace")
        if known.get(name) != text:
            found[name] = text
    return found


def render(case: Case, outcome: Outcome, places: Places) -> str:
    """The record of ``outcome``, normalised."""
    readable = names_for_pods if places.pods else str
    texts = [outcome.failure, *outcome.files, *outcome.files.values()]
    texts += [text for step in outcome.steps for text in (step.command, step.out, step.err)]
    names = number_jobs(map(readable, texts))

    def tidy(text: str, *labels: str) -> str:
        text = clean(name_jobs(readable(text), names), places, case.replace)
        return _sorted_lines(text) if any(_matches(case, label) for label in labels) else text

    lines: list[str] = []
    for number, step in enumerate(outcome.steps, 1):
        lines += _prefixed("$", tidy(step.command))
        lines += _prefixed(">", tidy(step.out, f"stdout:{number}"))
        lines += _prefixed("!", tidy(step.err, f"stderr:{number}"))
        lines.append(f"= {step.code}")
    files = {tidy(name): tidy(text, name, tidy(name)) for name, text in outcome.files.items()}
    for name in sorted(files):
        lines.append(f"@ {name}")
        lines += _prefixed("|", files[name])
    if outcome.failure:
        lines += _prefixed("?", tidy(outcome.failure))
    return "".join(f"{line}\n" for line in lines)


def _matches(case: Case, label: str) -> bool:
    return any(fnmatchcase(label, pattern) for pattern in case.sort)


def _sorted_lines(text: str) -> str:
    return "".join(sorted(text.splitlines(keepends=True)))


def _prefixed(mark: str, text: str) -> list[str]:
    lines = [f"{mark} {line}".rstrip("\n") for line in text.split("\n")]
    if lines[-1] == f"{mark} ":
        lines.pop()
    elif mark in ">!|":
        lines.append(f"{mark} {UNFINISHED}")
    return lines


def compare(expected: str, found: str, name: str, target: str) -> str:
    """The difference as a unified diff; "" when there is none."""
    lines = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), f"{name} on slurm", f"{name} on {target}", lineterm="", n=3
    )
    return "\n".join(lines)
