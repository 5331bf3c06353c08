"""A state folder that others own, or can write to, is not used: what is in it is run."""

from __future__ import annotations

import os
import pwd  # noqa: F401  # loaded for the other user, who may not be able to read the interpreter's files
import resource  # noqa: F401  # as before
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shim.admin.doctor import BAD, machine
from shim.commands import entrypoint
from shim.control import paths, site, starter
from shim.control.controller import main as controller_main
from shim.core.errors import ShimError
from shim.job.agent import isolation
from tests import reference
from tests.control.controller.fakes import Bench, bench
from tests.other_user import MALLORY, USER, needs_root, run_as

HOST = os.uname().nodename


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like /tmp, that all users reach. Commands were run here before: what they load is loaded."""
    assert entrypoint.run("squeue", ["-h"]) == 0
    folder = Path(tempfile.mkdtemp(prefix="shim-shared-"))
    folder.chmod(0o1777)
    monkeypatch.setenv("SHIM_STATE_DIR", str(folder / "proj"))
    yield folder
    shutil.rmtree(folder)


def made(path: Path, uid: int = USER, mode: int = 0o700) -> Path:
    """A folder of that user's, and what is missing above it."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir()
            os.chown(folder, uid, uid)
            folder.chmod(mode if folder == path else 0o700)
    return path


def planted(folder: Path, uid: int) -> None:
    """A state folder of that user's with a job that is due, one of USER's by its record."""
    run_as(0, lambda: reference.write_index(folder / "index.db", [reference.job(1, uid=USER, user="victim")]))
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, uid, uid)
        path.chmod(0o755 if path.is_dir() else 0o666)


def command(*words: str) -> Callable[[], object]:
    """That command of ours, and its exit code."""
    return lambda: print("exit code", entrypoint.run(words[0], list(words[1:])))


def state_dir() -> str:
    """What is printed of the gate."""
    try:
        return "may be used: " + paths.ensure(paths.state_dir())
    except ShimError as error:
        return str(error)


@needs_root
@pytest.mark.parametrize("words", [("squeue",), ("sbatch", "--wrap", "true"), ("scancel", "1"), ("sacct",)])
def test_a_planted_job_is_not_even_read(shared: Path, words: tuple[str, ...]) -> None:
    planted(shared / "proj" / HOST, MALLORY)
    said = run_as(USER, command(*words))
    assert f"error: the state folder {shared}/proj/{HOST} is not safe: {shared}/proj belongs to uid {MALLORY}" in said
    assert "name a folder of your own in SHIM_STATE_DIR\nexit code 1\n" in said
    assert not (shared / "proj" / HOST / "controller.lock").exists()


@needs_root
@pytest.mark.parametrize(
    ("level", "mode", "refused"),
    [
        ("proj", 0o775, True),
        ("proj", 0o1777, False),  # a parent may be sticky: nobody else can take away what is there
        (f"proj/{HOST}", 0o770, True),
        (f"proj/{HOST}", 0o1777, True),
        (f"proj/{HOST}", 0o755, False),
    ],
)
def test_levels_that_others_can_write(shared: Path, level: str, mode: int, refused: bool) -> None:
    made(shared / "proj" / HOST)
    (shared / level).chmod(mode)
    said = run_as(USER, lambda: print(state_dir()))
    assert ("can be written by others" in said) == refused
    assert (f"chmod go-w {shared}/{level}" in said) == refused


@needs_root
def test_links_on_the_way_are_their_owners(shared: Path) -> None:
    made(shared / "mine" / HOST)
    (shared / "proj").symlink_to("mine")
    os.chown(shared / "proj", USER, USER, follow_symlinks=False)
    assert "may be used" in run_as(USER, lambda: print(state_dir()))
    os.chown(shared / "proj", MALLORY, MALLORY, follow_symlinks=False)
    assert f"{shared}/proj belongs to uid {MALLORY}" in run_as(USER, lambda: print(state_dir()))


@pytest.mark.parametrize("umask", [0o002, 0o777, 0o000])
def test_levels_are_made_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int) -> None:
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path / "a" / "b" / "shim"))
    monkeypatch.setenv("SHIM_LOCAL_NODES", "2")  # so that the clusters are kept in a file
    before = os.umask(umask)
    try:
        site.backends()
    finally:
        os.umask(before)
    levels = [tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/shim", tmp_path / "a/b/shim" / HOST]
    assert [oct(level.stat().st_mode & 0o7777) for level in levels] == ["0o700"] * 4


@needs_root
def test_root_reads_a_users_folder_and_runs_nothing_there(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(shared / "proj" / HOST, USER)
    before = sorted(os.listdir(shared / "proj" / HOST))
    said = run_as(0, command("squeue", "-ho", "%i %u"))
    assert f"cannot be started: the state folder {shared}/proj/{HOST} belongs to uid {USER}: root looks at it" in said
    assert "1 victim\nexit code 0\n" in said
    said = run_as(0, command("sbatch", "--wrap", "true"))
    assert "or run this as that user\nexit code 1\n" in said
    with pytest.raises(paths.NotOurs):
        starter.start()
    monkeypatch.setattr(sys, "argv", ["controller"])  # whatever words pytest was given
    assert controller_main.main() == 1
    found = {name for name in os.listdir(shared / "proj" / HOST) if not name.startswith("index.db-")}
    assert sorted(found) == before


@needs_root
def test_root_believes_no_cache_of_another_user(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_LOCAL_NODES", "2")
    sinfo = command("sinfo", "-ho", "%D %P")
    assert run_as(0, sinfo) == "2 debug*\nexit code 0\n"
    cache = shared / "proj" / HOST / "site.cache"
    lie = cache.read_bytes().replace(b"debug", b"bogus")
    cache.write_bytes(lie)
    assert run_as(0, sinfo) == "2 bogus*\nexit code 0\n", "root's own is believed"
    for path in (shared / "proj", *(shared / "proj").rglob("*")):
        os.chown(path, USER, USER)
    assert run_as(0, sinfo).endswith("2 debug*\nexit code 0\n")
    assert cache.read_bytes() == lie


def test_files_are_not_opened_by_links(tmp_path: Path, state_dir: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data\n")
    folder = Path(paths.ensure(paths.state_dir()))
    for name in ("controller.lock", "controller.log"):
        (folder / name).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        controller_main._lock(str(folder / "controller.lock"))
    entrypoint._log("squeue", ValueError("an error of ours"))
    assert precious.read_text() == "data\n"


@bench
async def test_no_job_of_another_uid_is_launched(box: Bench) -> None:
    job_id = await box.submit(hold=True)
    box.controller.world.uid = 4711
    assert await box.results("release_job", {"job_id": job_id}) == [None]
    assert (box.job(job_id).state, box.job(job_id).reason) == ("FAILED", "JobLaunchFailure")
    assert box.backend.starts == []
    with pytest.raises(ShimError, match="Batch job submission failed: Access/permission denied"):
        await box.submit()


def test_the_doctor_says_it(state_dir: Path) -> None:
    folder = state_dir / HOST
    folder.mkdir(parents=True)
    folder.chmod(0o770)
    findings = [text for verdict, text in machine._findings() if verdict == BAD]
    assert len(findings) == 1
    assert f"can be written by others, who could have put jobs there; chmod go-w {folder}" in findings[0]


def test_a_trial_that_is_killed_leaves_nothing_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pid = os.fork()
    if pid == 0:
        try:
            monkeypatch.setattr(isolation, "_try", lambda folder: os.kill(os.getppid(), signal.SIGKILL))
            site.probe()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    mode = site.probe()[0]
    assert mode in (isolation.NAMESPACES, isolation.ADDRESSES)
    assert os.listdir(tmp_path / "temporary") == []
    assert os.listdir(paths.state_dir()) == ["probe"]
