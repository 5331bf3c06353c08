"""Every option of squeue, scancel, sinfo, scontrol and sacct does something: it is read, or its row says why it has nothing to act
on, or refuses it by name (those of sbatch, srun and salloc: test_claims.py).

Shown by running: each option is given, and the values of options tell who asks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from shim.admin.docs import ABSENT
from shim.core.options import query_options
from shim.core.options.getopt import FLAG, Option
from shim.core.options.submit_options import COMMANDS
from shim.core.options.support import APPROXIMATED, HONOURED, INERT, REFUSED, support_of_row
from shim.dispatch import MODULES
from tests.commands.conftest import World

HEARD: set[str] = set()


def _hear(*names: str) -> None:
    """Notes who is asked for, unless the tables' own code asks."""
    asking = sys._getframe(2).f_globals["__name__"]
    if asking not in (query_options.__name__, __name__):
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
    "sstat": {"jobs": "1", "format": "jobid"},
    "seff": {},
    "sprio": {"jobs": "1", "user": "root"},
    "sdiag": {},
    "sacctmgr": {},
    "strigger": {
        "id": "1",
        "jobid": "1",
        "offset": "5",
        "user": "root",
        "flags": "PERM",
        "node": "n1",
        "program": "/bin/sh",
        "clusters": "ref",
    },
    "sshare": {"format": "user"},
    "sreport": {"time": "hours", "cluster": "ref", "tres": "mem"},
    "scrontab": {"user": "root"},
    "sbcast": {"jobid": "1", "size": "1k"},
    "sattach": dict.fromkeys(("input-filter", "output-filter", "error-filter"), "0"),
}
# What is given beside it: some options only say how another one is meant.
BESIDE = {
    "squeue": [[], ["-o", "%i"]],
    "scancel": [["5"]],
    "sinfo": [[], ["-N"]],
    "scontrol": [["show", "partition"], ["show", "job", "99"]],
    "sacct": [[], ["-P", "-j", "1", "-k", "1"]],
    "sstat": [["-j", "1"]],
    "seff": [["1"]],
    "sprio": [[]],
    "sdiag": [[]],
    "scrontab": [["/dev/null"], []],
    "sreport": [["user", "top"]],
    "sshare": [[]],
    "strigger": [["--get"], ["--set", "--down", "--program=/bin/sh"], ["--clear", "--id=1"]],
    "sacctmgr": [["show", "user"], ["show", "user", "account=root"]],
    "sbcast": [["/etc/passwd", "/nosuch/there"]],
    "sattach": [["1.0"]],
}


def each_field(command: str) -> Iterator[Option]:
    seen: set[str] = set()
    for option in query_options.options_of(command):
        if option.field not in seen and option.long == option.field:
            seen.add(option.field)
            yield option


def spelled(option: Option, value: str) -> str:
    if "letter_only" in option.row:
        return f"-{option.short}" + value * (option.arity != FLAG)
    return f"--{option.long}" + ("" if option.arity == FLAG else f"={value}")


@pytest.mark.parametrize("command", sorted(query_options.ROWS))
def test_every_option_of_a_query(busy: World, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(query_options, "Values", Values)
    busy.errors = ["Access/permission denied"]
    unread = []
    for option in each_field(command):
        outcome, reason = support_of_row(option.row)
        word = spelled(option, VALUES[command].get(option.field, "word"))
        HEARD.clear()
        for beside in BESIDE[command]:
            said = busy.run(command, word, *beside)
            if outcome == INERT:
                without = busy.run(command, *beside)
                assert (said.code, said.out, said.err) == (without.code, without.out, without.err), word
            if outcome == REFUSED:
                assert (said.code, said.out) == (1, ""), word
                assert said.err == f"{command}: error: --{option.field} is not supported here: {reason}\n"
        if outcome in (HONOURED, APPROXIMATED) and option.field not in HEARD:
            unread.append(option.field)
    assert unread == [], f"nobody reads these options of {command}"


def test_each_command_of_slurm_is_here_or_said_to_be_absent() -> None:
    assert set(query_options.ROWS) | set(COMMANDS) | {"shim"} == set(MODULES) - set(ABSENT)
