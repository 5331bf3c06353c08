"""The ``run`` of a SkyPilot task that was made of a batch script: the script as it is, with Slurm's variables, once, on the first node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from shim.admin.sky.resources import Needs
from shim.core.environ.job import asked_gpu_variables, asked_variables
from shim.core.formats.array_spec import ArraySpec, written_step
from shim.core.formats.lists import fold_counts
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest

MARK = "# A batch script of Slurm, written here by `shim export sky`. It runs once, on the first node; srun reaches the others."
_END = "END_OF_SCRIPT"
_PROGRAMS = re.compile(r"\b(srun|scontrol)\b")
_ANY_INDEX = 1 << 32
_KILL_WAIT = 30
# What --dependency and --open-mode leave behind counts nothing there.
_NOT_THERE = ("SLURM_JOB_DEPENDENCY", "SLURM_OPEN_MODE")


class Component:
    """The place of a task in a group: its number, and the nodes of each task."""

    def __init__(self, place: int = 0, nodes: Sequence[int] = ()) -> None:
        self.place = place
        self.nodes = tuple(nodes)


def run_text(script: str, arguments: Sequence[str], request: JobRequest, needs: Needs, component: Component) -> str:
    """The commands of ``run``. ``script``: with all options in its directives."""
    limit = 60 * max(0, request.time_limit or 0)
    programs = bool(_PROGRAMS.search(script) or request.signal)
    lines = [
        MARK,
        "set +H  # SkyPilot's shell is an interactive one: it would take exclamation marks, in here-documents too, for its history",
        '[ "$SKYPILOT_NODE_RANK" = 0 ] || exit 0',
        'export SHIM_SLURM="$(mktemp -d)"',
        *(_programs() if programs else ()),
        *_here("script", script),
        *(f"export {name}={value}" for name, value in _variables(request, needs)),
        *_of_array(request),
    ]
    if component.nodes:
        lines += [
            f"export SHIM_HET_GROUP={component.place} SHIM_HET_NODES={','.join(map(str, component.nodes))}",
            f"export SLURM_HET_SIZE={len(component.nodes)}",
        ]
    command = " ".join(['"$SHIM_SLURM/script"', *map(shlex.quote, arguments)])
    if programs:
        signal = request.signal
        asked = f"{signal.number} {signal.lead} {'script' if signal.batch else 'steps'}" if signal else "0 0 script"
        command = f'"$SHIM_SLURM/srun" batch {limit} {asked} {command}'
    elif limit:
        command = f"timeout -k {_KILL_WAIT} {limit} {command}"
    lines += [command, "code=$?", 'rm -rf "$SHIM_SLURM"', "exit $code"]
    return "".join(f"{line}\n" for line in lines)


def script_in(run: str) -> str | None:
    """The script in a ``run`` that ``run_text`` made; None for any other."""
    if not run.startswith(MARK):
        return None
    found = re.search(r"""^cat >"\$SHIM_SLURM/script" <<'(\w+)'\n(.*?)^\1$""", run, re.MULTILINE | re.DOTALL)
    return found.group(2) if found is not None else None


def arguments_in(run: str) -> list[str]:
    """The script's arguments in such a ``run``."""
    for line in reversed(run.splitlines()):
        before, mark, rest = line.partition('"$SHIM_SLURM/script"')
        if mark and not before.startswith(("cat", "chmod")):
            return shlex.split(rest)
    return []


def _here(name: str, text: str) -> list[str]:
    end = _END
    while end in text:
        end += "_"
    return [f"cat >\"$SHIM_SLURM/{name}\" <<'{end}'", text.removesuffix("\n"), end, f'chmod +x "$SHIM_SLURM/{name}"']


def _programs() -> list[str]:
    text = (Path(__file__).parent / "on_nodes.py").read_text()
    return [
        'echo "#!$(command -v python3 || echo ~/skypilot-runtime/bin/python)" >"$SHIM_SLURM/srun"',
        "cat >>\"$SHIM_SLURM/srun\" <<'END_OF_SRUN'",
        text.removesuffix("\n"),
        "END_OF_SRUN",
        'chmod +x "$SHIM_SLURM/srun"',
        'ln -s srun "$SHIM_SLURM/scontrol"',
        'export PATH="$SHIM_SLURM:$PATH"',
    ]


def _variables(request: JobRequest, needs: Needs) -> list[tuple[str, str]]:
    """Names and values, as the shell reads them. What exists on Slurm for an option that was given exists here for the same."""
    nodes = "$(echo $SKYPILOT_NODE_IPS | tr ' ' ,)"
    shares = tuple(NodeShare(name=f"n{rank}", cpus=needs.cpus, tasks=tasks) for rank, tasks in enumerate(needs.tasks))
    job = Job(job_id=0, request=request, shares=shares)
    asked = {**asked_variables(job), **asked_gpu_variables(job)}
    facts = {
        "SLURM_JOB_ID": '"${SKYPILOT_MANAGED_JOB_ID:-$SKYPILOT_INTERNAL_JOB_ID}"',
        "SLURM_JOBID": '"$SLURM_JOB_ID"',
        "SLURM_JOB_NAME": shlex.quote(request.name or "sbatch"),
        "SLURM_CLUSTER_NAME": "skypilot",
        "SLURM_JOB_NUM_NODES": '"$SKYPILOT_NUM_NODES"',
        "SLURM_NNODES": '"$SKYPILOT_NUM_NODES"',
        "SLURM_JOB_NODELIST": f'"{nodes}"',
        "SLURM_NODELIST": '"$SLURM_JOB_NODELIST"',
        "SLURMD_NODENAME": '"${SLURM_JOB_NODELIST%%,*}"',
        "SLURM_SUBMIT_DIR": '"$PWD"',
        "SLURM_JOB_USER": '"$(id -un)"',
        "SLURM_JOB_UID": '"$(id -u)"',
        "SLURM_CPUS_ON_NODE": str(needs.cpus),
        "SLURM_JOB_CPUS_PER_NODE": shlex.quote(fold_counts([needs.cpus] * needs.num_nodes)),
        "SLURM_TASKS_PER_NODE": shlex.quote(fold_counts(needs.tasks)),
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    if needs.gpus:
        facts["SLURM_GPUS_ON_NODE"] = '"$SKYPILOT_NUM_GPUS_PER_NODE"'
    return list(facts.items()) + [(name, shlex.quote(value)) for name, value in asked.items() if name not in _NOT_THERE]


def _of_array(request: JobRequest) -> list[str]:
    if not request.array:
        return []
    spec = ArraySpec.parse(request.array, _ANY_INDEX)
    return [
        f"set -- {' '.join(map(str, spec))}",
        'shift "$SKYPILOT_JOB_RANK"',
        'export SLURM_ARRAY_TASK_ID="$1" SLURM_ARRAY_JOB_ID="$SLURM_JOB_ID"',
        f"export SLURM_ARRAY_TASK_COUNT={len(spec)} SLURM_ARRAY_TASK_MIN={spec.first} SLURM_ARRAY_TASK_MAX={spec.last}"
        f" SLURM_ARRAY_TASK_STEP={written_step(request.array)}",
    ]
