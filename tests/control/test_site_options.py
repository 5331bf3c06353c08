"""The options of a site, from its configuration to the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.commands import entrypoint, submission_context
from shim.control import config, shape, site, site_options
from shim.control.machine import Machine
from shim.core import jsonlite
from shim.core.errors import ShimError
from shim.core.options.grammar import Grammar


def write(folder: Path, text: str) -> None:
    (folder / "config" / "shim").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "shim" / "config.toml").write_text(text)


def test_nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(path: str) -> object:
        raise AssertionError(path)

    assert site_options.grammar(config.load()) == Grammar()
    monkeypatch.setattr(site, "_resolve", no)  # it costs nothing either
    assert site.grammar() is None
    assert site.backend() == "local"


@pytest.mark.parametrize("written", ['"25.11"', "25.11"])
def test_the_level(tmp_path: Path, written: str) -> None:
    write(tmp_path, f"slurm_version = {written}\n")
    assert site_options.grammar(config.load()).version == "25.11.0"
    assert site.grammar() == site_options.grammar(config.load())  # the second time from what was kept
    made = shape.clusters(config.load(), Machine(cpus=1, sockets=1, memory=1, gpus=0), "namespaces")
    assert made[0].version == "25.11.0"


def test_a_variable_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'slurm_version = "25.11"\n')
    monkeypatch.setenv("SHIM_SLURM_VERSION", "22.05")
    assert site.grammar() is None
    assert config.load().slurm_version.origin == "SHIM_SLURM_VERSION"


def test_plugins(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [plugins]
        pyxis = true
        ignore = ["--uenv=", "view[=]", "turbo"]
        map = { edf = "--container-image", long = "time=2-00:00:00", mine = "exclusive" }
        """,
    )
    assert site.grammar() == Grammar(
        pyxis=True,
        plugins=(
            ("uenv", 1, ""),
            ("view", 2, ""),
            ("turbo", 0, ""),
            ("edf", 1, "container-image"),
            ("long", 0, "time=2-00:00:00"),
            ("mine", 2, "exclusive"),
        ),
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ('slurm_version = "23.02"', "one of 22.05, 25.11 is wanted"),
        ('plugins = "pyxis"', '"plugins" must be a table'),
        ("[plugins]\npyxsi = true", 'unknown word "plugins.pyxsi"; did you mean "pyxis"'),
        ('[plugins]\nignore = ["time="]', '"--time" is an option of Slurm itself'),
        ('[plugins]\nignore = ["a b"]', '"a b" is no name of an option'),
        ('[plugins]\nmap = ["a"]', "plugins.map: a table is wanted"),
        ('[plugins]\nmap = { x = "nosuch" }', '"x": "nosuch" is no option that it could stand for'),
        ('[plugins]\nmap = { x = "wrap" }', '"wrap" is no option'),
        ('[plugins]\nmap = { x = "container-image" }', "is no option"),
        ('[plugins]\nmap = { x = "hold=1" }', "--hold takes no value"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    with pytest.raises(ShimError) as refused:
        site.grammar()
    assert message in str(refused.value)


def test_commands_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert entrypoint.run("sbatch", ["--uenv=x", "-V"]) == 255
    write(tmp_path, 'slurm_version = "25.11"\nplugins = { ignore = ["uenv="] }\n')
    capsys.readouterr()
    for program in ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "scontrol"):
        assert entrypoint.run(program, ["--version"]) == 0
        assert capsys.readouterr().out == "slurm 25.11.0\n"
    assert entrypoint.run("sbatch", ["--uenv=x", "-V"]) == 0


def test_a_pod_is_told_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Grammar(release="25.11", pyxis=True, plugins=(("uenv", 1, ""),))
    monkeypatch.setenv(submission_context.VARIABLE, jsonlite.dumps(told.to_dict()))
    assert submission_context.grammar() == told


def test_what_shim_config_shows_reads_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path, 'slurm_version = 25.11\nplugins = { pyxis = true, ignore = ["uenv="], map = { edf = "account" } }\n'
    )
    meant = site.grammar()
    assert entrypoint.run("shim", ["config"]) == 0
    write(tmp_path, capsys.readouterr().out)
    assert (
        site.grammar()
        == meant
        == Grammar(release="25.11", pyxis=True, plugins=(("uenv", 1, ""), ("edf", 1, "account")))
    )


def test_explain_names_what_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, '[plugins]\nignore = ["uenv="]\n')
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --uenv=x -t5\n")
    assert entrypoint.run("shim", ["explain", str(script)]) == 0
    assert "inert        --uenv=x: accepted without effect, as the configuration says" in capsys.readouterr().out


def test_site_cache_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'slurm_version = "25.11"\n')
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path / "file"))  # nothing can be kept there
    assert site.grammar() == Grammar(release="25.11")
