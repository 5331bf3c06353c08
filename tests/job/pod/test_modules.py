"""Modules out of one file, and those of which only the sources are there."""

from __future__ import annotations

import io
import marshal
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

from shim.job.pod import modules

SOURCES = {
    "things/__init__.py": "size = 1\n",
    "things/one.py": "from things import size\nname = __name__, __package__, size\n",
    "things/other.py": "from things.one import name\nhere = __file__\n",
}
KNOWN = ("things", "things.one")
USE = """
import sys
from marshal import loads
sys.path.insert(0, sys.argv[1])
from shim.job.pod import modules
modules.install(loads(open(sys.argv[2] + "/modules", "rb").read()), sys.argv[2])
try:
    import things.nothing
except ImportError as error:
    print(error)
import things.one
print(things.one.name, things.one.__spec__.origin)
print("tree", __import__("os").path.exists(sys.argv[2] + "/tree"))
import things.other
print(things.other.name, things.other.here)
"""
ROOT = Path(__file__).resolve().parents[3]


def store(folder: Path) -> None:
    """The files that boot makes."""
    codes = {}
    for name, text in SOURCES.items():
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if module in KNOWN:
            codes[module] = (name.endswith("__init__.py"), marshal.dumps(compile(text, name, "exec")))
    (folder / modules.FILE).write_bytes(marshal.dumps((codes, ("things.other",))))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in SOURCES.items():
            file.writestr(name, text)
    packer = zlib.compressobj(wbits=-15)
    (folder / modules.SOURCES).write_bytes(packer.compress(archive.getvalue()) + packer.flush())


def test_modules_come_from_the_file_and_the_others_from_the_sources(tmp_path: Path) -> None:
    store(tmp_path)
    expected = [
        "No module named 'things.nothing'",
        f"('things.one', 'things', 1) {tmp_path}/tree/things/one.py",
        "tree False",
        f"('things.one', 'things', 1) {tmp_path}/tree/things/other.py",
    ]
    command = [sys.executable, "-I", "-S", "-c", USE, str(ROOT), str(tmp_path)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == expected
        expected[2] = "tree True"


def test_commands_that_need_the_sources_at_the_same_time_share_them(tmp_path: Path) -> None:
    store(tmp_path)
    command = [sys.executable, "-I", "-S", "-c", USE, str(ROOT), str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert out.splitlines()[-1].endswith("/tree/things/other.py")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["modules", "sources", "tree"]
