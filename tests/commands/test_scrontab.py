"""scrontab: what it says, and what it asks of the controller. Texts are those of a real scrontab 22.05."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.control import paths
from shim.control.index.opening import open_store
from shim.control.index.reader import CRONTAB
from shim.core import jsonlite
from tests import reference
from tests.commands.conftest import World

USAGE = "usage:\tscrontab [-u user] file\n"


@pytest.fixture
def asked(world: World, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the controller was asked; it agrees."""
    found: list[dict[str, Any]] = []
    from shim.control import client

    def call(op: str, fields: dict[str, Any], **_: Any) -> dict[str, Any]:
        found.append({"op": op, **fields})
        return {"text": fields.get("text")}

    monkeypatch.setattr(client, "call", call)
    return found


def table(tmp_path: Path, text: str) -> str:
    path = tmp_path / "table"
    path.write_text(text)
    return str(path)


def keep(text: str, *entries: list[Any]) -> None:
    store = open_store(paths.index_path())
    store.set_meta(CRONTAB, jsonlite.dumps({"text": text, "entries": list(entries)}))
    store.close()


def test_a_table_is_handed_in(
    world: World, asked: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("SHIM_LOCAL_NODES", "2")
    text = "#SCRON -J named -t 10 -o out.%j\n5 4 * * sun echo hi | cat\n@daily /bin/x\n"
    result = world.run("scrontab", table(tmp_path, text))
    assert (result.code, result.out, result.err) == (0, "", "")
    (put,) = asked
    assert (put["op"], put["text"]) == ("set_crontab", text)
    first, second = put["entries"]
    assert (first["first"], first["last"], second["first"], second["last"]) == (1, 2, 3, 3)
    assert first["script"].endswith("\n# crontab time request was: '5 4 * * sun'\necho hi | cat\n")
    request = first["request"]
    assert (request["name"], request["time_limit"], request["cron"]) == ("named", 10, "5 4 * * 0")
    assert (request["work_dir"], request["command"]) == ("/home/alice", "echo hi | cat")
    assert (second["request"]["name"], second["request"]["cron"]) == ("/bin/x", "0 0 * * *")
    assert request["get_user_env"] is True
    assert "MINE" not in first["environment"]
    assert first["environment"]["SHIM_LOCAL_NODES"] == "2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@nope true", "scrontab: error: invalid @ line\nscrontab: error: something is broken\n"),
        ("#SCRON --bogus\n@daily x", "scrontab: error: Invalid option found in #SCRON line: --bogus\n"),
        ("#SCRON -a 1-3\n@daily x", "scrontab: error: Invalid option found in #SCRON line: -a\n"),
        ("#SCRON --begin=now\n@daily x", "scrontab: error: Invalid option found in #SCRON line: --begin=now\n"),
        ("#SCRON foo\n@daily x", "scrontab: error: Invalid option found in #SCRON line: foo\n"),
        (
            "#SCRON -N abc\n@daily x",
            'scrontab: error: "abc" is not a valid node count\n'
            "scrontab: error: Invalid option found in #SCRON line: abc\n",
        ),
        (
            "#SCRON -t bad\n@daily x",
            "scrontab: error: Invalid --time specification\n"
            "scrontab: error: Invalid option found in #SCRON line: bad\n",
        ),
    ],
)
def test_a_table_with_a_mistake(
    world: World, asked: list[dict[str, Any]], tmp_path: Path, text: str, said: str
) -> None:
    result = world.run("scrontab", table(tmp_path, text))
    assert (result.code, result.out, result.err) == (1, "There are errors in your crontab.\n", said)
    assert asked == []


def test_a_job_that_is_refused(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shim.control import client

    lines = [
        "error: invalid partition specified: nope",
        "error: Batch job submission failed: Invalid partition name specified",
    ]
    refused = {"text": None, "refused": {"first": 3, "last": 6, "lines": lines}}
    monkeypatch.setattr(client, "call", lambda op, fields, **_: refused)
    result = world.run("scrontab", table(tmp_path, "@daily x\n"))
    assert (result.code, result.err) == (1, "")
    assert result.out == (
        "There was an issue with the job submission on lines 3-6\n"
        "The error code return was: Invalid partition name specified\n"
        "The error message was: invalid partition specified: nope\n"
    )


def test_the_table_is_listed_without_a_controller(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass

    result = world.run("scrontab", "-l")
    assert (result.code, result.out, result.err) == (1, "", f"no crontab for {getpass.getuser()}\n")
    world.index(
        [
            reference.job(7, request=reference.request(cron="* * * * *")),
            reference.job(8, state="CANCELLED", request=reference.request(cron="0 0 * * *")),
        ]
    )
    text = "* * * * * a\n#SCRON -J b\n@daily b\n# c\n@weekly c\n"
    keep(text, ["ref", 7, 1, 1], ["ref", 8, 2, 3], ["ref", 9, 5, 5])  # 9 is kept no longer
    result = world.run("scrontab", "-l")
    assert (result.code, result.err) == (0, "")
    assert result.out == "* * * * * a\n#DISABLED: #SCRON -J b\n#DISABLED: @daily b\n# c\n#DISABLED: @weekly c\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "scrontab: fatal: failed to open nosuch\n"),
        (["-u", "nobodyx", "-l"], "scrontab: fatal: Could not find user nobodyx\n"),
        (["-e"], "scrontab: fatal: Standard input is not a TTY\n"),
        (["--help"], USAGE),
        (["--list"], USAGE),
        (["-x"], USAGE),
        (["a", "b"], USAGE),
        (["-l", "a"], USAGE),
    ],
)
def test_what_is_refused(world: World, asked: list[dict[str, Any]], words: list[str], said: str) -> None:
    result = world.run("scrontab", *words)
    assert (result.code, result.out) == (1, "")
    assert result.err == said or (said == USAGE and result.err.startswith(said))
    assert asked == []


def test_it_is_removed_and_read_from_standard_input(
    world: World, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.run("scrontab", "-r").code == 0
    for words in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"# nothing\n")))
        assert world.run("scrontab", *words).code == 0
    put = {"op": "set_crontab", "text": "# nothing\n", "entries": []}
    assert asked == [{"op": "crontab", "do": "remove"}, put, put]


class Terminal(io.StringIO):
    """Standard input on which somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes an editor that writes these texts, one at each call, and notes what it found."""

    def made(*texts: str) -> Path:
        for number, text in enumerate(texts):
            (tmp_path / f"text{number}").write_text(text)
        program = tmp_path / "editor"
        program.write_text(
            f'#!/bin/sh\ncd {tmp_path} && cat "$1" >>seen && n=$(cat count 2>/dev/null || echo 0)\n'
            'echo $((n + 1)) >count; [ -e "text$n" ] || exit 3; cat "text$n" >"$1"\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("EDITOR", str(program))
        monkeypatch.delenv("VISUAL", raising=False)
        return tmp_path / "seen"

    return made


def test_it_is_edited(
    world: World, asked: list[dict[str, Any]], editor: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = editor("@daily a\n@bad b\n", "@daily a\n")
    monkeypatch.setattr(sys, "stdin", Terminal("x\ny\n"))
    result = world.run("scrontab", "-e")
    assert result.code == 0
    wrong = "There are errors in your crontab.\nThe failed line(s) is commented out with #BAD:\n"
    assert result.out == f"{wrong}Do you want to retry the edit? (y/n) " * 2
    assert result.err == "scrontab: error: invalid @ line\nscrontab: error: something is broken\n"
    assert seen.read_text().endswith("@daily a\n#BAD: @bad b\n")
    assert [one["text"] for one in asked] == ["@daily a\n"]


def test_an_edit_is_given_up(
    world: World, asked: list[dict[str, Any]], editor: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor("@bad b\n")
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert world.run("scrontab").code == 0
    result = world.run("scrontab", "-e")  # the editor fails
    assert (result.code, result.err) == (1, "scrontab: fatal: editor returned non-zero exit code\n")
    assert asked == []
