"""`shim completion`, by a real bash on a throw-away cluster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.testing import Cluster


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", nodes="gpu[1-2]", partitions=["short", "long", "longer"]) as cluster:
        cluster.submit("#!/bin/bash\nsleep 100\n", hold=True)
        (cluster.folder / "completion").write_text(cluster.run("shim", "completion", "bash").stdout)
        yield cluster


def completed(slurm: Cluster, *words: str) -> list[str]:
    """What bash offers for the last word; an equals sign is a word of its own, as for bash."""
    line = f"source {slurm.folder}/completion; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _shim_complete"
    told = slurm.run("bash", "-uc", line + '; printf "%s\\n" "${COMPREPLY[@]}"')
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sbatch", "--part"], ["--partition="]),
        (["/somewhere/bin/srun", "--exclu"], ["--exclude=", "--exclusive="]),
        (["squeue", "--nohe"], ["--noheader"]),
        (["sbatch", "-p", "lo"], ["long", "longer"]),
        (["sbatch", "--partition", "=", "sh"], ["short"]),
        (["sbatch", "--partition", "="], ["long", "longer", "short"]),
        (["squeue", "-p", "short,longe"], ["short,longer"]),
        (["srun", "-w", ""], ["gpu1", "gpu2"]),
        (["sinfo", "--nodes", "=", "gpu2"], ["gpu2"]),
        (["scancel", ""], ["1"]),
        (["squeue", "--jobs", "="], ["1"]),
        (["sbatch", "--nodes", "="], []),
    ],
)
def test_bash_offers(slurm: Cluster, words: list[str], offered: list[str]) -> None:
    assert sorted(set(completed(slurm, *words))) == offered


def test_a_shell_without_one_is_named(slurm: Cluster) -> None:
    refused = slurm.run("shim", "completion", "tcsh", check=False)
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == 'shim: error: completion: there is none for "tcsh"; known are bash\n'


def test_the_shell_that_runs_it_is_found(slurm: Cluster) -> None:
    told = slurm.run("bash", "-c", "shim completion; :").stdout
    assert told == (slurm.folder / "completion").read_text()
