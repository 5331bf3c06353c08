"""The pages: links lead somewhere, every page can be reached from the landing page, the examples work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shim.control import config
from tests.control.controller import processes

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT)
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("compat/**/*.md"),
        *ROOT.glob("examples/*.md"),
    ]
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    return [link for link in _LINK.findall((ROOT / page).read_text()) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"


def test_every_page_is_on_the_landing_page() -> None:
    landing = ROOT / "docs" / "index.md"
    listed = {(landing.parent / link.partition("#")[0]).resolve() for link in links(landing.relative_to(ROOT))}
    pages = {path.resolve() for path in ROOT.glob("docs/**/*.md")}
    assert pages - listed == {landing.resolve()}


def fenced(page: Path, language: str) -> list[str]:
    """The blocks of that language; what a list indents is taken back."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for _, block in found]


def having(language: str) -> list[Path]:
    return [page for page in PAGES if fenced(ROOT / page, language)]


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the checkout, for a user who has nothing yet: the files that the pages speak of are in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("SHIM_DEFAULT", "local")  # whatever Slurm this machine has
    work = tmp_path / "work"
    work.mkdir()
    for name in ("bin", "examples"):
        (work / name).symlink_to(ROOT / name)
    (work / "train.sh").write_text("#!/bin/bash\n#SBATCH -N2 -t 5\nsrun true\n")
    (work / "slurm.conf").write_text(
        "ClusterName=site\nNodeName=n[1-4] CPUs=8 RealMemory=16000\nPartitionName=batch Nodes=ALL Default=YES\n"
    )
    return work


@pytest.mark.parametrize("page", having("sh"), ids=str)
def test_the_commands_of_a_page_work(page: Path, newcomer: Path) -> None:
    told = []
    with processes.ended_afterwards():
        for block in fenced(ROOT / page, "sh"):
            done = subprocess.run(
                ["bash", "-eu"],
                input=block,
                capture_output=True,
                text=True,
                cwd=newcomer,
                timeout=120,
                env=dict(os.environ),
            )
            assert done.returncode == 0, (block, done)
            told.append(done.stdout)
    for part in SAID.get(str(page), ()):
        assert re.search(part, "".join(told), re.MULTILINE | re.DOTALL), (part, told)


# What the commands of a page print, in parts.
SAID = {
    "README.md": ["^0: task 0 of 2 on node1$", "^1: task 1 of 2 on node2$", "JOBID PARTITION", "idle node"],
    "docs/start.md": [
        r"task 0 of 4 on node1\n",
        r"task 3 of 4 on node2\n",
        "exit code 127: the shell did not find a command",
        "hello.sh: accepted",
        "It would be accepted.",
        r"\[clusters.local\]\nnodes = 4\n",
    ],
    "docs/migrating.md": [r"^slurm_conf = ", "train.sh: accepted", "It would be accepted."],
    "docs/troubleshooting.md": ["exit code 3", "train.sh: accepted", "JobState=FAILED", r"FAILED +3:0"],
}


@pytest.mark.parametrize("page", having("toml"), ids=str)
def test_the_configurations_of_a_page_are_read(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(fenced(ROOT / page, "toml")):
        path = tmp_path / f"{number}.toml"
        path.write_text(block)
        found = config.load({"SHIM_CONFIG": str(path), "HOME": str(tmp_path)})
        assert {*re.findall(r"^\[clusters\.(\w+)\]", block, re.MULTILINE)} <= {*found.clusters}
