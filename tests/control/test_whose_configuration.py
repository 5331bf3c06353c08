"""A configuration names programs to run: one that others own, or could have written, is not read, and that is said."""

from __future__ import annotations

import os
import pwd  # noqa: F401  # loaded for the other user, who may not be able to read the interpreter's files
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.admin import app
from shim.admin.doctor import BAD, machine
from shim.control import config, site, sources
from shim.core.errors import ShimError
from tests.other_user import MALLORY, USER, needs_root, run_as

LAUNCHER = Path(__file__).resolve().parents[2] / "bin" / "squeue"
TEXT = '[clusters.planted]\nbackend = "slurm"\nbin = "{bin}"\n'


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of USER's that everybody can look into, with a configuration whose ``squeue`` tells that it was run."""
    folder = Path(tempfile.mkdtemp(prefix="shim-home-"))
    programs = folder / "bin"
    file = folder / ".config" / "shim" / "config.toml"
    for one in (programs, file.parent):
        one.mkdir(parents=True)
    file.write_text(TEXT.format(bin=programs))
    for name in ("squeue", "scontrol"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {folder}/was-run\n")
    for one in (folder, *folder.rglob("*")):
        one.chmod(0o755)
        os.chown(one, USER, USER)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    yield folder
    shutil.rmtree(folder)


def squeue(**more: str) -> subprocess.CompletedProcess[str]:
    """The command as root runs it from a shell."""
    return subprocess.run(
        [LAUNCHER, "-h"],
        env={**os.environ, "SHIM_PYTHON": sys.executable, **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def read() -> None:
    """Prints the clusters of the configuration, or what is said of it."""
    try:
        print(*config.load().clusters)
        sources.warn("squeue")
    except ShimError as error:
        print(error)


@needs_root
@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME"])
def test_root_runs_no_program_that_a_user_has_configured(home: Path, variable: str) -> None:
    done = squeue(**({} if variable == "HOME" else {"HOME": "/root", variable: str(home / ".config")}))
    assert not (home / "was-run").exists()
    file = home / ".config" / "shim" / "config.toml"
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        f"squeue: warning: {file} is not read: {home} belongs to uid {USER}, who could have put programs there\n"
    )


@needs_root
def test_root_goes_by_no_file_of_a_user_that_is_named(home: Path) -> None:
    file = home / ".config" / "shim" / "config.toml"
    done = squeue(HOME="/root", SHIM_CONFIG=str(file))
    assert not (home / "was-run").exists()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"squeue: error: SHIM_CONFIG names {file}, which root does not go by: {home} belongs to uid {USER},"
        " who could have put programs there\n"
    )


@needs_root
def test_a_cache_does_not_outlive_the_file_s_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "shared.toml"
    file.write_text("[clusters.one]\n")
    monkeypatch.setenv("SHIM_CONFIG", str(file))
    assert list(site.backends()) == ["one"]
    os.chown(file, USER, USER)
    with pytest.raises(ShimError, match="which root does not go by"):
        site.backends()


@needs_root
def test_the_user_s_own_counts_and_so_does_what_users_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_as(USER, read) == "planted\n"
    assert "local\nsqueue: warning: " in run_as(MALLORY, read)
    file = home / ".config" / "shim" / "config.toml"
    monkeypatch.setenv("SHIM_CONFIG", str(file))
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    assert run_as(MALLORY, read) == "planted\n"


@needs_root
@pytest.mark.parametrize(
    ("level", "mode", "counts"),
    [
        (".config/shim/config.toml", 0o664, False),
        (".config/shim/config.toml", 0o646, False),
        (".config/shim", 0o775, False),
        (".config", 0o777, False),
        (".config", 0o1777, True),  # a parent may be sticky: nobody else can take away what is there
        (".", 0o770, False),
        (".", 0o755, True),
    ],
)
def test_levels_that_others_can_write(home: Path, level: str, mode: int, counts: bool) -> None:
    (home / level).chmod(mode)
    said = run_as(USER, read)
    assert (said == "planted\n") == counts
    assert (f"{home / level} can be written by others (chmod go-w {home / level})" in said) != counts


@needs_root
def test_links_are_their_owner_s_and_root_may_have_placed_one(home: Path) -> None:
    file = home / ".config" / "shim" / "config.toml"
    file.rename(home / "kept.toml")
    file.symlink_to("../../kept.toml")
    os.chown(file, 0, 0, follow_symlinks=False)
    assert run_as(USER, read) == "planted\n"
    os.chown(file, MALLORY, MALLORY, follow_symlinks=False)
    assert f"{file} belongs to uid {MALLORY}" in run_as(USER, read)


def test_what_is_mended_counts_at_once_and_the_doctor_says_what_does_not(tmp_path: Path) -> None:
    file = tmp_path / "config" / "shim" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[clusters.mine]\n")
    file.chmod(0o666)
    assert list(site.backends()) == ["local"]
    stamps = site.file_stamps()
    findings = [text for verdict, text in machine._findings() if verdict == BAD]
    assert findings == [
        f"configuration: {file} is not read: {file} can be written by others (chmod go-w {file}), who could have put programs there"
    ]
    file.chmod(0o644)
    assert site.file_stamps() != stamps  # a controller sees it
    assert list(site.backends()) == ["mine"]


def test_init_writes_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -p gpu\n")
    before = os.umask(0o002)
    try:
        assert app.main(["init", str(script)]) == 0
    finally:
        os.umask(before)
    assert not sources.unread(sources.users_file(os.environ), os.environ)
    assert [one.name for one in site.cluster().partitions] == ["gpu"]
