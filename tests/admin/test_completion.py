"""`shim completion`, by real shells on a throw-away cluster."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.testing import Cluster


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", nodes="gpu[1-2]", partitions=["short", "long", "longer"]) as cluster:
        cluster.submit("#!/bin/bash\nsleep 100\n", hold=True)
        for shell in ("bash", "fish", "zsh"):
            (cluster.folder / f"completion.{shell}").write_text(cluster.run("shim", "completion", shell).stdout)
        yield cluster


def completed(slurm: Cluster, *words: str) -> list[str]:
    """What bash offers for the last word; an equals sign is a word of its own, as for bash."""
    line = f"source {slurm.folder}/completion.bash; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _shim_complete"
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
        (["shim", "comp"], ["completion"]),
        (["shim", "controller", "st"], ["start", "status", "stop"]),
        (["shim", "why", "--li"], ["--lines="]),
        (["shim", "why", ""], ["1"]),
    ],
)
def test_bash_offers(slurm: Cluster, words: list[str], offered: list[str]) -> None:
    assert sorted(set(completed(slurm, *words))) == offered


LINES = [
    ("sbatch --parti", ["--partition"]),
    ("sbatch -p lo", ["long", "longer"]),
    ("sbatch --partition=sh", ["--partition=short"]),
    ("squeue -p short,longe", ["short,longer"]),
    ("sinfo --nodes=gpu2", ["--nodes=gpu2"]),
    ("srun -w ", ["gpu1", "gpu2"]),
    ("squeue --nohe", ["--noheader"]),
    ("scancel ", ["1"]),
    ("shim comp", ["completion"]),
    ("shim controller st", ["start", "status", "stop"]),
    ("shim why --li", ["--lines"]),
    ("shim why ", ["1"]),
    ("shim completion z", ["zsh"]),
]


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish (Debian: apt-get install fish)")
def test_fish_offers(slurm: Cluster) -> None:
    told = {}
    for line, _ in LINES:
        asked = slurm.run(
            "fish", "--no-config", "-c", f"source {slurm.folder}/completion.fish; complete -C {shlex.quote(line)}"
        )
        assert asked.stderr == ""
        told[line] = sorted(one.partition("\t")[0] for one in asked.stdout.splitlines())
    assert told == dict(LINES)


# Tab asks what would be offered, with what is before it on the line; nothing is inserted.
ZSH = """
autoload -Uz compinit; compinit -u -D
source {folder}/completion.zsh
compadd() {{
  local -a hits
  builtin compadd -O hits "$@"
  print -rl -- ${{IPREFIX}}${{^hits}} >> {folder}/offered
  builtin compadd "$@"
}}
asked() {{ _main_complete; compstate[insert]=; compstate[list]= }}
zle -C asked complete-word asked
tell() {{ : > {folder}/offered; BUFFER=$LINE_ASKED; CURSOR=$#BUFFER; zle asked; exit }}
zle -N tell
zle-line-init() {{ zle tell }}
zle -N zle-line-init
"""


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh (Debian: apt-get install zsh)")
def test_zsh_offers(slurm: Cluster, tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(ZSH.format(folder=slurm.folder))
    told = {}
    for line, _ in LINES:
        said = on_a_terminal(
            ["zsh", "-d", "-i"], os.environ | {"ZDOTDIR": str(tmp_path), "TERM": "dumb", "LINE_ASKED": line}
        )
        assert "_shim" not in said, said
        told[line] = sorted(set((slurm.folder / "offered").read_text().split()))
    assert told == dict(LINES)


def on_a_terminal(words: list[str], environ: dict[str, str]) -> str:
    """What a program says on a terminal of its own, until it ends."""
    pid, end = pty.fork()
    if not pid:
        os.execvpe(words[0], words, environ)
    said = b""
    with os.fdopen(end, "rb", buffering=0) as terminal:
        while True:
            try:
                more = terminal.read(4096)
            except OSError:  # Linux says so that the other end is closed
                break
            if not more:
                break
            said += more
    os.waitpid(pid, 0)
    return said.decode(errors="replace")


def test_a_shell_without_one_is_named(slurm: Cluster) -> None:
    refused = slurm.run("shim", "completion", "tcsh", check=False)
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == 'shim: error: completion: there is none for "tcsh"; known are bash, fish, zsh\n'


def test_the_shell_that_runs_it_is_found(slurm: Cluster) -> None:
    told = slurm.run("bash", "-c", "shim completion; :").stdout
    assert told == (slurm.folder / "completion.bash").read_text()
