"""Node names by namespaces: the files, the trial, and a process that is really on a node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shim.job.agent import isolation
from tests.job.agent.support import NOBODY, ROOT

# Enters a node, then becomes a shell there. argv: checkout, files, node, uid or "", script.
ENTER = """
import ctypes, encodings.ascii, os, sys
sys.path.insert(0, sys.argv[1])
from shim.job import libc
from shim.job.agent import isolation
if sys.argv[4]:
    os.setgroups([]); os.setgid(int(sys.argv[4])); os.setuid(int(sys.argv[4])); libc._call("prctl", 4, 1, 0, 0, 0)
try:
    isolation.enter(sys.argv[2], sys.argv[3])
except OSError as error:
    print("refused:", error)
    sys.exit(3)
os.execv("/bin/sh", ["sh", "-c", sys.argv[5]])
"""
# Tries as that user. argv: checkout, files, uid.
PROBE = """
import ctypes, encodings.ascii, os, socket, sys
sys.path.insert(0, sys.argv[1])
from shim.job import libc
from shim.job.agent import isolation
os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3])); libc._call("prctl", 4, 1, 0, 0, 0)
print(*isolation.probe(sys.argv[2]))
"""


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(ROOT), *words], capture_output=True, text=True, timeout=60
    )


def on_node(folder: Path, script: str, uid: str = "") -> subprocess.CompletedProcess[str]:
    return run(ENTER, str(folder), "shim-node-a", uid, script)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    isolation.prepare(str(folder), {"shim-node-a": "127.0.0.71", "shim-node-b": "127.0.0.72"}, "/our commands")
    return folder


def test_the_files(files: Path) -> None:
    hosts = (files / "hosts").read_text()
    assert hosts.startswith("# a virtual node\n" + Path("/etc/hosts").read_text().rstrip("\n"))
    assert hosts.endswith("\n127.0.0.71\tshim-node-a\n127.0.0.72\tshim-node-b\n")


def test_files_that_are_right_are_left_alone(files: Path) -> None:
    def stamps() -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in files.iterdir()}

    before = stamps()
    isolation.prepare(str(files), {"shim-node-a": "127.0.0.71", "shim-node-b": "127.0.0.72"}, "/our commands")
    assert stamps() == before
    isolation.prepare(str(files), {"shim-node-a": "127.0.0.73"}, "/our commands")
    assert {name for name, stamp in stamps().items() if before[name] != stamp} == {"hosts"}
    assert (files / "hosts").read_text().endswith("127.0.0.73\tshim-node-a\n")


def test_the_profile_runs_the_real_one_and_puts_our_commands_first(tmp_path: Path) -> None:
    folder = tmp_path / "it's private"
    isolation.prepare(str(folder), {}, "/our $commands' place")
    (folder / "profile.system").write_text("PATH=/from/system\nOTHER=kept\n")
    shown = subprocess.run(
        ["/bin/sh", "-c", '. "$1"; echo "$PATH $OTHER"', "sh", str(folder / "profile")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "/our $commands' place:/from/system kept\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hosts: files dns\n", "hosts: files dns\n"),
        (
            "passwd: files\nhosts:\tmymachines resolve [!UNAVAIL=return] files dns",
            "passwd: files\nhosts: files mymachines resolve [!UNAVAIL=return] dns\n",
        ),
        ("hosts: dns\n", "hosts: files dns\n"),
    ],
)
def test_hosts_are_looked_up_in_the_file_first(before: str, after: str) -> None:
    assert isolation._files_first(before) == after


def test_a_trial_without_room_is_answered() -> None:
    mode, why = isolation.probe("/proc/nosuch")
    assert mode == "addresses"
    assert why.startswith("no room to try: ")


def test_the_trial_and_the_node_agree(files: Path) -> None:
    mode, why = isolation.probe()
    node = os.uname().nodename
    result = on_node(files, "uname -n; getent hosts shim-node-a shim-node-b; HOME=/nosuch sh -lc 'echo $PATH'; id -u")
    if mode == "addresses":
        assert why
        assert result.returncode == 3
        return
    assert mode == "namespaces"
    assert why.startswith("mount and UTS namespaces")
    name, first, second, path, uid = result.stdout.splitlines()
    assert name == "shim-node-a"
    assert first.split() == ["127.0.0.71", "shim-node-a"]
    assert second.split() == ["127.0.0.72", "shim-node-b"]
    assert path.split(":")[0] == "/our commands"
    assert uid == str(os.getuid())
    # The machine itself has noticed nothing.
    assert os.uname().nodename == node
    assert "shim-node" not in Path("/etc/hosts").read_text()
    assert (files / "profile.system").read_text() == ""


@pytest.mark.skipif(os.getuid() != 0, reason="the test above is this one")
def test_the_trial_and_the_node_agree_for_an_ordinary_user() -> None:
    base = Path(tempfile.mkdtemp(prefix="shim-isolation-", dir="/tmp"))  # where that user may look
    try:
        base.chmod(0o755)
        own = base / "own"
        own.mkdir()
        os.chown(own, NOBODY, NOBODY)
        tried = run(PROBE, str(own), str(NOBODY))
        mode, _, why = tried.stdout.strip().partition(" ")
        assert mode in ("namespaces", "addresses"), tried
        assert why
        files = base / "files"
        isolation.prepare(str(files), {"shim-node-a": "127.0.0.71"}, "/our/commands")
        result = on_node(files, "uname -n; getent hosts shim-node-a; id -u", str(NOBODY))
        if mode == "namespaces":
            name, first, uid = result.stdout.splitlines()
            assert (name, first.split(), uid) == ("shim-node-a", ["127.0.0.71", "shim-node-a"], str(NOBODY))
        else:
            assert result.returncode == 3, result
    finally:
        shutil.rmtree(base)


def test_everybody_may_read_the_mounted_files(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        isolation.prepare(str(tmp_path / "private"), {"n1": "127.0.0.2"}, "/commands")
    finally:
        os.umask(before)
    for name in ("hosts", "profile"):
        assert (tmp_path / "private" / name).stat().st_mode & 0o777 == 0o644
