"""Steps in pods as sstat, sattach, sbcast and srun --bcast see them, from the submitting machine and from inside."""

from __future__ import annotations

import pytest

from tests.control.backends.kubernetes.home import Home, home, until

__all__ = ["home"]
pytestmark = pytest.mark.kubernetes

SCRIPT = """
echo "what is sent" > /tmp/source
sbcast /tmp/source /tmp/there && srun -l cat /tmp/there
sbcast /tmp/source /tmp/there || echo code $?
srun --bcast=/tmp/tool /bin/sh -c 'echo $0'
srun sh -c 'echo step $SLURM_PROCID; while [ ! -e /tmp/go ]; do sleep 0.1; done; exit $SLURM_PROCID' & wait
"""


def test_what_runs_in_pods_is_seen_from_outside(home: Home) -> None:
    home.configure()
    job = home.submit(SCRIPT, "-N2", "-n2", "-o", "out")

    def steps() -> list[str]:
        return home.run("sstat", "-anP", "-j", job, "-o", "jobid,ntasks,maxrss,nodelist").split()

    until(lambda: f"{job}.2" in " ".join(steps()), "the last step")
    batch, step = (line.split("|") for line in steps())
    assert (batch[0], step[0], step[1]) == (f"{job}.batch", f"{job}.2", "2")
    assert step[2].endswith(("K", "M"))
    assert home.run("sattach", "--layout", f"{job}.2").splitlines()[1].startswith("\t2 tasks, 2 nodes (")
    home.run("sbcast", "-j", job, "/dev/null", "/tmp/go")
    until(lambda: home.shown(job) not in ("RUNNING", "COMPLETING"), "the job's end")
    usage = home.run("sacct", "-nP", "-j", f"{job}.2", "-o", "ntasks,maxrss,maxvmsize,totalcpu").strip().split("|")
    assert usage[0] == "2"
    assert all(usage)
    out = home.folder / "work" / "out"
    until(lambda: out.exists() and "code 17" in out.read_text(), "the script's output")
    text = out.read_text()
    assert "0: what is sent\n" in text
    assert "1: what is sent\n" in text, "each pod has a copy of its own"
    assert text.count("sbcast: error: REQUEST_FILE_BCAST(") == text.count("): File exists\n") == 2
    assert text.count("\n/tmp/tool\n") + text.startswith("/tmp/tool\n") >= 1
