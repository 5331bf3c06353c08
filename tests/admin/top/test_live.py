"""`shim top` on a terminal, with a controller: keys act, the page follows, and the terminal is always given back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.controller import processes
from tests.screen import Program
from tests.support import wait_until

ROOT = Path(__file__).resolve().parents[3]
HOOKED = """
import sys
sys.path.insert(0, sys.argv[1])
from shim.admin.top import session
first = session.Session.lines
shown = []
def lines(self, size):
    if shown:
        raise RuntimeError("a fault of the page")
    shown.append(size)
    return first(self, size)
session.Session.lines = lines
from shim.commands import entrypoint
sys.exit(entrypoint.run("shim", ["top"]))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a user of a small cluster."""
    config = tmp_path / "config.toml"
    config.write_text('default = "local"\n[clusters.local]\nbackend = "local"\nnode_names = "n[1-2]"\ncpus = 2\n')
    monkeypatch.setenv("SHIM_CONFIG", str(config))
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with processes.ended_afterwards():
        yield dict(os.environ)


def submit(site: dict[str, str], folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["sbatch", "--parsable", *words], env=site, cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def given_back(program: Program) -> bool:
    return not program.shown.other and not program.shown.hidden and program.settings == program.before


def test_a_job_is_released_followed_and_cancelled(site: dict[str, str], tmp_path: Path) -> None:
    script = "for number in 1 2 3; do echo line $number; done; exec sleep 600"
    job = submit(site, tmp_path, "--hold", "-J", "träge", "-o", "out.txt", "--wrap", script)
    with Program(["shim", "top"], site) as top:
        top.until(rf"^ +{job} +debug +träge +\S+ +PD .*\(JobHeldUser\)", r"^local +cpus \.+ 0/4", "lets it go")
        top.type("r")
        top.until(rf"^ +{job} .* R .* n1$", "^local +cpus #+\\.+ 1/4", r"^n1 +mix +1/2", "^line 3$")
        top.type("f")
        top.until(r"^Output of \S+ träge: /", "^line 1$", "^line 3$", gone=["JOBID"])
        with open(tmp_path / "out.txt", "a") as out:
            out.write("told, not asked\n")
        top.until("^told, not asked$")
        top.type("q")
        top.type("c")
        top.until(f"^Cancel job {job}, träge, of .*y/n$")
        top.type("n")
        top.until("^Nothing was done")
        top.type("c")
        top.type("y")
        top.until("^No jobs", "scancel -M local", "^local +cpus \\.+ 0/4", gone=["träge"])
        top.type("sss")
        top.until(rf"^ +{job} .* CA ", "It was cancelled by")
        top.type("q")
        assert top.ended() == 0
        assert given_back(top)
    assert top.shown.rows == 24


def test_the_controllers_end_is_told_and_mended(site: dict[str, str], tmp_path: Path) -> None:
    job = submit(site, tmp_path, "--hold", "-o", "/dev/null", "--wrap", "true")
    with Program(["shim", "top"], site) as top:
        top.until(rf"^ +{job} .*JobHeldUser")
        before = processes.begun()
        subprocess.run(["shim", "controller", "stop"], env=site, check=True, capture_output=True, timeout=60)
        wait_until(lambda: processes.begun() > before, "another controller", pause=0.1)
        top.until(rf"^ +{job} .*JobHeldUser", gone=["^!"])
        top.type("q")
        assert top.ended() == 0


def test_it_fits_the_terminal_also_when_that_changes(site: dict[str, str], tmp_path: Path) -> None:
    submit(site, tmp_path, "--hold", "-J", "名" * 100, "-o", "/dev/null", "--wrap", "true")
    with Program(["shim", "top"], site) as top:
        top.until("名{3}.*JobHeldUser", r"\d\d:\d\d:\d\d$", "q end$")
        top.resize(120, 40)
        top.until("TIME_LEFT", "名{6}.*JobHeldUser", r"\d\d:\d\d:\d\d$")
        assert len(top.shown.lines[0]) == 120
        top.resize(30, 5)
        top.until("^shim top needs")
        top.type("q")
        assert top.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_with_the_terminal_as_it_was(site: dict[str, str], number: signal.Signals) -> None:
    with Program(["shim", "top"], site) as top:
        top.until("^No jobs")
        assert top.shown.other and top.settings != top.before
        top.process.send_signal(number)
        assert top.ended() == -number
        assert given_back(top)


def test_ctrl_c_ends_it(site: dict[str, str]) -> None:
    with Program(["shim", "top"], site) as top:
        top.until("^No jobs")
        top.type("\x03")
        assert top.ended() == 0
        assert given_back(top)


def test_a_fault_of_ours_is_said_on_the_terminal_as_it_was(site: dict[str, str]) -> None:
    with Program([sys.executable, "-c", HOOKED, str(ROOT)], site) as top:
        assert top.ended() == 1
        assert "\x1b[?1049h" in top.raw.decode()
        assert given_back(top)
        assert "internal error: RuntimeError: a fault of the page" in top.shown.text


def test_suspended_the_shell_has_the_terminal(site: dict[str, str]) -> None:
    with Program(["bash", "--norc", "--noprofile", "-i"], {**site, "PS1": "ready> "}) as shell:
        shell.until("^ready>")
        shell.type("shim top\r")
        shell.until("^No jobs")
        shell.type("\x1a")
        shell.until("Stopped", "^ready>$")
        assert not shell.shown.other and not shell.shown.hidden
        shell.type("stty -a | grep -ow '[-]*icanon'\r")
        shell.until("^icanon")
        shell.type("fg\r")
        shell.until("^No jobs")
        assert shell.shown.other
        shell.type("q")
        shell.until("^ready>$")
        shell.type("exit\r")
        shell.ended()


def test_without_a_terminal_it_is_refused_and_once_prints(site: dict[str, str], tmp_path: Path) -> None:
    job = submit(site, tmp_path, "--hold", "-J", "printed", "-o", "/dev/null", "--wrap", "true")
    done = subprocess.run(
        ["shim", "top"], env=site, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == "shim: error: shim top shows a page on a terminal: here is none. shim top --once prints a page\n"
    )
    once = subprocess.run(["shim", "top", "--once"], env=site, capture_output=True, text=True, timeout=60)
    assert (once.returncode, once.stderr) == (0, "")
    lines = once.stdout.splitlines()
    assert len(lines) == 24
    assert max(map(len, lines)) <= 80
    assert re.search(rf"^ +{job} +debug +printed .*JobHeldUser", once.stdout, re.MULTILINE)
    assert "\x1b" not in once.stdout
    wide = subprocess.run(
        ["shim", "top", "--once"],
        env={**site, "COLUMNS": "999999999", "LINES": "999999999"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert wide.returncode == 0
    assert max(map(len, wide.stdout.splitlines())) == len(wide.stdout.splitlines()) == 1000
