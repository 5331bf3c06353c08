"""An agent that is killed while its job ends: the others, on the same machine, leave nothing of its tasks behind."""

from __future__ import annotations

from pathlib import Path

from tests.job.agent.support import lives
from tests.job.run_folder import LiveRun, spec_of
from tests.support import wait_until


def test_an_agent_killed_when_the_first_node_is_clear_already(tmp_path: Path) -> None:
    run = LiveRun(tmp_path, spec_of(nodes=2, kill_wait=600))
    try:
        run.wait_for("started")
        marks = run.work_dir / "pid"
        run.start_srun(
            "-N1", "-n1", "-w", "n2", "sh", "-c", f"trap '' TERM; echo $$ >{marks}; while :; do sleep 600; done"
        )
        task = int(wait_until(lambda: marks.exists() and marks.read_text().strip(), "the task"))
        run.order(1, "release", status=0)
        run.wait_for("ending")
        run.order(2, "limit", seconds=None)  # by now the first node has nothing left
        assert lives(task)
        run.agents[1].kill()
        run.wait_for("ended")
        wait_until(lambda: not lives(task), "the end of the killed agent's task")
    finally:
        run.close()
