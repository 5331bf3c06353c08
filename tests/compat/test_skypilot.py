"""SkyPilot's own package judges the tasks of `shim export sky`, and says which words `shim import sky` must know."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compat.clients import environment
from shim.admin.sky import asked, exporting, importing

pytestmark = pytest.mark.clients

SCRIPTS = {
    "plain.sh": "#!/bin/bash\necho hello\n",
    "gpus.sh": "#!/bin/bash\n#SBATCH -N2 --gpus-per-node=h100:8 -c 8 --ntasks-per-node=8 --mem=500G --tmp=300G -t 2-0\n"
    "#SBATCH --export=A=1,B=two\nsrun python train.py\n",
    "image.sh": '#!/bin/bash\n#SBATCH --container-image="nvcr.io#nvidia/pytorch:25.01-py3" --mem-per-cpu=1500M -n 3\ntrue \n',
    "array.sh": "#!/bin/bash\n#SBATCH --array=0-9%2 -J odd/name --signal=USR1@60 -t 10\necho \u00e4 $SLURM_ARRAY_TASK_ID\n",
    "het.sh": "#!/bin/bash\n#SBATCH -J pair -n2\n#SBATCH hetjob\n#SBATCH -N2 --gres=gpu:a100:1\nsrun a : b\n",
}


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter that has SkyPilot; where there must be one, a test that is not run is no test passed."""
    if not environment.is_up(environment.SKYPILOT):
        refuse = pytest.fail if os.environ.get("SHIM_TEST_CLIENTS") else pytest.skip
        refuse("no SkyPilot: python -m compat.clients.environment up")
    return environment.folder(environment.SKYPILOT) / "bin" / "python"


def asked_of(python: Path, home: Path, *words: str | Path) -> str:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    done = subprocess.run(
        [python, *words], env=environ, cwd=home, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_takes_every_task(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in SCRIPTS.items():
        Path(name).write_text(text)
        out = io.StringIO()
        exporting.report([name], out)
        Path(name).with_suffix(".yaml").write_text(out.getvalue())
    files = [str(Path(name).with_suffix(".yaml")) for name in SCRIPTS]
    said = asked_of(python, tmp_path, environment.HERE / "sky_tasks.py", *files)
    tasks: dict[str, dict[str, Any]] = {}
    for line in said.splitlines():
        if line.startswith("{"):
            tasks[json.loads(line)["name"]] = json.loads(line)
    assert list(tasks) == ["plain.sh", "gpus.sh", "image.sh", "odd-name", "pair-0", "pair-1"]
    gpus = tasks["gpus.sh"]
    assert {name.lower(): count for name, count in gpus["accelerators"].items()} == {"h100": 8}
    assert (gpus["num_nodes"], gpus["cpus"], gpus["memory"], gpus["disk_size"]) == (2, "64+", "500+", 300)
    assert gpus["envs"] == {"A": "1", "B": "two"}
    assert list(tasks["image.sh"]["image_id"].values()) == ["docker:nvcr.io/nvidia/pytorch:25.01-py3"]
    assert float(tasks["image.sh"]["memory"].rstrip("+")) * 1024 == 4500
    assert [tasks[name]["group"] for name in ("odd-name", "pair-0", "pair-1")] == [False, True, True]
    runs_on_a_node(tmp_path, gpus["script"])


def runs_on_a_node(home: Path, script: str) -> None:
    """As SkyPilot starts it (sky/skylet/log_lib.py): a file for an interactive bash, which goes to ~/sky_workdir."""
    (home / "sky_workdir").mkdir()
    (home / "node.sh").write_text(script)
    (home / "bin").mkdir()
    (home / "bin" / "python").write_text("#!/bin/sh\necho $SLURM_PROCID $A $PWD $*\n")
    (home / "bin" / "python").chmod(0o755)
    environ = {
        "PATH": f"{home}/bin:/usr/bin:/bin",
        "HOME": str(home),
        "SKYPILOT_NODE_RANK": "0",
        "SKYPILOT_NODE_IPS": "10.0.0.1",
    }
    ran = subprocess.run(
        ["/bin/bash", "-i", home / "node.sh"],
        env={**environ, "SKYPILOT_NUM_NODES": "1", "SKYPILOT_INTERNAL_JOB_ID": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    said = sorted(ran.stdout.splitlines(), key=lambda line: int(line.split()[0]))
    assert said == [f"{rank} 1 {home}/sky_workdir train.py" for rank in range(16)], ran


def test_every_word_of_its_schemas_is_known(python: Path, tmp_path: Path) -> None:
    told = asked_of(
        python,
        tmp_path,
        "-c",
        "import json; from sky.utils import dag_utils, schemas; print(json.dumps([list(schemas.get_task_schema()['properties']),"
        " list(schemas.get_resources_schema()['properties']), list(dag_utils._JOB_GROUP_HEADER_FIELDS)]))",
    )
    task, resources, header = json.loads(told.splitlines()[-1])
    assert set(task) <= {*importing._READ, *importing._REFUSED, *importing._LEFT_OUT}
    known = {*asked._RESOURCES, *asked._REFUSED, *asked._LEFT_OUT}
    assert {word for word in resources if not word.startswith("_")} <= known
    assert set(header) == set(importing._HEADER)
