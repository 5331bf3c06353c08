"""A command looks at its surroundings once: each file that they are known from is opened once in all of its work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.control import paths, site
from shim.core import memo
from tests import reference

ROOT = Path(__file__).resolve().parents[1]
# Starts the command as launchers do, and tells every file that it opens.
START = """
import os, sys
sys.path.insert(0, sys.argv.pop(1))
import shim.main
opened = []
def note(event, words):
    if event in ("open", "sqlite3.connect") and isinstance(words[0], str):
        opened.append(words[0])
sys.addaudithook(note)
ends = os._exit
def tell(code):
    sys.stderr.write("\\n".join(name for name in opened if not name.endswith((".py", ".pyc"))))
    ends(code)
os._exit = tell
shim.main.launch()
"""


@pytest.fixture
def index() -> None:
    """An index without active jobs, so that no controller is asked for; the site's clusters are kept."""
    reference.write_index(paths.index_path(), [], reference.STEPS)
    site.cluster()


@pytest.mark.parametrize(
    "words", ["squeue", "squeue -a -M local", "sinfo", "sinfo -N -l", "scontrol show node", "sacct"]
)
def test_no_file_is_opened_twice(index: None, tmp_path: Path, words: str) -> None:
    program = tmp_path / "real" / "sbatch"  # a real Slurm's, which every command looks for
    program.parent.mkdir()
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", START, str(ROOT), *words.split()],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    opened = done.stderr.split("\n")
    assert str(program) in opened
    assert f"file:{paths.index_path()}?mode=ro" in opened
    assert sorted(set(opened)) == sorted(opened)


def test_a_session_of_scontrol_looks_again_for_each_command(index: None, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"

    def write(partition: str) -> None:
        config.write_text(f"[clusters.local]\nnodes = 1\n[clusters.local.partitions.{partition}]\ndefault = true\n")

    write("first")
    session = subprocess.Popen(
        [str(ROOT / "bin/scontrol")],
        env={**os.environ, "SHIM_CONFIG": str(config), "SHIM_PYTHON": sys.executable},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert session.stdin is not None
    assert session.stdout is not None
    told = []
    for partition in ("first", "second"):
        write(partition)
        session.stdin.write(b"show partition\n")
        session.stdin.flush()
        line = b""
        while b"PartitionName=" not in line and session.poll() is None:
            line = session.stdout.readline()
        told.append(line.rpartition(b"=")[2].strip().decode())
    session.communicate(b"exit\n", timeout=60)
    assert told == ["first", "second"]
    assert session.returncode == 0


def test_who_lives_on_looks_each_time_and_a_command_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "_found", None)
    numbers = iter(range(9))
    assert [memo.once("number", lambda: next(numbers)) for _ in range(2)] == [0, 1]
    memo.hold()
    assert [memo.once("number", lambda: next(numbers)) for _ in range(2)] == [2, 2]
    memo.renew()
    assert memo.once("number", lambda: next(numbers)) == 3
