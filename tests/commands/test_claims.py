"""What docs/support.md says of each option of sbatch, srun and salloc is so: shown by the command itself, with the option and without.

refused: it ends with the error that names the option, and asks nobody for anything. inert: it says and asks for what it does without
the option, but for the text that is recorded. honoured and approximated: it does not; and -v names what is approximated.
"""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shim.commands import allocation_options, salloc, sbatch, srun
from shim.control import client, site
from shim.core.options.getopt import FLAG, Option
from shim.core.options.grammar import VERSIONS, Grammar
from shim.core.options.plugins import PYXIS
from shim.core.options.submit_options import COMMANDS, ROWS, options_of
from shim.core.options.support import APPROXIMATED, HONOURED, INERT, REFUSED, support_of_row
from shim.job.container import tools
from tests.commands.conftest import World

ROOT = Path(__file__).resolve().parents[2]
RELEASES = list(VERSIONS)
# What an option is given, where none of the values of its kind would make a difference, or not be taken.
GIVEN = {
    "accel-bind": "g",
    "array": "1-2",
    "bbf": "job.sh",
    "chdir": "sub",
    "compress": "lz4",
    "constraint": "fast",
    "container-image": "img",
    "container-mounts": "/a:/b",
    "context": "word",
    "distribution": "cyclic",
    "exclusive": "user",
    "export": "NONE",
    "export-file": "variables",
    "gpu-bind": "closest",
    "gpu-freq": "low",
    "het-group": "0",
    "hint": "nomultithread",
    "ignore-signals": "USR1",
    "immediate": "5",
    "jobid": "7",
    "kill-command": "INT",
    "mpi": "pmi2",
    "network": "word",
    "nodefile": "nodes",
    "open-mode": "append",
    "profile": "task",
    "propagate": "NONE",
    "pty": "",
    "resv-ports": "1",
    "wrap": "true",
}
OF_KIND = {
    "acctg-freq": "task=1",
    "all": "ALL",
    "binary": "1",
    "boot-delay": "5",
    "count": "2",
    "cpu-bind": "verbose",
    "cpu-freq": "high",
    "geometry": "1",
    "gres": "gpu:1",
    "gres-flags": "disable-binding",
    "gres-flags-new": "disable-binding",
    "hosts": "n1",
    "mail": "END",
    "mem-bind": "local",
    "memory": "1G",
    "minutes": "1:00",
    "natural": "1",
    "nice": "5",
    "no-kill": "set",
    "nodes": "2",
    "power": "level",
    "priority": "5",
    "requeue": "",
    "root": "nobody",
    "seconds": "5",
    "send-libs": "yes",
    "signal": "USR1@5",
    "step-signal": "USR1@5",
    "switch": "1",
    "switches": "1",
    "threads": "5",
    "tres-per-task": "cpu=2",
    "user-env": "",
    "when": "now+1hour",
    "yes-no": "yes",
}
# What else the line needs for the option to be taken.
BESIDE = {
    "batch": ["-C", "fast&big"],
    "cpus-per-gpu": ["--gpus=1"],
    "gpus-per-socket": ["--sockets-per-node=1"],
    "gpus-per-task": ["-n2"],
    "mem-per-gpu": ["--gpus=1"],
    "ntasks-per-gpu": ["-n2"],
    "ntasks-per-tres": ["-n2"],
    "relative": ["--jobid=7"],
    "spread-segments": ["--segment=1"],
}
IN_A_JOB = ["--jobid=7"]
# Slurm itself refuses it, in words of its own.
OF_SLURM = {("salloc", "container"): "--container requires LaunchParameters=use_interactive_step"}
# Its row says that there is nothing to do.
NOTHING_TO_DO = [("srun", "parsable")]


class Asked:
    """What a command asks for: of the controller, of an allocation, of a step's job."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def call(self, op: str, fields: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        self.asked.append((op, plain(fields or {})))
        return {"job_id": 7, "cluster": "ref", "notes": [], "exit_status": 0, "run_dir": "/nowhere/7.0"}

    def allocation(self, fields: dict[str, Any]) -> Any:
        self.asked.append(("allocation", plain(fields)))
        return SimpleNamespace(close=lambda: None)

    def step(self, run_dir: str, job_id: int, asked: Any, **how: Any) -> Any:
        scripts = how.pop("scripts", None)
        how.pop("attend", None)
        parts = [(one.request.to_dict(), dict(one.environment), one.group, one.named) for one in asked]
        self.asked.append(("step", parts, how, scripts and (scripts._prolog, scripts._epilog)))
        return SimpleNamespace(run=lambda: 0)


def plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from call to call, or only repeats the line."""
    return {key: value for key, value in fields.items() if key not in ("token", "submit_line", "sid")}


@pytest.fixture
def asked(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Submissions as far as what they ask for; by root, whom no option is forbidden."""
    found = Asked()
    monkeypatch.setattr(client, "call", found.call)
    monkeypatch.setattr(client, "open_allocation", found.allocation)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(tools, "which", lambda name: f"/bin/{name}")
    granted = {"job": {"job_id": 7, "shares": []}, "environment": {}, "run_dir": str(tmp_path)}
    monkeypatch.setattr("shim.commands.allocation.Waiter", lambda *_, **__: SimpleNamespace(wait=lambda: granted))
    monkeypatch.setattr("shim.commands.allocation.Attending", lambda *_: SimpleNamespace(over=True, watch=None))

    def child(held: Any, quiet: bool, kill: Any) -> Any:
        found.asked.append(("command", kill))
        return SimpleNamespace(run=lambda words, environment: 0)

    monkeypatch.setattr(salloc, "_Child", child)
    monkeypatch.setattr("shim.job.steps.client.StepClient", found.step)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "nodes").write_text("n1\nn2\n")
    (tmp_path / "variables").write_text("A=b\n")
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#PBS -N x\ntrue\n")
    (tmp_path / "job.sh").chmod(0o755)
    return found


def value_for(option: Option) -> str | None:
    """A value that the option takes."""
    if option.arity == FLAG:
        return None
    return GIVEN.get(option.field, OF_KIND.get(option.kind, "word"))


def spelled(option: Option) -> str:
    value = value_for(option)
    return f"--{option.long}" if not value else f"--{option.long}={value}"


def each(release: str, *outcomes: str, backend: str = "local") -> Iterator[tuple[str, Option, str]]:
    """The options that are said to be of one of these outcomes, with their commands and the reason."""
    grammar = Grammar(release=release, pyxis=True)
    for command in COMMANDS:
        for option in options_of(command, grammar):
            found, reason = support_of_row(option.row, backend)
            if option.long == option.field and found in outcomes:
                yield command, option, reason


def outcome(world: World, asked: Asked, command: str, *words: str) -> tuple[Any, ...]:
    """What the command says and asks for."""
    del asked.asked[:]
    said = world.run(command, *words, *([] if any(word.startswith("--wrap") for word in words) else ["job.sh"]))
    return said.code, said.out, said.err, list(asked.asked)


@pytest.fixture(params=("local", "kubernetes"))
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the commands believe that their jobs run."""
    name: str = request.param
    for module in (sbatch, allocation_options, srun, salloc):
        monkeypatch.setattr(module, "backend", lambda names: name)
    return name


@pytest.mark.parametrize("release", RELEASES)
def test_refused(world: World, asked: Asked, monkeypatch: pytest.MonkeyPatch, backend: str, release: str) -> None:
    monkeypatch.setattr(site, "grammar", lambda: Grammar(release=release, pyxis=True))
    wrong = []
    for command, option, reason in each(release, REFUSED, backend=backend):
        code, out, err, wanted = outcome(world, asked, command, spelled(option))
        if (out, wanted) != ("", []) or code == 0:
            wrong.append((command, option, "goes on"))
        why = OF_SLURM.get((command, option.field), f"--{option.field} is not supported here: {reason}")
        if err != f"{command}: error: {why}\n":
            wrong.append((command, option, err))
    assert wrong == []


@pytest.mark.parametrize("release", RELEASES)
def test_approximated(world: World, asked: Asked, monkeypatch: pytest.MonkeyPatch, backend: str, release: str) -> None:
    monkeypatch.setattr(site, "grammar", lambda: Grammar(release=release, pyxis=True))
    wrong = []
    for command, option, reason in each(release, APPROXIMATED, backend=backend):
        beside = BESIDE.get(option.field, [])
        code, _out, err, _asked = outcome(world, asked, command, "-v", *beside, spelled(option))
        if code or f"{command}: --{option.field} is approximated here: {reason}\n" not in err:
            wrong.append((command, option, code, err))
    assert wrong == []


@pytest.mark.parametrize("release", RELEASES)
def test_inert(world: World, asked: Asked, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(site, "grammar", lambda: Grammar(release=release, pyxis=True))
    wrong = []
    for command, option, _reason in each(release, INERT):
        for where in [[], IN_A_JOB] if command == "srun" else [[]]:
            beside = [*BESIDE.get(option.field, []), *where]
            without = outcome(world, asked, command, *beside)
            found = outcome(world, asked, command, *beside, spelled(option))
            if unrecorded(found, option) != unrecorded(without, option):
                wrong.append((command, option, found[:3]))
    assert wrong == []


def unrecorded(found: tuple[Any, ...], option: Option) -> tuple[Any, ...]:
    """The exit code, the output and what is asked for, but for the option's own text that is recorded."""
    code, out, _err, asked = found
    wanted = [copy.deepcopy(one) for one in asked]
    for one in wanted:
        if isinstance(one[1], dict) and "request" in one[1]:
            one[1]["request"].get("extra", {}).pop(option.long, None)
            one[1]["request"].pop(option.row.get("job", "").lstrip("*"), None)
    return code, out, wanted


@pytest.mark.parametrize("release", RELEASES)
def test_honoured(world: World, asked: Asked, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(site, "grammar", lambda: Grammar(release=release, pyxis=True))
    idle = []
    for command, option, _reason in each(release, HONOURED, APPROXIMATED):
        if (command, option.field) in NOTHING_TO_DO:
            continue
        places = [[], IN_A_JOB] if command == "srun" else [[]]
        for where in places:
            beside = [*BESIDE.get(option.field, []), *where]
            without = outcome(world, asked, command, *beside)
            if outcome(world, asked, command, *beside, spelled(option)) != without:
                break
        else:
            idle.append((command, option))
    assert idle == []


# Where it is decided what becomes of a job and of a step, and what they see.
DECIDING = ("core/placement", "core/admission", "control/scheduler", "job")
ACTING = (
    *DECIDING,
    "core/environ",
    "core/mail.py",
    "control/controller",
    *(f"control/lifecycle/{name}.py" for name in ("files", "running", "submission", "waiting")),
)


def read_in(places: tuple[str, ...]) -> set[str]:
    """The names of all attributes that these modules and packages ask for."""
    folders = [ROOT / "shim" / place for place in places]
    paths = [path for one in folders for path in (one.rglob("*.py") if one.is_dir() else [one])]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} - {"extra"}  # which has many texts


def test_what_is_said_to_have_no_effect_decides_nothing() -> None:
    """Fields of options that are only recorded are read by nobody who places, starts or refuses a job."""
    read = read_in(DECIDING)
    for row in (*ROWS, *PYXIS):
        support, field = row.get("support", ""), row.get("job", "").lstrip("*")
        if support.startswith((INERT, "approximated: recorded")):
            assert field not in read, f"{row['name']}: {support}"


def test_what_is_honoured_is_acted_upon() -> None:
    """To record a text, or to show it, is not enough."""
    read = read_in(ACTING)
    for row in (*ROWS, *PYXIS):
        if row.get("support", HONOURED).startswith(HONOURED):
            fields = {row[of].lstrip("*") for of in ("job", "step") if of in row}
            assert fields <= read, row["name"]
