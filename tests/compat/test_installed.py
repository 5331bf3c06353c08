"""The wheel, installed by the programs that people use: the commands run jobs, and manual pages and completion are where man and shells look."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from compat.clients import environment
from shim.dispatch import MODULES
from tests.control.controller import processes

pytestmark = pytest.mark.clients

ROOT = Path(__file__).resolve().parents[2]
# What an sdist has; without it the builders would write into the checkout.
SOURCES = ("bin", "shim", "pyproject.toml", "README.md", "LICENSE")
SHARED = (
    "bash-completion/completions/sbatch",
    "fish/vendor_completions.d/sbatch.fish",
    "man/man1/sbatch.1",
    "zsh/site-functions/_shim",
)


def called(*words: str | Path, env: Mapping[str, str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        list(map(str, words)),
        env=dict(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installers() -> Path:
    """The programs' folder; where there must be one, a test that is not run is no test passed."""
    if not environment.is_up(environment.INSTALLERS):
        refuse = pytest.fail if os.environ.get("SHIM_TEST_CLIENTS") else pytest.skip
        refuse("no installers: python -m compat.clients.environment up")
    return environment.folder(environment.INSTALLERS) / "bin"


@pytest.fixture(scope="module")
def wheel(installers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the sdist of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / "source" / name)
    (folder / "tmp").mkdir()
    environ = {**os.environ, "TMPDIR": str(folder / "tmp")}
    called(installers / "python", "-m", "build", "--outdir", folder / "dist", folder / "source", env=environ)
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """The environment of someone who has nothing yet."""
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    return {
        **{
            name: value for name, value in os.environ.items() if name not in ("XDG_DATA_HOME", "VIRTUAL_ENV", "MANPATH")
        },
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PATH": f"{tmp_path}/home/.local/bin:/usr/bin:/bin",
        "SHIM_DEFAULT": "local",
        "SHIM_NO_SYSTEM_CONFIG": "1",
    }


def runs_a_job(person: Mapping[str, str], tmp_path: Path) -> None:
    with processes.ended_afterwards():
        called(
            "sbatch",
            "--wait",
            "-n2",
            "-o",
            "out",
            "--wrap",
            "srun -l hostname; sbatch --version",
            env=person,
            cwd=tmp_path,
        )
        assert sorted((tmp_path / "out").read_text().split()) == ["0:", "1:", "22.05.8", "node1", "node1", "slurm"]
        assert "slurm" not in called("squeue", "-h", env=person)
        called("shim", "controller", "stop", env=person)


def test_pip(wheel: Path, person: dict[str, str], tmp_path: Path) -> None:
    prefix = tmp_path / "venv"
    called(sys.executable, "-m", "venv", prefix, env=person)
    called(prefix / "bin/pip", "install", "-q", "--disable-pip-version-check", wheel, env=person)
    person["PATH"] = f"{prefix}/bin:/usr/bin:/bin"
    runs_a_job(person, tmp_path)
    assert sorted(path.name for path in (prefix / "share/man/man1").iterdir()) == sorted(
        f"{name}.1" for name in MODULES
    )
    assert all((prefix / "share" / name).is_file() for name in SHARED)
    if shutil.which("man"):  # it goes by PATH
        assert called("man", "-w", "sbatch", env=person).strip() == f"{prefix}/share/man/man1/sbatch.1"
        assert "slurm-shim" in called("man", "sbatch", env=person)
    completes(prefix / "share", person)
    called(prefix / "bin/pip", "uninstall", "-q", "-y", "slurm-shim", env=person)
    assert not any((prefix / "share" / name).exists() for name in SHARED)
    assert not (prefix / "bin/sbatch").exists()


def completes(share: Path, person: Mapping[str, str]) -> None:
    """bash, and fish where it is there, find the options of sbatch by their files."""
    lines = (
        f"source {share}/bash-completion/completions/sbatch; COMP_WORDS=(sbatch --parti); COMP_CWORD=1; _shim_complete"
    )
    assert called("bash", "-c", f'{lines}; echo "$COMPREPLY"', env=person) == "--partition=\n"
    if shutil.which("fish"):
        lines = f"set fish_complete_path {share}/fish/vendor_completions.d; complete -C 'squeue --nohea'"
        assert called("fish", "--no-config", "-c", lines, env=person).split("\t")[0] == "--noheader"


def test_pipx(wheel: Path, installers: Path, person: dict[str, str], tmp_path: Path) -> None:
    called(installers / "pipx", "install", "--python", sys.executable, wheel, env=person)
    runs_a_job(person, tmp_path)
    shared = tmp_path / "home/.local/share"
    assert all((shared / name).is_file() for name in SHARED)  # pipx links them where everybody looks
    called(installers / "pipx", "uninstall", "slurm-shim", env=person)
    assert not (tmp_path / "home/.local/bin/sbatch").exists()


def test_uv(wheel: Path, installers: Path, person: dict[str, str], tmp_path: Path) -> None:
    called(installers / "uv", "tool", "install", "-q", "--python", sys.executable, wheel, env=person)
    runs_a_job(person, tmp_path)
    folder = Path(called(installers / "uv", "tool", "dir", env=person).strip())
    assert all((folder / "slurm-shim" / "share" / name).is_file() for name in SHARED)
    called(installers / "uv", "tool", "uninstall", "-q", "slurm-shim", env=person)
    assert not (tmp_path / "home/.local/bin/sbatch").exists()
