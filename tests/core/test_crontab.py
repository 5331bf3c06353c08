"""Tables of recurring jobs: entries, options, variables, mistakes."""

from __future__ import annotations

import pytest

from shim.core import crontab
from shim.core.crontab import BadLine, entries, expanded, marked

TABLE = """# of mine
DIR = /home/alice
NAME="a b"

#SCRON -J first -t 10
# between

#SCRON --mem=1G
0 0 1 jan * $DIR/x.sh $NAME ${DIR} \\$DIR $DIRECTORY
DIR=/tmp
@daily   $DIR/y
"""


def test_entries_with_their_options() -> None:
    first, second = entries(TABLE)
    assert (first.first, first.last, first.when) == (5, 9, "0 0 1 jan *")
    assert first.options == ((5, ("-J", "first", "-t", "10")), (8, ("--mem=1G",)))
    assert first.command == "/home/alice/x.sh a b ${DIR} \\$DIR $DIRECTORY"
    assert first.script == (
        "#!/bin/sh\n# This job was submitted through scrontab\n#SCRON -J first -t 10\n#SCRON --mem=1G\n"
        "# crontab time request was: '0 0 1 jan *'\n/home/alice/x.sh a b ${DIR} \\$DIR $DIRECTORY\n"
    )
    assert (second.first, second.last, second.options, second.command) == (11, 11, (), "/tmp/y")


@pytest.mark.parametrize(
    ("text", "number", "lines"),
    [
        ("@daily a\n@nope b\n", 2, ("error: invalid @ line", "error: something is broken")),
        ("* * * * true", 1, ("error: bad day specification", "error: something is broken")),
        ("\n\n* * * * *\n", 3, ("error: something is broken",)),
        ("foo\n", 1, ("error: something is broken",)),
        ("@daily\n", 1, ("error: something is broken",)),
        ("*/0 * * * * x\n", 1, ("error: bad step value", "error: something is broken")),
    ],
)
def test_mistakes(text: str, number: int, lines: tuple[str, ...]) -> None:
    with pytest.raises(BadLine) as refused:
        entries(text)
    assert (refused.value.number, refused.value.lines) == (number, lines)


def test_what_makes_no_job() -> None:
    assert entries("") == []
    assert entries("# a\n#DISABLED: @daily x\nA=b c\n#SCRON -J lonely\n   \n") == []


def test_variables() -> None:
    known = {"A": "x y", "AB": "z"}
    assert expanded("$A/b $A.c d$A $AB $ABC $ $$A", known) == "x y/b x y.c dx y z $ABC $ $x y"


def test_lines_out_of_service() -> None:
    assert marked("a\nb\nc\n", 2, 3, crontab.DISABLED) == "a\n#DISABLED: b\n#DISABLED: c\n"
