"""`shim export sky`: the task's YAML, and what its `run` does when it is started on every node, as SkyPilot does. SSH is a program that runs the command here."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.admin import app, yaml_text
from shim.admin.sky import exporting, importing
from shim.core.errors import ShimError
from tests.support import wait_until

SSH = """#!/bin/sh
while case $1 in -o) true;; *) false;; esac; do shift 2; done
echo "$1" >>"$SSH_LOG"; shift
exec env -i PATH=/usr/bin:/bin SSH_LOG="$SSH_LOG" sh -c "$*"
"""

# What an interactive shell says that has no terminal.
NO_TERMINAL = re.compile(r"^bash: (cannot set terminal process group|no job control in this shell).*\n", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exported(folder: Path, script: str, *words: str, gpu: str | None = None) -> tuple[str, list[dict[str, Any]]]:
    """The YAML of the script, and its documents."""
    (folder / "train.sh").write_text(script)
    out = io.StringIO()
    exporting.report([*words, "train.sh"], out, gpu)
    return out.getvalue(), yaml_text.load(out.getvalue())


class Nodes:
    """The nodes of one task, as SkyPilot starts `run` on them."""

    def __init__(self, folder: Path, task: dict[str, Any], **more: str) -> None:
        ssh = folder / "ssh-bin"
        ssh.mkdir(exist_ok=True)
        (ssh / "ssh").write_text(SSH)
        (ssh / "ssh").chmod(0o755)
        (folder / "ssh.log").touch()
        (folder / "tmp").mkdir(exist_ok=True)
        (folder / "run.sh").write_text(task["run"])
        size = task["num_nodes"]
        environ = {
            "PATH": f"{ssh}:/usr/bin:/bin",
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "SSH_LOG": str(folder / "ssh.log"),
            "SKYPILOT_NODE_IPS": "\n".join(f"10.0.0.{rank + 1}" for rank in range(size)),
            "SKYPILOT_NUM_NODES": str(size),
            "SKYPILOT_NUM_GPUS_PER_NODE": "8",
            "SKYPILOT_INTERNAL_JOB_ID": "7",
            **more,
        }
        self.started = [
            subprocess.Popen(
                ["/bin/bash", "-i", str(folder / "run.sh")],  # as sky.skylet.log_lib does
                env={**environ, "SKYPILOT_NODE_RANK": str(rank)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=folder,
                start_new_session=True,
            )
            for rank in range(size)
        ]

    def ended(self) -> tuple[list[int], str]:
        """Exit codes, and what the first node said; the others say nothing."""
        said = [NO_TERMINAL.sub("", one.communicate(timeout=60)[0]) for one in self.started]
        assert said[1:] == [""] * (len(said) - 1)
        return [one.returncode for one in self.started], said[0]


@pytest.fixture
def run(folder: Path) -> Iterator[Callable[..., tuple[list[int], str]]]:
    def run(script: str, *words: str, **more: str) -> tuple[list[int], str]:
        return Nodes(folder, exported(folder, script, *words)[1][0], **more).ended()

    yield run
    assert os.listdir(folder / "tmp") == []


LLM = """#!/bin/bash
#SBATCH -J llm --nodes=2 --ntasks-per-node=2 -c 4
#SBATCH --gpus-per-node=h100:8 --mem=64G --tmp=100G
#SBATCH --container-image="nvcr.io#nvidia/pytorch:25.01-py3"
srun true
"""


def test_resources(folder: Path) -> None:
    _, (task,) = exported(folder, LLM)
    assert task["name"] == "llm" and task["num_nodes"] == 2 and task["workdir"] == str(folder)
    assert task["resources"] == {
        "accelerators": "h100:8",
        "cpus": "8+",
        "memory": "64+",
        "disk_size": 100,
        "image_id": "docker:nvcr.io/nvidia/pytorch:25.01-py3",
    }


@pytest.mark.parametrize(
    ("options", "nodes", "resources"),
    [
        ("-n 1", 1, {}),
        ("-n 8", 1, {"cpus": "8+"}),
        ("-N2 -n 6 --mem-per-cpu=1000", 2, {"cpus": "3+", "memory": "2.9296875+"}),
        ("--gpus=a100:16 -N4", 4, {"accelerators": "a100:4"}),
        ("--gres=gpu:v100:2 --cpus-per-gpu=6 --mem-per-gpu=32G", 1, {"accelerators": "v100:2", "cpus": "12+", "memory": "64+"}),
        ("-n 4 --gpus-per-task=l4:1 -c 2", 1, {"accelerators": "l4:4", "cpus": "8+"}),
        ("-N 2-4 --gpus-per-node=2", 2, {"accelerators": "H100:2"}),
    ],
)  # fmt: skip
def test_resources_of_each_node(folder: Path, options: str, nodes: int, resources: dict[str, str]) -> None:
    _, (task,) = exported(folder, f"#!/bin/sh\n#SBATCH {options}\n", gpu="H100")
    assert (task["num_nodes"], task.get("resources", {})) == (nodes, resources)


def test_gpus_without_a_type_and_of_several(folder: Path) -> None:
    with pytest.raises(ShimError, match="--gpu H100 says which"):
        exported(folder, "#!/bin/sh\n#SBATCH -G2\n")
    with pytest.raises(ShimError, match="of one kind"):
        exported(folder, "#!/bin/sh\n#SBATCH --gpus-per-node=a100:1,v100:1\n")


def test_nothing_is_dropped_silently(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "#!/bin/sh\n#SBATCH -A proj -p gpu -C a&b -d afterok:1 --licenses=matlab --mail-type=END -N1-2\n"
        "#SBATCH -o out --array=0-9%2 --begin=now+1hour --switches=1\n# SBATCH -t 5\n"
        "srun --multi-prog x\nsrun --cpu-bind=none true\nsqueue\n"
    )
    text, _ = exported(folder, script, "--qos=high")
    said = [line.removeprefix("shim: ") for line in capsys.readouterr().err.splitlines()]
    assert [f"#   {line}" for line in said] == [line for line in text.splitlines() if line.startswith("#   ")]
    for word in (
        *("--account=proj", "--partition=gpu", "--constraint=a&b", "--dependency=afterok:1", "--licenses=matlab"),
        *("--mail-type=END", "--output=out", "--begin=now+1hour", "--switches=1", "--qos=high", "--array=0-9%2", "--nodes=1-2"),
        *("line 5: srun: --multi-prog is refused", "line 6: srun: --cpu-bind has no effect", "line 7: squeue"),
        *("line 4 is no directive", "the variables of the submitting shell"),
    ):  # fmt: skip
        assert any(line.startswith(word) for line in said), (word, said)


def test_options_that_are_expressed_or_explained_are_options() -> None:
    from shim.core.options.plugins import PYXIS
    from shim.core.options.submit_options import ROWS

    names = {row["name"] for row in (*ROWS, *PYXIS)}
    assert {*exporting._WHY, *exporting._EXPRESSED} <= names


def test_the_script_runs_once_and_srun_everywhere(run: Callable[..., tuple[list[int], str]], folder: Path) -> None:
    script = """#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 -J two
echo "script $SLURM_NODEID $SLURM_NNODES $SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_TASKS_PER_NODE $1 $2"
scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1
export SAID="it's"
srun sh -c 'echo "$SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SKYPILOT_NODE_RANK $SLURMD_NODENAME $SAID"' | sort
srun -l -n 1 -w 10.0.0.2 sh -c 'echo one $SKYPILOT_NODE_RANK; exit 3'; echo "code $?"
srun -N2 -n2 --ntasks-per-node=1 -o 'out-%t.%s' sh -c 'echo $SLURM_STEP_ID; pwd'
"""
    (folder / "train.sh").write_text(script)
    out = io.StringIO()
    exporting.report(["train.sh", "a b", "$c"], out)
    codes, said = Nodes(folder, yaml_text.load(out.getvalue())[0]).ended()
    assert codes == [0, 0]
    assert said.splitlines() == [
        "script 0 2 7 two 4 2(x2) a b $c",
        "10.0.0.2",
        "0 0 0 0 10.0.0.1 it's",
        "1 1 0 0 10.0.0.1 it's",
        "2 0 1 1 10.0.0.2 it's",
        "3 1 1 1 10.0.0.2 it's",
        "0: one 1",
        "code 3",
    ]
    assert [(folder / f"out-{rank}.2").read_text() for rank in (0, 1)] == [f"2\n{folder}\n"] * 2
    assert (folder / "ssh.log").read_text().split() == ["10.0.0.2"] * 3


def test_a_script_in_an_interactive_shell(run: Callable[..., tuple[list[int], str]]) -> None:
    script = "#!/usr/bin/env python3\nword = 'srun!'\nprint(f'{word!r} !echo !$ !! !-1')\n"
    assert run(script) == ([0], "'srun!' !echo !$ !! !-1\n")


def test_exit_codes_and_refusals(run: Callable[..., tuple[list[int], str]]) -> None:
    assert run("#!/bin/bash\nexit 5\n") == ([5], "")
    assert run("#!/usr/bin/env python3\nimport os\nprint(os.environ['SLURM_JOB_ID'])\n") == ([0], "7\n")
    codes, said = run("#!/bin/bash\nsrun --multi-prog x.conf\n")
    assert (
        codes == [1]
        and said == "srun: error: option --multi-prog not recognized: srun of a SkyPilot task does not know it\n"
    )
    assert run("#!/bin/bash\nsrun /no/such\n") == (
        [2],
        "slurmstepd: error: execve(): /no/such: No such file or directory\n",
    )
    codes, said = run("#!/bin/bash\n#SBATCH -n2\nsrun -K sh -c '[ $SLURM_PROCID = 0 ] && exit 4; exec sleep 100'\n")
    assert codes == [143]


def test_an_array(run: Callable[..., tuple[list[int], str]]) -> None:
    script = "#!/bin/bash\n#SBATCH --array=3,7-9\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT, $SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX\n"
    assert run(script, SKYPILOT_JOB_RANK="2") == ([0], "8 of 4, 3-9\n")


def on_nodes(folder: Path, *words: str) -> subprocess.Popen[str]:
    """The program that a task has for srun, on the first of two nodes."""
    task = exported(folder, "#!/bin/bash\n#SBATCH -N2\nsrun true\n")[1][0]
    program = task["run"].split("<<'END_OF_SRUN'\n")[1].split("END_OF_SRUN\n")[0]
    (folder / "slurm").mkdir()
    (folder / "slurm" / "srun").write_text(f"#!{sys.executable}\n{program}")
    (folder / "slurm" / "srun").chmod(0o755)
    environ = {"SHIM_SLURM": str(folder / "slurm"), "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "n1"}
    path = f"{folder / 'slurm'}:/usr/bin:/bin"
    return subprocess.Popen(
        [str(folder / "slurm" / "srun"), *words],
        env={**environ, "PATH": path},
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_the_time_limit_and_the_signal_before_it(folder: Path) -> None:
    (folder / "job").write_text(
        "#!/bin/bash\ntrap 'echo warned' USR1\ntrap 'echo over; exit 9' TERM\n"
        "srun sh -c 'trap \"echo step over; exit 1\" TERM; sleep 100 & wait' &\nwhile :; do wait; done\n"
    )
    (folder / "job").chmod(0o755)
    batch = on_nodes(folder, "batch", "2", str(int(signal.SIGUSR1)), "1", "script", str(folder / "job"))
    out, err = batch.communicate(timeout=60)
    assert sorted(out.splitlines()) == ["over", "step over", "warned"] and batch.returncode == 9
    assert "CANCELLED DUE TO TIME LIMIT" in err


def test_a_signal_to_the_steps(folder: Path) -> None:
    (folder / "job").write_text("#!/bin/bash\nsrun bash -c 'trap \"echo warned; exit 7\" USR1; sleep 100 & wait'\n")
    (folder / "job").chmod(0o755)
    batch = on_nodes(folder, "batch", "60", str(int(signal.SIGUSR1)), "58", "steps", str(folder / "job"))
    assert (batch.communicate(timeout=60), batch.returncode) == (("warned\n", ""), 7)


def test_a_step_that_is_cancelled_ends_on_its_nodes(folder: Path) -> None:
    step = on_nodes(folder, "sh", "-c", "echo $$ >pid; exec sleep 1000")
    pid = wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip(), "the task begins")
    step.send_signal(signal.SIGTERM)
    step.communicate(timeout=60)
    assert step.returncode == 128 + signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


HET = """#!/bin/bash
#SBATCH -N1 -n2 -J pair
#SBATCH hetjob
#SBATCH -N2 -n2 --gpus-per-node=h100:1
srun --het-group=0 sh -c 'echo "a $SLURM_PROCID"' : --het-group=1 sh -c 'echo "b $SLURM_PROCID"' | sort
srun echo first
srun --het-group=0-1 -n1 echo both
"""


def test_a_heterogeneous_job_is_a_job_group(folder: Path) -> None:
    text, (header, first, second) = exported(folder, HET)
    assert header == {"name": "pair", "execution": "parallel", "primary_tasks": ["pair-0"]}
    assert (first["num_nodes"], second["num_nodes"]) == (1, 2)
    assert second["resources"] == {"accelerators": "h100:1"} and first["resources"] == {"cpus": "2+"}
    assert "the script runs once in each task of the group" in text
    assert Nodes(folder, first).ended() == ([0], "a 0\na 1\nfirst\nfirst\nboth\n")
    assert Nodes(folder, second).ended() == ([0, 0], "b 2\nb 3\nboth\n")


def test_exported_and_imported_it_is_the_same_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for script, words in ((LLM, ()), (HET, ()), (LLM, ("--nodes=3", "--comment=a b"))):
        text, documents = exported(folder, script, *words)
        (folder / "task.yaml").write_text(text)
        out = io.StringIO()
        importing.report("task.yaml", out)
        expected = script if not words else script.replace("srun", '#SBATCH --nodes="3"\n#SBATCH --comment="a b"\nsrun')
        assert out.getvalue() == expected
        assert documents[-1]["num_nodes"] == (3 if words else 2)
    (folder / "task.yaml").write_text(text.replace("num_nodes: 3", "num_nodes: 4"))
    with pytest.raises(ShimError, match="num_nodes is 4, and 3 in the directives"):
        importing.report("task.yaml", io.StringIO())


def test_the_environment_that_is_named_goes_along(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t0p")
    text, (task,) = exported(folder, "#!/bin/bash\n#SBATCH --export=TOKEN,A=1,NOT_THERE\n")
    assert task["envs"] == {"TOKEN": "t0p", "A": "1"}
    assert "variables of the submitting shell" not in text


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.sh").write_text("#!/bin/bash\n#SBATCH -n 2 --gpus=2\n")
    assert app.main(["export", "sky", "--gpu", "L4", "-N2", "train.sh", "-x y"]) == 0
    (task,) = yaml_text.load(capsys.readouterr().out)
    assert (
        task["num_nodes"] == 2
        and task["resources"]["accelerators"] == "L4:1"
        and task["run"].rstrip().splitlines()[-4].endswith(" '-x y'")
    )
    assert app.main(["export", "sky", "nowhere.sh"]) == 1
    assert "Unable to open file nowhere.sh" in capsys.readouterr().err
