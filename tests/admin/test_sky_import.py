"""`shim import sky`: the script that a task becomes, and that it does on this machine what the task would do."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from shim.admin import app
from shim.admin.preflight import requests_of
from shim.admin.sky import importing
from shim.core.errors import ShimError
from shim.testing import Cluster

TASK = """
name: train
num_nodes: 2
workdir: code
resources:
  accelerators: {H100: 8}
  cpus: 4+
  memory: 16+
  disk_size: 100
  image_id: docker:nvcr.io/nvidia/pytorch:25.01-py3
  use_spot: true
  ports: 8080
envs: {MODEL: "it's", STEPS: 3}
secrets: {HF_TOKEN: null}
setup: pip install x
run: |
  torchrun --node_rank=$SKYPILOT_NODE_RANK train.py
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def imported(folder: Path, task: str, partly: bool = False) -> str:
    (folder / "task.yaml").write_text(task)
    out = io.StringIO()
    importing.report("task.yaml", out, partly)
    return out.getvalue()


def test_directives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = imported(folder, TASK)
    assert [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")] == [
        "--job-name=train",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gpus-per-node=H100:8",
        "--cpus-per-task=4",
        "--mem=16G",
        "--tmp=100G",
        '--container-image="nvcr.io#nvidia/pytorch:25.01-py3"',
        "--requeue",
        f"--chdir={folder}/code",
    ]
    said = [line.removeprefix("shim: ") for line in capsys.readouterr().err.splitlines()]
    assert [line.partition(":")[0] for line in said] == ["disk_size", "use_spot", "ports"]
    assert all(f"# {line}" in script for line in said)
    (folder / "job.sh").write_text(script.replace("#SBATCH --container", "# "))
    (request,) = requests_of(["job.sh"])
    assert (request.min_nodes, request.gpus_per_node, request.cpus_per_task, request.mem_per_node) == (
        2,
        "H100:8",
        4,
        16384,
    )


@pytest.mark.parametrize(
    ("resources", "options"),
    [
        ("accelerators: A100", ["--gpus-per-node=A100:1"]),
        ("accelerators: [L4:2]", ["--gpus-per-node=L4:2"]),
        ("{accelerators: {V100: null}, cpus: 8, memory: 3.5}", ["--gpus-per-node=V100:1", "--cpus-per-task=8", "--mem=3584M"]),
        ("{memory: 512MB+, cpus: 0.5}", ["--mem=512M", "--cpus-per-task=1"]),
        ("{memory: 1TB, disk_size: 50, infra: k8s/ctx}", ["--mem=1024G", "--tmp=50G"]),
    ],
)  # fmt: skip
def test_resources(folder: Path, resources: str, options: list[str]) -> None:
    script = imported(folder, f"resources: {resources if resources[0] == '{' else '{' + resources + '}'}\nrun: echo\n")
    assert [line[8:] for line in script.splitlines() if line.startswith("#SBATCH")][2:] == options


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("file_mounts: {/data: s3://bucket}", "file_mounts: files are where"),
        ("service: {readiness_probe: /}", "service: a service is no batch job"),
        ("volumes: {/mnt: v}", "volumes: mounts are configured"),
        ("workdir: {url: https://x/y}", "workdir: https://x/y: clone it first"),
        ("secrets: [TOKEN]", "secrets: TOKEN: only SkyPilot's server"),
        ("resources: {any_of: [{cpus: 1}]}", "any_of: a job asks for one kind"),
        ("resources: {accelerators: {A100: 1, L4: 1}}", "accelerators: A100, L4: a job asks for one kind"),
        ("resources: {accelerators: V100:0.5}", "whole GPUs"),
        ("resources: {accelerators: tpu-v4-8}", "there are no TPUs"),
        ("resources: {image_id: ami-1}", "image_id: ami-1: an image of a machine"),
    ],
)
def test_what_would_be_another_job_is_refused_and_named_with_partly(
    folder: Path, capsys: pytest.CaptureFixture[str], task: str, said: str
) -> None:
    with pytest.raises(ShimError) as refused:
        imported(folder, f"{task}\nrun: echo ran\n")
    assert any(said in line for line in refused.value.lines)
    script = imported(folder, f"{task}\nrun: echo ran\n", partly=True)
    assert said in script and said in capsys.readouterr().err and "echo ran" in script


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("run: [", "is no YAML"),
        ("- 1", "is no SkyPilot task"),
        ("", "is no SkyPilot task"),
        ("nonsense: 1\nrun: echo", '"nonsense" is no word'),
        ("resources: {gpus: 1}", '"gpus" is no word'),
        ("resources: {cpus: many}", "no number of CPUs"),
        ("resources: {memory: 3 apples}", "is no size"),
        ("num_nodes: -1", "no number of nodes"),
        ("envs: {a-b: 1}", "no name of a variable"),
        ("name: a\nrun: x\n---\nname: b\nrun: y", "is a pipeline"),
    ],
)
def test_what_is_no_task(folder: Path, capsys: pytest.CaptureFixture[str], task: str, said: str) -> None:
    (folder / "task.yaml").write_text(task)
    assert app.main(["import", "sky", "task.yaml"]) == 1
    assert said in capsys.readouterr().err


def test_values_stay_values(folder: Path) -> None:
    """No value of a task becomes a line, a directive or a command of its own."""
    task = (
        'resources: {infra: "k8s\\n#SBATCH --nodes=9", labels: {a: "b\\ntouch owned"}}\n'
        'envs: {A: "x\\nEND\\ntouch owned", B: "$(touch owned)"}\nrun: echo "$A$B"\n'
    )
    script = imported(folder, task)
    assert [line for line in script.splitlines() if line.startswith("#SBATCH")] == [
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks-per-node=1",
    ]
    (folder / "srun").write_text('#!/bin/sh\nwhile [ "$1" != bash ]; do shift; done\nexec "$@"\n')
    (folder / "srun").chmod(0o755)
    done = subprocess.run(
        ["bash"], input=script, env={"PATH": f"{folder}:/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("x\nEND\ntouch owned$(touch owned)\n", "")
    assert not (folder / "owned").exists()
    with pytest.raises(ShimError, match="line break"):
        imported(folder, 'name: "a\\nb"\nrun: echo\n')


def test_a_task_runs_on_all_nodes(tmp_path: Path) -> None:
    task = """
name: three
num_nodes: 3
resources: {cpus: 2+, memory: 1+}
envs: {WHO: "it's me"}
secrets: {TOKEN: null}
setup: |
  echo "setup $SKYPILOT_SETUP_NODE_RANK of $SKYPILOT_NUM_NODES" > setup-$SKYPILOT_NODE_RANK
run: |
  case $WHO in (it*) ;; esac  # 'quotes
  echo "$SKYPILOT_NODE_RANK/$SKYPILOT_NUM_NODES $WHO $TOKEN $(cat setup-$SKYPILOT_NODE_RANK)"
  [ $(echo "$SKYPILOT_NODE_IPS" | wc -l) = 3 ] || exit 9
  echo "$SLURM_PROCID $SLURM_CPUS_PER_TASK" >&2
"""
    with Cluster(tmp_path / "cluster", nodes=3, cpus=2) as slurm:
        (tmp_path / "task.yaml").write_text(task)
        script = slurm.run("shim", "import", "sky", str(tmp_path / "task.yaml")).stdout
        path = tmp_path / "job.sh"
        path.write_text(script)
        without = slurm.submit(path).wait()
        assert without.state == "FAILED" and "TOKEN: is to be set when the job is submitted" in without.output
        job = slurm.submit(path, export="ALL,TOKEN=t0p").wait()
        assert (job.state, len(job.nodes)) == ("COMPLETED", 3)
        assert sorted(job.output.splitlines()) == sorted(
            line for rank in range(3) for line in (f"{rank}/3 it's me t0p setup {rank} of 3", f"{rank} 2")
        )


def test_a_node_that_fails_ends_the_others_and_the_job(tmp_path: Path) -> None:
    task = "num_nodes: 2\nrun: |\n  [ $SKYPILOT_NODE_RANK = 0 ] && exit 3\n  exec sleep 1000\n"
    with Cluster(tmp_path / "cluster", nodes=2) as slurm:
        (tmp_path / "task.yaml").write_text(task)
        path = tmp_path / "job.sh"
        path.write_text(slurm.run("shim", "import", "sky", str(tmp_path / "task.yaml")).stdout)
        job = slurm.submit(path).wait()
        assert job.state == "FAILED" and job.exit_code != 0


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("run: [a]", "run: a text is wanted, and it is ['a']"),
        ("envs: 3", "envs: a mapping, or a list, is wanted, and it is 3"),
        ("num_nodes: true", "num_nodes: a number is wanted, and it is True"),
        ("num_nodes: 99999999999", "num_nodes: 99999999999 is no number of nodes"),
        ("resources: {1: 2}", '"1" is no word of a SkyPilot task'),
        ("resources: {cpus: .inf}", 'cpus: "inf" is no number of CPUs'),
        ("resources: {cpus: -3}", 'cpus: "-3" is no number of CPUs'),
        ("resources: {accelerators: {A100: [1]}}", "a job asks for whole GPUs"),
        ("resources: {accelerators: {A100: .inf}}", "a job asks for whole GPUs"),
        ('run: "\\uD800"', "a script cannot have all characters of"),
        ('envs: {A: "x\\0y"}', "a script cannot have all characters of"),
        ("envs: &a [*a]", "only SkyPilot's server knows them"),
        ("[" * 5000, "is no YAML: more levels than can be read"),
    ],
)
def test_what_is_no_value_of_a_word_is_refused(folder: Path, task: str, said: str) -> None:
    with pytest.raises(ShimError) as refused:
        imported(folder, task)
    assert said in "\n".join(refused.value.lines)


def test_a_job_group_is_a_heterogeneous_job(tmp_path: Path) -> None:
    group = """
name: pair
execution: parallel
primary_tasks: [head]
---
name: head
run: echo "head $SLURM_PROCID"
---
name: workers
num_nodes: 2
setup: touch ready-$SLURM_PROCID
run: echo "worker $SLURM_PROCID"
"""
    with Cluster(tmp_path / "cluster", nodes=3) as slurm:
        (tmp_path / "task.yaml").write_text(group)
        made = slurm.run("shim", "import", "sky", str(tmp_path / "task.yaml"))
        assert "primary_tasks: of the group" in made.stderr
        path = tmp_path / "job.sh"
        path.write_text(made.stdout)
        job = slurm.submit(path).wait()
        assert job.state == "COMPLETED"
        assert sorted(job.output.splitlines()) == ["head 0", "worker 1", "worker 2"]
