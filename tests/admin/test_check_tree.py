"""`shim check -r`: which files are batch scripts, what is said of them, and in which forms."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from shim.admin import script_tree
from shim.commands import entrypoint
from shim.control import site
from shim.core.admission import feasibility
from shim.core.model.cluster import Cluster, Node, Partition

CLUSTER = Cluster(
    name="site",
    nodes=(Node(name="n1", cpus=8, memory=16000), Node(name="n2", cpus=8, memory=16000)),
    partitions=(Partition(name="all", nodes=("n1", "n2"), default=True),),
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site's scripts, and other files."""
    files = {
        "a/good.sh": "#!/bin/bash\n#SBATCH -n2\ntrue\n",
        "a/good.sbatch": "#!/bin/bash\ntrue\n",
        "a/account.sh": "#!/bin/bash\n#SBATCH -n1\n#SBATCH --account=physics\n",
        "b/account <2>.sh": "#!/bin/bash\n# a note\n\n#SBATCH --account=chemistry -J other\n",
        "b/wrong.sh": "#!/bin/bash\n#SBATCH -n1\n#SBATCH --time=never\n",
        "b/large.sh": "#!/bin/bash\n#SBATCH -c 9\n",
        "b/unread.sh": "#!/bin/bash\n##SBATCH -c 9\n#SBATCH -n1\n",
        "b/step.sh": "#!/bin/bash\n#SBATCH -n1\ntrue\nsrun --nosuch true\n",
        "c/dos.sh": "#!/bin/bash\r\n#SBATCH -n1\r\n",
        "c/empty.slurm": "",
        "c/headless.sh": "#SBATCH -n1\ntrue\n",
        "d/tool.sh": "#!/bin/bash\ntrue\n",
        "d/notes.txt": "begin a line with\n#SBATCH -n1\n",
        ".git/hook.sbatch": "#!/bin/bash\n",
    }
    for name, text in files.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(site, "clusters", lambda: (CLUSTER,))
    return tmp_path / "site"


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = entrypoint.run("shim", ["check", "-r", *argv])
    return code, capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, "--format", "json", *argv, "site")[1])
    return found


def test_each_script_has_its_outcome(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys)
    outcomes = {one["name"]: one["outcome"] for one in found["scripts"]}
    assert outcomes == {
        "a/account.sh": "runs, with less",
        "a/good.sbatch": "runs unchanged",
        "a/good.sh": "runs unchanged",
        "b/account <2>.sh": "runs, with less",
        "b/large.sh": "needs a change",
        "b/step.sh": "needs a change",
        "b/unread.sh": "runs unchanged",
        "b/wrong.sh": "needs a change",
        "c/dos.sh": "broken",
        "c/empty.slurm": "broken",
        "c/headless.sh": "broken",
    }
    assert found["other_files"] == 2
    assert found["outcomes"] == {"runs unchanged": 3, "runs, with less": 2, "needs a change": 3, "broken": 3}


def test_a_finding_has_its_line(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {one["name"]: one["findings"] for one in as_json(capsys)["scripts"]}
    assert [(one["kind"], one["line"]) for one in found["b/account <2>.sh"]] == [("approximated", 4)]
    assert [(one["kind"], one["line"]) for one in found["b/unread.sh"]] == [("unread", 2)]
    (step,) = found["b/step.sh"]
    assert (step["kind"], step["line"]) == ("failing", 4)
    assert step["text"].startswith("srun: unrecognized option '--nosuch'")
    (dos,) = found["c/dos.sh"]
    assert dos["text"] == "Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n)."


def test_what_is_frequent_comes_first(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = as_json(capsys)["by_frequency"][0]
    assert (first["kind"], first["scripts"]) == ("approximated", ["a/account.sh", "b/account <2>.sh"])
    code, text = run(capsys, "site")
    assert code == 1
    assert text.startswith(
        "11 batch scripts below site (2 other files), on cluster site\n       3 runs unchanged (27.3 %)\n"
    )
    assert "       2 approximated: --account is approximated here" in text
    assert "b/large.sh: needs a change\n    " in text
    assert "a/good.sh" not in text


@pytest.mark.parametrize(("fail_on", "code"), [("never", 0), ("refused", 1), ("approximated", 1)])
def test_ci_chooses_what_fails(tree: Path, capsys: pytest.CaptureFixture[str], fail_on: str, code: int) -> None:
    assert run(capsys, f"--fail-on={fail_on}", "site")[0] == code
    assert run(capsys, "--fail-on=refused", "site/a")[0] == 0
    assert run(capsys, f"--fail-on={fail_on}", "site/a")[0] == (fail_on == "approximated")


def test_options_of_sbatch_may_come_before(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert as_json(capsys, "--mem=17000M")["outcomes"]["needs a change"] == 8


def test_sarif_has_what_its_schema_requires(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = json.loads(run(capsys, "--format=sarif", "site")[1])
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    (made,) = log["runs"]
    driver = made["tool"]["driver"]
    assert driver["name"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert made["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    assert len(made["results"]) == 9
    for result in made["results"]:
        assert result["message"]["text"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert ids[result["ruleIndex"]] == result["ruleId"]
        (place,) = result["locations"]
        assert re.fullmatch(r"[\w/.%~-]+", place["physicalLocation"]["artifactLocation"]["uri"])
        assert place["physicalLocation"]["region"]["startLine"] >= 1
    uris = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in made["results"]]
    assert "site/b/account%20%3C2%3E.sh" in uris


class _Page(HTMLParser):
    """Which tags are open, and what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--format=html", "site")[1]
    page = _Page()
    page.feed(text)
    assert (page.open, page.fetched) == ([], [])
    assert "b/account &lt;2&gt;.sh" in text
    assert "<script" not in text


def test_nothing_to_check_is_an_error(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["site/d"], ["nowhere"], ["site/a", "site/b"], ["--format=pdf", "site"]):
        assert entrypoint.run("shim", ["check", "-r", *words]) == 1
        assert capsys.readouterr().err.startswith("shim: error: -")


def test_a_shape_is_worked_out_once(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of scripts on a thousand nodes: whether a job fits costs more than all the rest."""
    asked = []

    def counted(request: Any, cluster: Cluster, access: Any) -> str | None:
        asked.append(request)
        return feasibility.pending_reason(request, cluster, access)

    monkeypatch.setattr(script_tree, "pending_reason", counted)
    for number in range(20):
        (tree / f"{number}.sbatch").write_text(f"#!/bin/bash\n#SBATCH -J job{number} -o {number}.out -n3\n")
    found = script_tree.check_tree(str(tree), CLUSTER, ((),))
    assert found.outcomes()["runs unchanged"] == 23
    assert sum(one.ntasks == 3 for one in asked) == 1
