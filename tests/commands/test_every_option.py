"""Every option of every command does something: it is read, or its table says why it has nothing to act on, or refuses it by name.

Shown by running: each option is given, and the values of options tell who asks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shim.admin.docs import ABSENT
from shim.commands import salloc
from shim.control import client, site
from shim.core.errors import ShimError
from shim.core.options import batch, components, query_options, sources, srun_salloc
from shim.core.options.getopt import FLAG, Option
from shim.core.options.grammar import VERSIONS, Grammar
from shim.core.options.submit_options import COMMANDS
from shim.core.options.submit_options import options_of as submit_options
from shim.core.options.support import APPROXIMATED, HONOURED, REFUSED, level_of, support_level
from shim.dispatch import MODULES
from tests.commands.conftest import World

HEARD: set[str] = set()


def _hear(*names: str) -> None:
    """Notes who is asked for, unless the tables' own code asks."""
    asking = sys._getframe(2).f_globals["__name__"]
    if asking not in (
        query_options.__name__,
        sources.__name__,
        "shim.core.options.support",
        "shim.core.options.verbose",
        __name__,
    ):
        HEARD.update(names)


class Values(query_options.Values):
    """The values of a query's options."""

    def __getitem__(self, name: str) -> str:
        _hear(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        _hear(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        _hear(name)
        return super().get(name, default)

    def each(self, field: str) -> list[str]:
        _hear(field)
        return super().each(field)

    def shows_all(self, naming: str) -> bool:
        _hear("all", "hide", naming)
        return super().shows_all(naming)


@pytest.fixture(autouse=True)
def heard() -> None:
    HEARD.clear()


# What an option is given that takes a value, where a word is not enough.
VALUES = {
    "squeue": {"jobs": "1", "steps": "1.0", "iterate": "x", "states": "R", "users": "root", "nodelist": "n1"},
    "scancel": {"signal": "USR1", "state": "R", "user": "root", "nodelist": "n1"},
    "sinfo": {"iterate": "x", "states": "idle"},
    "scontrol": {},
    "sacct": {
        "jobs": "1",
        "state": "R",
        "user": "root",
        "gid": "0",
        "nnodes": "1",
        "ncpus": "1",
        "units": "M",
        "timelimit-min": "1",
        "timelimit-max": "2",
        "starttime": "now",
        "endtime": "now",
        "format": "jobid",
    },
}
# What is given beside it: some options only say how another one is meant.
BESIDE = {
    "squeue": [[], ["-o", "%i"]],
    "scancel": [["5"]],
    "sinfo": [[], ["-N"]],
    "scontrol": [["show", "partition"], ["show", "job", "99"]],
    "sacct": [[], ["-P", "-j", "1", "-k", "1"]],
}


def each_field(command: str) -> Iterator[Option]:
    seen: set[str] = set()
    for option in query_options.options_of(command):
        if option.field not in seen and option.long == option.field:
            seen.add(option.field)
            yield option


def spelled(option: Option, value: str) -> str:
    return f"--{option.long}" + ("" if option.arity == FLAG else f"={value}")


@pytest.mark.parametrize("command", sorted(query_options.ROWS))
def test_every_option_of_a_query(busy: World, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(query_options, "Values", Values)
    busy.errors = ["Access/permission denied"]
    unread = []
    for option in each_field(command):
        level, reason = support_level(option.row)
        word = spelled(option, VALUES[command].get(option.field, "word"))
        HEARD.clear()
        for beside in BESIDE[command]:
            said = busy.run(command, word, *beside)
            if level == REFUSED:
                assert (said.code, said.out) == (1, ""), word
                assert said.err == f"{command}: error: --{option.field} is not supported here: {reason}\n"
        if level in (HONOURED, APPROXIMATED) and option.field not in HEARD:
            unread.append(option.field)
    assert unread == [], f"nobody reads these options of {command}"


def test_each_command_of_slurm_is_here_or_said_to_be_absent() -> None:
    assert set(query_options.ROWS) | set(COMMANDS) | {"shim"} == set(MODULES) - set(ABSENT)


class Recording(dict):  # type: ignore[type-arg]
    """A dictionary that tells what is taken out of it."""

    def __getitem__(self, name: str) -> Any:
        _hear(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        _hear(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        _hear(name)
        return super().get(name, default)


class Settings(sources.Settings):
    """The options of a submission."""

    def __init__(self, command: str, context: Any) -> None:
        super().__init__(command, context)
        self.values = Recording()
        self.texts = Recording()

    def get(self, name: str, default: Any = None) -> Any:
        _hear(name)
        return super().get(name, default)

    def __contains__(self, name: str) -> bool:
        _hear(name)
        return super().__contains__(name)

    def given(self, name: str) -> bool:
        _hear(name)
        return super().given(name)

    def __getattribute__(self, name: str) -> Any:
        if name == "shared":
            _hear(name)
        return super().__getattribute__(name)


# Where the value of an option is kept if not under its name.
KEPT_AS = {
    "cluster": "clusters",
    "exclusive": "shared",
    "oversubscribe": "shared",
    "requeue": "requeues",
    "no-requeue": "requeues",
    "extra-node-info": "sockets-per-node",
    "tres-per-task": "cpus-per-task",
}
# What is done while the line is read, before there are settings: by it the command ends well.
AT_ONCE = ("autocomplete", "help", "usage", "version", "wrap")
# The tables' own code refuses all values but those that need nothing.
REFUSED_BY_VALUE = ("mpi", "resv-ports")
OF_ANY_KIND = ["1", "1:00", "n1", "gpu:1", "USR1@5", "ALL", "now+1hour", "cpu=1", "none", "1-2", "yes", "word"]
OF_ONE_KIND = {
    "autocomplete": "--n",
    "distribution": "block",
    "no-kill": "set",
    "constraint": "fast",
    "exclusive": "user",
    "export-file": "/dev/null",
    "gpu-bind": "closest",
    "hint": "nomultithread",
    "kill-command": "INT",
    "open-mode": "append",
    "profile": "task",
}


@pytest.fixture
def place(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Submissions get as far as a controller, an allocation that is granted, or a step in one."""
    for module in (batch, components, srun_salloc):
        monkeypatch.setattr(module, "Settings", Settings)
    granted = {"job": {"job_id": 7, "shares": []}, "environment": {}, "run_dir": str(tmp_path)}

    def reached(*_: Any, **__: Any) -> int:
        raise ShimError("error: reached")

    monkeypatch.setattr(
        client, "call", lambda op, fields=None, **_: {"job_id": 7, "cluster": "ref", "notes": [], **granted}
    )
    monkeypatch.setattr(client, "open_allocation", lambda fields: None)
    monkeypatch.setattr(salloc, "Waiter", lambda *_: SimpleNamespace(wait=lambda: granted))
    monkeypatch.setattr(salloc._Child, "run", reached)
    monkeypatch.setattr("shim.job.steps.client.StepClient", lambda *_, **__: SimpleNamespace(run=reached))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#PBS -N x\n")
    (tmp_path / "job.sh").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("level", VERSIONS)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_submission(
    place: Path, world: World, monkeypatch: pytest.MonkeyPatch, command: str, level: str
) -> None:
    grammar = Grammar(level=level)
    monkeypatch.setattr(site, "grammar", lambda: grammar)
    unread = []
    for option in submit_options(command, grammar):
        level, _reason = level_of(option)
        if option.field != option.long or level not in (HONOURED, APPROXIMATED):
            continue
        HEARD.clear()
        own = OF_ONE_KIND.get(option.field)
        said = [
            world.run(command, spelled(option, value), *beside, *([] if option.field == "wrap" else ["job.sh"]))
            for value in ([""] if option.arity == FLAG else [own] if own else OF_ANY_KIND)
            for beside in ([], ["--jobid=7"] if command == "srun" else [])
        ]
        if option.field in AT_ONCE:
            assert any(one.code == 0 and one.out for one in said), option
        elif option.field in REFUSED_BY_VALUE:
            assert any(f"--{option.field}=" in one.err or "ports" in one.err for one in said), option
        elif (command, option.field) != ("srun", "parsable") and KEPT_AS.get(option.field, option.field) not in HEARD:
            unread.append(option.field)
    assert unread == [], f"nobody reads these options of {command}"
