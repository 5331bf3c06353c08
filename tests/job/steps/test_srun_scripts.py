"""srun's programs around a step: --prolog and --epilog beside srun, --task-prolog and --task-epilog beside the tasks; ports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.job.run_folder import LiveRun, spec_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    run = LiveRun(tmp_path_factory.mktemp("allocation"), spec_of(nodes=2, cpus=4, kill_wait=5))
    run.wait_for("started")
    yield run
    run.close()


def script(run: LiveRun, text: str) -> str:
    path = Path(run.work_dir, "script")
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_before_the_tasks_and_after_them(run: LiveRun) -> None:
    around = script(
        run, 'echo "$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID.$SLURM_STEP_ID $SLURM_NTASKS $SLURM_TASKS_PER_NODE $*"; exit 0'
    )
    code, out, err = run.srun("-n3", "-N2", f"--prolog={around}", f"--epilog={around}", "echo", "task")
    step = f"7.{run.last_step()}"
    expected = [f"prolog_srun {step} 3 2,1 echo task", *["task"] * 3, f"epilog_srun {step} 3 2,1 echo task"]
    assert (code, out.splitlines(), err) == (0, expected, "")


def test_a_prolog_that_fails_ends_the_step(run: LiveRun) -> None:
    code, out, err = run.srun("-n1", "-N1", f"--prolog={script(run, 'exit 3')}", "echo", "task")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "srun: error: srun prolog failed rc = 3. Aborting step.",
        f"srun: launch/slurm: launch_p_step_launch: StepId=7.{run.last_step()} aborted before step completely launched.",
    ]


def test_what_cannot_run_or_fails_afterwards_is_told(run: LiveRun) -> None:
    code, out, err = run.srun("-n1", "-N1", "--prolog=/nosuch", f"--epilog={script(run, 'exit 3')}", "echo", "task")
    assert (code, out) == (0, "task\n")
    assert err.splitlines() == [
        "srun: Access denied for /nosuch: No such file or directory",
        "srun: error: srun epilog failed status=3",
    ]
    assert run.srun("-n1", "-N1", "--prolog=none", "echo", "task") == (0, "task\n", "")


def test_scripts_of_tasks(run: LiveRun) -> None:
    prolog = script(run, 'echo "export GREETING=hello $SLURM_PROCID"; echo print first')
    code, out, err = run.srun("-l", "-n2", "-N2", f"--task-prolog={prolog}", "sh", "-c", "echo $GREETING")
    assert (code, sorted(out.splitlines()), err) == (0, ["0: first", "0: hello 0", "1: first", "1: hello 1"], "")


def test_ports_are_asked_for_in_vain(run: LiveRun) -> None:
    """As with a Slurm without MpiParams=ports."""
    assert run.srun("-n1", "-N1", "--resv-ports", "echo", "task") == (0, "task\n", "")
    code, out, err = run.srun("-n1", "-N1", "--resv-ports=2", "true")
    assert (code, out) == (1, "")
    assert err == "srun: error: Unable to create step for job 7: Requires more ports than can be reserved\n"
    assert run.srun("--resv-ports=x", "true")[2] == 'srun: error: Invalid numeric value "x" for --resv-port.\n'
