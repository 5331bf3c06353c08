"""`shim uninstall`: it removes what is ours, and nothing else; not while jobs run."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.cluster.processes import processes_with
from shim.admin import uninstall
from shim.testing import Cluster
from tests.support import wait_until


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        yield cluster


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_everything_of_ours_goes_and_nothing_else(slurm: Cluster) -> None:
    home, state = slurm.folder / "home", Path(slurm.state_dir)
    slurm.submit("#!/bin/bash\nsrun -N2 true\n", nodes=2).wait()
    written = home / ".config/shim/config.toml"
    written.parent.mkdir(parents=True)
    written.write_text("")
    completion = home / ".local/share/bash-completion/completions"
    completion.mkdir(parents=True)
    (completion / "shim").write_text(slurm.run("shim", "completion", "bash").stdout)
    (completion / "sbatch").write_text("# somebody else's\n")
    (home / ".bashrc").write_text("alias a=b\nsource <(shim completion bash)\n")
    (state / "notes.txt").write_text("mine")
    (state.parent / "elsewhere").mkdir()
    (state.parent / "elsewhere/controller.lock").touch()

    slurm.run("strigger", "--set", "--node", "--down", "--program=/bin/true")

    told = slurm.run("shim", "uninstall", "--dry-run").stdout
    assert (state / "index.db").exists() and "stays: the commands themselves; they are the checkout" in told
    for line in (
        f"would remove: {state}/index.db",
        "ends: 1 trigger of strigger, which the index has",
        f"would remove: {written}",
        f"would remove: {completion}/shim",
        f"stays: {state}/notes.txt: not ours",
        f"stays: {state.parent}/elsewhere: the state on the host elsewhere; run shim uninstall there",
        f"stays: {home}/.bashrc, line 2: source <(shim completion bash): yours to delete",
        f"stays: {slurm.config}: a configuration that others may use",
    ):
        assert line in told.splitlines(), told

    refused = slurm.run("shim", "uninstall", check=False)
    assert refused.code == 1 and "--yes removes" in refused.stderr
    slurm.run("shim", "uninstall", "--yes")
    assert files(state.parent) == {state.name, f"{state.name}/notes.txt", "elsewhere", "elsewhere/controller.lock"}
    assert {".bashrc", ".local/share/bash-completion/completions/sbatch"} <= files(home)
    assert not {".config/shim/config.toml", ".config/shim", ".local/share/bash-completion/completions/shim"} & files(
        home
    )
    assert slurm.config.exists()
    wait_until(lambda: not list(processes_with({"SHIM_STATE_DIR": str(state.parent)})), "its processes have ended")


def test_a_second_time_there_is_nothing(slurm: Cluster) -> None:
    slurm.submit("#!/bin/bash\ntrue\n").wait()
    slurm.run("shim", "uninstall", "-y")
    assert not Path(slurm.state_dir).exists()
    assert "to remove" not in slurm.run("shim", "uninstall", "-y").stdout
    assert not Path(slurm.state_dir).exists()


def test_not_while_jobs_have_not_ended(slurm: Cluster) -> None:
    job = slurm.submit("#!/bin/bash\nsleep 1000\n").wait_for("RUNNING")
    held = slurm.submit("#!/bin/bash\ntrue\n", hold=True)
    before = files(Path(slurm.state_dir))
    refused = slurm.run("shim", "uninstall", "--yes", check=False)
    assert refused.code == 1 and "jobs of yours have not ended here: 1 2" in refused.stderr
    assert (
        job.state == "RUNNING"
        and held.state == "PENDING"
        and {"index.db", "spool"} <= before & files(Path(slurm.state_dir))
    )


def test_it_asks(slurm: Cluster) -> None:
    slurm.submit("#!/bin/bash\ntrue\n").wait()
    for answer, there in ((b"n\n", True), (b"y\n", False)):
        ours, theirs = pty.openpty()
        os.write(ours, answer)
        done = subprocess.run(["shim", "uninstall"], stdin=theirs, capture_output=True, timeout=60)
        os.close(ours)
        os.close(theirs)
        assert (done.returncode, Path(slurm.state_dir).exists()) == (int(there), there)


def test_how_the_commands_themselves_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, said in (
        ("/usr/lib/slurm-shim", "apt remove slurm-shim"),
        ("/home/u/.local/share/pipx/venvs/slurm-shim/lib/python3.11/site-packages", "pipx uninstall slurm-shim"),
    ):
        monkeypatch.setattr(uninstall, "__file__", f"{folder}/shim/admin/uninstall.py")
        assert uninstall._installed() == said
