"""`shim export sky [sbatch's options] SCRIPT`: a SkyPilot task that does what the batch script does, or a job group for a heterogeneous job."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from shim.admin import script_commands
from shim.admin.preflight import read_script, request_of
from shim.admin.sky import on_nodes
from shim.admin.sky.resources import Needs, grammar
from shim.admin.sky.script_in_run import Component, run_text
from shim.core import script
from shim.core.errors import ShimError
from shim.core.formats.array_spec import ArraySpec
from shim.core.model.request import JobRequest
from shim.core.options import values
from shim.core.options.batch import command_line, settle
from shim.core.options.sources import DIRECTIVE, read_line
from shim.core.options.validate import Validated, validate
from shim.job import capped

# Options that the task carries out, or that say only what follows from the others there.
_EXPRESSED = frozenset(
    [
        "job-name",
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "cpus-per-task",
        "cpus-per-gpu",
        "mincpus",
        "mem",
        "mem-per-cpu",
        "mem-per-gpu",
        "tmp",
        "gres",
        "gpus",
        "gpus-per-node",
        "gpus-per-task",
        "ntasks-per-gpu",
        "overcommit",
        "time",
        "signal",
        "array",
        "chdir",
        "export",
        "container-image",
        "wait",
        "verbose",
        "quiet",
        "parsable",
        "clusters",
    ]
)
_WHY = {
    "account": "SkyPilot has no accounts",
    "qos": "SkyPilot has no QOS",
    "partition": "nodes are chosen by `infra` and `resources`",
    "constraint": "nodes are chosen by `infra` and `resources`",
    "dependency": "tasks do not wait for jobs; the documents of one pipeline run one after the other",
    "output": "`sky logs` shows what the script prints; no file is written",
    "error": "`sky logs` shows what the script prints; no file is written",
    "exclusive": "nodes of a task are the task's alone",
    "requeue": "a managed job (`sky jobs launch`) is started again when its nodes are lost",
    "no-requeue": "a managed job (`sky jobs launch`) is started again when its nodes are lost",
    "mail-type": "SkyPilot sends no mail; `event_callback` runs a command",
    "mail-user": "SkyPilot sends no mail; `event_callback` runs a command",
    "begin": "a task starts as soon as it can",
    "hold": "a task starts as soon as it can",
    "container-mounts": "`file_mounts` and `volumes` bring files",
}
_NOTHING = "SkyPilot has nothing like it"
_ANY_INDEX = 1 << 32


def report(words: Sequence[str], out: TextIO, gpu: str | None = None) -> None:
    """Writes the YAML of ``words`` (sbatch's options, the script, its arguments), and on standard error what it does not express.

    ``gpu``: what GPUs without a type are. Raises ShimError for what sbatch would refuse, and for what no task can be.
    """
    context = values.Context(time.time(), os.getuid(), capped.text, grammar())
    found, rest = command_line(words, context)
    if not rest:
        raise ShimError("error: no script given")
    text = read_script(rest[0])
    if not text.isprintable() and any("\udc80" <= one <= "\udcff" for one in text):
        raise ShimError(f"error: {rest[0]} is not UTF-8, which YAML is")
    settled = settle(context, found, os.environ, text, os.path.basename(rest[0]), lambda one: validate(one)[0])
    export = Export(rest, text, settled, gpu)
    for line in export.left_out:
        print(f"shim: {line}", file=sys.stderr)
    out.write(export.yaml())


class Export:
    """The task, or the group. ``left_out``: a line for everything of the script that it does not express."""

    def __init__(self, words: Sequence[str], text: str, components: Sequence[Validated], gpu: str | None) -> None:
        self.words = words
        self.requests = [request_of(one, words) for one in components]
        self.needs = [Needs(request, gpu) for request in self.requests]
        self.text = with_directives(text, [_outer(one) for one in components])
        self.left_out = list(dict.fromkeys(line for one in components for line in _options(one)))
        self.left_out += list(self._rules())
        self.left_out += list(_lines(text))

    def yaml(self) -> str:
        """The text."""
        from shim.admin import yaml_text

        head = [f"Made by `shim export sky` from {self.words[0]}.", *self._launch()]
        if self.left_out:
            head += ["Not as on Slurm:", *(f"  {line}" for line in self.left_out)]
        return "".join(f"# {script.printable(line)}\n" for line in head) + yaml_text.dump(self.documents())

    def documents(self) -> list[dict[str, Any]]:
        """The task; or the header of a group, and its tasks."""
        if len(self.requests) == 1:
            return [self._task(self.requests[0], self.needs[0], Component())]
        name = _name(self.requests[0], "-_")
        nodes = [one.num_nodes for one in self.needs]
        tasks = [
            {**self._task(request, needs, Component(place, nodes)), "name": f"{name}-{place}"}
            for place, (request, needs) in enumerate(zip(self.requests, self.needs))
        ]
        return [{"name": name, "execution": "parallel", "primary_tasks": [f"{name}-0"]}, *tasks]

    def _task(self, request: JobRequest, needs: Needs, component: Component) -> dict[str, Any]:
        task: dict[str, Any] = {
            "name": _name(request, "-_."),
            "workdir": request.work_dir,
            "num_nodes": needs.num_nodes,
        }
        if needs.resources:
            task["resources"] = needs.resources
        envs = _exported(request)
        if envs:
            task["envs"] = envs
        task["run"] = run_text(self.text, self.words[1:], request, needs, component)
        return task

    def _launch(self) -> list[str]:
        """How it is started, where that says something."""
        array = self.requests[0].array
        if array:
            count = len(ArraySpec.parse(array, _ANY_INDEX))
            return [f"The array is that many jobs: sky jobs launch --num-jobs {count} TASK.yaml"]
        if len(self.requests) > 1:
            return ["A job group: sky jobs launch TASK.yaml"]
        return []

    def _rules(self) -> Iterator[str]:
        """What other rules there are than on Slurm, for this job."""
        request = self.requests[0]
        if "ALL" in (request.export or "ALL").upper().split(","):
            yield "the variables of the submitting shell do not go along; `envs` names those that are wanted"
        if request.array and "%" in request.array:
            yield f"--array={request.array}: all tasks may run at once; a pool (sky jobs launch --pool) has a size"
        for one in self.requests:
            if one.max_nodes not in (None, one.min_nodes, 0):
                yield f"--nodes={one.min_nodes}-{one.max_nodes}: the least number is asked for"
            if one.mem_per_node == 0:
                yield "--mem=0: all memory of a node cannot be asked for"
            if one.container.get("container-image") and "image_id" not in Needs(one, "GPU").resources:
                yield f"--container-image={one.container['container-image']}: a file of this machine"
        if len(self.requests) > 1:
            yield "the script runs once in each task of the group, on its first node; its srun starts that component's part of a line"


def with_directives(text: str, options: Sequence[Sequence[str]]) -> str:
    """The script with these options as the last directives of each component."""
    lines = text.split("\n")
    found: list[str] = []
    last = max((number for number, line in script.header(text) if script.said(line) is not None), default=1)
    place = 0
    for number, line in enumerate(lines, 1):
        if number <= last and script.het_word(script.said(line) or ""):
            found += [f"#SBATCH {word}" for word in options[place]]
            place += 1
        found.append(line)
        if number == last:
            found += [f"#SBATCH {word}" for word in options[min(place, len(options) - 1)]]
    return "\n".join(found)


def _outer(settings: Validated) -> list[str]:
    """The options that do not stand in the script, each as the word of a directive."""
    found = []
    for name, source in settings.sources.items():
        if source != DIRECTIVE and name in settings.texts:
            value = settings.texts[name]
            quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
            found.append(f"--{name}" + (f"={quoted}" if value else ""))
    return found


def _options(settings: Validated) -> Iterator[str]:
    for name in settings.sources:
        if name not in _EXPRESSED:
            value = settings.texts.get(name, "")
            yield f"--{name}" + (f"={value}" if value else "") + f": {_WHY.get(name, _NOTHING)}"
    for name in dict.fromkeys(settings.ignored):
        yield f"--{name}: {_NOTHING}"


def _lines(text: str) -> Iterator[str]:
    """What becomes of the lines that call Slurm's commands, where it is less than on Slurm."""
    honoured, inert = ({name.rstrip("=") for name in names} for names in (on_nodes.HONOURED, on_nodes.INERT))
    for line in script_commands.commands(text):
        where = f"line {line.number}: {line.program}"
        if line.program == "srun":
            for part in _parts(line.words[1:]):
                try:
                    options, _rest = read_line("srun", part, grammar())
                except ShimError as problem:
                    yield f"{where}: {problem.lines[0].removeprefix('error: ')}"
                    continue
                for option, _value in options:
                    if option.field in inert:
                        yield f"{where}: --{option.long} has no effect there"
                    elif option.field not in honoured:
                        yield f"{where}: --{option.long} is refused there"
        elif list(line.words[1:3]) not in (["show", "hostnames"], ["show", "hostname"]):
            yield f"{where}: there is no such command there"
    for number, said, why in script.unread_directives(text):
        yield f"line {number} is no directive, {why}: {said}"


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word == ":":
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _exported(request: JobRequest) -> dict[str, str]:
    """The variables that --export names, with their values."""
    from shim.core.environ.export import named

    return named(os.environ, request.export or "")


def _name(request: JobRequest, marks: str) -> str:
    """The name as SkyPilot takes one: it begins with a letter and ends in a letter or a digit."""
    text = "".join(one if one.isascii() and (one.isalnum() or one in marks) else "-" for one in request.name or "job")
    text = text.strip("-_.")
    return text if text[:1].isalpha() else f"job-{text}".strip("-")
