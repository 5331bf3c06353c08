"""The edge of every command: errors, closed pipes, full disks, and launchers that nothing of the user's can break."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shim import dispatch
from shim.commands import entrypoint
from shim.control import paths
from shim.core.errors import ShimError, plain

ROOT = Path(__file__).resolve().parents[2]


def test_errors_are_lines_with_the_program_in_front(capsys: pytest.CaptureFixture[str]) -> None:
    def refuses(argv: list[str]) -> int:
        print("so far")
        raise ShimError("error: no", plain('Try "x --help"'), code=255)

    assert entrypoint.run("sbatch", [], refuses) == 255
    out, err = capsys.readouterr()
    assert (out, err) == ("so far\n", 'sbatch: error: no\nTry "x --help"\n')


def test_an_unknown_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert entrypoint.run("sfoo", []) == 1
    assert "unknown program name 'sfoo'" in capsys.readouterr().err


def test_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(argv: list[str]) -> int:
        raise KeyboardInterrupt

    assert entrypoint.run("squeue", [], interrupted) == 130
    assert capsys.readouterr().err == ""


def test_the_unexpected_is_one_line_and_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    def breaks(argv: list[str]) -> int:
        raise KeyError("surprise")

    assert entrypoint.run("squeue", [], breaks) == 1
    err = capsys.readouterr().err
    assert err == f"squeue: error: internal error: KeyError: 'surprise' (details in {paths.log_path()})\n"
    log = Path(paths.log_path()).read_text()
    assert "Traceback (most recent call last)" in log
    assert "surprise" in log


def test_the_unexpected_without_a_state_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SHIM_STATE_DIR", str(blocked / "state"))

    def breaks(argv: list[str]) -> int:
        raise KeyError("surprise")

    assert entrypoint.run("squeue", [], breaks) == 1
    assert capsys.readouterr().err == "squeue: error: internal error: KeyError: 'surprise'\n"


def test_every_program_has_a_launcher_and_all_launchers_are_equal() -> None:
    texts = {name: (ROOT / "bin" / name).read_bytes() for name in dispatch.MODULES}
    assert len(set(texts.values())) == 1
    assert all(os.access(ROOT / "bin" / name, os.X_OK) for name in texts)


def launch(command: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a launcher with this suite's interpreter."""
    return subprocess.run(
        command,
        env={**os.environ, "SHIM_PYTHON": sys.executable, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_launchers_do_not_see_the_users_python(tmp_path: Path) -> None:
    (tmp_path / "time.py").write_text("raise SystemExit('the wrong module')")
    (tmp_path / "shim").mkdir()
    done = launch(
        [str(ROOT / "bin" / "squeue"), "-V"],
        PYTHONHOME="/nonexistent",
        PYTHONPATH=str(tmp_path),
        PYTHONSTARTUP=str(tmp_path / "time.py"),
        VIRTUAL_ENV="/nonexistent",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "slurm 22.05.8\n", "")


def test_launchers_are_found_through_links_and_relative_names(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(ROOT / "bin")
    (tmp_path / "sinfo").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "one" / "squeue")
    assert launch([str(tmp_path / "sinfo"), "-V"]).stdout == "slurm 22.05.8\n"
    assert launch([str(tmp_path / "one" / "squeue"), "-V"]).stdout == "slurm 22.05.8\n"
    assert launch(["sh", "-c", f"cd '{ROOT}/bin' && ./squeue -V && sh squeue -V"]).stdout == "slurm 22.05.8\n" * 2
    assert launch(["sh", "-c", "squeue -V"], PATH=f"{ROOT / 'bin'}:/usr/bin:/bin").stdout == "slurm 22.05.8\n"


@pytest.mark.parametrize("layout", ["environment", "editable", "beside the system's Python"])
def test_installed_launchers_find_their_package_and_interpreter(layout: str, tmp_path: Path) -> None:
    """What pip lays down: the file in bin/, the package in site-packages or, editable, behind the interpreter's own path."""
    python = f"python3.{sys.version_info.minor}"
    home, path = tmp_path / "the environment", tmp_path / "path"
    packages = home / "lib" / python / "site-packages"
    for folder in (home / "bin", packages, path):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "bin" / "squeue", home / "bin")
    if layout == "environment":
        (home / "bin" / python).symlink_to(sys.executable)
        (packages / "shim").symlink_to(ROOT / "shim")
    elif layout == "editable":
        (home / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
        (home / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
        (packages / "shim.pth").write_text(f"{ROOT}\n")
    else:
        (path / python).symlink_to(sys.executable)
        (packages / "shim").symlink_to(ROOT / "shim")
    done = launch(
        [str(home / "bin" / "squeue"), "-V"], SHIM_PYTHON="", PYTHONHOME="/nonexistent", PATH=f"{path}:/usr/bin:/bin"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "slurm 22.05.8\n", "")


def test_pip_installs_every_launcher() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert sorted(project["tool"]["setuptools"]["script-files"]) == sorted(f"bin/{name}" for name in dispatch.MODULES)
    assert "scripts" not in project["project"]  # pip's own scripts start Python as the user's PYTHONHOME says


@pytest.mark.parametrize(
    ("closed", "argv", "code"),
    [
        ("stdout", ["squeue", "--help"], -signal.SIGPIPE),
        ("stdout", ["srun", "--help"], 0),  # it blocks SIGPIPE
        ("stderr", ["sinfo", "-vvv"], 0),
        ("stderr", ["scontrol", "show", "job", "1"], -signal.SIGPIPE),  # what is said past the log
        ("stderr", ["srun", "--nosuch"], 255),
    ],
)
def test_a_closed_pipe_is_silent(closed: str, argv: list[str], code: int) -> None:
    """The reader has gone before the first byte is written."""
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writing}
    done = subprocess.run(
        [str(ROOT / "bin" / argv[0]), *argv[1:]],
        env={**os.environ, "SHIM_PYTHON": sys.executable},
        timeout=120,
        check=False,
        **streams,  # type: ignore[call-overload]
    )
    os.close(writing)
    assert done.returncode == code
    assert closed == "stderr" or done.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_named() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [str(ROOT / "bin" / "squeue"), "-V"],
            env={**os.environ, "SHIM_PYTHON": sys.executable},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"squeue: error: write error: No space left on device\n"


@pytest.mark.parametrize("words", [["-V"], ["man", "sbatch"]])
def test_whatever_is_lost_of_a_long_output_is_told(words: list[str]) -> None:
    """More than a buffer holds is written, and refused, before the end."""
    environ = {**os.environ, "SHIM_PYTHON": sys.executable}
    command = [str(ROOT / "bin" / "shim"), *words]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=environ, stdout=full, stderr=subprocess.PIPE, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, b"shim: error: write error: No space left on device\n")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, env=environ, stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


@pytest.mark.parametrize("error", [ShimError("error: refused", code=3), ValueError("a fault of ours")])
def test_an_error_beside_a_full_disk_is_told(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], state_dir: Path
) -> None:
    def main(_argv: list[str]) -> int:
        sys.stdout.write("a part of it")
        raise error

    kept = os.dup(1)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    try:
        with open(1, "w", closefd=False) as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            code = entrypoint.run("squeue", [], main)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(full)
    assert code == getattr(error, "code", 1)
    assert str(error).removeprefix("error: ") in capfd.readouterr().err


def test_names_that_are_no_text_pass_unchanged() -> None:
    done = subprocess.run(
        [os.fsencode(ROOT / "bin" / "squeue"), b"-j", b"\xff\xfe"],
        env={**os.environ, "SHIM_PYTHON": sys.executable, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"squeue: error: Invalid job id: \xff\xfe\n")


@pytest.mark.parametrize(("closed", "stream"), [("<&-", 0), (">&-", 1), ("2>&-", 2), ("<&- >&- 2>&-", 0)])
def test_a_closed_stream_is_dev_null_and_no_socket_gets_its_number(closed: str, stream: int, tmp_path: Path) -> None:
    program = tmp_path / "entry.py"
    program.write_text(
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import shim.main\n"
        "from shim.commands import entrypoint\n"
        "def entry(program, arguments, main):\n"
        "    import socket\n"
        "    socket.socket()\n"
        "    print('out'); print('error', file=sys.stderr); sys.stdout.write('')\n"
        f"    return 0 if os.path.realpath('/proc/self/fd/{stream}') == '/dev/null' and os.get_inheritable({stream}) else 9\n"
        "entrypoint.run = entry\n"
        "sys.argv = ['squeue', 'squeue']\n"
        "shim.main.launch()\n"
    )
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -I -S "$1" {closed}', sys.executable, str(program)],
        input="", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_checkout_that_was_never_set_up_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    def needs(argv: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'typer.main'", name="typer.main")

    assert entrypoint.run("shim", [], needs) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"shim: error: the Python package typer is not installed for {sys.executable}"
    assert "./dev setup" in second


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sbatch -H /dev/zero", "sbatch: error: This does not look like a batch script.  The first"),
        ("sbatch -H </dev/zero", "sbatch: error: This does not look like a batch script.  The first"),
        ("sbatch -H --wrap=true --bbf=/dev/zero", "sbatch: error: Invalid --bbf specification"),
        (
            "sbatch -H --wrap=true --export-file=/dev/zero",
            "sbatch: error: Could not open user environment file /dev/zero",
        ),
        (
            "srun -n1 --multi-prog /dev/zero",
            "srun: error: Could not open multi_prog config file /dev/zero: File too large",
        ),
        ("env SHIM_CONFIG=/dev/zero squeue", "squeue: error: /dev/zero: File too large"),
    ],
)
def test_a_file_without_an_end_is_not_read_to_it(tmp_path: Path, words: str, said: str) -> None:
    done = launch(
        ["bash", "-c", f"ulimit -v 1000000; {words}"],
        PATH=f"{ROOT / 'bin'}:/usr/bin:/bin",
        SHIM_STATE_DIR=str(tmp_path / "state"),
        SHIM_CONFIG="",
        SHIM_NO_SYSTEM_CONFIG="1",
        XDG_CONFIG_HOME=str(tmp_path),
    )
    assert (done.returncode, done.stdout, done.stderr.splitlines()[0]) == (1, "", said)
