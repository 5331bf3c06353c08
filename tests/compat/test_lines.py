"""Files of command lines for the differential runner, and what it calls a difference."""

from __future__ import annotations

from threading import Event, Lock

import pytest

from compat.case import Case, CaseError
from compat.differ import Tally, answers, compare, compared
from compat.lines import load, parse_scene
from compat.normalise import Places
from compat.record import Outcome, Step

TEXT = """\
# Two lines.
=== file a.sh
true
=== lines
- A=1
squeue -j $A
# differs: the reason
# any order
sinfo
# a note
scancel 5
"""


class Target:
    """Answers with what it was given."""

    name = "target"
    workers = 1

    def __init__(self, *outs: str, failure: str = "") -> None:
        self.outs = outs
        self.failure = failure

    def run(self, case: Case) -> tuple[Outcome, Places]:
        steps = [Step("", out, "", "0") for out in self.outs]
        return Outcome(steps, failure=self.failure), Places("/w", "somebody", "/home/somebody", "vm")


def judged(left: tuple[str, ...], right: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> tuple[Tally, str]:
    scene = parse_scene("x", TEXT)
    tally = Tally()
    pairs = list(zip(answers(scene, Target(*left)), answers(scene, Target(*right))))
    compare(scene, pairs, tally, False)
    return tally, capsys.readouterr().out


def test_a_scene() -> None:
    scene = parse_scene("x", TEXT)
    assert [(line.text, line.number, line.differs, line.any_order) for line in scene.lines] == [
        ("squeue -j $A", 6, "", False),
        ("sinfo", 9, "the reason", True),
        ("scancel 5", 11, "", False),
    ]
    assert scene.case.script == "A=1\nrun squeue -j $A\nrun sinfo\nrun scancel 5\n"
    assert scene.case.files == {"a.sh": "true\n"}


def test_no_lines() -> None:
    with pytest.raises(CaseError, match="lines"):
        parse_scene("x", "# Nothing.\n")


def test_ids_and_declared_order_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    tally, said = judged(("700001\n", "b\na\nc\n", ""), ("700031\n", "a\nb\n", ""), capsys)
    assert (tally.lines, tally.known, tally.wrong, said) == (3, 1, 0, "")


def test_differences_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tally, said = judged(("one\n", "x\n", ""), ("two\n", "y\n", ""), capsys)
    assert (tally.known, tally.wrong) == (1, 1)
    assert "x:6: squeue -j $A" in said and "-> one" in said and "+> two" in said


def test_a_line_that_does_not_differ_as_declared_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    tally, said = judged(("", "b\na\n", ""), ("", "a\nb\n", ""), capsys)
    assert tally.wrong == 1
    assert "is the same, though it is said to differ: the reason" in said


def test_a_scene_that_was_cut_short_is_no_answer() -> None:
    scene = parse_scene("x", TEXT)
    with pytest.raises(CaseError, match="2 of 3"):
        answers(scene, Target("", ""))
    with pytest.raises(CaseError, match="gave up"):
        answers(scene, Target("", "", "", failure="gave up"))


class OneAtATime(Target):
    """Fails a scene that is run while another is: they would have the same nodes. Its first answer is wrong."""

    def __init__(self, *outs: str) -> None:
        super().__init__(*outs)
        self.runs: list[str] = []
        self._lock = Lock()
        self._again = Event()

    def run(self, case: Case) -> tuple[Outcome, Places]:
        assert self._lock.acquire(blocking=False), f"{case.name} is run beside another scene"
        try:
            self.runs.append(case.name)
            if self.runs.count(case.name) > 1:
                self._again.set()
            if case.name == "y":
                self._again.wait(0.3)  # time for the scene before, if it were run again now
            outcome, places = super().run(case)
            if self.runs == ["x"]:
                outcome.steps[0].out = "wrong"
            return outcome, places
        finally:
            self._lock.release()


def test_a_scene_that_differed_is_run_again_when_all_others_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    outs = ("", "b\na\nc\n", "")
    real, ours, tally = OneAtATime(*outs), Target("", "a\nb\n", ""), Tally()
    for scene, pairs in compared([parse_scene("x", TEXT), parse_scene("y", TEXT)], real, ours, 1):
        compare(scene, pairs, tally, False)
    assert (tally.lines, tally.known, tally.wrong, capsys.readouterr().out) == (6, 2, 0, "")
    assert real.runs == ["x", "y", "x"]


def test_every_file_is_understood() -> None:
    assert sum(len(scene.lines) for scene in load()) >= 200
