"""What a pod makes of the submitter's environment."""

from __future__ import annotations

from pathlib import Path

from shim.job.pod.environment import Adapter, joined


def _adapted(environment: dict[str, str], home: Path, **image: str) -> dict[str, str]:
    adapter = Adapter({"SHIM_POD_UID": "x", "JOB_COMPLETION_INDEX": "0", **image}, str(home))
    once = adapter.adapt(environment)
    assert adapter.adapt(once) == once
    return once


def test_the_images_own_variables_are_there_and_ours_are_not(tmp_path: Path) -> None:
    given = {"PATH": "/bin", "CUDA_HOME": "/mine"}
    result = _adapted(given, tmp_path, PATH="/opt/conda/bin:/bin", CUDA_HOME="/cuda", NCCL="1")
    assert result == {"PATH": "/opt/conda/bin:/bin", "CUDA_HOME": "/mine", "NCCL": "1"}


def test_a_task_that_is_to_have_next_to_nothing_gets_nothing_more(tmp_path: Path) -> None:
    assert _adapted({"SLURM_JOB_ID": "7"}, tmp_path, NCCL="1") == {"SLURM_JOB_ID": "7"}


def test_folders_that_both_have_keep_the_images_order(tmp_path: Path) -> None:
    own = tmp_path / "venv"
    own.mkdir()
    assert joined(f"{own}:/usr/bin:/not/here", "/opt/conda/bin:/usr/bin") == f"{own}:/opt/conda/bin:/usr/bin"


def test_a_home_that_is_not_there_is_replaced(tmp_path: Path) -> None:
    given = {"PATH": "/bin", "HOME": "/home/nobody-here", "TMPDIR": "/scratch/nobody", "SHELL": "/bin/nosh"}
    result = _adapted(given, tmp_path / "home")
    assert result == {"PATH": "/bin", "HOME": str(tmp_path / "home"), "SHELL": "/bin/sh"}
    assert (tmp_path / "home").is_dir()


def test_a_home_that_is_there_stays(tmp_path: Path) -> None:
    assert _adapted({"PATH": "/bin", "HOME": str(tmp_path)}, tmp_path / "other")["HOME"] == str(tmp_path)
    assert not (tmp_path / "other").exists()
