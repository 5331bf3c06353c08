"""What a SkyPilot task asks for, as directives of a batch script."""

from __future__ import annotations

import math
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

from shim.admin.sky.resources import Needs, grammar
from shim.core.errors import ShimError
from shim.core.options import values
from shim.core.options.batch import settle
from shim.core.options.build import job_request
from shim.core.options.validate import validate
from shim.job import capped

_MOST = 0xFFFFFFF0  # of a number that sbatch takes
_UNITS = {"": 1024.0, "KB": 1 / 1024, "MB": 1.0, "GB": 1024.0, "TB": 1024.0**2, "PB": 1024.0**3}  # in MiB
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]B?|)", re.IGNORECASE)
_REFUSED = {
    "any_of": "a job asks for one kind of node; leave one of them in",
    "ordered": "a job asks for one kind of node; leave one of them in",
    "volumes": "mounts are configured for the cluster, not for a job",
    "accelerator_args": "they are for TPUs",
}
_LEFT_OUT = {
    "infra": "-M names the cluster, --partition the kind of nodes",
    "cloud": "-M names the cluster, --partition the kind of nodes",
    "region": "-M names the cluster, --partition the kind of nodes",
    "zone": "-M names the cluster, --partition the kind of nodes",
    "instance_type": "ask for cpus, memory and accelerators",
    "disk_tier": "disks are what nodes have",
    "local_disk": "disks are what nodes have",
    "network_tier": "networks are what nodes have",
    "ports": "ports of nodes can be reached as the cluster's network allows",
    "labels": "jobs have no labels",
    "autostop": "no machine is rented that could be stopped",
    "max_hourly_cost": "no machine is rented",
    "priority": "--nice and --priority order jobs",
    "priority_class": "--nice and --priority order jobs",
}


def directive(text: str) -> str:
    """A value as a directive has it: in quotes where it needs them."""
    if re.fullmatch(r"[\w@%+=:,./-]+", text):
        return text
    if "\n" in text:
        raise ShimError("error: a directive cannot have a line break in its value")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Asked:
    """``options``: of sbatch. ``environment``: lines of the shell that set the task's variables. ``step``: options of srun for one task on each node.

    ``refused``: what makes the script another job. ``left_out``: what it does not say.
    """

    def __init__(self, task: Mapping[str, Any], folder: str) -> None:
        self.options: list[str] = []
        self.environment: list[str] = []
        self.refused: list[str] = []
        self.left_out: list[str] = []
        self.options_of_gpus = False
        nodes = task.get("num_nodes") or 1
        if not 1 <= nodes <= _MOST:
            raise ShimError(f"error: num_nodes: {nodes} is no number of nodes")
        self.options.append(f"--nodes={nodes}")
        self.options.append("--ntasks-per-node=1")
        self.step = f"--nodes={nodes} --ntasks={nodes}"
        resources = task.get("resources") or {}
        for word, value in resources.items():
            self._resource(str(word), value)
        self._workdir(task.get("workdir"), folder)
        self._variables("envs", task.get("envs"))
        self._variables("secrets", task.get("secrets"))

    def _resource(self, word: str, value: Any) -> None:
        if value is None:
            return
        if word in _REFUSED:
            self.refused.append(f"{word}: {_REFUSED[word]}")
        elif word in _LEFT_OUT:
            self.left_out.append(f"{word}: {value}: {_LEFT_OUT[word]}")
        elif word in _RESOURCES:
            _RESOURCES[word](self, value)
        elif not word.startswith("_"):
            raise ShimError(f'error: resources: "{word}" is no word of a SkyPilot task')

    def _accelerators(self, value: Any) -> None:
        kinds = _kinds(value)
        if len(kinds) != 1:
            self.refused.append(f"accelerators: {', '.join(kinds)}: a job asks for one kind; leave one of them in")
            return
        ((kind, count),) = kinds.items()
        if not 1 <= count <= _MOST or count != int(count):
            self.refused.append(f"accelerators: {kind}:{count:g}: a job asks for whole GPUs")
        elif kind.lower().startswith("tpu"):
            self.refused.append(f"accelerators: {kind}: there are no TPUs")
        else:
            self.options.append(f"--gpus-per-node={directive(kind)}:{int(count)}")
            self.options_of_gpus = True

    def _cpus(self, value: Any) -> None:
        text = str(value).removesuffix("+")
        given = _number(text)
        if not 0 < given <= _MOST:
            raise ShimError(f'error: cpus: "{value}" is no number of CPUs')
        cpus = math.ceil(given)
        if cpus != given:
            self.left_out.append(f"cpus: {value}: a job has whole CPUs")
        self.options.append(f"--cpus-per-task={cpus}")
        self.step += f" --cpus-per-task={cpus}"

    def _memory(self, value: Any) -> None:
        self.options.append(f"--mem={_mebibytes('memory', value)}")

    def _disk(self, value: Any) -> None:
        self.options.append(f"--tmp={_mebibytes('disk_size', value)}")
        self.left_out.append("disk_size: --tmp asks for nodes with so much; the disk is shared with other jobs")

    def _image(self, value: Any) -> None:
        if not isinstance(value, str) or not value.startswith("docker:"):
            self.refused.append(f"image_id: {value}: an image of a machine; docker:IMAGE is one of a container")
            return
        self.options.append(f"--container-image={directive(_enroot_name(value.removeprefix('docker:')))}")

    def _spot(self, value: Any) -> None:
        if value:
            self.options.append("--requeue")
            self.left_out.append(
                "use_spot: --requeue starts a job again that was preempted; whether nodes can be is the cluster's"
            )

    def _recovery(self, value: Any) -> None:
        self.options.append("--requeue")
        self.left_out.append(
            f"job_recovery: {value}: --requeue starts a job again when a node fails, not when the script does"
        )

    def _workdir(self, value: Any, folder: str) -> None:
        if isinstance(value, dict):
            self.refused.append(f"workdir: {value.get('url')}: clone it first, and name the folder")
        elif value:
            path = os.path.normpath(os.path.join(folder, os.path.expanduser(str(value))))
            self.options.append(f"--chdir={directive(path)}")

    def _variables(self, word: str, value: Any) -> None:
        if not value:
            return
        if isinstance(value, list):
            self.refused.append(f"{word}: {', '.join(map(str, value))}: only SkyPilot's server knows them")
            return
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
                raise ShimError(f"error: {word}: {name!r} is no name of a variable")
            if text is None:  # whoever submits has it in the environment
                self.environment.append(f': "${{{name}:?is to be set when the job is submitted}}"')
            else:
                self.environment.append(f"export {name}={shlex.quote(str(text))}")
        if word == "secrets" and any(text is not None for text in value.values()):
            self.left_out.append("secrets: the script has their values: keep it to yourself")


_RESOURCES: dict[str, Callable[[Asked, Any], None]] = {
    "accelerators": Asked._accelerators,
    "cpus": Asked._cpus,
    "memory": Asked._memory,
    "disk_size": Asked._disk,
    "ephemeral_storage": Asked._disk,
    "image_id": Asked._image,
    "use_spot": Asked._spot,
    "job_recovery": Asked._recovery,
}


def needs_of_script(text: str) -> list[Needs]:
    """What each component of the script needs, by its directives alone."""
    context = values.Context(time.time(), os.getuid(), capped.text, grammar())
    components = settle(context, ((),), {}, text, "the script in run", lambda one: validate(one)[0])
    requests = [job_request(one, directory="/", umask=0o022, name="", command="", arguments=()) for one in components]
    return [Needs(request, "GPU") for request in requests]


def _kinds(value: Any) -> dict[str, float]:
    """Kinds of GPUs and counts: ``H100:8``, ``{H100: 8}``, or several that SkyPilot may choose from."""
    if isinstance(value, dict):
        return {str(kind): _number(1 if count is None else count) for kind, count in value.items()}
    words = value if isinstance(value, list) else str(value).strip("{}").split(",")
    found = {}
    for word in words:
        kind, _, count = str(word).strip().strip("'\"").partition(":")
        found[kind] = _number(count or 1)
        if math.isnan(found[kind]):
            raise ShimError(f'error: accelerators: "{word}" is no number of GPUs of a kind')
    return found


def _number(value: Any) -> float:
    """The number that it is, or says; not a number (``math.nan``) for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _mebibytes(word: str, value: Any) -> str:
    """A size as --mem has it."""
    found = _SIZE.fullmatch(str(value).strip().removesuffix("+"))
    if found is None:
        raise ShimError(f'error: {word}: "{value}" is no size')
    unit = found.group(2).upper()
    mebibytes = math.ceil(float(found.group(1)) * _UNITS[unit if unit in _UNITS else f"{unit}B"])
    return f"{mebibytes // 1024}G" if mebibytes % 1024 == 0 else f"{mebibytes}M"


def _enroot_name(image: str) -> str:
    """The image as pyxis has it: a registry is parted by ``#``."""
    first, slash, rest = image.partition("/")
    registry = slash and ("." in first or ":" in first or first == "localhost")
    return f"{first}#{rest}" if registry else image
