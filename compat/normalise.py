"""What differs between two runs that did the same: ids, times, places, names of people and hosts.

Everything here is replaced by a name in angle brackets, so that a record reads as what a user sees. Nothing else is
touched: what a rule of this file hides, no case can show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Both kinds of cluster count from 700001 (FirstJobId): no other number of a case looks like that.
JOB_ID = re.compile(r"(?<!\d)(0*)(7\d{5})(?!\d)")

OURS_ALONE = r'sbatch: warning: "[^"]*", for the output of the job, is no folder: without it the job fails'
COMMON: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\b", "<time>"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\b", "<date>"),
        # Debian's build names itself after the package.
        (r"\bslurm-wlm (\d+\.\d+\.\d+)", r"slurm \1"),
        # Debian's build allows several slurmd on a host and then says which one speaks.
        (r"\bslurmstepd-[\w.-]+: ", "slurmstepd: "),
        # Whether a step meets the one before it still ending is luck.
        (
            r"^srun: (Job \S+ step creation (temporarily|still) disabled, retrying \(.*\)|Step created for job \S+)\n",
            "",
        ),
        # What only ours says, on stderr: a folder of the output is missing.
        (rf"^{OURS_ALONE}\n", ""),
        # Follows KillWait.
        (r"Waiting up to \d+ seconds", "Waiting up to <n> seconds"),
        (r"\bPriority=[1-9]\d*", "Priority=<n>"),
        (r"\bRunTime=\S+", "RunTime=<elapsed>"),
        (r"\bAllocNode:Sid=\S+", "AllocNode:Sid=<host>:<sid>"),
        (r"\b(User|Group)Id=\S+?\(\d+\)", r"\1Id=<user>(<uid>)"),
        (r"\b(SLURM_JOB_[UG]ID)=\d+", r"\1=<uid>"),
        # Where the copy of the script lies is nobody's business but the daemon's.
        (r"(?<![\w.-])/\S+/slurm_script\b", "<spool>/slurm_script"),
    )
)

TASK_ENDS = re.compile(r"(?:^srun: error: \S+: tasks? \d[\d,-]*: .*\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Places:
    """What a target calls things: the case's work folder, the user, the home, the machine.

    ``addresses``: the nodes are called 127.0.0.1 … because the machine allows no private names. ``pods``: inside a job they
    are called slurm-7-0 …
    """

    folder: str
    user: str
    home: str
    host: str
    addresses: bool = False
    pods: bool = False


def clean(text: str, places: Places, rules: Iterable[tuple[re.Pattern[str], str]] = ()) -> str:
    """``text`` without what belongs to this run. The case's own ``rules`` come last; job ids stay (see number_jobs)."""
    text = text.replace(places.folder, "<dir>")
    if places.addresses:
        text = _names_for_addresses(text)
    for pattern, replacement in COMMON:
        text = pattern.sub(replacement, text)
    if len(places.home) > 1:
        text = re.sub(rf"{re.escape(places.home)}(?![\w-])", "<home>", text)
    text = _hide_user(text, places.user)
    text = re.sub(rf"(?<![\w/.-]){re.escape(places.host)}(?![\w/-])", "<host>", text)
    text = TASK_ENDS.sub(_one_line_each, text)
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _one_line_each(match: re.Match[str]) -> str:
    """Consecutive lines about the ends of tasks, one for each task in order: how many tasks one line names is luck."""
    found = []
    for line in match.group(0).splitlines():
        head, ranks, end = re.fullmatch(r"(srun: error: \S+): tasks? ([\d,-]+): (.*)", line).groups()  # type: ignore[union-attr]
        for part in ranks.split(","):
            first, _, last = part.partition("-")
            found += [(head, rank, end) for rank in range(int(first), int(last or first) + 1)]
    return "".join(f"{head}: task {rank}: {end}\n" for head, rank, end in sorted(found))


def number_jobs(texts: Iterable[str]) -> dict[str, str]:
    """Names for the job ids in ``texts``: ``<job1>`` for the lowest, and so on. Ids are given out in order."""
    ids = sorted({match.group(2) for text in texts for match in JOB_ID.finditer(text)})
    return {number: f"<job{place}>" for place, number in enumerate(ids, 1)}


def name_jobs(text: str, names: dict[str, str]) -> str:
    """``text`` with each job id replaced by its name; zeros that pad it stay."""
    return JOB_ID.sub(lambda match: match.group(1) + names[match.group(2)], text)


def _hide_user(text: str, user: str) -> str:
    """The user's name; in a column of squeue, where it is cut at eight letters or padded to them, the width stays."""

    def hidden(match: re.Match[str]) -> str:
        column = len(match.group(0)) if match.group(1) or match.group(2) != user else 0
        return "<user>".rjust(column)

    for name in sorted({user, user[:8]}, key=len, reverse=True):
        text = re.sub(rf"((?<= ) +)?(?<![\w/.])({re.escape(name)})(?![\w/])", hidden, text)
    return text


def addresses_for_names(text: str) -> str:
    """The other way round, for what a case asks for: 127.0.0.1 for node1, lists unfolded (addresses are never folded)."""

    def unfolded(match: re.Match[str]) -> str:
        numbers: list[int] = []
        for part in match.group(1).split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
        return ",".join(f"node{number}" for number in numbers)

    text = re.sub(r"\bnode\[([\d,-]+)\]", unfolded, text)
    return re.sub(r"\bnode([1-9])\b", r"127.0.0.\1", text)


def _names_for_addresses(text: str) -> str:
    """node1 for 127.0.0.1 and so on; lists folded as Slurm folds names."""
    # What pads an address in a column pads the shorter name as well.
    text = re.sub(r"(?<![\d.])127\.0\.0\.(\d)(?=  )", r"node\1    ", text)
    text = re.sub(r"(?<![\d.])127\.0\.0\.(\d+)(?![\d.])", r"node\1", text)
    return re.sub(r"\bnode\d+(?:,node\d+)+\b", lambda match: _fold(match.group(0)), text)


def names_for_pods(text: str) -> str:
    """node1 for slurm-700001-0 and so on: right for jobs that have the first nodes. Such an id is no mention of a job."""

    def shifted(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda number: str(int(number.group(0)) + 1), match.group(1))

    text = re.sub(r"\bslurm-7\d{5}(?:-r\d+)?-(\[[\d,-]+\])", lambda match: f"node{shifted(match)}", text)
    return re.sub(r"\bslurm-7\d{5}(?:-r\d+)?-(\d+)\b", lambda match: f"node{shifted(match)}", text)


def _fold(text: str) -> str:
    numbers = [int(name.removeprefix("node")) for name in text.split(",")]
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "node[" + ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) + "]"
