"""Records: from what a run left to text, and the comparison of two."""

from __future__ import annotations

from pathlib import Path

from compat.case import parse_case
from compat.normalise import Places
from compat.record import Outcome, Step, compare, read_files, read_steps, render

CASE = parse_case("one", "# One.\n=== file job.sh\ntrue\n=== run\ntrue\n=== sort\nb.txt stderr:2\n")
PLACES = Places("/w", "somebody", "/home/somebody", "vm")


def test_text_of_a_record() -> None:
    outcome = Outcome(
        [
            Step("sbatch job.sh", "Submitted batch job 700005\n", "", "0"),
            Step("srun x", "no end", "two\none\n", "3"),
        ],
        {"slurm-700005.out": "line\n\nlast\n", "b.txt": "2\n1\n"},
    )
    assert render(CASE, outcome, PLACES) == (
        "$ sbatch job.sh\n> Submitted batch job <job1>\n= 0\n"
        "$ srun x\n> no end\n> \\ no newline at the end\n! one\n! two\n= 3\n"
        "@ b.txt\n| 1\n| 2\n"
        "@ slurm-<job1>.out\n| line\n| \n| last\n"
    )


def test_pods_read_as_the_nodes_of_a_cluster_and_the_ids_in_their_names_are_no_jobs() -> None:
    outcome = Outcome([Step("srun --jobid=799999 x", "slurm-700005-[0-1] slurm-700004-r1-1\n", "", "0")])
    places = Places("/w", "somebody", "/home/somebody", "vm", pods=True)
    assert render(CASE, outcome, places) == "$ srun --jobid=<job1> x\n> node[1-2] node2\n= 0\n"


def test_a_failure_of_the_case_is_seen() -> None:
    assert render(CASE, Outcome(failure="gave up waiting for: 700001"), PLACES) == "? gave up waiting for: <job1>\n"


def test_what_is_read_from_the_folders(tmp_path: Path) -> None:
    (tmp_path / "1.command").write_text("sbatch x")
    (tmp_path / "1.out").write_text("out")
    (tmp_path / "1.err").write_text("err")
    (tmp_path / "1.code").write_text("0")
    (tmp_path / "2.command").write_text("cut short")
    assert read_steps(tmp_path) == [Step("sbatch x", "out", "err", "0"), Step("cut short", "", "", "none")]


def test_new_and_changed_files(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name, text in (("same", "1"), ("changed", "2"), ("logs/new", "3"), (".hidden", "4")):
        (tmp_path / name).write_text(text)
    assert read_files(tmp_path, {"same": "1", "changed": "1"}) == {"changed": "2", "logs/new": "3"}


def test_comparison() -> None:
    assert compare("= 0\n", "= 0\n", "one", "local") == ""
    difference = compare("= 0\n", "= 1\n", "one", "local").splitlines()
    assert difference[:2] == ["--- one on slurm", "+++ one on local"]
    assert difference[-2:] == ["-= 0", "+= 1"]
