"""sbatch and salloc of a real Slurm: nothing of them changes, and their jobs are known afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from shim.control.backends.slurm import recording, watching
from shim.control.backends.slurm.submitting import id_in
from shim.core.routing import ClusterRef
from tests.control.backends.slurm.fake import OURS, Site, on_terminal, started
from tests.support import wait_until


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"Submitted batch job 12\n", (12, "")),
        (b"Submitted batch job 12 on cluster east\n", (12, "east")),
        (b"12\n", (12, "")),
        (b"12;east\n", (12, "east")),
        (b"Submitted batch job 1", None),  # there is more to come
        (b"note of the site\nSubmitted batch job 7\n", (7, "")),
        (b"", None),
        (b"slurm-wlm 22.05.8\n", None),
        (b"\xff\n\n", None),
    ],
)
def test_the_id_in_an_answer(answer: bytes, found: tuple[int, str] | None) -> None:
    assert id_in(answer) == found


def test_a_job_on_another_cluster_of_the_site_is_no_job_of_this_one(there: Site) -> None:
    there.configure('[clusters.hpc]\nbackend = "slurm"\n')
    for job, name in ((5, "there"), (6, "east")):
        there.script(there.real / "sbatch", f"#!/bin/sh\necho Submitted batch job {job} on cluster {name}\n")
        assert there.run("sbatch", "-M", name, "x.sh").returncode == 0
    wait_until(lambda: len(there.rows()) == 2, "both rows")
    assert {(row.cluster, row.job_id) for row in there.rows()} == {("hpc", 5), ("east", 6)}


def script(there: Site) -> Path:
    path = there.folder / "train.sh"
    path.write_text("#!/bin/bash\n#SBATCH -J name -p gpu --array=0-3 --new-in-slurm-99\ntrue\n")
    return path


def test_a_job_gets_a_row(there: Site) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\necho Submitted batch job 4711\n")
    path = there.folder / "train.sh"
    path.write_text("#!/bin/bash\n#SBATCH -J name -p gpu --array=0-3\ntrue\n")
    done = there.run("sbatch", "train.sh", "one", "two")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Submitted batch job 4711\n", b"")
    (row,) = wait_until(there.rows, "a row")
    assert (row.cluster, row.job_id, row.name, row.partition, row.state) == ("slurm", 4711, "name", "gpu", "PENDING")
    assert (row.request.command, row.request.arguments) == (str(path), ("one", "two"))
    assert (row.request.work_dir, row.array_spec, row.uid) == (str(there.folder), "0-3", os.getuid())
    assert row.submit_line == "sbatch train.sh one two"


@pytest.mark.parametrize("name", ["train.sh", "./train.sh", "{folder}/train.sh"])
def test_the_script_is_found_as_sbatch_finds_it(there: Site, name: str) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\necho 8\n")
    (there.folder / "train.sh").write_text("#!/bin/sh\n#SBATCH -c 3\n")
    assert there.run("sbatch", name.format(folder=there.folder)).returncode == 0
    (row,) = wait_until(there.rows, "a row")
    assert (row.name, row.request.command, row.request.cpus_per_task) == ("train.sh", f"{there.folder}/train.sh", 3)


def test_options_that_are_not_known_here_are_no_hindrance(there: Site) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\necho 8\n")
    done = there.run("sbatch", "--parsable", "--new-in-slurm-99", "-Jmine", str(script(there)))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"8\n", b"")
    (row,) = wait_until(there.rows, "a row")
    assert (row.job_id, row.name, row.request.work_dir) == (8, "mine", str(there.folder))


def test_a_script_on_standard_input_is_the_real_commands(there: Site) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\nwc -c\n")
    assert there.run("sbatch", stdin=b"#!/bin/sh\n" + b"#" * 1000000).stdout.strip() == b"1000010"


def test_a_script_from_a_pipe_is_the_real_commands(there: Site) -> None:
    there.script(there.real / "sbatch", '#!/bin/sh\nsleep 0.2\nwc -c < "$1"\n')
    line = "sbatch <(printf '#!/bin/sh\\ntrue\\n') | tr -d ' '"
    done = subprocess.run(["bash", "-c", line], env=there.environ, cwd=there.folder, capture_output=True, timeout=60)
    assert done.stdout == b"15\n"


def test_with_several_clusters_a_script_on_standard_input_is_read_twice(there: Site) -> None:
    there.configure('[clusters.local]\n[clusters.hpc]\nbackend = "slurm"\n[clusters.hpc.partitions.big]\n')
    there.script(there.real / "sbatch", "#!/bin/sh\ncat >&2\necho Submitted batch job 1\n")
    text = b"#!/bin/sh\n#SBATCH -p big\n\377\n"
    done = there.run("sbatch", stdin=text)
    assert (done.stderr, done.stdout) == (text, b"Submitted batch job 1\n")
    assert [row.cluster for row in wait_until(there.rows, "a row")] == ["hpc"]


def test_a_step_goes_to_the_cluster_of_its_job(there: Site) -> None:
    there.configure(
        'default = "local"\n[clusters.local]\n[clusters.hpc]\nbackend = "slurm"\n[clusters.hpc.partitions.big]\n'
    )
    there.script(there.real / "sbatch", "#!/bin/sh\necho Submitted batch job 66\n")
    assert there.run("sbatch", "-p", "big", "x.sh").returncode == 0
    wait_until(there.rows, "its row")
    assert there.run("srun", "--jobid=66", "true").stdout == b"real srun [--jobid=66] [true]\n"
    assert there.run("srun", "--jobid=67", "true").returncode == 1


def test_without_a_place_for_the_index_it_works_as_ever(there: Site) -> None:
    blocked = there.folder / "blocked"
    blocked.write_text("")
    there.script(there.real / "sbatch", "#!/bin/sh\necho Submitted batch job 5\nexit 3\n")
    done = there.run("sbatch", "x.sh", environ={"SHIM_STATE_DIR": str(blocked)})
    assert (done.returncode, done.stdout, done.stderr) == (3, b"Submitted batch job 5\n", b"")


def test_in_a_job_no_controller_is_started(there: Site) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\necho Submitted batch job 5\n")
    in_job = {"SLURM_JOB_ID": "4", "SLURM_JOB_NODELIST": "n1"}
    assert there.run("sbatch", "x.sh", environ=in_job).stdout == b"Submitted batch job 5\n"
    assert there.rows() == []


def test_any_output_comes_through_as_it_is(there: Site) -> None:
    data = bytes(range(256)) * 40000
    (there.folder / "data").write_bytes(data)
    there.script(there.real / "sbatch", "#!/bin/sh\ncat data\necho warned >&2\nexit 200\n")
    done = there.run("sbatch")
    assert (done.returncode, done.stdout, done.stderr) == (200, data, b"warned\n")


def popen(there: Site, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(OURS / words[0]), *words[1:]],
        env=there.environ,
        cwd=there.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize(("handled", "code"), [("trap 'exit 9' TERM", 9), (":", -signal.SIGTERM)])
def test_a_signal_to_us_is_a_signal_to_the_real_sbatch(there: Site, handled: str, code: int) -> None:
    waits = f"#!/bin/sh\n{handled}\necho ready\nwhile :; do sleep 0.05; done\n"
    there.script(there.real / "sbatch", waits)
    with popen(there, "sbatch", "--wait", "x.sh") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(timeout=60) == code


def test_a_shell_stops_and_resumes_it(there: Site) -> None:
    go = there.folder / "go"
    waits = f"#!/bin/sh\necho Submitted batch job 5\nuntil [ -e {go} ]; do sleep 0.05; done\nexit 6\n"
    there.script(there.real / "sbatch", waits)
    code, shown = on_terminal(
        ["bash", "--norc", "--noprofile", "-i"],
        {**there.environ, "TERM": "dumb", "HOME": str(there.folder)},
        [
            (b"", b"sbatch --wait x.sh\n"),
            (b"job 5", b"\x1a"),
            (b"Stopped", f"echo > {go}; fg; exit $?\n".encode()),
        ],
    )
    assert code == 6, shown


def test_it_is_killed_by_what_killed_the_real_one(there: Site) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\nkill -SEGV $$\n")
    assert there.run("sbatch").returncode == -signal.SIGSEGV
    there.script(there.real / "sbatch", "#!/bin/sh\nkill -KILL $$\n")
    assert there.run("sbatch").returncode == -signal.SIGKILL


def test_nobody_reads_the_answer(there: Site) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\necho Submitted batch job 6\nexit 5\n")
    calls = "sbatch x.sh | :; echo ${PIPESTATUS[0]}; sbatch x.sh >&-; echo $?; sbatch x.sh >/dev/full; echo $?"
    done = subprocess.run(
        ["bash", "-c", calls], env=there.environ, cwd=there.folder, capture_output=True, timeout=60, check=True
    )
    piped, closed, full = done.stdout.split()
    assert piped in (b"141", b"5")  # it may be written before the reader has gone
    assert (closed, full) == (b"5", b"5")
    assert [row.job_id for row in wait_until(there.rows, "a row")] == [6]


def test_salloc_is_exec_ed_and_its_job_found_by_its_command(there: Site) -> None:
    there.script(there.real / "salloc", '#!/bin/sh\necho granted $$ >&2\nSLURM_JOB_ID=77 "$@"\nexit $?\n')
    with subprocess.Popen(
        [str(OURS / "salloc"), "sh", "-c", "read line; exit 4"],
        env=there.environ,
        cwd=there.folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert process.stderr.readline() == f"granted {process.pid}\n".encode()
        (row,) = wait_until(there.rows, "the row of salloc's job")
        assert (row.job_id, row.name, row.state, row.request.kind) == (77, "interactive", "RUNNING", "alloc")
        process.stdin.write(b"go\n")
        process.stdin.close()
        assert process.wait(timeout=60) == 4


# A line of squeue: job, session, submitted so many seconds after now, BatchFlag, name.
SHOWS = """#!/bin/sh
show() { printf '%-32s%-32s%-32s%-8s%-256s\\n' $1 $2 $(($(date +%s) + $3)) $4 $5; }
show 81 1 0 1 x.sh
"""
NO_SHELL = ["--no-shell"]


def shows(there: Site, *jobs: str, session: int | None = None) -> None:
    """Squeue shows these jobs: words of ``show`` behind the session."""
    session = os.getsid(0) if session is None else session
    lines = [f"show {job.split()[0]} {session} {' '.join(job.split()[1:])}\n" for job in jobs]
    there.script(there.real / "squeue", SHOWS + "".join(lines))


def ref(there: Site) -> ClusterRef:
    return ClusterRef("hpc", "slurm", folder=str(there.real))


@pytest.mark.parametrize(
    ("program", "words", "job"),
    [("sbatch", ["-Q", "x.sh"], "80 0 1 x.sh"), ("salloc", ["--no-shell"], "80 0 0 no-shell")],
)
def test_where_no_id_is_said_squeue_is_asked(there: Site, program: str, words: list[str], job: str) -> None:
    there.script(there.real / program, "#!/bin/sh\n:\n")
    (there.folder / "x.sh").write_text("#!/bin/sh\n")
    shows(there, job)
    done = there.run(program, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (row,) = wait_until(there.rows, "a row")
    assert row.job_id == 80


def test_a_session_that_was_begun_outside_of_the_container_is_a_session(there: Site) -> None:
    shows(there, "80 0 0 no-shell", session=0)
    assert watching.asked(ref(there), recording.Submission("salloc", NO_SHELL, 0)) == ([80], "")


@pytest.mark.parametrize(
    ("jobs", "found"),
    [
        (["80 0 0 no-shell"], [80]),
        (["80 0 0 no-shell", "82 0 0 no-shell"], [82, 80]),  # the newest first
        (["80 0 0 no-shell", "82 0 0 other"], [80, 82]),  # the name counts more
        (["80 0 1 no-shell"], []),  # a batch job
        (["80 -200 0 no-shell", "82 -200 0 other"], [80]),  # a clock that is behind
        (["80 -400 0 no-shell"], []),  # a job of before
        ([], []),
    ],
)
def test_jobs_that_may_be_the_one(there: Site, jobs: list[str], found: list[int]) -> None:
    shows(there, *jobs)
    assert watching.asked(ref(there), recording.Submission("salloc", NO_SHELL)) == (found, "")


def test_a_squeue_that_fails_is_asked_again(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_PAUSES", (0.0, 0.0))
    shows(there, "80 0 0 no-shell")
    works = (there.real / "squeue").read_text()
    fails = f"#!/bin/sh\ncat > {there.real}/next <<'E'\n{works}E\nchmod +x {there.real}/next\n"
    there.script(there.real / "squeue", f"{fails}mv {there.real}/next $0\necho down >&2\nexit 1\n")
    assert watching.find(ref(there), recording.Submission("salloc", NO_SHELL), "RUNNING") == 80


def test_submissions_at_once_get_a_job_each(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(there, "80 0 0 no-shell", "82 0 0 no-shell")
    first, second = (recording.Submission("salloc", NO_SHELL) for _ in range(2))
    assert watching.find(ref(there), first, "RUNNING") == 82
    assert watching.find(ref(there), second, "RUNNING") == 80
    assert watching.find(ref(there), recording.Submission("salloc", NO_SHELL), "RUNNING") is None


def log_of(there: Site) -> str:
    (path,) = Path(there.environ["SHIM_STATE_DIR"]).glob("*/controller.log")
    return path.read_text()


def test_a_row_that_cannot_be_has_its_reason_in_the_log(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_PAUSES", (0.0, 0.0))
    there.script(there.real / "squeue", "#!/bin/sh\necho no way >&2\nexit 1\n")
    submission = recording.Submission("sbatch", ["-Q", "x.sh"])
    submission.record("hpc", 5, state="PENDING", patience=60)  # so that there is a state folder
    assert watching.find(ref(there), submission, "PENDING") is None
    assert "no row for 'sbatch -Q x.sh' on hpc: squeue ended with 1: no way" in log_of(there)
    assert recording.tell("record", {"job": {"cluster": "local", "job_id": 7}}, 60, start=True) == {}
    assert "job 7 of local was not recorded: error: the jobs of cluster local are recorded when" in log_of(there)


def test_many_calls_leave_no_process(there: Site) -> None:
    there.script(there.real / "sbatch", "#!/bin/sh\necho Submitted batch job $$\n")
    there.script(there.real / "squeue", "#!/bin/sh\n:\n")
    calls = (
        "for i in 1 2 3 4 5; do squeue; sbatch x.sh; sbatch -Q x.sh; salloc true; salloc --no-shell; done >/dev/null"
    )
    subprocess.run(["bash", "-c", calls], env=there.environ, cwd=there.folder, check=True, timeout=120)

    state = Path(there.environ["SHIM_STATE_DIR"])
    wait_until(lambda: not started(state), "the end of all that was started")
