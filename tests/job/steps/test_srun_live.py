"""srun in a job, with real agents: what a user sees. The run is made by hand; there is no controller."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.job import run_folder
from tests.job.run_folder import LiveRun, spec_of
from tests.support import elf_program


@pytest.fixture(scope="module")
def allocation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    """An allocation of two nodes with 4 CPUs each, for steps one after the other."""
    run = LiveRun(tmp_path_factory.mktemp("allocation"), spec_of(nodes=2, cpus=4, kill_wait=5))
    run.wait_for("started")
    yield run
    run.close()


@pytest.fixture
def run(allocation: LiveRun) -> LiveRun:
    """The allocation with an empty work folder."""
    for path in allocation.work_dir.iterdir():
        path.unlink()
    return allocation


def content(run: LiveRun) -> dict[str, list[str]]:
    """The files of the work folder: names and sorted lines."""
    return {path.name: sorted(path.read_text().splitlines()) for path in run.work_dir.iterdir()}


def test_tasks_on_all_nodes(run: LiveRun) -> None:
    code, out, err = run.srun("-l", "-n3", "-N2", "sh", "-c", "echo $SLURMD_NODENAME $SLURM_LOCALID; echo e >&2")
    assert (code, sorted(out.splitlines())) == (0, ["0: n1 0", "1: n1 1", "2: n2 0"])
    assert sorted(err.splitlines()) == ["0: e", "1: e", "2: e"]


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("-n1", "-N1", "true"), 0, []),
        (("-n1", "-N1", "sh", "-c", "exit 3"), 3, ["srun: error: n1: task 0: Exited with exit code 3"]),
        (
            ("-n1", "-N1", "sh", "-c", "kill -9 $$"),
            137,
            ["srun: error: n1: task 0: Killed", "srun: Force Terminated StepId=7.STEP"],
        ),
        (("-n1", "-N1", "sh", "-c", "kill -SEGV $$"), 139, ["srun: error: n1: task 0: Segmentation fault"]),
        (
            ("-n1", "-N1", "nosuchcmd"),
            2,
            [
                "slurmstepd: error: execve(): nosuchcmd: No such file or directory",
                "srun: error: n1: task 0: Exited with exit code 2",
            ],
        ),
        (
            ("-n1", "-N1", "/etc/passwd"),
            13,
            [
                "slurmstepd: error: execve(): /etc/passwd: Permission denied",
                "srun: error: n1: task 0: Exited with exit code 13",
            ],
        ),
    ],
)
def test_ends(run: LiveRun, words: tuple[str, ...], code: int, expected: list[str]) -> None:
    seen, _out, err = run.srun(*words)
    lines = [line.replace(" (core dumped)", "") for line in err.splitlines()]
    # slurmstepd's own words and srun's reach srun on two ways.
    assert (seen, sorted(lines)) == (code, sorted(line.replace("STEP", run.last_step()) for line in expected))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("-N3", "true"), "srun: error: Only allocated 2 nodes asked for 3"),
        (("-n99", "true"), "srun: error: Unable to create step for job 7: More processors requested than permitted"),
        (
            ("-n1", "-N1", "-o", "/nosuch/x", "true"),
            "srun: error: Could not open stdout file: No such file or directory",
        ),
        (("-n1", "-N1", "-i", "/nosuch", "true"), "srun: error: Could not open stdin file: No such file or directory"),
        ((), "srun: fatal: No command given to execute."),
        (("--multi-prog", "nosuch"), "srun: error: Could not open multi_prog config file nosuch"),
        (("-n", "abc", "true"), 'srun: error: Invalid numeric value "abc" for --ntasks.'),
    ],
)
def test_refusals(run: LiveRun, words: tuple[str, ...], line: str) -> None:
    assert run.srun(*words) == (1, "", line + "\n")


def test_an_environment_that_is_too_large(run: LiveRun) -> None:
    large = {f"LARGE{number}": "x" * 100_000 for number in range(10)}
    code, _out, err = run.srun("-n1", "-N1", "true", **large)
    assert (code, err) == (1, "srun: error: Unable to create step for job 7: Argument list too long\n")


def test_a_refusals_code_can_be_chosen(run: LiveRun) -> None:
    assert run.srun("-N3", "true", SLURM_EXIT_ERROR="77")[0] == 77
    assert run.srun("-n1", "-N1", "false", SLURM_EXIT_ERROR="77")[0] == 1


def test_standard_input(run: LiveRun) -> None:
    text = "l1\nl2\n"
    both = sorted(["0: l1", "0: l2", "1: l1", "1: l2"])
    assert sorted(run.srun("-n2", "-N1", "-l", "cat", stdin=text)[1].splitlines()) == both
    assert run.srun("-n2", "-N1", "-l", "-i1", "cat", stdin=text)[1] == "1: l1\n1: l2\n"
    assert run.srun("-n2", "-N1", "-l", "--input=none", "cat", stdin=text)[1] == ""
    (run.work_dir / "in.txt").write_text("f1\nf2\n")
    out = run.srun("-n2", "-N1", "-l", "-i", "in.txt", "cat", stdin=text)[1]
    assert sorted(out.splitlines()) == ["0: f1", "0: f2", "1: f1", "1: f2"]


def test_much_output_and_input(run: LiveRun) -> None:
    size = 3_000_000
    code, out, _err = run.srun("-n1", "-N1", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x")
    assert (code, len(out)) == (0, size)
    code, out, _err = run.srun("-n2", "-N2", "wc", "-c", stdin="y" * size)
    assert (code, out) == (0, f"{size}\n{size}\n")


def test_files(run: LiveRun) -> None:
    assert run.srun("-n3", "-N2", "-o", "one.txt", "sh", "-c", "echo p $SLURM_PROCID")[:2] == (0, "")
    assert run.srun("-n3", "-N2", "-l", "-o", "lab.txt", "sh", "-c", "echo p")[:2] == (0, "")
    assert run.srun("-n2", "-N2", "-o", "%2t.txt", "-e", "%n.err", "sh", "-c", "echo o; echo e >&2") == (0, "", "")
    assert run.srun("-n2", "-N1", "-o", "none", "-e", "e", "sh", "-c", "echo hid; echo vis >&2") == (0, "", "")
    assert content(run) == {
        "one.txt": ["p 0", "p 1", "p 2"],
        "lab.txt": ["0: p", "1: p", "2: p"],
        "00.txt": ["o"],
        "01.txt": ["o"],
        "0.err": ["e"],
        "1.err": ["e"],
        "e": ["vis", "vis"],
    }


def test_labels_in_files_of_tasks(run: LiveRun) -> None:
    assert run.srun("-n2", "-N1", "-l", "-o", "%t.lab", "echo", "z") == (0, "", "")
    assert content(run) == {"0.lab": ["0: z"], "1.lab": ["1: z"]}


def test_one_tasks_output(run: LiveRun) -> None:
    assert run.srun("-n2", "-N1", "-o", "1", "sh", "-c", "echo $SLURM_PROCID") == (0, "1\n", "")


def test_files_are_truncated_or_appended_to(run: LiveRun) -> None:
    for mode, word, expected in (
        ("append", "a", ["a"]),
        ("append", "b", ["a", "b"]),
        ("truncate", "c", ["c"]),
    ):
        run.srun("-n1", "-N1", "-o", "f", f"--open-mode={mode}", "echo", word)
        assert content(run) == {"f": expected}


def test_a_multi_prog_file(run: LiveRun) -> None:
    (run.work_dir / "mp.conf").write_text("# programs\n0 echo zero\n1-2 echo %t:%o\n")
    code, out, _err = run.srun("-n3", "-N1", "-l", "--multi-prog", "mp.conf", "more")
    assert (code, sorted(out.splitlines())) == (0, ["0: zero more", "1: 1:0 more", "2: 2:1 more"])
    assert run.srun("-n4", "-N1", "--multi-prog", "mp.conf") == (
        1,
        "",
        "srun: error: Configuration file mp.conf invalid, no record for task id 3\n",
    )


def test_pty_without_a_terminal(run: LiveRun) -> None:
    assert run.srun("-n1", "-N1", "--pty", "true") == (
        0,
        "",
        "srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device\n"
        "srun: error: Not using a pseudo-terminal, disregarding --pty option\n",
    )


def test_a_leader_of_another_version_says_so(run: LiveRun, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = run_folder.SRUN.replace(
        "from shim.commands ", "from shim.job import session; session.PROTOCOL = 99; from shim.commands ", 1
    )
    monkeypatch.setattr(run_folder, "SRUN", newer)
    code, out, err = run.srun("true")
    assert (code, out) == (1, "")
    assert err == "srun: error: Unable to create step for job 7: protocol 99 is not spoken here, only 1\n"


def test_verbose_names_the_step_its_nodes_and_what_became_of_the_tasks(run: LiveRun) -> None:
    code, out, err = run.srun("-vv", "-n3", "-N2", "sh", "-c", "exit $((SLURM_PROCID > 1))")
    step = f"7.{run.last_step()}"
    finish = "srun: launch/slurm: _task_finish: "
    assert (code, out) == (1, "")
    told = [line for line in err.splitlines() if "propagating" not in line]
    assert {
        "srun: jobid 7: nodes(2):`n[1-2]', cpu counts: 4(x2)",
        "srun: debug:  cpus 3, tasks 3, name sh, relative 65534",
        f"srun: launching StepId={step} on host n1, 2 tasks: [0-1]",
        "srun: route/default: init: route default plugin loaded",
        "srun: debug:  Entering _msg_thr_create()",
        "srun: debug:  IO thread exiting",
        f"srun: launching StepId={step} on host n2, 1 tasks: 2",
        "srun: launch/slurm: _task_start: Node n1, 2 tasks started",
        "srun: launch/slurm: _task_start: Node n2, 1 tasks started",
        f"{finish}Received task exit notification for 1 task of StepId={step} (status=0x0100).",
        "srun: error: n2: task 2: Exited with exit code 1",
        f"{finish}n1: tasks 0-1: Completed",
        "srun: debug:  task 2 done",
    } <= set(told)
    assert "srun: debug:  propagating UMASK=0022" in err.splitlines()
    assert re.search(r"^srun: debug:  initialized stdio listening socket, port [1-9]\d+$", err, re.MULTILINE)


def test_the_port_of_srun_is_taken_as_long_as_the_step_runs(run: LiveRun) -> None:
    take = "import os, socket; socket.socket().bind(('127.0.0.1', int(os.environ['SLURM_SRUN_COMM_PORT'])))"
    code, _, err = run.srun("-n1", "-N1", "python3", "-c", take)
    assert (code, "Address already in use" in err) == (1, True)


def test_tasks_have_the_limits_of_their_srun(run: LiveRun) -> None:
    for option, expected in (
        ("--quiet", "99"),
        ("--propagate=STACK", str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])),
    ):
        command = f"ulimit -S -n 99; srun -n1 -N1 {option} sh -c 'ulimit -S -n'"
        done = subprocess.run(
            ["bash", "-c", command],
            env={**run.environment, "SHIM_PYTHON": sys.executable},
            cwd=run.work_dir,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_an_mpi_program_of_several_tasks_is_told_of_once(run: LiveRun) -> None:
    program = run.work_dir / "solver"
    program.write_bytes(elf_program(["libmpi.so.40", "libc.so.6"]))  # it cannot run; that it is looked at is enough
    program.chmod(0o755)
    told = "srun: ./solver is linked with libmpi.so.40, and --mpi=none gives its tasks nothing to find each other by"
    assert sum(line.startswith(told) for line in run.srun("-n2", "-N1", "./solver")[2].splitlines()) == 1
    assert told not in run.srun("-n1", "-N1", "./solver")[2]
    assert told not in run.srun("-Q", "-n2", "-N1", "./solver")[2]
    assert run.srun("-n2", "-N1", "true") == (0, "", "")
