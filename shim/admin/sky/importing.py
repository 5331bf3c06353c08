"""`shim import sky TASK.yaml`: a batch script that does what the SkyPilot task does; of a job group, a heterogeneous job."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from shim.admin import yaml_text
from shim.admin.sky import asked
from shim.admin.sky.resources import Needs
from shim.admin.sky.script_in_run import arguments_in, script_in
from shim.core.errors import ShimError
from shim.core.script import printable

# Without these the script would be another job.
_REFUSED = {
    "file_mounts": "files are where the job's nodes have them; copy or mount them first",
    "storage_mounts": "files are where the job's nodes have them; copy or mount them first",
    "volumes": "mounts are configured for the cluster, not for a job",
    "volume_mounts": "mounts are configured for the cluster, not for a job",
    "service": "a service is no batch job",
    "pool": "a pool is no batch job",
    "managed_secrets": "only SkyPilot's server knows them",
}
_LEFT_OUT = {
    "event_callback": "--mail-type tells of changes",
    "inputs": "they are for SkyPilot's optimizer",
    "outputs": "they are for SkyPilot's optimizer",
    "config": "it is SkyPilot's own configuration",
    "api_server_access": "there is no SkyPilot server",
    "file_mounts_mapping": "it is SkyPilot's own",
    "_metadata": "it is SkyPilot's own",
}
_READ = ("name", "workdir", "num_nodes", "resources", "envs", "secrets", "setup", "run")
# What SkyPilot sets for setup alone.
_SETUP = (
    'export SKYPILOT_SETUP_NODE_RANK="$SKYPILOT_NODE_RANK" SKYPILOT_SETUP_NODE_IPS="$SKYPILOT_NODE_IPS"',
    'export SKYPILOT_SETUP_NUM_GPUS_PER_NODE="$SKYPILOT_NUM_GPUS_PER_NODE"',
)
_HEADER = ("name", "execution", "primary_tasks", "termination_delay", "inter_connection")
# What a word's value is, with how that is called; every word may be empty.
_FORMS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("name", "setup", "run"), ((str,), "a text")),
    "workdir": ((str, dict), "a folder, or a mapping,"),
    "num_nodes": ((int,), "a number"),
    "resources": ((dict,), "a mapping"),
    **dict.fromkeys(("envs", "secrets"), ((dict, list), "a mapping, or a list,")),
}


def report(path: str, out: TextIO, partly: bool = False) -> None:
    """Writes the script, and on standard error what of the task it does not express. ``partly``: write it also where it would be another job.

    Raises ShimError for what is no task, and for one that would be another job.
    """
    documents = [one for one in _documents(path) if one is not None]
    header, tasks = _header(path, documents)
    found = Import(tasks, os.path.dirname(os.path.abspath(path)), header)
    if found.refused and not partly:
        raise ShimError(
            *(f"error: {path}: {printable(line)}" for line in found.refused),
            "\0shim: --partly writes the script without these",
        )
    for line in (*found.refused, *found.left_out):
        print(f"shim: {printable(line)}", file=sys.stderr)
    out.write(found.text())


def _documents(path: str) -> list[Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return yaml_text.load(file.read())
    except OSError as problem:
        raise ShimError(f"error: Unable to open file {path}: {problem.strerror}") from None
    except ValueError as problem:
        raise ShimError(f"error: {path} is no YAML: {problem}") from None


def _header(path: str, documents: Sequence[Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header of a job group, if there is one, and the tasks."""
    if not documents or not all(isinstance(one, dict) for one in documents):
        raise ShimError(f"error: {path} is no SkyPilot task: a mapping with run is wanted")
    first, *rest = documents
    for one in documents:
        _refuse_forms(one)
    if rest and first.get("execution") == "parallel":
        return first, rest
    if rest and set(first) <= {"name", "execution"} and len(rest) == 1:
        return {}, [{**first, **rest[0]}]
    if rest:
        raise ShimError(
            f"error: {path} is a pipeline: its tasks run one after the other; import each, and submit them with --dependency=afterok:ID"
        )
    return {}, [first]


def _refuse_forms(task: Mapping[str, Any]) -> None:
    """ShimError for a value of another form than its word has, and for a text that no script can have."""
    for word, value in task.items():
        forms, called = _FORMS.get(word, ((), ""))
        if forms and value is not None and (isinstance(value, bool) or not isinstance(value, forms)):
            raise ShimError(f"error: {word}: {called} is wanted, and it is {value!r}")
    for text in _texts(task):
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ShimError(f"error: a script cannot have all characters of {text!r}")


def _texts(value: Any) -> Iterator[str]:
    """All texts in the value, names too. What aliases name is looked at once: it may be in itself."""
    seen = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, (dict, list)) and id(one) not in seen:
            seen.add(id(one))
            left += [*one, *one.values()] if isinstance(one, dict) else one


class Import:
    """The script. ``refused``: what makes it another job; ``left_out``: what it does not say, and why that matters less."""

    def __init__(self, tasks: Sequence[dict[str, Any]], folder: str, header: Mapping[str, Any]) -> None:
        self.tasks = tasks
        self.header = header
        self.refused: list[str] = []
        self.left_out: list[str] = []
        self.folder = folder
        self.embedded = self._embedded()
        if self.embedded is None:
            self.components = [self._component(task) for task in tasks]
            self.left_out += [f"{word}: of the group" for word in header if word in _HEADER[2:]]

    def text(self) -> str:
        """The script."""
        if self.embedded is not None:
            return self.embedded
        return "".join(f"{line}\n" for line in self._lines())

    def _embedded(self) -> str | None:
        """The script of a task that `shim export sky` has made. ShimError if the task asks for something else by now."""
        found = script_in(str(self.tasks[0].get("run") or ""))
        if found is None:
            return None
        for place, (task, needs) in enumerate(zip(self.tasks, asked.needs_of_script(found), strict=True)):
            for word, there, own in _differences(task, needs):
                raise ShimError(
                    f"error: task {place}: {word} is {there}, and {own} in the directives of the script in `run`: change them there, or both"
                )
        arguments = arguments_in(str(self.tasks[0]["run"]))
        if arguments:
            self.left_out.append(f"the script's arguments were {shlex.join(arguments)}: name them behind it")
        return found

    def _component(self, task: Mapping[str, Any]) -> asked.Asked:
        """The directives of a task, with what of it is not expressed."""
        name = f"{task.get('name')}: " if len(self.tasks) > 1 else ""
        for word in task:
            if word in _REFUSED and task[word]:
                self.refused.append(f"{name}{word}: {_REFUSED[word]}")
            elif word in _LEFT_OUT:
                self.left_out.append(f"{name}{word}: {_LEFT_OUT[word]}")
            elif word not in _READ and word not in _REFUSED:
                raise ShimError(f'error: "{word}" is no word of a SkyPilot task')
        found = asked.Asked(task, self.folder)
        self.refused += [f"{name}{line}" for line in found.refused]
        self.left_out += [f"{name}{line}" for line in found.left_out]
        return found

    def _lines(self) -> Iterator[str]:
        yield "#!/bin/bash"
        name = self.header.get("name") or self.tasks[0].get("name")
        if name:
            yield f"#SBATCH --job-name={asked.directive(str(name))}"
        for place, component in enumerate(self.components):
            if place:
                yield "#SBATCH hetjob"
            yield from (f"#SBATCH {option}" for option in component.options)
        yield "# Made by `shim import sky`: setup and run are started once on each node, by srun."
        if any(component.options_of_gpus for component in self.components):
            yield "# GPUs have the type that SkyPilot calls them by: `sinfo -o %G` shows what the site calls its own."
        yield from (f"# {printable(line)}" for line in (*self.refused, *self.left_out))
        for phase in ("setup", "run"):
            yield from self._phase(phase)

    def _phase(self, phase: str) -> Iterator[str]:
        """The lines that start ``setup`` or ``run`` of each task on its nodes."""
        parts = []
        for place, (task, component) in enumerate(zip(self.tasks, self.components)):
            body = str(task.get(phase) or "")
            if not body.strip():
                continue
            variable = f"{phase}{place if len(self.tasks) > 1 else ''}"
            lines = [*component.environment, *(_SETUP if phase == "setup" else ()), body.removesuffix("\n")]
            end = "END"
            while any(end in line for line in lines):
                end += "_"
            yield from ("", f"IFS= read -r -d '' {variable} <<'{end}'", *lines, end)
            group = f"--het-group={place} " if len(self.tasks) > 1 else ""
            parts.append(f'{group}{component.step} bash -c "${variable}"')
        if parts:
            ends = " || exit" if phase == "setup" else ""
            yield f"srun --kill-on-bad-exit=1 {' : '.join(parts)}{ends}"


def _differences(task: Mapping[str, Any], needs: Needs) -> Iterator[tuple[str, str, str]]:
    """Words, what the task says and what the script in it asks for, where these are not the same."""
    own: dict[str, Any] = {"num_nodes": needs.num_nodes, **needs.resources}
    there: dict[str, Any] = {"num_nodes": task.get("num_nodes", 1), **(task.get("resources") or {})}
    for word in sorted({*own, *there}):
        mine, theirs = str(own.get(word)), str(there.get(word))
        if word == "accelerators" and "" in needs.gpus:
            mine, theirs = mine.rpartition(":")[2], theirs.rpartition(":")[2]
        if mine != theirs:
            yield word, theirs, mine
