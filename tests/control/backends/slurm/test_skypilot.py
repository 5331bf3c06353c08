"""SKYPILOT_* in jobs of a real Slurm: a fake one runs the script it is given, as a batch step and its tasks would be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.control.backends.slurm.skypilot import interpreter
from tests.control.backends.slurm.fake import Site

# Runs what it gets as slurmd would: a copy named slurm_script, with a job's variables. The script's output is sbatch's error here.
SBATCH = """#!/bin/bash
spool=$(mktemp -d)
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    --wrap=*) printf '#!/bin/sh\\n# This script was created by sbatch --wrap.\\n\\n%s\\n' "${1#--wrap=}" > $spool/slurm_script ;;
    -*) ;;
    *) [ -e $spool/slurm_script ] && arguments+=("$1") || { cp "$1" $spool/slurm_script; name=${1##*/}; } ;;
    esac
    shift
done
[ -e $spool/slurm_script ] || cat > $spool/slurm_script
chmod 755 $spool/slurm_script
id=$((${SLURM_JOB_ID:-30} + 1))
echo Submitted batch job $id
SLURM_JOB_ID=$id SLURM_JOB_NODELIST=n[7-8] SLURM_JOB_NUM_NODES=2 SLURM_GPUS_ON_NODE=4 SLURMD_NODENAME=n7 \\
    SLURM_JOB_PARTITION=gpu SLURM_JOB_NAME=${name:-none} $spool/slurm_script "${arguments[@]}" >&2
code=$?
rm -r $spool
exit $code
"""
# A task on the second node: what the prolog prints is set in its environment.
SRUN = """#!/bin/bash
export SLURMD_NODENAME=n8
[ -z "$SLURM_TASK_PROLOG" ] || eval "$($SLURM_TASK_PROLOG)"
exec "$@"
"""


@pytest.fixture
def site(there: Site) -> Site:
    there.configure('[clusters.hpc]\nbackend = "slurm"\nskypilot_env = true\n')
    there.script(there.real / "sbatch", SBATCH)
    there.script(there.real / "srun", SRUN)
    there.script(there.real / "scontrol", "#!/bin/sh\nprintf 'n7\\nn8\\n'\n")
    return there


def ran(site: Site, text: str, *words: str, environ: dict[str, str] | None = None) -> tuple[int, list[str]]:
    """The exit code and the output of a script that was submitted."""
    (site.folder / "train.sh").write_text(text)
    done = site.run("sbatch", f"{site.folder}/train.sh", *words, environ=environ)
    assert done.stdout == b"Submitted batch job 31\n"
    return done.returncode, done.stderr.decode().splitlines()


SHOWS = """
# where it is
echo "$SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES:" $SKYPILOT_NODE_IPS "$SKYPILOT_NUM_GPUS_PER_NODE"
srun sh -c 'echo "$SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"'
echo "${BASH_ENV-unset} ${SHIM_SKYPILOT-unset} ${SHIM_BASH_ENV-unset} $*"
no-such-command
exit 3
"""


@pytest.mark.parametrize(
    "shell", ["/bin/bash", "/bin/bash -eu", "/usr/bin/env bash", "/bin/sh", "/bin/sh -u", "/usr/bin/env sh"]
)
def test_the_script_and_its_tasks_get_them(site: Site, shell: str) -> None:
    code, said = ran(site, f"#!{shell}\n#SBATCH -N2\n{SHOWS}", "one", "t w o")
    assert said[:3] == ["0 of 2: n7 n8 4", "1 of 2", "unset unset unset one t w o"]
    assert "8" in said[3].partition("slurm_script")[2]  # the lines have kept their numbers
    assert code == (127 if shell.endswith("-eu") else 3)


def test_wrapped_commands_and_scripts_on_standard_input_get_them(site: Site) -> None:
    for words in (["--wrap", "echo $SKYPILOT_NUM_NODES"], ["--wrap=echo $SKYPILOT_NUM_NODES"]):
        assert site.run("sbatch", *words).stderr == b"2\n"
    for shell in ("/bin/sh", "/bin/bash"):
        assert site.run("sbatch", stdin=f"#!{shell}\necho $SKYPILOT_NUM_NODES\n".encode()).stderr == b"2\n"


def test_what_the_variables_say_of_the_job(site: Site) -> None:
    shown = 'echo "$SKYPILOT_TASK_ID"; echo $SKYPILOT_INTERNAL_JOB_ID; echo "$SKYPILOT_CLUSTER_INFO"; env | grep -c ^SKYPILOT_'
    _, said = ran(site, f"#!/bin/bash\n{shown}\n")
    assert said[0].startswith("sky-20")
    assert said[0].endswith("_hpc_31")
    assert said[1:3] == ["31", '{"cluster_name": "train.sh", "cloud": "Slurm", "region": "hpc", "zone": "gpu"}']
    assert said[3] == "12"


def test_the_users_own_bash_env_and_prolog_are_run_too(site: Site) -> None:
    (site.folder / "mine").write_text("export MINE=yes\n")
    prolog = Site.script(site.folder / "prolog", "#!/bin/sh\necho export FROM_PROLOG=too\n")
    text = "#!/bin/bash\necho $MINE $BASH_ENV\nsrun sh -c 'echo $SKYPILOT_NODE_RANK $FROM_PROLOG'\n"
    environ = {"BASH_ENV": f"{site.folder}/mine", "SLURM_TASK_PROLOG": str(prolog)}
    assert ran(site, text, environ=environ) == (0, [f"yes {site.folder}/mine", "1 too"])


def test_a_job_submitted_by_such_a_job_has_its_own(site: Site) -> None:
    inner = "#!/bin/bash\necho $SKYPILOT_TASK_ID\nsrun sh -c 'echo $SKYPILOT_NODE_RANK'\n"
    (site.folder / "inner.sh").write_text(inner)
    code, said = ran(site, "#!/bin/bash\necho $SKYPILOT_TASK_ID\nsbatch inner.sh 2>&1\n")
    assert (code, said[1], said[3]) == (0, "Submitted batch job 32", "1")
    assert said[0] != said[2]


def test_other_interpreters_and_scripts_without_a_command_are_left_alone(site: Site) -> None:
    code, said = ran(
        site, "#!/usr/bin/env python3\nimport os, sys\nprint('SKYPILOT_NODE_RANK' in os.environ)\nsys.exit(4)\n"
    )
    assert (code, said) == (4, ["False"])
    assert ran(site, "#!/bin/sh\n# nothing\n\n") == (0, [])


def test_without_the_word_nothing_is_set(site: Site) -> None:
    site.configure('[clusters.hpc]\nbackend = "slurm"\n')
    _, said = ran(site, "#!/bin/bash\nenv | grep -c 'SKYPILOT\\|BASH_ENV'\n")
    assert said == ["0"]


def test_where_nothing_can_be_written_the_job_is_submitted_as_it_is(site: Site) -> None:
    blocked = site.folder / "blocked"
    blocked.write_text("")
    code, said = ran(site, "#!/bin/sh\ncat $0\n", environ={"SHIM_STATE_DIR": str(blocked)})
    assert (code, said) == (0, ["#!/bin/sh", "cat $0"])


def test_no_copy_of_a_script_stays(site: Site, state_dir: Path) -> None:
    ran(site, "#!/bin/sh\ntrue\n")
    (folder,) = state_dir.glob("*/skypilot")
    assert sorted(path.name for path in folder.iterdir()) == ["hpc.prolog", "hpc.sh"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("#!/bin/bash -l", "bash"),
        ("#! /usr/bin/env bash", "bash"),
        ("#!/usr/bin/env -S A=b dash -e", "dash"),
        ("#!/bin/sh", "sh"),
        ("#!python3", "python3"),
        ("#!", ""),
        ("#!/usr/bin/env", ""),
        ("echo", ""),
        ("", ""),
    ],
)
def test_the_interpreter_of_a_script(line: str, name: str) -> None:
    assert interpreter(f"{line}\nrest\n".encode()) == name
