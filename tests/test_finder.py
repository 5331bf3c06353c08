"""The finder of the commands' own modules: byte code that fits its source, and Python's own finders for all else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shim.main import Compiled, Finder

ROOT = Path(__file__).resolve().parents[1]
# As the launchers start a command; afterwards the modules that did not come by the finder, and what the asked one says.
START = """
import os, sys
sys.path.insert(0, sys.argv.pop(1))
ends = os._exit
def tell(code):
    others = [name for name, one in sys.modules.items() if name.startswith("shim.") and type(one.__loader__).__name__ != "Compiled"]
    sys.stderr.write(f"{others} {getattr(sys.modules['shim.commands.squeue'], 'SAYS', None)}\\n")
    ends(code)
os._exit = tell
import shim.main
shim.main.launch()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package, without byte code."""
    shutil.copytree(ROOT / "shim", tmp_path / "tree" / "shim", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "tree"


def squeue(tree: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", START, str(tree), "squeue", "-h"],
        env=dict(os.environ), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stderr.strip()


def test_a_command_finds_its_modules_by_it_once_they_are_compiled(tree: Path) -> None:
    assert "shim.commands.squeue" in squeue(tree)  # there was no byte code: Python's finders, which write it
    assert squeue(tree) == "['shim.main'] None"


def test_a_source_that_was_changed_counts(tree: Path) -> None:
    squeue(tree)
    file = tree / "shim/commands/squeue.py"
    file.write_text(file.read_text() + "\nSAYS = 'changed'\n")
    assert squeue(tree) == "['shim.main', 'shim.commands.squeue'] changed"
    assert squeue(tree) == "['shim.main'] changed"


@pytest.mark.parametrize("broken", [b"", b"\0" * 40, None])
def test_byte_code_that_is_broken_is_made_anew(tree: Path, broken: bytes | None) -> None:
    squeue(tree)
    (file,) = (tree / "shim/commands/__pycache__").glob("squeue.*.pyc")
    file.write_bytes(file.read_bytes()[:16] if broken is None else broken)
    if broken is None:  # its head fits: to Python's own finders too
        assert Finder(f"{tree}/").find_spec("shim.commands.squeue") is None
        return
    assert squeue(tree) == "['shim.main', 'shim.commands.squeue'] None"
    assert squeue(tree) == "['shim.main'] None"


def test_what_is_found_says_where_it_is(tree: Path) -> None:
    squeue(tree)
    finder = Finder(f"{tree}/")
    module, package = finder.find_spec("shim.commands.squeue"), finder.find_spec("shim.commands")
    assert module is not None
    assert package is not None
    assert isinstance(module.loader, Compiled)
    assert (module.origin, module.submodule_search_locations) == (f"{tree}/shim/commands/squeue.py", None)
    assert module.loader.code.co_filename == module.origin
    assert package.submodule_search_locations == [f"{tree}/shim/commands"]
    assert module.cached == str(Path(str(module.cached)).resolve())
    assert os.path.exists(str(module.cached))
    assert finder.find_spec("shim.commands.nothing") is None
    assert finder.find_spec("json") is None
