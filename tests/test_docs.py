"""The pages: links lead somewhere, every page can be reached from the landing page, the commands of the first ten minutes work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
_FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


def test_the_first_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("SHIM_DEFAULT", "local")  # whatever Slurm this machine has
    work = tmp_path / "work"
    work.mkdir()
    told = []
    with processes.ended_afterwards():
        for block in _FENCED.findall((ROOT / "docs" / "start.md").read_text()):
            done = subprocess.run(
                ["bash", "-eu"],
                input=block,
                capture_output=True,
                text=True,
                cwd=work,
                timeout=120,
                env=dict(os.environ),
            )
            assert done.returncode == 0, (block, done)
            told.append(done.stdout)
    first, failed, checked, shape = told
    assert sorted(re.findall(r"task (\d) of 4 on node(\d)", first)) == [("0", "1"), ("1", "1"), ("2", "2"), ("3", "2")]
    assert "exit code 127: the shell did not find a command" in failed
    assert "hello.sh: accepted" in checked
    assert "It would be accepted." in checked
    assert shape == "[clusters.local]\nnodes = 4\n"
