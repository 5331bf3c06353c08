"""`shim check -r DIR`: the batch scripts below a folder, what a cluster would make of each of them, and what there is to be done most often."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from shim.admin.preflight import FAULTS, Found, Verdict, judge
from shim.control import site
from shim.core import memo, script
from shim.core.admission.feasibility import pending_reason
from shim.core.admission.partition_rules import Access
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster
from shim.core.model.request import JobRequest
from shim.core.options.sources import read_line
from shim.job import capped

BROKEN = "broken"
UNCHANGED, APPROXIMATED, CHANGE = "runs unchanged", "runs, with less", "needs a change"
OUTCOMES = (UNCHANGED, APPROXIMATED, CHANGE, BROKEN)
# What a finding may be. Its word, and what that means.
KINDS = {
    BROKEN: "sbatch cannot read the file as a batch script",
    "refused": "Slurm would refuse the job on this cluster",
    "unsupported": "Slurm would accept the job; it is refused here",
    "waiting": "the job would be accepted, and wait for ever",
    "failing": "a command in the script would be refused when it runs",
    "unread": "a line looks like a directive and is none",
    "approximated": "an option does less here than on Slurm",
    "warning": "sbatch would accept the job with a warning",
}
# What has no part in where a job can run.
_NOT_OF_ITS_SHAPE: dict[str, object] = dict.fromkeys(
    (
        "name",
        "comment",
        "wckey",
        "stdin",
        "stdout",
        "stderr",
        "open_mode",
        "mail_type",
        "mail_user",
        "signal",
        "export",
    )
)
_NOT_OF_ITS_SHAPE.update(command=None, arguments=(), work_dir="/")
_ENDINGS = (".sbatch", ".slurm", ".sl")
_DIRECTIVE = re.compile(rb"^#(?:SBATCH|PBS|BSUB)\b", re.MULTILINE)
_LINE = re.compile(r"line (\d+)(?::| is) ?")
_OPTION = re.compile(r"--([a-z][a-z0-9-]+)")
_SKIPPED = (".git", ".hg", ".svn", "__pycache__", "node_modules")


class Finding:
    """Something about a script. ``line``: where, if that is known. ``text`` is the same in each script that has the same."""

    def __init__(self, kind: str, text: str, line: int | None = None) -> None:
        self.kind = kind
        self.text = text
        self.line = line


class Checked:
    """One script. ``faults``: as ``Verdict.faults``; a broken one is refused."""

    def __init__(self, name: str, findings: Sequence[Finding], faults: set[str]) -> None:
        self.name = name
        self.findings = tuple(findings)
        self.faults = faults

    @property
    def outcome(self) -> str:
        """Which of ``OUTCOMES`` it is."""
        if any(one.kind == BROKEN for one in self.findings):
            return BROKEN
        if self.faults & {"refused", "waiting", "failing"}:
            return CHANGE
        return APPROXIMATED if "approximated" in self.faults else UNCHANGED


class Tree:
    """All batch scripts below a folder; ``others``: how many files are none."""

    def __init__(self, folder: str, cluster: str, scripts: Sequence[Checked], others: int) -> None:
        self.folder = folder
        self.cluster = cluster
        self.scripts = tuple(scripts)
        self.others = others

    def outcomes(self) -> dict[str, int]:
        """How many scripts there are of each outcome."""
        found = Counter(one.outcome for one in self.scripts)
        return {outcome: found[outcome] for outcome in OUTCOMES}

    def by_frequency(self) -> list[tuple[str, str, list[str]]]:
        """What there is to find, the most frequent first: kind, text, and the scripts."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for one in self.scripts:
            for finding in one.findings:
                found.setdefault((finding.kind, finding.text), {})[one.name] = None
        ranks = list(KINDS)
        order = sorted(found, key=lambda key: (-len(found[key]), ranks.index(key[0]), key[1]))
        return [(kind, text, list(found[kind, text])) for kind, text in order]

    @property
    def faults(self) -> set[str]:
        """Those of all scripts, of ``FAULTS``."""
        return {fault for one in self.scripts for fault in one.faults}.intersection(FAULTS)


def check_tree(folder: str, cluster: Cluster, found: Found) -> Tree:
    """Looks at all batch scripts below ``folder``; ``found``: options of a command line of sbatch. ShimError if there is no such folder, or no script."""
    if not os.path.isdir(folder):
        raise ShimError(f'error: -r: "{folder}" is no folder')
    memo.hold()
    try:
        return _check_tree(folder, cluster, found)
    finally:
        memo.let_go()


def _check_tree(folder: str, cluster: Cluster, found: Found) -> Tree:
    checked, others, judge_one = [], 0, Judge(cluster, found)
    for name in _files(folder):
        try:
            data = capped.start_of(name)
        except OSError as problem:
            if name.endswith(_ENDINGS):
                checked.append(_broken(name, [f"it cannot be read: {problem.strerror}"]))
            else:
                others += 1
            continue
        if is_batch_script(name, data):
            checked.append(judge_one(name, data))
        else:
            others += 1
    if not checked:
        raise ShimError(f'error: -r: no batch script below "{folder}" ({others} other files)')
    return Tree(folder, cluster.name, checked, others)


def is_batch_script(name: str, data: bytes) -> bool:
    """Whether a file is meant for sbatch: by its name, or because it is a script (``#!``) or begins with a directive and has one."""
    if name.endswith(_ENDINGS):
        return True
    return data.startswith((b"#!", b"#SBATCH")) and _DIRECTIVE.search(data) is not None


def _files(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one not in _SKIPPED)
        for name in sorted(names):
            path = os.path.join(here, name)
            if os.path.isfile(path):  # not what one waits for, such as a pipe
                yield path


def _broken(name: str, lines: Iterable[str]) -> Checked:
    return Checked(name, [Finding(BROKEN, _plain(" ".join(lines)))], {"refused"})


class Judge:
    """Judges one script after the other. Those of a site ask for much the same: whether a job fits is worked out once for each shape."""

    def __init__(self, cluster: Cluster, found: Found) -> None:
        self._cluster = cluster
        self._found = found
        self._reasons: dict[str, str | None] = {}

    def __call__(self, name: str, data: bytes) -> Checked:
        try:
            script.check(data)
        except ShimError as problem:
            return _broken(name, [line.replace("error: ", "", 1) for line in problem.lines])
        text = script.text_of(data)
        verdict = judge([name], self._cluster, self._found, text, self._reason)
        findings = [_placed(one) for one in _findings(verdict)]
        if any(one.line is None for one in findings):
            places = _places(text, name)
            findings = [_at_option(one, places) for one in findings]
        return Checked(name, findings, verdict.faults)

    def _reason(self, request: JobRequest, cluster: Cluster, access: Access) -> str | None:
        if cluster is not self._cluster:  # one that became what the job asks for
            return pending_reason(request, cluster, access)
        shape = repr(request.replace(**_NOT_OF_ITS_SHAPE))
        if shape not in self._reasons:
            self._reasons[shape] = pending_reason(request, cluster, access)
        return self._reasons[shape]


def _findings(verdict: Verdict) -> Iterator[Finding]:
    if verdict.refused:
        yield Finding("refused", _plain("; ".join(verdict.refused)))
    if verdict.unsupported:
        yield Finding("unsupported", _plain("; ".join(verdict.unsupported)))
    if verdict.accepted and verdict.reason is not None:
        yield Finding("waiting", verdict.reason)
    for kind, lines in (
        ("failing", verdict.failing),
        ("unread", verdict.unread),
        ("approximated", verdict.approximated),
        ("warning", verdict.warnings),
    ):
        for line in dict.fromkeys(lines):
            yield Finding(kind, _plain(line))


def _plain(text: str) -> str:
    return script.printable(text.replace("\0", "")).replace("error: ", "").strip()


def _placed(finding: Finding) -> Finding:
    """With the line that it names."""
    named = _LINE.match(finding.text)
    if named is None:
        return finding
    text = finding.text[named.end() :]
    if finding.kind == "unread":
        text = text.partition(": #")[0]  # what the line says is there
    return Finding(finding.kind, text, int(named[1]))


def _at_option(finding: Finding, places: dict[str, int]) -> Finding:
    """With the line of the option that it names."""
    named = [places[option] for option in _OPTION.findall(finding.text) if option in places]
    return Finding(finding.kind, finding.text, named[0]) if finding.line is None and named else finding


def _places(text: str, name: str) -> dict[str, int]:
    """The line of each option in the directives."""
    found: dict[str, int] = {}
    try:
        for number, words in script.directives(text, name):
            for option, _value in read_line("sbatch", words, site.grammar())[0]:
                found[option.long] = found[option.field] = number
    except ShimError:
        pass  # that is what is said of the script
    return found
