"""--task-prolog, --task-epilog and --wait-for-children as an agent carries them out. Slurm's behaviour and words: measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.job.agent.node.task_scripts import obeyed
from shim.job.wire import STDERR
from tests.job.agent.support import FakeLeader


def script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_a_prolog_says(capfd: pytest.CaptureFixture[str]) -> None:
    said = (
        "export A=one two\nexport B=b=c\nunset C\nprint   text  \nnoise\n  export D=4\nexport E\nexport =x\nunset NOT\n"
    )
    assert obeyed(said, {"A": "0", "C": "c"}) == {"A": "one two", "B": "b=c"}
    assert capfd.readouterr().out == "text  \n"


def test_prolog_and_epilog_of_a_task(leader: FakeLeader) -> None:
    folder = leader.run_dir
    prolog = script(
        folder,
        "prolog",
        'echo "export A=$SLURM_SCRIPT_CONTEXT $SLURM_TASK_PID $PWD"; echo print $1 hello; echo bad >&2',
    )
    epilog = script(folder, "epilog", 'echo lost; echo "$SLURM_SCRIPT_CONTEXT ${A-none} $SLURM_PROCID $PWD" >&2')
    leader.shell('echo "$A"; echo $$; exit 5', task_prolog=prolog, task_epilog=epilog)
    assert leader.status() == 5 << 8
    pid = leader.told("task", step=0)["pid"]
    assert leader.out() == f"hello\nprolog_task {pid} {folder}\n{pid}\n"
    assert leader.out(STDERR) == f"epilog_task none 0 {folder}\n"


@pytest.mark.parametrize(
    ("path", "code", "lines"),
    [
        ("failing", 3, []),
        (
            "/nosuch",
            1,
            [
                "run_command: user task_prolog can not be executed (/nosuch) No such file or directory",
                "user task_prolog did not exit normally. reason: Run command failed - configuration error",
            ],
        ),
        (
            "./failing",
            1,
            [
                "run_command: user task_prolog is not fully qualified pathname (./failing)",
                "user task_prolog did not exit normally. reason: Run command failed - configuration error",
            ],
        ),
    ],
)
def test_a_prolog_that_fails(leader: FakeLeader, path: str, code: int, lines: list[str]) -> None:
    failing = script(leader.run_dir, "failing", "echo print before; exit 3")
    leader.shell("echo never", task_prolog=failing if path == "failing" else path)
    assert leader.status() == code << 8
    assert leader.out() == ("before\n" if path == "failing" else "")
    told = [*lines, f"--task-prolog failed status={code}"]
    assert leader.out(STDERR) == "".join(f"slurmstepd: error: {line}\n" for line in told)


def test_an_epilog_that_fails_is_told_and_no_more(leader: FakeLeader) -> None:
    leader.shell("true", task_epilog=script(leader.run_dir, "failing", "exit 3"))
    assert (leader.status(), leader.out(STDERR)) == (0, "slurmstepd: error: TaskEpilog failed status=768\n")
    leader.shell("true", step=1, task_epilog="/nosuch")
    assert leader.status(step=1) == 0
    assert leader.out(STDERR, step=1) == (
        "slurmstepd: error: Could not run user task_epilog [/nosuch]: access denied\n"
        "slurmstepd: error: TaskEpilog failed status=-1\n"
    )


def test_children_are_waited_for(leader: FakeLeader) -> None:
    """The task's first process ends at once, its child when it is told to: only then the task has ended."""
    leader.shell("(while ! test -s go; do sleep 0.05; done; echo child) & exit 4", wait_for_children=True)
    leader.shell("echo other", step=1)
    leader.told("drained", step=1)
    assert not any(message["do"] == "exit" and message["step"] == 0 for message in leader.messages)
    (leader.run_dir / "go").write_text("x")
    assert (leader.status(), leader.out()) == (4 << 8, "child\n")
