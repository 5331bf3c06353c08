"""The line that says what a command waits for: on a terminal, after a second, and gone when it is over."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.commands.progress import EVERY, Progress, line, on_terminal
from tests.control.controller import processes
from tests.screen import Program
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[2]


class Scene:
    """A progress on a stream that is looked at, with a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.out = io.StringIO()
        self.progress = Progress("sbatch", self.out, lambda: self.now, lambda: 80)

    def told(self, seconds: float) -> str:
        """What is written when that time has gone by."""
        self.now += seconds
        self.progress.tick()
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return text


def test_what_takes_less_than_a_second_is_not_said() -> None:
    scene = Scene()
    with scene.progress:
        scene.progress.begin("packing")
        assert scene.told(0.0) == ""
        assert scene.told(0.9) == ""
    assert scene.out.getvalue() == ""


def test_the_line_stands_until_it_is_cleared_and_comes_again() -> None:
    scene = Scene()
    scene.progress.begin("packing")
    assert scene.told(1.0) == "\rsbatch: packing  0:01\x1b[K"
    assert scene.told(EVERY / 2) == ""  # not all the time
    scene.progress.clear()
    assert scene.told(0.0) == "\r\x1b[K"
    scene.progress.clear()
    assert scene.told(64.0) == "\rsbatch: packing  1:05\x1b[K"
    with scene.progress:
        pass
    assert scene.out.getvalue() == "\r\x1b[K"


def test_events_say_what_and_how_far() -> None:
    scene = Scene()
    scene.told(5.0)
    scene.progress.event({"event": "progress", "what": "packing", "unit": "bytes", "all": 10 << 20, "done": 5 << 20})
    assert scene.told(0.0) == "\rsbatch: packing  [##########..........]  5.0/10.0 MiB  0:00\x1b[K"
    scene.progress.event({"event": "queued", "what": "none of this"})
    scene.progress.event({"event": "progress", "what": "its pods start", "unit": "run", "all": 8, "done": 3})
    assert scene.told(1.0) == "\rsbatch: its pods start  [#######.............]  3/8 run  0:01\x1b[K"


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.integers(0, 1 << 50),
    st.integers(0, 1 << 50),
    st.integers(0, 200),
)
def test_a_line_is_no_wider_than_the_terminal(what: str, done: int, whole: int, width: int) -> None:
    text = line("srun: ", {"what": what, "done": done, "all": whole, "unit": "bytes"}, 7, width)
    assert sum(1 if letter.isascii() else 2 for letter in text) <= width
    assert text.isprintable()


def test_in_a_file_and_where_a_line_cannot_be_erased_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not on_terminal("srun").wanted
    master, slave = os.openpty()
    with open(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert on_terminal("srun").wanted
        assert not on_terminal("srun", quiet=True).wanted
        monkeypatch.setenv("TERM", "dumb")
        assert not on_terminal("srun").wanted
    os.close(master)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a user whose cluster has one CPU."""
    config = tmp_path / "config.toml"
    config.write_text('default = "local"\n[clusters.local]\nbackend = "local"\nnode_names = "n1"\ncpus = 1\n')
    monkeypatch.setenv("SHIM_CONFIG", str(config))
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("TERM", "xterm")
    with processes.ended_afterwards():
        yield dict(os.environ)


def run(site: dict[str, str], *words: str) -> str:
    done = subprocess.run(words, env=site, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def busy(site: dict[str, str]) -> str:
    """A job that has all there is."""
    job = run(site, "sbatch", "--parsable", "-J", "hog", "-o", "/dev/null", "--wrap", "exec sleep 600")
    wait_until(lambda: "R" in run(site, "squeue", "-h", "-j", job, "-o", "%t"), "it runs", pause=0.1)
    return job


def test_srun_shows_what_it_waits_for_and_then_slurms_lines_alone(site: dict[str, str]) -> None:
    hog = busy(site)
    with Program(["srun", "echo", "here it is"], site) as srun:
        srun.until(r"^srun: job \d+ queued and waiting for resources$", r"^srun: job \d+ waits \(Resources.*\)  0:0\d$")
        run(site, "scancel", hog)
        assert srun.ended() == 0
        lines = [text for text in srun.shown.lines if text]
    job = int(hog) + 1
    assert lines == [
        f"srun: job {job} queued and waiting for resources",
        f"srun: job {job} has been allocated resources",
        "here it is",
    ]


def test_a_signal_while_it_waits_leaves_slurms_lines(site: dict[str, str]) -> None:
    busy(site)
    with Program(["salloc", "true"], site) as salloc:
        salloc.until(r"^salloc: job \d+ waits \(Resources")
        salloc.type("\x03")
        assert salloc.ended() == 1
        lines = [text for text in salloc.shown.lines if text]
    assert not [text for text in lines if "waits" in text]
    assert lines[-1] == "salloc: Job aborted due to signal"


def test_sbatch_wait_tells_how_many_tasks_have_ended(site: dict[str, str], tmp_path: Path) -> None:
    script = "test $SLURM_ARRAY_TASK_ID = 0 || exec sleep 600"
    with Program(
        ["sbatch", "--wait", "-a", "0-3", "-o", "/dev/null", "--wrap", script], site, cwd=str(tmp_path)
    ) as sbatch:
        sbatch.until(r"^Submitted batch job \d+$", r"^sbatch: job \d+: 1 run, 2 wait .* 1/4 tasks ended  0:\d\d$")
        job = sbatch.shown.lines[0].split()[-1]
        run(site, "scancel", job)
        sbatch.ended()
        assert [text for text in sbatch.shown.lines if text] == [f"Submitted batch job {job}"]


def test_nothing_of_it_is_in_pipes(site: dict[str, str]) -> None:
    hog = busy(site)
    srun = subprocess.Popen(
        ["srun", "echo", "done"], env=site, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: "PD" in run(site, "squeue", "-h", "-n", "echo", "-o", "%t"), "it waits", pause=0.1)
    with pytest.raises(subprocess.TimeoutExpired):
        srun.wait(2.0)  # longer than it takes to be said
    run(site, "scancel", hog)
    out, err = srun.communicate(timeout=60)
    assert out == "done\n"
    assert err.splitlines() == [
        f"srun: job {int(hog) + 1} queued and waiting for resources",
        f"srun: job {int(hog) + 1} has been allocated resources",
    ]
