"""The commands as users run them, from the launcher through a controller and agents to the task."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control.controller import processes

OURS = Path(__file__).parents[2] / "bin"


@pytest.fixture(autouse=True)
def road(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of two virtual nodes, and an empty directory to be in."""
    config = tmp_path / "shim.toml"
    config.write_text("[clusters.local]\nnodes = 2\ncpus = 4\noutput_wait = 0\n")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("SHIM_CONFIG", str(config))
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{OURS}:/usr/bin:/bin")
    monkeypatch.chdir(work)
    with processes.ended_afterwards():
        yield work


def said(*words: str | bytes, code: int = 0, **given: object) -> str:
    """What a command prints."""
    done = subprocess.run(words, capture_output=True, timeout=120, check=False, **given)  # type: ignore[call-overload]
    assert done.returncode == code, done
    return os.fsdecode(done.stdout)


# One index, whatever the machine is called where a command runs


@pytest.mark.parametrize(
    "words",
    [
        ("srun", "-J", "mine", "squeue", "-ho", "%i %j"),
        ("srun", "-J", "mine", "--export=NONE,PATH", "squeue", "-ho", "%i %j"),
        ("srun", "-J", "mine", "env", "-i", "SHIM_STATE_DIR={state}", "PATH={path}", "squeue", "-ho", "%i %j"),
        ("salloc", "-J", "mine", "srun", "squeue", "-ho", "%i %j"),
    ],
)
def test_a_task_sees_the_queue_that_it_is_in(state_dir: Path, words: tuple[str, ...]) -> None:
    held = said("sbatch", "--parsable", "-H", "-J", "held", "--wrap", "true").strip()
    seen = said(*(word.format(state=state_dir, path=os.environ["PATH"]) for word in words))
    assert sorted(seen.splitlines()) == [f"{held} held", f"{int(held) + 1} mine"]
    assert [path.name for path in state_dir.iterdir()] == [os.uname().nodename]


@pytest.mark.parametrize("words", [("srun",), ("sbatch", "--wait", "-o", "/dev/stdout")])
def test_a_task_without_its_callers_variables_sees_the_same_cluster(road: Path, words: tuple[str, ...]) -> None:
    (road / "script").write_text("#!/bin/sh\nsinfo -ho %D > seen\n")
    (road / "script").chmod(0o755)
    said(*words, "--export=NONE,PATH", "./script")
    assert (road / "seen").read_text() == "2\n"


def test_a_job_of_a_task_is_the_next_one() -> None:
    assert said("srun", "sbatch", "--parsable", "-H", "--wrap", "true") == "2\n"
    assert said("squeue", "-ho", "%i") == "2\n"


# The environment


ODD = {
    b"BASH_FUNC_module%%": b"() {  eval `/usr/bin/modulecmd bash $*`\n}",
    b"a.b-c": b"no name to a shell",
    b"LINES_": b"two\nlines\n",
    b"BYTES": bytes(range(1, 256)),
    b"\xff\xfe": b"\xe4",
    b"EMPTY": b"",
}
OF_A_JOB = (b"SLURM", b"SRUN_DEBUG", b"SKYPILOT_", b"SHIM_HOST_STATE_DIR", b"SHIM_RUN_DIR")
OF_A_BATCH_JOB = (*OF_A_JOB, b"ENVIRONMENT", b"HOSTNAME")


def environment(*more: bytes) -> dict[bytes, bytes]:
    """A caller's, without a locale. TMPDIR is there, else jobs get one."""
    kept = (b"SHIM_", b"HOME", b"PATH", b"XDG_CONFIG_HOME", *more)
    return {name: value for name, value in os.environb.items() if name.startswith(kept)} | {b"TMPDIR": b"/tmp"} | ODD


def seen(path: Path, of_the_job: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """What a task has written of its environment, without what it has as a task."""
    lines = path.read_bytes().split(b"\0")[:-1]
    return dict(line.split(b"=", 1) for line in lines if not line.startswith(of_the_job))  # type: ignore[misc]


@pytest.mark.parametrize("words", [("srun",), ("salloc",), ("salloc", "srun")])
def test_a_task_gets_its_callers_environment_byte_for_byte(road: Path, words: tuple[str, ...]) -> None:
    given = environment()
    said(*words, "/usr/bin/env", "cp", "/proc/self/environ", str(road / "seen"), env=given)
    assert seen(road / "seen", OF_A_JOB) == given


def test_a_batch_job_and_its_steps_too(road: Path) -> None:
    given = environment()
    for command in ("cp", "srun cp"):  # and no shell: it also gets the script's path
        (road / "script").write_text(f"#!/usr/bin/env -S {command} -t {road.parent} /proc/self/environ\n")
        said("sbatch", "--wait", "script", env=given)
        assert seen(road.parent / "environ", OF_A_BATCH_JOB) == given


@pytest.mark.parametrize("shell", [("dash",), ("bash", "--posix")])
def test_whatever_shell_is_sh(road: Path, shell: tuple[str, ...]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]}")
    given = environment()
    said(*shell, str(OURS / "srun"), "cp", "/proc/self/environ", str(road / "seen"), env=given)
    assert seen(road / "seen", OF_A_JOB) == given


def test_a_callers_open_files_are_left_alone(road: Path) -> None:
    (road / "file").write_text("from the caller")
    taken = " ".join(f"{number}<file" for number in range(3, 10))
    shown = said("/bin/sh", "-c", f"salloc sh -c 'cat <&3; cat <&9' {taken}; env a.b=1 srun true {taken}")
    assert shown == "from the caller" * 2


def test_children_get_no_file_of_the_launchers(road: Path) -> None:
    given = {**os.environb, b"BASH_COMPAT": b"5.0"}  # bash before 5.1 makes here-documents of files
    shown = said("bash", str(OURS / "salloc"), "ls", "-l", "/proc/self/fd", env=given)
    assert "(deleted)" not in shown


def test_nothing_stays_beside_a_command(road: Path) -> None:
    assert said("salloc", "sh", "-c", "ps -o comm= --ppid $PPID").split() == ["sh"]


# Ends


def test_why_a_script_did_not_start_is_told(road: Path) -> None:
    said("sbatch", "--wait", "-o", "logs/out", "--wrap", "true", code=1)
    why = f"Could not open stdout file {road}/logs/out: No such file or directory"
    shown = said("scontrol", "show", "job", "1")
    assert "JobState=FAILED Reason=JobLaunchFailure" in shown
    assert f"\n   SystemComment={why} \n" in shown
    assert said("sacct", "-nXPj1", "-o", "ExitCode,SystemComment") == f"0:53|{why}\n"
    assert said("squeue", "-htF", "-O", "system_comment:200").rstrip() == why
    assert f"job 1: {why}\n" in processes.log()


@pytest.mark.parametrize(
    ("line", "code", "shown"),
    [
        ("srun pwd", 255, ""),
        ("sbatch --wrap true", 255, ""),
        ("srun --chdir=/ pwd", 255, ""),
        ("salloc -Q --chdir=/ pwd", 0, "/\n"),
        ("salloc -Q true", 0, ""),
    ],
)
def test_a_directory_that_was_removed(road: Path, line: str, code: int, shown: str) -> None:
    program = line.split()[0]
    done = subprocess.run(
        ["/bin/sh", "-c", f"mkdir gone; cd gone; rmdir ../gone; exec {line}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (code, shown), done
    ours = [one for one in done.stderr.splitlines() if one.startswith(program)]
    assert ours == [f"{program}: error: getcwd failed: No such file or directory"]


def test_what_tasks_have_used_is_told(road: Path) -> None:
    (road / "burn").write_text(
        f"#!{sys.executable} -IS\n"
        "import os, time\n"
        "held = bytearray(100 << 20)\n"
        "while time.process_time() < 0.3: pass\n"
        "os.write(os.open('/dev/null', os.O_WRONLY), bytes(5000000))\n"
        "time.sleep(0.6)\n"  # it is looked at after half a second
        "os.wait() if os.fork() else None\n"  # what a task waits for counts too
    )
    (road / "burn").chmod(0o755)
    said("sbatch", "--wait", "-N2", "-n2", "-o", "/dev/null", "--wrap", "srun ./burn; srun -n1 -N1 true")
    columns = "JobID,UserCPU,SystemCPU,TotalCPU,MaxRSS,MaxRSSNode,MaxRSSTask,AveCPU,AveVMSize,MaxDiskWrite,MinCPUTask"
    rows = [line.split("|") for line in said("sacct", "-nPj1", "-o", columns).splitlines()]
    job, batch, burnt, idle = rows
    assert [row[0] for row in rows] == ["1", "1.batch", "1.0", "1.1"]
    user, system, total = map(seconds, burnt[1:4])
    assert 0.5 <= total <= 20
    assert total == pytest.approx(user + system, abs=0.0015)
    assert int(burnt[4].removesuffix("K")) >= 100 << 10
    assert burnt[5:8] in (["node1", "0", "00:00:00"], ["node2", "1", "00:00:00"])
    assert int(burnt[8].removesuffix("K")) >= 100 << 10
    assert burnt[9] == "4.77M", "what a process has written whose end was not seen by anybody but the agent"
    assert burnt[10] in "01"
    assert seconds(batch[3]) > 0, "the script has waited for srun"
    assert batch[5:7] == ["node1", "0"]
    assert 0 <= seconds(idle[3]) < total
    assert seconds(job[3]) == pytest.approx(sum(seconds(row[3]) for row in rows[1:]), abs=0.005)
    assert not any(job[4:])
    assert said("sacct", "-nXPj1", "-o", columns).split("|") == [*job[:-1], "\n"]


def test_sstat_asks_the_nodes_what_runs_there(road: Path) -> None:
    burn = "import os, time; held = bytearray(64 << 20); os.write(1, b'%d\\\\n' % os.getpid()); time.sleep(60)"
    job = said(
        "sbatch", "--parsable", "-N2", "-n2", "-o", "out", "--wrap", f'srun {sys.executable} -ISc "{burn}"'
    ).strip()
    pids = until(
        lambda: (
            (road / "out").exists()
            and len((road / "out").read_text().split()) == 2
            and (road / "out").read_text().split()
        )
    )
    assert said("sstat", "-nPj", job, "-o", "jobid,ntasks,nodelist").splitlines() == [f"{job}.0|2|node[1-2]"]
    memory, task, sizes = (
        said("sstat", "-nP", "--noconvert", "-j", f"{job}.0", "-o", "maxrss,maxrsstask,tresusageintot")
        .strip()
        .split("|")
    )
    assert int(memory) >= 64 << 20
    assert task in "01"
    assert "fs/disk=" in sizes
    by_node = [line.split("|") for line in said("sstat", "-inPj", f"{job}.0").splitlines()]
    assert [row[:2] for row in by_node] == [[f"{job}.0", "node1"], [f"{job}.0", "node2"]]
    assert {row[2] for row in by_node} == set(pids)
    assert [line.split("|")[0] for line in said("sstat", "-aPnj", job).splitlines()] == [f"{job}.batch", f"{job}.0"]
    assert "State: RUNNING (exit code 0)" in said("seff", job)
    said("scancel", job)
    until(lambda: said("squeue", "-hj", job) == "")
    assert said("sstat", "-nj", job) == ""
    assert "State: CANCELLED" in said("seff", job)


def test_sbcast_copies_a_file_and_says_what_stands_in_its_way(road: Path) -> None:
    (road / "big").write_bytes(os.urandom(3_000_000))
    (road / "big").chmod(0o640)
    os.utime("big", (1, 2))
    script = """
        sbcast big copy; echo $?
        sbcast big copy; echo $?
        sbcast -fp big kept; echo $?
        sbcast big /nosuch/there; echo $?
        sbcast -j $SLURM_JOB_ID.7 big other; echo $?
    """
    done = subprocess.run(["salloc", "-Q", "-N2", "bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "17", "0", "2", "255"]
    assert re.sub(r"\d+\.7", "1.7", done.stderr).splitlines() == [
        "sbcast: error: REQUEST_FILE_BCAST(node1): File exists",
        "sbcast: error: REQUEST_FILE_BCAST(node1): No such file or directory",
        "sbcast: error: Slurm job 1.7 lookup error: Invalid job id specified",
    ]
    for name in ("copy", "kept"):
        assert (road / name).read_bytes() == (road / "big").read_bytes()
        assert (road / name).stat().st_mode & 0o777 == 0o640
    assert (road / "kept").stat().st_mtime == 2
    assert (road / "copy").stat().st_mtime > 2
    assert not (road / "other").exists()


def test_srun_bcast_starts_the_copy(road: Path) -> None:
    (road / "there").mkdir()
    shown = "echo $0 $LD_LIBRARY_PATH"
    one = said("srun", "-N2", "--bcast=there/", "/bin/sh", "-c", shown).splitlines()
    assert sorted(one) == [f"{road}/there/slurm_bcast_1.0_node{number}" for number in (1, 2)]
    two = said("srun", "-N2", f"--bcast={road}/tool", "--send-libs", "--bcast-exclude=NONE", "sh", "-c", shown)
    assert two.splitlines() == [f"{road}/tool {road}/tool_libs"] * 2
    assert (road / "tool").read_bytes() == Path(shutil.which("sh") or "").read_bytes()
    assert any(path.name.startswith("libc.") for path in (road / "tool_libs").iterdir())
    refused = subprocess.run(["srun", "--bcast=/nosuch/x", "true"], capture_output=True, text=True, timeout=60)
    assert (refused.returncode, refused.stderr.splitlines()) == (
        1,
        [
            "srun: error: REQUEST_FILE_BCAST(node1): No such file or directory",
            f"srun: fatal: Failed to broadcast '{shutil.which('true')}'. Step launch aborted.",
        ],
    )


def test_sattach_shows_a_step_and_gives_it_input(road: Path) -> None:
    (road / "task").write_text(
        "echo ready $SLURM_PROCID; read word; echo got $word; echo gone >&2; exit $SLURM_PROCID\n"
    )
    job = said("sbatch", "--parsable", "-N2", "-n2", "-o", "out", "--wrap", "sleep 60 | srun sh task").strip()
    until(lambda: (road / "out").exists() and (road / "out").read_text().count("ready") == 2)
    assert said("sattach", "--layout", f"{job}.0").splitlines() == [
        "Job step layout:",
        "\t2 tasks, 2 nodes (node[1-2])",
        "",
        "\tNode 0 (node1), 1 task(s): 0 ",
        "\tNode 1 (node2), 1 task(s): 1 ",
    ]
    attached = ("sattach", "-l", "--output-filter=1", f"{job}.0")
    done = subprocess.run(attached, input="hello\n", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.splitlines()) == (1, ["1: ready 1", "1: got hello"])
    assert done.stderr.splitlines() == ["1: gone", "sattach: error: task 1 exited with exit code 1"]
    assert said("sattach", f"{job}.0", code=1) == ""
    said("scancel", job)


def until(found: Callable[[], object]) -> Any:
    """What ``found`` gives once it is something."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError("waited for a minute")


def seconds(clock: str) -> float:
    """Of ``00:00.123`` or ``00:00:01``."""
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return total


def test_a_missing_folder_of_the_output_is_told_before_and_after(road: Path) -> None:
    done = subprocess.run(
        ("sbatch", "--wait", "-o", "logs/%x-%j.out", "-e", "e%j/x", "--wrap", "true"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    folder = road / "logs"
    assert done.returncode == 1
    assert (
        done.stderr
        == f'sbatch: warning: "{folder}", for the output of the job, is no folder: without it the job fails\n'
    )
    told = said("shim", "why", "1").splitlines()
    assert told[1] == f"  Could not open stdout file {folder}/wrap-1.out: No such file or directory"
    assert told[2].endswith(f"mkdir -p {folder}, then sbatch again.")
    folder.mkdir()
    assert subprocess.run(("sbatch", "-o", "logs/x", "--wrap", "true"), capture_output=True).stderr == b""


def test_what_the_controller_costs_is_told() -> None:
    assert said("shim", "controller", "status", code=1).startswith("no controller is running for ")
    said("srun", "true")
    first, second = said("shim", "controller", "status").splitlines()
    assert first.startswith("controller runs with pid ")
    assert re.fullmatch(r"since \d{4}-\d\d-\d\dT[\d:]{8}: \d+ process(es)?, \d+ MiB of memory", second)


# A job that gives up nodes


def test_a_job_gives_up_a_node(road: Path) -> None:
    (road / "job").write_text(
        "#!/bin/bash\nsrun -l bash -c 'touch here.$SLURM_PROCID; until test -e go; do sleep 0.05; done' & step=$!\n"
        "until test -e here.0 -a -e here.1; do sleep 0.05; done\n"
        "scontrol update jobid=$SLURM_JOB_ID NumNodes=1; touch go; wait $step; echo $?\n"
        ". ./slurm_job_${SLURM_JOB_ID}_resize.sh; srun bash -c 'echo $SLURM_NNODES $SLURM_JOB_NODELIST'\n"
    )
    said("sbatch", "--wait", "-N2", "-o", "out", "job")
    assert (road / "out").read_text().splitlines() == [
        "To reset Slurm environment variables, execute",
        "  For bash or sh shells:  . ./slurm_job_1_resize.sh",
        "  For csh shells:         source ./slurm_job_1_resize.csh",
        "srun: error: node2: task 1: Killed",
        "srun: Force Terminated StepId=1.0",
        "137",
        "1 node1",
    ]
    shown = said("scontrol", "show", "job", "1")
    assert "NumNodes=1 NumCPUs=1 " in shown and "   ResizeTime=2" in shown
