"""The doctor's look at a real Slurm."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from shim.admin.doctor import machine
from tests.control.backends.slurm.fake import Site


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, site.environ[name])
    site.script(site.real / "squeue", '#!/bin/sh\n[ "$1" = --version ] && echo slurm 23.11.4\n')
    site.script(site.real / "scontrol", "#!/bin/sh\necho 'Slurmctld(primary) at head is UP'\n")
    return site


def found() -> tuple[bool, list[str]]:
    out = io.StringIO()
    return machine.report(out), out.getvalue().splitlines()


def test_what_is_used_without_configuration(there: Site) -> None:
    fine, lines = found()
    assert fine
    where = f"slurm 23.11.4 in {there.real}, found on PATH: the default cluster, as nothing is configured"
    assert f"  ok  cluster slurm (slurm): {where}" in lines
    assert "  ok  cluster slurm answers: Slurmctld(primary) at head is UP" in lines
    assert any("it is newer than 22.05.8" in line for line in lines)


def test_a_controller_that_is_down(there: Site) -> None:
    there.script(there.real / "scontrol", "#!/bin/sh\necho 'Slurmctld(primary) at head is DOWN'\nexit 1\n")
    fine, lines = found()
    assert not fine
    assert "FAIL  cluster slurm does not answer: Slurmctld(primary) at head is DOWN" in lines


def test_what_differs_where_it_is_configured(there: Site) -> None:
    there.configure('[clusters.hpc]\nbackend = "slurm"\nskypilot_env = true\n')
    (there.real / "sacct").unlink()
    there.environ["PATH"] = str(there.real)
    fine, lines = found()
    assert fine
    assert "note  it calls itself there: -M hpc is taken out of what is passed on, -M there is not" in lines
    assert any(line.startswith("note  SKYPILOT_* for its jobs") for line in lines)


def test_a_folder_without_commands(there: Site) -> None:
    there.configure('[clusters.hpc]\nbackend = "slurm"\nbin = "/no/such/folder"\n')
    fine, lines = found()
    assert not fine
    assert any(line.startswith("FAIL  cluster hpc (slurm): no real squeue: /no/such/folder/squeue") for line in lines)


def test_a_real_sbatch_that_is_not_used_is_named(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CONF")
    assert any("is not used: there is no slurm.conf" in line for line in found()[1])
    there.configure("[clusters.local]\n")
    assert any("is not used: the configuration has no cluster with backend" in line for line in found()[1])


def test_a_site_without_accounting(there: Site) -> None:
    there.script(there.real / "sacct", "#!/bin/sh\necho Slurm accounting storage is disabled >&2\nexit 1\n")
    fine, lines = found()
    assert fine
    assert any(line.startswith("note  cluster slurm keeps no accounting") for line in lines)
    there.script(there.real / "sacct", "#!/bin/sh\n")
    assert not any("keeps no accounting" in line for line in found()[1])
