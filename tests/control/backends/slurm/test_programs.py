"""Finding the real programs, and what makes a real Slurm the default of a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.control import sources
from shim.control.backends.slurm import programs
from shim.core.errors import ShimError
from tests.control.backends.slurm.fake import OURS, Site


def test_kinds(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(OURS / "sbatch")
    copy = Site.script(tmp_path / "copy", (OURS / "sbatch").read_text())
    script = Site.script(tmp_path / "script", "#!/bin/sh\n")
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    kinds = [
        programs.kind_of(str(path)) for path in (OURS / "sbatch", link, copy, script, Path("/bin/ls"), plain, tmp_path)
    ]
    assert kinds == ["ours", "ours", "ours", "script", "binary", None, None]
    assert programs.kind_of(str(tmp_path / "nothing")) is None


def test_an_empty_entry_of_path_is_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Site.script(tmp_path / "sbatch", "#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    assert programs.on_path("sbatch", f"{OURS}:") == ("./sbatch", "script")


def test_what_was_tried_is_not_taken_again(tmp_path: Path) -> None:
    first = str(Site.script(tmp_path / "sbatch", "#!/bin/sh\n"))
    assert programs.on_path("sbatch", str(tmp_path), [first]) is None
    with pytest.raises(ShimError, match="leads back to this one"):
        programs.find("sbatch", "", str(tmp_path), [first])


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, False),
        ({"SLURM_CONF": "/not/mounted/yet"}, True),
        ({"SLURM_CONF_SERVER": "login1"}, True),
        (
            {"SLURM_CONF": "/etc/slurm/slurm.conf", "SHIM_RUN_DIR": "/run/5.0", "SLURM_JOB_ID": "5"},
            False,
        ),  # a job of ours
        ({"SLURM_CONF": ""}, False),
    ],
)
def test_a_real_slurm_is_implied_by_its_configuration(environ: dict[str, str], found: bool, tmp_path: Path) -> None:
    Site.script(tmp_path / "sbatch", "#!/bin/sh\n")
    environ = {"PATH": f"{OURS}:{tmp_path}", "SHIM_NO_SYSTEM_CONFIG": "1", **environ}
    assert sources.implied(environ) == (str(tmp_path) if found else "")
    assert sources.implied({**environ, "PATH": str(OURS)}) == ""


def test_a_slurm_conf_beside_the_programs_counts(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "etc").mkdir()
    Site.script(tmp_path / "bin" / "sbatch", "#!/bin/sh\n")
    (tmp_path / "etc" / "slurm.conf").write_text("")
    environ = {"PATH": f"{tmp_path}/bin"}
    assert programs.implied(environ) == f"{tmp_path}/bin"
    assert programs.implied({**environ, "SHIM_NO_SYSTEM_CONFIG": "1"}) == ""


def test_a_short_path_hides_no_real_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Site.script(tmp_path / "sbatch", "#!/bin/sh\n")
    monkeypatch.setattr(programs, "_USUAL", str(tmp_path))
    environ = {"PATH": f"{OURS}", "SLURM_CONF": "/etc/slurm.conf"}
    assert programs.implied(environ) == ""  # SHIM_NO_SYSTEM_CONFIG
    monkeypatch.delenv("SHIM_NO_SYSTEM_CONFIG")
    assert programs.implied(environ) == str(tmp_path)
    assert programs.find("sbatch", "", str(OURS)) == (f"{tmp_path}/sbatch", "script")


def test_the_name_of_a_real_cluster(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("# ClusterName=no\nSlurmctldHost=a\n clustername = There # really\n")
    assert programs.cluster_name(str(conf)) == "There"
    conf.write_text("SlurmctldHost=a\n")
    assert programs.cluster_name(str(conf)) == ""
    assert programs.cluster_name(str(tmp_path / "nothing")) == ""
