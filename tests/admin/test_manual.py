"""The manual pages: of every command and option, and roff that says what the rows say."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from shim.admin import manual
from shim.admin.app import app
from shim.core.errors import ShimError
from shim.dispatch import MODULES
from shim.testing import Cluster

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "EXIT STATUS", "FILES", "SEE ALSO"]

SHIM = typer.main.get_command(app)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.mark.parametrize("command", MODULES)
def test_a_page_has_its_sections_in_order(command: str) -> None:
    found = [line[4:] for line in manual.page(command, SHIM).splitlines() if line.startswith(".SH ")]
    assert found == [one if command != "shim" or one != "OPTIONS" else "COMMANDS" for one in SECTIONS]


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff")
@pytest.mark.parametrize("command", MODULES)
def test_groff_has_nothing_to_say_of_a_page(command: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z"],
        input=manual.page(command, SHIM),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff")
def test_a_reader_sees_what_the_rows_say() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-rLL=400n"], input=manual.page("sbatch", SHIM), capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    text = " ".join(done.stdout.split())
    assert "-A, --account=name The account to charge. Approximated: shown, and checked against" in text
    assert "Set by SBATCH_ACCOUNT." in text
    assert "SBATCH_ACCOUNT As --account; the command line wins." in text


def test_every_option_of_help_is_on_the_page(slurm: Cluster) -> None:
    for command in set(MODULES) - {"shim", "scrontab"}:  # that one has letters alone, and no --help
        text = manual.page(command, SHIM).replace("\\-", "-")
        for line in slurm.run(command, "--help").stdout.splitlines():
            name = line[6:].partition(" ")[0].partition("=")[0].partition("[")[0] if line.startswith("  ") else ""
            assert not name.startswith("--") or f"\\fB{name}\\fR" in text, (command, name)


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        (".so /etc/passwd", "\\&.so /etc/passwd"),
        ("'quoted'", "\\&\\(aqquoted\\(aq"),
        ("\\fIa-b", "\\efIa\\-b"),
        ("one…", "one\\[u2026]"),
    ],
)
def test_text_is_shown_as_it_is(text: str, roff: str) -> None:
    assert manual.line(text) == roff


def test_a_release_is_told() -> None:
    entry = manual.page("srun", SHIM).partition("\\fB\\-\\-async\\fR\n")[2].partition(".TP")[0]
    assert "Since 25.11." in entry


def test_shim_man_prints_the_page_where_there_is_no_terminal(slurm: Cluster) -> None:
    assert slurm.run("shim", "man", "sinfo").stdout == manual.page("sinfo", SHIM)


def test_an_unknown_command_is_named() -> None:
    with pytest.raises(ShimError, match='no command "sview"; there are sbatch'):
        manual.page("sview", SHIM)
